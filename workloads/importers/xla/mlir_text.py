"""MLIR's text as functions and statements: as much of it as StableHLO programs of JAX, PyTorch/XLA and TensorFlow use.

A statement is `%results = dialect.operation operands {attributes} : types`, over one line or several; what stands in
regions of an operation (the sum inside a reduction, the body of a loop) belongs to its statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE
from slipstick.common.readers import read_lines
from slipstick.workloads.graph.assembly import Tensor

LIMIT_BYTES = 256 * MEGABYTE
MAX_LINES = 2_000_000
LONGEST = 1 << 20
"""Characters of one statement: constants with all their values are long."""
MAX_RANK = 12
LARGEST_AXIS = 10**9
DTYPES = {
    "f64": "float64", "f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64",
    "ui64": "int64", "i32": "int32", "ui32": "int32", "i16": "int16", "ui16": "int16", "i8": "int8", "ui8": "uint8",
    "i4": "int8", "ui4": "uint8", "i1": "bool", "complex<f32>": "complex64", "complex<f64>": "complex128",
}  # fmt: skip
_FUNCTION = re.compile(r"\s*(?:func\.)?func\s+(?:public\s+|private\s+|nested\s+)?@([\w.$\-\"]{1,200})\s*\(")
_STATEMENT = re.compile(
    r"\s*(?:(%[\w$.\-]+(?::\d+)?(?:\s*,\s*%[\w$.\-]+(?::\d+)?)*)\s*=\s*)?\"?((?:\w+\.)?\w+)\"?(?=[\s(<@:]|$)"
)
_TENSOR = re.compile(
    r"tensor<((?:[\d?]+x){0,16})([\w!.]+|complex<\w+>|!quant[^()]{0,300}?)(?:,\s*[^()]{0,200}?)?>(?=[,)\s>}]|$)"
)
_MARKS = ('"', "//", "dense", "loc(")
_GENERIC = "func.func"
_NAMED = re.compile(r"sym_name\s*=\s*\"([\w.$\-]{1,200})\"")
_VALUE = re.compile(r"%[\w$.\-]+(?:#\d+)?")
_STRING = re.compile(
    r"\"(?:[^\"\\]|\\.){0,4000000}\"|//[^\n]*|dense<[^<>]{0,4000000}>|dense_resource<\w+>|loc\([^\n]*\)$"
)
_WHOLE = re.compile(r"dense<(-?\d{1,12})>")
_WITHOUT_RESULT = ("return", "custom_call", "call")
_OPENING, _CLOSING = "({[", ")}]"


@dataclass(frozen=True)
class Statement:
    """One operation of a function.

    `operation`: with its dialect ("stablehlo.add"); `call` and `return` without.
    `results`, `operands`: names of values; a result of several ("%3:2") is one name, an operand "%3#1" its name without
        the number.
    `text`: all of it, with strings and constants left out.
    `reads`, `writes`: types of operands and results.
    """

    line: int
    operation: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    text: str
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]


@dataclass(frozen=True)
class Function:
    """A function: its statements in order, and the names of its arguments."""

    name: str
    arguments: tuple[str, ...]
    statements: tuple[Statement, ...]


def read_functions(path: Path) -> dict[str, Function]:
    """Functions of a file by name, in the order of the file.

    Raises InputError where the file holds no functions, a statement does not end, or a shape is not a number or too
    large.
    """
    functions: dict[str, Function] = {}
    name, arguments, body = "", tuple[str, ...](), list[Statement]()
    for line, text in _pieces(path):
        head = _FUNCTION.match(text)
        if head or text == _GENERIC:
            if name:
                functions[name] = Function(name, arguments, tuple(body))
            name, body = head.group(1).strip('"') if head else f"function {len(functions)}", []
            arguments = _named_values(text[head.end() :]) if head else ()
        elif text.startswith("^bb0("):
            arguments = arguments or _named_values(text)
        elif text.startswith("})"):
            if name and (called := _NAMED.search(text)):
                functions[called.group(1)] = Function(called.group(1), arguments, tuple(body))
                name, arguments, body = "", (), []
        elif (
            name and (match := _STATEMENT.match(text)) and (match.group(1) or _last(match.group(2)) in _WITHOUT_RESULT)
        ):
            body.append(_statement(text, match, line, path))
    if name:
        functions[name] = Function(name, arguments, tuple(body))
    if not functions:
        raise InputError(f"{path}: holds no function (func.func @main)")
    return functions


def regions(statement: Statement, path: Path) -> list[Function]:
    """The blocks of statements of an operation, such as a loop's condition and body, with their arguments.

    Raises InputError where a shape in them is not a number or too large.
    """
    text, blocks, depth, start = statement.text, list[tuple[int, int]](), 0, 0
    for place, character in enumerate(text):
        if character == "{":
            start, depth = (place + 1, 1) if not depth else (start, depth + 1)
        elif character == "}":
            depth -= 1
            if not depth and "return" in text[start:place]:
                blocks.append((start, place))
    made = []
    for start, end in blocks:
        arguments, body = tuple[str, ...](), list[Statement]()
        first = statement.line + text.count("\n", 0, start)
        for line, part in _parted(text[start:end].splitlines(), first, path):
            if part.startswith("^bb0("):
                arguments = _named_values(part)
            elif (match := _STATEMENT.match(part)) and (match.group(1) or _last(match.group(2)) in _WITHOUT_RESULT):
                body.append(_statement(part, match, line, path))
        made.append(Function("region", arguments, tuple(body)))
    return made


def whole_constant(statement: Statement) -> int | None:
    """The whole number that a constant is; None for any other."""
    match = _WHOLE.search(statement.text) if _last(statement.operation) == "constant" else None
    return int(match[1]) if match else None


def _last(operation: str) -> str:
    return operation.rpartition(".")[2]


def _named_values(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"(%[\w$.\-]+)\s*:", text))


def _pieces(path: Path) -> Iterator[tuple[int, str]]:
    """Statements with all their lines, heads and ends of functions; strings, comments and constants are left out."""
    lines = read_lines(path, MAX_LINES, LIMIT_BYTES)
    yield from _parted(lines, 1, path)


def _parted(lines: Sequence[str], first: int, path: Path) -> Iterator[tuple[int, str]]:
    kept: list[str] = []
    start, depth, length, head = 0, 0, 0, False
    for number, raw in enumerate(lines, first):
        line = _STRING.sub(_without_inside, raw) if any(mark in raw for mark in _MARKS) else raw
        place = number - first + 1
        following = lines[place] if place < len(lines) else ""
        if not kept:
            word = line.strip()
            if word.startswith(("^bb0(", "})", f'"{_GENERIC}"')):
                yield number, _GENERIC if word.startswith('"') else word
                continue
            if not word or word[0] in "}#^!" or word.startswith(("module", '"builtin.module"')):
                continue
            start, depth, length, head = number, 0, 0, bool(_FUNCTION.match(line))
        kept.append(line)
        length += len(line)
        if length > LONGEST:
            raise InputError(f"{path}: line {start}: a statement of more than {LONGEST:,} characters")
        depth += sum(line.count(c) for c in _OPENING) - sum(line.count(c) for c in _CLOSING)
        if head:
            if line.rstrip().endswith("{"):
                yield start, "\n".join(kept)
                kept = []
            elif depth == 0 and not following.strip().startswith(("->", "attributes", "{")):
                kept = []  # a declaration without a body
        elif depth <= 0 and not _goes_on(line, following):
            yield start, "\n".join(kept)
            kept = []
    if kept and depth > 0:
        raise InputError(f"{path}: line {start}: a statement that does not end")


def _goes_on(text: str, following: str) -> bool:
    """Whether the next line belongs to a statement whose brackets are closed."""
    after = following.strip()
    if after.startswith(
        (":", "->", "dim_numbers", "window", "cond", "do", "{", "(", "reducer", "contracting", "batching")
    ):
        return True
    return text.rstrip().endswith((",", "->", ":", "=")) and not after.startswith("}")


def _without_inside(match: re.Match[str]) -> str:
    text = match.group()
    if text.startswith('"'):
        return text if len(text) < 200 and not set(text) & set("(){}[]") else '""'
    if text.startswith("dense<"):  # one whole number may be the end of a loop
        return text if _WHOLE.fullmatch(text) else "dense<?>"
    return ""


def _statement(text: str, match: re.Match[str], line: int, path: Path) -> Statement:
    results = tuple(part.strip().partition(":")[0] for part in (match.group(1) or "").split(",") if part.strip())
    inner = text[match.end() :]
    before, after = _signature(inner, _last(match.group(2)))
    taken, _, given = after.partition("->")
    reads = _tensors(taken, line, path)
    writes = _tensors(given, line, path) if given else reads[-1:]
    operands = tuple(dict.fromkeys(value.partition("#")[0] for value in _VALUE.findall(before)))
    if not given and len(reads) == 1:
        reads = reads * max(1, len(operands))
    return Statement(line, match.group(2), results, operands, text, reads, writes)


def _signature(text: str, operation: str) -> tuple[str, str]:
    """What stands before and after the last colon outside all brackets."""
    if operation == "while":  # a loop: its types stand before its regions
        text = re.split(r"\scond\s", text, maxsplit=1)[0]
    at = max((place for place, mark, depth in depths(text) if mark == ":" and depth == 0), default=-1)
    return (text, "") if at < 0 else (text[:at], text[at + 1 :])


def depths(text: str) -> Iterator[tuple[int, str, int]]:
    """Each character with its place and how many brackets are open behind it."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        yield place, character, depth


