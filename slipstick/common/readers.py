"""Bounded readers for files that nobody vouches for: size, depth and count are limited before anything is built.

Every failure is an `InputError`: one line that names the file, the field, the value and what is allowed.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

from slipstick.common.errors import InputError, errors_at
from slipstick.common.opener import DEFAULT_LIMIT_BYTES, MAX_DEPTH, MEGABYTE, read_bytes

MAX_INTEGER = 10**40
MAX_CONTAINERS = 2_000_000
MAX_VALUES = 8_000_000
MAX_COLUMNS = 4_096
FEW_NAMES = 40
"""Names that an error lists."""
_TOO_LARGE = "an integer beyond 1e40"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def unknown_name(thing: str, name: object, known: Sequence[str]) -> InputError:
    """The error for a name that is not known: says the nearest ones, and lists them all when they are few."""
    alike = {text.casefold(): text for text in known}
    close = [alike[one] for one in get_close_matches(str(name).casefold(), list(alike), n=3)]
    if len(known) <= FEW_NAMES:
        close, listed = close[:1], f"known: {', '.join(known) or 'none'}"
    else:
        listed = f"known: {', '.join(known[:FEW_NAMES])}, ... ({len(known)} in all)"
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    return InputError(f"unknown {thing} {str(name)[:80]!r}{hint} ({listed})")


def unknown_columns(header: Iterable[str], known: Sequence[str]) -> list[str]:
    """What is wrong with the header of a table: each name that is not known."""
    return [str(unknown_name("column", name, known)) for name in header if name not in known]


def read_text(path: str | os.PathLike[str], limit_bytes: int = DEFAULT_LIMIT_BYTES) -> str:
    """The content of a file of text (see `read_bytes` and `encoding`).

    Raises InputError where the file cannot be opened, is longer than `limit_bytes`, or is no such text.
    """
    content = read_bytes(path, limit_bytes)
    try:
        return content.decode(encoding(content))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from None


def read_lines(path: str | os.PathLike[str], most: int, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> list[str]:
    """The lines of a file of text.

    Raises InputError where it is none, or has more than `most`.
    """
    lines = read_text(path, limit_bytes).splitlines()
    if len(lines) > most:
        raise InputError(f"{path}: more than {most:,} lines")
    return lines


def bar_tables(lines: Sequence[str], *columns: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of the first Markdown table that has these columns, each with its line; other lines are passed over."""
    names: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.lstrip().startswith("|") or not line.strip("|-: "):
            continue
        cells = split_cells(line, "|")
        if names:
            yield number, dict(zip(names, cells, strict=False))
        elif {*columns} <= {*cells}:
            names = cells


def encoding(content: bytes) -> str:
    """The encoding of a text: UTF-8, or UTF-16 where it begins with that mark, as spreadsheets and PowerShell write."""
    return "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def read_json(path: str | os.PathLike[str], limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Any:
    """A JSON document of bounded size (see `parse_json`)."""
    return parse_json(read_text(path, limit_bytes), path)


