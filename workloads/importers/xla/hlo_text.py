"""XLA's own text (HloModule) as functions and statements, in the words of StableHLO (see `mlir_text`).

A computation is a function; a fusion's inside is one piece of arithmetic between its operands and its result, beside
the products, convolutions and reductions that it holds; a loop says its trips where XLA seen them, or where a counter
from one constant to another shows them.

Source: https://openxla.org/xla/operation_semantics, and xla/hlo/parser of openxla/xla.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.readers import read_lines
from slipstick.workloads.graph.assembly import Tensor
from slipstick.workloads.importers.xla.mlir_text import (
    DTYPES,
    LIMIT_BYTES,
    LONGEST,
    MAX_LINES,
    Function,
    Statement,
    depths,
    written_tensor,
)

ENTRY = "main"
_HEAD = re.compile(r"\s*(ENTRY\s+)?%?([\w.$\-]{1,200})\s*(?:\(.*\)\s*->\s*.*)?\{\s*$")
_INSTRUCTION = re.compile(r"\s*(ROOT\s+)?%?([\w.$\-]{1,200})\s*=\s*")
_SHAPE = re.compile(r"(\w{2,12})\[([\d,<=]{0,200})\](?:\{[^{}]{0,200}\})?")
_OPCODE = re.compile(r"\s*([a-z][\w\-]{1,60})\(")
_NAME = re.compile(r"%?([A-Za-z_][\w.$\-]*)\s*$")
_CALLED = re.compile(r"\b(to_apply|calls|condition|body)=%?([\w.$\-]{1,200})")
_DIMS = re.compile(r"(lhs|rhs)_(contracting|batch)_(?:dims=\{|dimensions\\?\":\[)([\d, \"\\]*)")
_TRIPS = re.compile(r"known_trip_count\\?\"?:\s*\{\s*\\?\"?n\\?\"?:\s*\\?\"?(\d{1,9})")
_LABELS = re.compile(r"dim_labels=(\w{1,12})_(\w{1,12})->(\w{1,12})")
_WINDOW = re.compile(r"\b(size|lhs_dilate)=([\dx]{1,60})")
_DIRECTION = re.compile(r"direction=(LT|LE|GT|GE|NE)")
_GROUP = re.compile(r"replica_groups=\{\{([\d,]{1,100000})\}|replica_groups=\[(\d{1,9}),(\d{1,9})\]")
_TARGET = re.compile(r"custom_call_target=\"([^\"]{1,100})\"")
_TYPES = {**DTYPES, "s64": "int64", "u64": "int64", "s32": "int32", "u32": "int32", "s16": "int16", "u16": "int16",
          "s8": "int8", "u8": "uint8", "s4": "int8", "u4": "uint8", "pred": "bool", "c64": "complex64",
          "c128": "complex128"}  # fmt: skip


@dataclass(frozen=True)
class _Instruction:
    line: int
    name: str
    opcode: str
    operands: tuple[str, ...]
    writes: tuple[Tensor, ...]
    rest: str
    inside: str
    root: bool


def read_hlo(path: Path) -> dict[str, Function]:
    """Computations of a file by name; the entry is `ENTRY`.

    Raises InputError where the file holds no entry, a shape cannot be meant, or an operand is not there.
    """
    lines = read_lines(path, MAX_LINES, LIMIT_BYTES)
    computations: dict[str, list[_Instruction]] = {}
    current: list[_Instruction] | None = None
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST:
            raise InputError(f"{path}: line {number}: a line of more than {LONGEST:,} characters")
        if line.strip() == "}":
            current = None
        elif current is not None and (made := _instruction(line, number, path)) is not None:
            current.append(made)
        elif " = " not in line.partition("{")[0] and (head := _HEAD.match(line)) and head[2] != "HloModule":
            current = computations.setdefault(ENTRY if head[1] else head[2], [])
    if not computations.get(ENTRY):
        raise InputError(f"{path}: holds no ENTRY computation")
    return {name: _function(name, body, computations, path) for name, body in computations.items()}


def _instruction(line: str, number: int, path: Path) -> _Instruction | None:
    head = _INSTRUCTION.match(line)
    if head is None:
        return None
    at = head.end()
    end = _closed(line, at) if line[at : at + 1] == "(" else at
    shape = line[at:end] if end > at else (seen[0] if (seen := _SHAPE.match(line, at)) else "")
    opcode = _OPCODE.match(line, at + len(shape))
    if opcode is None:
        return None
    stop = _closed(line, opcode.end() - 1)
    inside = line[opcode.end() : stop - 1]
    operands = tuple(match[1] for part in _parts(inside) if (match := _NAME.search(part)))
    writes = tuple(_tensor(seen, number, path) for seen in _SHAPE.finditer(shape))
    return _Instruction(number, head[2], opcode[1], operands, writes, line[stop:], inside, bool(head[1]))


def _closed(text: str, at: int) -> int:
    """The place behind the bracket that closes the one at a place."""
    return next((at + place + 1 for place, _, depth in depths(text[at:]) if depth == 0), len(text))


def _parts(text: str) -> list[str]:
    """What commas part that stand in no brackets."""
    commas = (place for place, mark, depth in depths(text) if mark == "," and depth == 0)
    return [text[before + 1 : after] for before, after in pairwise((-1, *commas, len(text)))]


def _tensor(seen: re.Match[str], line: int, path: Path) -> Tensor:
    if seen[1] in ("token", "opaque"):
        return Tensor((0,), "int8")
    sizes = [size.lstrip("<=") for size in seen[2].split(",") if size]
    return written_tensor(sizes, seen[1], _TYPES, f"{path}: line {line}: {seen[0][:60]}")


def _function(
    name: str, body: Sequence[_Instruction], computations: Mapping[str, Sequence[_Instruction]], path: Path
) -> Function:
    types = {one.name: one.writes for one in body}
    statements: list[Statement] = []
    arguments = {int(one.inside): one.name for one in body if one.opcode == "parameter" and one.inside.isdigit()}
    for one in body:
        if one.opcode in ("parameter", "constant"):
            continue
        missing = [operand for operand in one.operands if operand not in types]
        if missing:
            raise InputError(f"{path}: line {one.line}: {one.opcode} reads {missing[0][:60]!r}, which is not there")
        reads = tuple(tensor for operand in one.operands for tensor in types[operand])
        operation, text = _said(one, computations)
        statements.append(Statement(one.line, operation, (one.name,), one.operands, text, reads, one.writes))
        if one.opcode == "fusion":
            statements += _fused(one, computations, reads)
    root = next((one for one in body if one.root), body[-1] if body else None)
    last = (root.name,) if root else ()
    statements.append(Statement(0, "return", (), last, "", (), ()))
    return Function(name, tuple(arguments[key] for key in sorted(arguments)), tuple(statements))


def _said(one: _Instruction, computations: Mapping[str, Sequence[_Instruction]]) -> tuple[str, str]:
    """An instruction's operation and attributes as StableHLO writes them."""
    called = dict(_CALLED.findall(one.rest))
    plain = one.opcode.replace("-start", "").replace("-", "_")
    target = match[1] if (match := _TARGET.search(one.rest)) else ""
    if one.opcode == "custom-call" and re.search("gemm|matmul", target) and "contracting" in one.rest:
        plain = "dot"
    if plain == "dot":
        dims = {(side, kind): re.sub(r"[^\d,]", "", places) for side, kind, places in _DIMS.findall(one.rest)}
        pairs = (("contracting", "contracting"), ("batching", "batch"))
        return "hlo.dot_general", ", ".join(
            f"{word}_dims = [{dims.get(('lhs', kind), '')}] x [{dims.get(('rhs', kind), '')}]" for word, kind in pairs
        )
    windows = {name: sizes.replace("x", ", ") for name, sizes in _WINDOW.findall(one.rest)}
    if plain == "convolution" and (labels := _LABELS.search(one.rest)):
        inputs, kernel, made = (f"[{', '.join(word)}]" for word in labels.groups())
        dilated = f", lhs_dilate = [{windows['lhs_dilate']}]" if "lhs_dilate" in windows else ""
        groups = match[0] if (match := re.search(r"feature_group_count=\d{1,9}", one.rest)) else ""
        return "hlo.convolution", f"{inputs}x{kernel}->{made}{dilated} {groups}"
    if plain == "call":
        return "call", f"@{called.get('to_apply', '')}()"
    if plain == "while":
        trips = match[1] if (match := _TRIPS.search(one.rest)) else _trips(one, called, computations)
        return "hlo.while", f"trips = {trips} @{called.get('body', '')}()" if trips else ""
    if plain == "reduce_window":
        return "hlo.reduce_window", f"window_dimensions = [{windows.get('size', '')}]"
    if group := _GROUP.search(one.rest):
        count = group[1].count(",") + 1 if group[1] else int(group[3])
        return f"hlo.{plain}", f"tensor<1x{count}xi64>"
    return f"hlo.{'get_tuple_element' if plain.endswith('_done') else plain}", target


