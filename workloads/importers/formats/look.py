"""The beginning of a file, as the signs of formats look at it."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from slipstick.common.opener import opened
from slipstick.common.readers import csv_separator, encoding, number_written, split_cells

LENGTH = 1 << 16
"""Bytes that are looked at."""
LARGEST = 1 << 35
SQLITE = b"SQLite format 3\0"
SEFF_TIME = re.compile(r"^Job Wall-clock time:", re.MULTILINE)
"""In what Slurm's seff prints."""
_WORKERS = {"nnodes", "ntasks", "alloccpus", "ncpus", "allocnodes", "reqnodes", "reqcpus"}
_KEY = re.compile(r'"([^"\\]{1,80})"\s*:')


@dataclass(frozen=True)
class FileHeader:
    """A file's path and its first bytes, unpacked."""

    path: Path
    first: bytes

    @cached_property
    def text(self) -> str:
        """The first bytes as text; empty where they are no text."""
        known = encoding(self.first)
        text = "" if b"\0" in self.first and known != "utf-16" else self.first.decode(known, errors="replace")
        return text.lstrip()

    @cached_property
    def json(self) -> bool:
        """Whether it begins as JSON does, or as lines of JSON below lines of words."""
        return self.text[:1] in ("{", "[")

    @cached_property
    def keys(self) -> frozenset[str]:
        """Names of fields of a JSON document (any depth) or of JSON lines that stand in the first bytes."""
        return frozenset(_KEY.findall(self.text)) if self.json else frozenset()

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Lines of the text, without the last one where it may be cut."""
        lines = self.text.splitlines()
        return tuple(lines if len(self.first) < LENGTH else lines[:-1])

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names in the header of a CSV, none of JSON; lines before it that begin with == or # are passed over."""
        rows = [] if self.json else [line for line in self.lines[:300] if line.strip() and line[:2] != "=="]
        below = [line for line in rows if line[0] != "#"][:2]
        above = [line.lstrip("# ") for line in rows if line[0] == "#"][-1:]
        try:
            cells = [split_cells(line) for line in (*above, *below)]
        except csv.Error:
            return frozenset()
        if len(cells) > 1 and above and len(cells[0]) == len(cells[1]) and not any(map(_is_word, cells[1])):
            return frozenset(cells[0])  # a header behind the mark of comments
        del cells[: len(above)]
        if not cells or (csv_separator(below[0]) == " " and {*map(len, cells)} != {len(cells[0])}):
            return frozenset()
        aligned = csv_separator(below[0]) == " " and (len(cells) < 2 or all(map(_is_word, cells[1])))
        return frozenset() if aligned else frozenset(cells[0])

    def has(self, *keys: str) -> bool:
        """Whether all these names of fields stand in the first bytes of a JSON document."""
        return self.keys.issuperset(keys)

    def heads(self, *columns: str) -> bool:
        """Whether the header of a CSV has all these columns."""
        return self.columns.issuperset(columns)


def _is_word(cell: str) -> bool:
    return number_written(cell) is None


def look(path: str | os.PathLike[str]) -> FileHeader:
    """The beginning of a file.

    Raises InputError where the file is missing, no regular file, or a broken gzip.
    """
    with opened(path, LARGEST) as stream:
        return FileHeader(Path(path), stream.read(LENGTH))


def sacct_columns(line: str) -> list[str]:
    """The columns that a header of Slurm's sacct names, between bars, commas or spaces; empty where it is none."""
    mark = "|" if "|" in line else "," if "," in line else None
    names = [name.strip() for name in line.split(mark)]
    lower = {name.lower() for name in names}
    return names if lower & {"elapsed", "elapsedraw"} and lower & _WORKERS else []


STATES = re.compile(r"\b(COMPLETED|FAILED|TIMEOUT|CANCELLED|OUT_OF_ME\w*|NODE_FAIL|RUNNING|PREEMPTED)\b")
CLOCK = re.compile(r"(?<![\d:T-])(?:\d+-)?\d\d:\d\d:\d\d(?![\d:])")


def headless_jobs(lines: Sequence[str]) -> bool:
    """Whether each line is a job of sacct without its header: a state and an elapsed time."""
    jobs = [line for line in lines if line.strip()]
    return bool(jobs) and all(len(line) < 500 and STATES.search(line) and CLOCK.search(line) for line in jobs[:50])