def parse_json(text: str, where: object) -> Any:
    """A JSON document of bounded depth and number of values; NaN, Infinity and integers beyond 1e40 are refused.

    Raises InputError where it is no JSON, nests too deep, or holds too many or too large values.
    """

    def refuse(constant: str) -> float:
        raise InputError(f"{where}: {constant} is no JSON number")

    if text.count("[") + text.count("{") > MAX_CONTAINERS or text.count(",") > MAX_VALUES:
        raise InputError(f"{where}: more than {MAX_CONTAINERS:,} lists and objects, or {MAX_VALUES:,} values")
    try:
        constants = "NaN" in text or "Infinity" in text  # a decoder of its own costs more than a short line
        document = json.loads(text, parse_constant=refuse) if constants else json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: line {error.lineno}: not JSON ({error.msg})") from None
    except RecursionError:
        raise InputError(f"{where}: nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise error if isinstance(error, InputError) else InputError(f"{where}: {_TOO_LARGE}") from None
    check_bounds(document, where)
    if _SURROGATE.search(text):
        try:
            json.dumps(document, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InputError(f"{where}: half of a surrogate pair (such as \\ud800) is no text") from None
    return document


def read_toml(path: str | os.PathLike[str], limit_bytes: int = MEGABYTE) -> dict[str, Any]:
    """A TOML document of bounded size and depth.

    Raises InputError where it is no TOML, nests too deep, or is longer than `limit_bytes`.
    """
    import tomllib  # here: lists and help read no TOML

    try:
        document = tomllib.loads(read_text(path, limit_bytes))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML ({error})") from None
    except RecursionError:
        raise InputError(f"{path}: nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise error if isinstance(error, InputError) else InputError(f"{path}: {_TOO_LARGE}") from None
    check_bounds(document, path)
    return document


def read_yaml(path: str | os.PathLike[str], limit_bytes: int = MEGABYTE, text_tags: Sequence[str] = ()) -> Any:
    """A YAML document of plain values: no tags, no aliases, no repeated keys, bounded size and depth.

    Scalars with one of `text_tags` are read as text, mappings as plain ones; any other tag is refused.
    Raises InputError where it is no such YAML, nests too deep, or is longer than `limit_bytes`.
    """

    import yaml  # here: lists and help read no YAML

    from slipstick.common.yaml_loader import loader

    Loader = loader(text_tags)
    try:
        document = Loader(read_text(path, limit_bytes)).get_single_data()
    except InputError as error:
        text = str(error)
        raise (error if text.startswith(str(path)) else InputError(f"{path}: {text}")) from None
    except yaml.constructor.ConstructorError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise InputError(f"{path}: line {line}: {error.problem} (only plain values are accepted)") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not YAML"
        raise InputError(f"{path}: line {mark.line + 1 if mark else 0}: not YAML ({problem})") from None
    except RecursionError:
        raise InputError(f"{path}: nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise InputError(f"{path}: not YAML ({error})") from None
    check_bounds(document, path)
    return document


def check_bounds(document: Any, path: object, limit: int = MAX_DEPTH) -> None:
    """Check how deep lists and mappings nest and how large integers are.

    Raises InputError where they nest deeper than `limit`, or an integer lies beyond 1e40.
    """
    level, depth = [document], 0
    while level:
        depth += 1
        if depth > limit:
            raise InputError(f"{path}: nested deeper than {limit} levels")
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                below += node.values()
            elif isinstance(node, list):
                below += node
            elif type(node) is int and abs(node) > MAX_INTEGER:
                raise InputError(f"{path}: {_TOO_LARGE}")
        level = below


MARKS = ",;\t|"


def csv_separator(header: str) -> str:
    """What separates the columns of a table: the first of `MARKS` that its header holds, else blanks."""
    return next((mark for mark in MARKS if mark in header), " " if len(header.split()) > 1 else ",")


def split_cells(line: str, mark: str = "") -> list[str]:
    """The cells of one line; between bars as Markdown writes them.

    `mark`: what separates them; as the line itself says where it is left out.
    """
    mark = mark or csv_separator(line)
    if mark == " ":
        return line.split()
    cells = line.strip().strip("|").split("|") if mark == "|" else next(csv.reader([line], delimiter=mark), [])
    return [cell.strip() for cell in cells]


def _table(text: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of the header and of each row below it, with their lines.

    Lines of comments before the header are passed over; of these the last is the header where numbers follow it.
    """
    stream, skipped, comment = io.StringIO(text, newline=None), 0, ""
    line = stream.readline()
    while line and (not line.strip() or line.startswith("#")):
        skipped, comment = skipped + 1, line.strip("# \n") or comment
        at = stream.tell()
        line = stream.readline()
    header = [(skipped, split_cells(comment))] if comment and _is_head(comment, line) else []
    mark = csv_separator(comment if header else line)
    yield from header
    stream.seek(at if skipped else 0)
    rows: Iterator[tuple[int, list[str]]]
    if mark in " |":
        lines = enumerate(stream, skipped + 1)
        rows = ((number, split_cells(line, mark)) for number, line in lines if line.strip("|-: \n"))
    else:
        reader = csv.reader(stream, strict=True, delimiter=mark)
        rows = ((skipped + reader.line_num, row) for row in reader if row)
    try:
        yield from rows if mark == "," or "," not in text else _with_points(list(rows), 1 - len(header))
    except csv.Error as error:
        raise InputError(f"line {skipped + reader.line_num}: not CSV ({error})") from None


def _with_points(rows: Sequence[tuple[int, list[str]]], first: int) -> Iterable[tuple[int, list[str]]]:
    """Rows that no comma parts, those from `first` on with columns of decimal commas as Python writes them.

    As written stay a cell that is no such number, a column of which most are none or one is a list ("0,1,2"), and all
    where no column says so for sure or another one has decimal points (see `decimal_mark`): "0,1" may be a list, and
    who reads it as a number refuses it.
    """
    numbers = set[int]()
    for at, cells in enumerate(zip(*(row for _, row in rows[first:]), strict=False)):  # rows of one length only pass
        written = [number_written(cell, ",") is not None for cell in cells if cell.strip()]
        if 2 * sum(written) > len(written) and not any(cell.count(",") > 1 for cell in cells):
            numbers.add(at)
    with suppress(InputError):
        if decimal_mark(((line, row[at], False) for line, row in rows[first:] for at in numbers), "numbers") == ",":
            below = (
                (line, [_with_point(cell) if at in numbers else cell for at, cell in enumerate(row)])
                for line, row in rows[first:]
            )
            return [*rows[:first], *below]
    return rows


def _with_point(cell: str) -> str:
    return cell if number_written(cell, ",") is None else pointed(cell, ",")


def _is_head(comment: str, line: str) -> bool:
    names, cells = split_cells(comment), split_cells(line)
    return len(names) == len(cells) and all(number_written(cell) is not None for cell in cells)


def read_csv_rows(
    path: str | os.PathLike[str],
    required: Sequence[str] = (),
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    limit_rows: int = 2_000_000,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a CSV file, or of another table with a header, each with its line number (see `csv_separator`).

    Raises InputError where a required column is missing, a column repeats, a row is too short or too long, or there are
    too many.
    """
    text = read_text(path, limit_bytes)
    if "\0" in text:
        raise InputError(f"{path}: holds NUL bytes; is it a CSV file?")
    with errors_at(str(path)):
        rows = _table(text)
        _, first = next(rows, (0, []))
        header = [" ".join(name.split()) for name in first]  # a name is one line of an error
        if not any(header):
            raise InputError(f"is empty; want a header line with columns {', '.join(required) or 'by name'}")
        if len(header) > MAX_COLUMNS:
            raise InputError(f"{len(header):,} columns, more than {MAX_COLUMNS:,}")
        repeated = sorted({name for name in header if header.count(name) > 1})
        if repeated:
            raise InputError(f"column {repeated[0]!r} stands twice in the header")
        for name in required:
            if name not in header:
                raise InputError(f"no column {name!r} (columns: {', '.join(header)})")
        for number, (line, row) in enumerate(rows, 1):
            if number > limit_rows:
                raise InputError(f"more than {limit_rows} rows")
            if row == first:
                raise InputError(f"line {line}: the header again: two files in one; read each alone")
            if len(row) != len(header):
                raise InputError(f"line {line}: {len(row)} values for {len(header)} columns")
            yield line, dict(zip(header, (value.strip() for value in row), strict=True))


def read_number(
    text: str, path: object, line: int, column: str, low: float = -math.inf, high: float = math.inf
) -> float:
    """One finite number of a text file, within its range.

    Raises InputError where the text is no finite number of [low, high]; names file, line and column.
    """
    return number_of(text, f"{path}: line {line}: {column}", low, high)


def number_of(value: object, where: str, low: float = -math.inf, high: float = math.inf, unit: str = "") -> float:
    """One finite number of a file, or a text that says one, within its range: what every reader's numbers pass.

    `where`: file and field; `unit`: of the file, for messages.
    Raises InputError where the value is no such number.
    """
    text = f"{where} = {value!r:.42}"
    try:
        number = math.nan if isinstance(value, bool) else float(with_e(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{text} is no number{_readings(value)}") from None
    if not math.isfinite(number):
        raise InputError(f"{text} is not finite" if isinstance(value, (str, float)) else f"{text} is no number")
    if not low <= number <= high:
        raise InputError(f"{where} = {number:g}{unit and f' {unit}'} lies outside [{low:g}, {high:g}]")
    return number


def _readings(value: object) -> str:
    """What a number with a comma may be, in words; nothing of other values."""
    if not isinstance(value, str) or "," not in value:
        return ""
    marks = "," if value.lstrip(" +-").startswith("0") else ",."  # no thousands begin with a zero
    texts = dict.fromkeys(pointed(value, mark) for mark in marks if number_written(value, mark) is not None)
    return f": {' or '.join(texts)}? Write it with a decimal point" if texts else ""


_FORTRAN = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+))[dD]([-+]?\d{1,3})\s*")


def with_e(value: object) -> object:
    """A text with Fortran's exponent, 8.0D+00, as other languages write it; anything else as it is."""
    return _FORTRAN.sub(r"\1e\2", value) if isinstance(value, str) and _FORTRAN.fullmatch(value) else value


def whole_of(value: object, where: str, low: int = 0, high: int = 10**18) -> int:
    """One whole number of a file, or a text that says one, within its range; all its digits count.

    Raises InputError where the value is no such number.
    """
    text = str(value).strip()
    number = whole_number(text.removeprefix("-"))
    if number is None:  # 8.0, as spreadsheets and pandas write it
        number = int(float(text)) if re.fullmatch(r"-?\d{1,15}\.0+", text, re.ASCII) else None
    elif text.startswith("-"):
        number = -number
    if number is None or isinstance(value, bool) or not low <= number <= high:
        most = f", at most {high:,}" if number is not None and number > high else ""
        raise InputError(f"{where} = {value!r:.42}: want a whole number >= {low:,}{most}")
    return number


def json_lines(text: str, path: object, most: int = 2_000_000) -> Iterator[tuple[str, Any]]:
    """The documents of JSON lines, each with its file and line; empty lines are passed over.

    Raises InputError where a line is no JSON, or there are more than `most`.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if number > most:
            raise InputError(f"{path}: more than {most:,} lines")
        if line.strip():
            yield f"{path}: line {number}", parse_json(line, f"{path}: line {number}")


def table_rows(
    path: str | os.PathLike[str], under: str = "rows", limit_bytes: int = DEFAULT_LIMIT_BYTES, most: int = 2_000_000
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows of named values, each with its file and place: CSV with a header, a JSON list, or JSON lines.

    `under`: what the rows are, and the field that holds their list where the document is none itself.
    Raises InputError where the file is none of these, or has no rows, or more than `most`.
    """
    text = read_text(path, limit_bytes).strip()
    rows: Iterable[tuple[str, Any]]
    if text[:1] not in ("[", "{"):
        rows = ((f"{path}: line {line}", row) for line, row in read_csv_rows(path, (), limit_bytes, most))
    elif text[0] == "{" and "\n" in text and text.partition("\n")[0].rstrip().endswith("}"):
        rows = json_lines(text, path, most)
    else:
        document = parse_json(text, path)
        listed = document.get(under) if isinstance(document, Mapping) else document
        if not isinstance(listed, list) or not listed:
            raise InputError(f"{path}: want a list of {under}, or an object whose {under!r} is one")
        rows = ((f"{path}: {under}[{i}]", row) for i, row in enumerate(listed))
    for number, (where, row) in enumerate(rows):
        if number >= most:
            raise InputError(f"{path}: more than {most:,} {under}")
        yield where, require_mapping(row, where, "a row")


_WRITTEN = re.compile(r"\s*[+-]?(\d[\d.,'\u2019\u00a0\u202f]*)(?:[eE][+-]?\d+)?(?=$|[^\w.,:/-])")
_LOCAL = {
    mark: re.compile(
        rf"\s*[+-]?(?:\d{{1,3}}(?:[{other}'\u2019\u00a0\u202f]\d{{2,3}})*[{other}'\u2019\u00a0\u202f]\d{{3}}|\d+)?"
        rf"(?:[{mark}]\d*)?(?![\d.,'\u2019\u00a0\u202f]*\d)"
    )
    for mark, other in ((".", ","), (",", "."))
}
"""A number by the mark before its fraction: thousands parted evenly, or not at all."""
_GROUPS = str.maketrans("", "", "'\u2019\u00a0\u202f")


def decimal_mark(numbers: Iterable[tuple[int, str, bool]], where: object) -> str:
    """Which mark stands before the fractions of a file's numbers, the point or the comma: all of them together say.

    A mark that stands twice, or before another mark, parts thousands; one that is not followed by three digits, or
    follows a zero or more than three digits, stands before a fraction. The point does where no number says.

    `numbers`: the line, the text that begins with the number (other text says nothing), and whether it counts things,
        so that it has no fraction.
    Raises InputError where two numbers contradict each other, or none says what the comma of "1,234" is.
    """
    seen: dict[str, tuple[int, str]] = {}
    unsure: tuple[int, str] | None = None
    for line, text, counts in numbers:
        match = _WRITTEN.match(text[:80]) if "," in text or "." in text else None
        digits = match[1].translate(_GROUPS).strip(".,") if match else ""
        marks = re.sub(r"\d", "", digits)
        if not marks or not match:
            continue
        written, head, tail = match[0].strip(), digits.partition(marks[0])[0], digits.rpartition(marks[-1])[2]
        if len(marks) > 1 and marks[0] == marks[-1]:
            if len(set(marks)) > 1 or len(tail) != 3:
                continue  # a date or a version, no number
            seen.setdefault(".,".replace(marks[0], ""), (line, written))
        elif len(marks) > 1 or len(tail) != 3 or not 1 <= len(head) <= 3 or head.startswith("0"):
            seen.setdefault(marks[-1], (line, written))
        elif counts:
            seen.setdefault(".,".replace(marks, ""), (line, written))
        elif marks == ",":
            unsure = unsure or (line, written)
    if len(seen) > 1:
        (one, point), (other, comma) = seen["."], seen[","]
        raise InputError(
            f"{where}: decimal points (line {one}: {point!r}) beside decimal commas (line {other}: {comma!r}): want "
            "one of them in a file; LC_ALL=C before the command that writes it gives points"
        )
    if unsure is not None and not seen:
        raise InputError(
            f"{where}: line {unsure[0]}: {unsure[1]!r}: the comma may part thousands or stand before a fraction, and "
            "no other number of the file says which; LC_ALL=C before the command that writes it gives points"
        )
    return next(iter(seen), ".")


def number_written(text: str, mark: str = ".") -> float | None:
    """The finite number that a text says, in its unit, thousands parted or not; None for words, "nan" and "inf".

    `mark`: what stands before the fraction (see `decimal_mark`).

    Examples
    --------
    >>> number_written("1.203,45", ","), number_written("5,012,345"), number_written("n/a")
    (1203.45, 5012345.0, None)
    """
    try:
        value = float(pointed(text, mark))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def pointed(text: str, mark: str) -> str:
    """The text with the number that it begins with as Python writes it: "1.203,45 ms" as "1203.45 ms"."""
    text = str(with_e(text))
    match = _LOCAL[mark].match(text)
    if match is None:
        return text
    number = match[0].translate(_GROUPS).replace(".,".replace(mark, ""), "").replace(mark, ".")
    return f"{number}{text[match.end() :]}"


def whole_number(text: str) -> int | None:
    """The number that a text of at most 18 digits says; None for any other text."""
    return int(text) if len(text) <= 18 and text.isascii() and text.isdigit() else None


def require_mapping(value: Any, path: object, field: str) -> Mapping[str, Any]:
    """The value, if it is a mapping with text keys.

    Raises InputError where it is none.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(
            f"{path}: {field}: want named fields, got {'nothing' if value is None else repr(str(value)[:60])}"
        )
    return value


def of_schema(document: Any, schema: str, path: object, what: str = "") -> Mapping[str, Any]:
    """The fields of a file's document, where it is of a schema; `what` it is, for people.

    Raises InputError where it is of another.
    """
    fields = require_mapping(document, path, "file")
    if fields.get("schema") != schema:
        raise InputError(f"{path}: schema = {str(fields.get('schema'))[:40]!r}, want {schema!r}{what and f': {what}'}")
    return fields
