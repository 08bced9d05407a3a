"""Lines and tables for what is no terminal, where their text is plain: what rich prints, without importing it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

GAP = "  "
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
    """Prints columns as they are and says so; False where they have to be styled, folded or left out.

    `cells`: head -> texts, shape (rows,).
    `numeric`: which columns stand at the right.
    """
    if not is_piped() or not is_plain(*cells, *(text for column in cells.values() for text in column)):
        return False
    wide = {head: max(map(len, (head, *column))) for head, column in cells.items()}
    if sum(wide.values()) + len(GAP) * (len(wide) - 1) > width:
        return False
    sides = [(str.rjust if numeric.get(head) else str.ljust, each) for head, each in wide.items()]
    for row in (tuple(cells), *zip(*cells.values(), strict=True)):
        print(GAP.join(side(text, each) for text, (side, each) in zip(row, sides, strict=True)))
    return True
