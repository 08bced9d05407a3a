"""Rows to a terminal, JSON or CSV: the one way every verb answers.

Lines and tables for what is no terminal, where their text is plain: what rich prints, without importing it.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from slipstick.common.answer import Answer, Provenance, json_text
from slipstick.common.columns import Column, for_people
from slipstick.common.formatting import number_shown, visible
from slipstick.common.frames import csv_cell, csv_text
from slipstick.common.readers import unknown_name

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


GAP = "  "
MARKED = {
    r"(?<!not )\btrust(?=: within)": "green",
    r"\bwide(?=: within)": "yellow",
    r"\bdo not trust(?=: within)": "bold red",
    r"^ *(beware|given|refused|hint)(?=:)": "yellow",
}
"""How sure an answer is, and what warns, as a terminal shows them."""
LONG = 20
"""Characters that a text keeps where a table is too wide for the terminal; shorter ones are not broken."""
STYLED_BY = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""Variables by which a user asks rich for styles where there is no terminal."""


def is_plain(*texts: str) -> bool:
    """Whether texts need no care: printable ASCII without markup, no blanks at their ends."""
    return all(text.isascii() and text.isprintable() and text == text.strip() for text in texts) and not any(
        mark in text for text in texts for mark in "[\\"
    )


def is_piped() -> bool:
    """Whether what is printed goes where no style is seen: into a file or another program."""
    return (
        not sys.stdout.isatty() and not any(name in os.environ for name in STYLED_BY) and "IPython" not in sys.modules
    )


def piped_line(text: str, width: int) -> bool:
    """Prints a line as it is and says so; False where it has to be styled or folded."""
    lines = text.split("\n")
    if not is_piped() or any(len(line) > width or not (line.isascii() and line.isprintable()) for line in lines):
        return False
    print(text)
    return True


def piped_table(cells: Mapping[str, Sequence[str]], numeric: Mapping[str, bool], width: int) -> bool:
    """Prints columns and says so, the longest wrapped where they are too wide; False where they have to be styled,
    folded or left out.

    `cells`: head -> texts, shape (rows,).
    `numeric`: which columns stand at the right.
    """
    if not is_piped() or not is_plain(*cells, *(text for column in cells.values() for text in column)):
        return False
    wide = {head: max(map(len, (head, *column))) for head, column in cells.items()}
    over = sum(wide.values()) + len(GAP) * (len(wide) - 1) - width
    if over > 0:
        longest = max(wide, key=wide.__getitem__)
        wide[longest] -= over
        if numeric.get(longest) or not _wraps_alone(cells, wide, longest):
            return False
    sides = [(str.rjust if numeric.get(head) else str.ljust, each) for head, each in wide.items()]
    for row in (tuple(cells), *zip(*cells.values(), strict=True)):
        parts = [_lines(text, each) for text, each in zip(row, wide.values(), strict=True)]
        for line in zip_longest(*parts, fillvalue=""):
            print(GAP.join(side(text, each) for text, (side, each) in zip(line, sides, strict=True)))
    return True


def _wraps_alone(cells: Mapping[str, Sequence[str]], wide: Mapping[str, int], longest: str) -> bool:
    """Whether a table too wide loses nothing but the width of its longest column, which stays the longest.

    No column is empty or has one value in all rows, no head that could be broken is longer than what stands below it,
    no word is broken.
    """
    others = [each for head, each in wide.items() if head != longest]
    return (
        wide[longest] > max([*others, LONG]) + len(GAP)
        and all(len({*column}) > 1 for column in cells.values())
        and not any({*"_. "} & {*head} and len(head) > max(map(len, column)) for head, column in cells.items())
        and all(len(word) <= wide[longest] for text in (longest, *cells[longest]) for word in text.split())
    )