def _trips(one: _Instruction, called: Mapping[str, str], computations: Mapping[str, Sequence[_Instruction]]) -> str:
    """Trips of a counter that starts at one constant and ends at another; "" where the text does not show them."""
    every = {item.name: item for body in computations.values() for item in body}
    condition, body = (computations.get(called.get(key, ""), ()) for key in ("condition", "body"))
    compare = next((item for item in condition if item.root and item.opcode == "compare"), None)
    made = next((item for item in body if item.root and item.opcode == "tuple"), None)
    start = every.get(one.operands[0]) if one.operands else None
    if (
        compare is None
        or made is None
        or start is None
        or start.opcode != "tuple"
        or (way := _DIRECTION.search(compare.rest)) is None
    ):
        return ""

    def number(name: str) -> int | None:
        item = every.get(name)
        return (
            int(item.inside)
            if item and item.opcode == "constant" and re.fullmatch(r"-?\d{1,12}", item.inside)
            else None
        )

    counter = every.get(compare.operands[0])
    index = re.search(r"index=(\d{1,6})", counter.rest) if counter and counter.opcode == "get-tuple-element" else None
    place = int(index[1]) if index else len(made.operands)
    if place >= min(len(made.operands), len(start.operands)):
        return ""
    added = every.get(made.operands[place])
    moved = added.operands if added and added.opcode in ("add", "subtract") else ()
    step = next((value for name in moved if (value := number(name)) is not None), None)
    first, limit = number(start.operands[place]), number(compare.operands[1])
    if step is None or first is None or limit is None or added is None:
        return ""
    counted = turns(way[1], first, limit, -step if added.opcode == "subtract" else step)
    return "" if counted is None else str(counted)


