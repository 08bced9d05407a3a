"""Rows to a terminal, JSON or CSV: the one way every verb answers."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Literal

from slipstick.hwmodels.files.readers import atomic_write, unknown_name

SCHEMA_VERSION = 1
"""Of all JSON answers: it grows when a key leaves or changes its meaning, not when one is added (docs/json.md)."""
if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

FORMATS = ("table", "json", "csv")
FORMAT_HELP = "table | json | csv"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_QUANTITY = re.compile(r"-?[\d.,]+( [%$\wµ/]{1,8})?")
"""A number with its unit: ``1.53 GHz``."""
LONG = 20
"""Characters that a text keeps where a table is too wide for the terminal; shorter ones are not broken."""
SIDE_BY_SIDE = 6
"""Rows that may stand side by side where they are too wide."""
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """A text for a terminal: what would steer it, or turn the direction of writing, is shown as ``\\x1b``."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def emit(rows: Sequence[Mapping[str, Any]], form: str = "table", title: str = "", notes: Sequence[str] = ()) -> None:
    """Print rows; `notes` (assumptions, hints) go above a table, and are left out of JSON and CSV.

    Raises
    ------
    InputError
        Where the format is unknown.
    """
    if form == "json":
        version = {"schema_version": SCHEMA_VERSION}
        print(json.dumps([{key: plain(value) for key, value in row.items()} | version for row in rows], indent=1))
    elif form == "csv":
        names = {name: csv_text(name) for name in rows[0]} if rows else {}
        writer = csv.DictWriter(sys.stdout, list(names), lineterminator="\n")
        writer.writerow(names)
        writer.writerows({key: _csv_value(value) for key, value in row.items()} for row in rows)
    elif form == "table":
        _table(rows, title, notes)
    else:
        raise unknown_name("format", form, FORMATS)


def plain(value: Any) -> Any:
    """A value as JSON: not-a-number becomes null, numpy scalars become numbers."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value


def write_csv(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """A frame as a CSV file, whole or not at all; texts as in `emit`."""
    texts = frame.select_dtypes(exclude="number").columns
    safe = frame.assign(**{name: frame[name].map(_csv_value) for name in texts}).rename(columns=csv_text)
    with atomic_write(path) as stream:
        safe.to_csv(stream, index=False)


def csv_text(text: str) -> str:
    """A text for a cell: one that a spreadsheet would take for a formula begins with an apostrophe."""
    seen = visible(text)
    return f"'{seen}" if seen[:1] in _FORMULA else seen


def _csv_value(value: Any) -> Any:
    return "" if value is None else csv_text(value) if isinstance(value, str) else value


def _table(rows: Sequence[Mapping[str, Any]], title: str, notes: Sequence[str]) -> None:
    from rich.console import Console

    console = Console(width=line_width(), highlight=False, emoji=False)
    for note in notes:
        console.print(visible(note), markup=False)
    if not rows:
        console.print("(nothing)")
        return
    if title:
        console.print(visible(title), markup=False, style="italic")  # a title of the table would be as narrow as it
    numeric = {name: _numeric(rows[0][name]) for name in rows[0]}
    cells = {name: [_cell(row.get(name)) for row in rows] for name in rows[0]}
    for line in print_cells(console, cells, numeric):
        console.print(line, markup=False)


def _numeric(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float)) or (isinstance(value, str) and bool(_QUANTITY.fullmatch(value)))


def print_cells(console: Console, cells: dict[str, list[str]], numeric: Mapping[str, bool]) -> list[str]:
    """Print columns as a table that fits the console; gives the lines to print below it.

    What does not fit is made narrower in this order: empty columns go, columns of one value stand above, headers fold
    at their underscores, long texts wrap. Then few rows stand side by side, one column each; of many the last columns
    go, and a line names them.
    """
    if _width(cells) <= console.width:
        console.print(_grid(cells, numeric))
        return []
    cells = _without_constants(console, {name: column for name, column in cells.items() if any(column)})
    folded = {name: _folded(name, _widest(column)) for name, column in cells.items()}
    least = {name: _least(folded[name], column) for name, column in cells.items()}
    if sum(least.values()) + 2 * (len(least) - 1) > console.width:
        upright = _upright(cells, console.width)
        if upright is not None:
            console.print(upright)
            return []
    shown: list[str] = []
    room = console.width + 2
    for name in cells:
        room -= least[name] + 2
        if room < 0 and shown:
            break
        shown.append(name)
    left = [name for name in cells if name not in shown]
    fixed = {folded[name]: _widest(cells[name]) <= LONG for name in shown}
    sided = {folded[name]: numeric.get(name, False) for name in shown}
    console.print(_grid({folded[name]: cells[name] for name in shown}, sided, fixed))
    return [f"no room for: {', '.join(left)} (a wider terminal, or --format json|csv)"] if left else []


def _without_constants(console: Console, cells: dict[str, list[str]]) -> dict[str, list[str]]:
    """Prints what is the same in all of several rows; gives the other columns."""
    from rich.markup import render

    same = {name: column[0] for name, column in cells.items() if len(column) > 1 and len(set(column)) == 1}
    if not same or len(same) == len(cells):
        return cells
    line = "in all rows: " + ", ".join(f"{name} {render(text, emoji=False)}" for name, text in same.items())
    console.print(visible(line), markup=False)
    return {name: column for name, column in cells.items() if name not in same}


def _upright(cells: Mapping[str, Sequence[str]], width: int) -> Table | None:
    """Few rows side by side, a line for each name; None where they are too many or too wide."""
    heads = list(cells)
    count = len(cells[heads[0]])
    if count > SIDE_BY_SIDE:
        return None
    beside = {f"row {i + 1}": [cells[name][i] for name in heads] for i in range(count)}
    room = (width - max(map(len, heads))) // count - 2
    if count > 1 and room < min(LONG, max(map(_widest, beside.values()))):
        return None
    return _grid({"": heads, **beside}, {}, {"": True} | dict.fromkeys(beside, False), header=count > 1)


def _grid(
    cells: Mapping[str, Sequence[str]],
    numeric: Mapping[str, bool],
    fixed: Mapping[str, bool] | None = None,
    *,
    header: bool = True,
) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", show_header=header)
    for name in cells:
        side: Literal["left", "right"] = "right" if numeric.get(name) else "left"
        table.add_column(escape(visible(name)), justify=side, overflow="fold", no_wrap=bool(fixed and fixed[name]))
    for row in zip(*cells.values(), strict=True):
        table.add_row(*row)
    return table


def _widest(column: Sequence[str]) -> int:
    from rich.text import Text

    return max((Text.from_markup(text, emoji=False).cell_len for text in column), default=0)


def _width(cells: Mapping[str, Sequence[str]]) -> int:
    return sum(max(len(name), _widest(column)) for name, column in cells.items()) + 2 * (len(cells) - 1)


def _least(head: str, column: Sequence[str]) -> int:
    return max(max(map(len, head.split("\n"))), min(LONG, _widest(column)))


def _folded(name: str, width: int) -> str:
    """A header in lines as wide as its column, broken behind underscores and dots."""
    lines = [""]
    for piece in re.findall(r"[^_.]+[_.]?|[_.]", name):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def line_width() -> int:
    """Columns of the terminal; 200 where the output is none."""
    return get_terminal_size().columns if sys.stdout.isatty() else 200


def _cell(value: Any) -> str:
    from rich.markup import escape

    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, Mapping):
        return escape(", ".join(f"{visible(str(key))} {_cell(entry)}" for key, entry in value.items()))
    return escape(visible(str(value)))