def _lines(text: str, width: int) -> list[str]:
    """A text broken before the words that find no room; blanks between words stay as they are."""
    if len(text) <= width:
        return [text]
    lines = [""]
    for word in re.findall(r"\S+\s*", text):
        if len(lines[-1]) + len(word.rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return [line[:width] for line in lines]


FORMATS = ("table", "json", "csv")
_QUANTITY = re.compile(r"-?[\d.,]+( [%$\wµ/]{1,8})?")
"""A number with its unit: ``1.53 GHz``."""
SIDE_BY_SIDE = 6
"""Rows that may stand side by side where they are too wide."""


_GLUED = re.compile(r"(?<=\d) (?=[%$µ\w/]{1,3}\b|%)|(?<=\.\.) | (?=\.\. )")


def emit(
    rows: Sequence[Mapping[str, Any]],
    form: str = "table",
    title: str = "",
    notes: Sequence[str] = (),
    *,
    below: Sequence[str] = (),
    digits: int = 3,
    remarks: Sequence[str] | None = None,
    columns: Sequence[Column] = (),
    provenance: Provenance | None = None,
    depends: Mapping[str, Any] | None = None,
) -> None:
    """Print rows; `notes` go above a table, `below` (assumptions, doubts) under it; JSON and CSV have neither.

    A table shows ``time_s`` as ``105 ms`` under ``time``, and ``low_s`` with ``high_s`` as one band; JSON and CSV keep
    the keys and all digits. `digits` is of numbers without a unit. `remarks`: warnings of an answer, which each row of
    JSON carries, as it does `provenance` and what `depends` holds; tables have theirs among the lines.
    `columns`: what the answer declares beyond the keys that all share.
    Raises InputError where the format is unknown.
    """
    if form == "json":
        print(json_text(rows, remarks, provenance, depends))
    elif form == "csv":
        names = {name: csv_text(name) for name in rows[0]} if rows else {}
        writer = csv.DictWriter(sys.stdout, list(names), lineterminator="\n")
        writer.writerow(names)
        writer.writerows({key: csv_cell(value) for key, value in row.items()} for row in rows)
    elif form == "table":
        _table(for_people(rows, columns), title, notes, digits)
        for text in below:
            emit_line(text)
    else:
        raise unknown_name("format", form, FORMATS)


def show(
    answer: Answer,
    form: str = "table",
    heads: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
    remarks: Sequence[str] | None = None,
) -> None:
    """Print an answer: its heads, its tables and what it assumed; as JSON its document, as CSV its rows.

    `heads`, `more`: what the command knows besides: lines below those of the answer, and values beside those of its
        document.
    `remarks`: warnings of the command's own in place of the answer's.
    Raises InputError where the format is unknown.
    """
    if form == "json":
        documents = [{**one, **(more or {})} for one in answer.document()]
        warned = answer.remarks if remarks is None else remarks
        emit(documents, form, remarks=warned, provenance=answer.provenance, depends=answer.depends)
        return
    if form != "table":
        emit(answer.rows(), form)
        return
    for index, text in enumerate([*answer.headed, *heads]):
        emit_line(text, "" if index else "bold")
    for table in answer.tables():
        emit(table.rows, form, table.title, columns=table.columns)
    for text in answer.notes:
        emit_line(text)


def wrapped(text: str, width: int) -> str:
    """A text in lines of at most `width` characters, what wraps indented; a number stays with its unit."""
    seen = visible(text)
    if len(seen) <= width:
        return seen
    indent = " " * (10 if seen.startswith(" ") else 2)
    glued = _GLUED.sub("\N{NO-BREAK SPACE}", seen)
    lines = wrap(glued, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def emit_line(text: str, style: str = "") -> None:
    """A line above or below a table, what wraps indented; `style` ("red") is seen on terminals alone."""
    width = line_width()
    lines = wrapped(text, width)
    if piped_line(lines, width):
        return
    from rich.console import Console
    from rich.text import Text

    marked = Text(lines, style)
    for pattern, look in MARKED.items():
        marked.highlight_regex(pattern, look)
    Console(width=width, highlight=False, emoji=False).print(marked)


def _table(rows: Sequence[Mapping[str, Any]], title: str, notes: Sequence[str], digits: int) -> None:
    width = line_width()
    for note in notes:
        emit_line(note)
    if not rows:
        emit_line("(nothing)")
        return
    if title and not piped_line(visible(title), width):
        from rich.console import Console

        # a title of the table would be as narrow as it
        Console(width=width, highlight=False, emoji=False).print(visible(title), markup=False, style="italic")
    numeric = {name: _numeric(rows[0][name]) for name in rows[0]}
    cells = {name: [_cell(row.get(name), digits) for row in rows] for name in rows[0]}
    if piped_table(cells, numeric, width):
        return
    from rich.console import Console

    console = Console(width=width, highlight=False, emoji=False)
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
    """A header in lines as wide as its column, broken behind blanks, underscores and dots."""
    lines = [""]
    for piece in re.findall(r"[^_. ]+[_. ]?|[_. ]", name):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


PIPED = 200
"""Columns of output that is no terminal and whose reader says nothing: rows stay whole for grep and awk."""
NARROWEST = 20


def line_width() -> int:
    """Columns of every line of every verb: COLUMNS where that is set, else the terminal's (80 if it says nothing).

    Requested anew for each call: neither a variable that is set later nor one that a test takes away is missed.
    """
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated) >= NARROWEST:
        return int(stated)
    return get_terminal_size((80, 24)).columns if sys.stdout.isatty() else PIPED


def _cell(value: Any, digits: int = 3) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number_shown(value, digits)
    text = visible(str(value))
    if not isinstance(value, Mapping) and not {"[", "\\"} & set(text):
        return text
    from rich.markup import escape

    if isinstance(value, Mapping):
        return escape(", ".join(f"{visible(str(key))} {_cell(entry, digits)}" for key, entry in value.items()))
    return escape(text)