def turns(way: str, first: int, limit: int, step: int) -> int | None:
    """How often a loop is run whose counter goes from one number in steps while it compares so with another; None
    where it does not end.

    >>> turns("LT", 0, 10, 3), turns("GE", 10, 0, -1), turns("NE", 0, 10, 3)
    (4, 11, None)
    """
    if way == "NE":
        count, rest = divmod(limit - first, step) if step else (-1, 1)
        return count if count >= 0 and not rest else None
    sign = 1 if way[0] == "L" else -1
    left = sign * (limit - first) + (way[1] == "E")
    return max(0, -(-left // abs(step))) if left <= 0 or sign * step > 0 else None


def _fused(
    one: _Instruction, computations: Mapping[str, Sequence[_Instruction]], reads: Sequence[Tensor]
) -> list[Statement]:
    """Products, convolutions and collectives inside a fusion, each by itself."""
    name = dict(_CALLED.findall(one.rest)).get("calls", "")
    body = computations.get(name, ())
    types = {item.name: item.writes for item in body}
    made = []
    for item in body:
        operation, text = _said(item, computations)
        if operation in ("hlo.dot_general", "hlo.convolution"):
            given = tuple(tensor for operand in item.operands for tensor in types.get(operand, ()))
            made.append(Statement(item.line, operation, (one.name,), one.operands, text, given, item.writes))
    return made
