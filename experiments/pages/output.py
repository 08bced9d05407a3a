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
from typing import TYPE_CHECKING, Any

from slipstick.hwmodels.files.readers import atomic_write, unknown_name

SCHEMA_VERSION = 1
"""Of all JSON answers: it grows when a key leaves or changes its meaning, not when one is added (docs/json.md)."""
if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("table", "json", "csv")
FORMAT_HELP = "table | json | csv"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_QUANTITY = re.compile(r"-?[\d.,]+( [%$\wµ/]{1,8})?")
"""A number with its unit: ``1.53 GHz``."""
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
    from rich.markup import escape
    from rich.table import Table

    console = Console(width=line_width(), highlight=False)
    for note in notes:
        console.print(visible(note), markup=False)
    if not rows:
        console.print("(nothing)")
        return
    if title:
        console.print(visible(title), markup=False, style="italic")  # a title of the table would be as narrow as it
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
        numeric = numeric or (isinstance(value, str) and bool(_QUANTITY.fullmatch(value)))
        table.add_column(escape(visible(name)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console.print(table)


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