def _tensors(text: str, line: int, path: Path) -> tuple[Tensor, ...]:
    result = []
    for match in _TENSOR.finditer(text):
        sizes = [size for size in match.group(1).split("x") if size]
        if any("?" in size for size in sizes):
            raise InputError(
                f"{path}: line {line}: {match.group()[:60]}: a size that is not known; export with fixed shapes"
            )
        kind = "i8" if match.group(2).startswith("!quant") else match.group(2)
        result.append(written_tensor(sizes, kind, DTYPES, f"{path}: line {line}: {match.group()[:60]}"))
    return tuple(result)


def written_tensor(sizes: Sequence[str], kind: str, known: Mapping[str, str], where: str) -> Tensor:
    """A tensor by its sizes and its type of elements as they are written.

    `known`: data types by how they are written.
    Raises InputError where the type is not among them, or a size is too large.
    """
    dtype = "float8" if kind.startswith("f8") else known.get(kind)
    if dtype is None:
        raise InputError(f"{where}: unknown type of elements {kind[:20]!r}")
    if len(sizes) > MAX_RANK or any(not one.isdigit() or len(one) > 10 or int(one) > LARGEST_AXIS for one in sizes):
        raise InputError(f"{where}: want at most {MAX_RANK} axes of at most 1e9")
    return Tensor(tuple(map(int, sizes)), dtype)
