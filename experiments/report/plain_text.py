"""Lines and tables for what is no terminal, where their text is plain: what rich prints, without importing it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import zip_longest

GAP = "  "
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
