"""The folder of `slipstick validate --data` as the scoreboards read it: without the rows that cannot be scored.

A table from elsewhere may hold a time that is none, a line that ends early, a row twice. One such row must not cost the
table, and none may vanish unsaid. So every table of the folder is read once at the door, beside the public table of its
name; the boards read a copy without the bad rows, and each table that lost some has a skipped row that names them.
"""

from __future__ import annotations

import csv
import io
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.frames import parquet_frame
from slipstick.common.opener import opened, read_bytes
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.calibrate.public_sets import PublicSet, public_sets
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

LARGEST = 500_000_000
"""Bytes of one unpacked table."""
LOOKED_AT = 5000
"""Rows of the public table that say which of its columns hold numbers."""
SHOWN = 3
"""Bad rows of a table that are named; the others are counted."""


@dataclass(frozen=True)
class Given:
    """What is read: the folder (None: the public one), and a skipped row for each table that lost something."""

    named: Path | None
    folder: Path | None
    left_out: tuple[ValidationRow, ...] = ()

    def as_named(self, rows: Sequence[ValidationRow]) -> list[ValidationRow]:
        """A board's rows with the folder as the user named it, where a copy of it was read."""
        here, there = str(self.folder), str(self.named)
        return [replace(row, reason=row.reason.replace(here, there)) if here in row.reason else row for row in rows]


@dataclass(frozen=True)
class PublicColumns:
    """What a public table says of its columns.

    `names`: all of them, in order.
    `numbers`: those whose every cell is a finite number, or blank.
    `positive`: of the measured ones, those that are never blank and above zero.
    `once`: whether no row stands twice.
    """

    names: tuple[str, ...]
    numbers: frozenset[str]
    positive: frozenset[str]
    once: bool

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Sequence[str]], measured: Sequence[str]) -> PublicColumns:
        """Of the head of a table."""
        cells = {name: [row[at] for row in rows] for at, name in enumerate(names)}
        numbers = {name for name, column in cells.items() if any(column) and all(not c or finite(c) for c in column)}
        positive = {name for name in numbers & set(measured) if all(c and float(c) > 0 for c in cells[name])}
        return cls(tuple(names), frozenset(numbers), frozenset(positive), len(set(map(tuple, rows))) == len(rows))

    def wrong(self, row: Mapping[str, str]) -> str:
        """What is wrong with a row; "" where nothing is."""
        for name in self.names:
            cell = row.get(name)
            if cell is None or name not in self.numbers:
                continue
            if not cell and name in self.positive:
                return f"no {name}"
            if cell and not finite(cell):
                return f"{name} = {cell[:40]!r} is no finite number"
            if name in self.positive and float(cell) <= 0:
                return f"{name} = {cell[:40]}: want a number above 0"
        return ""


def finite(cell: str) -> bool:
    """Whether a cell is a finite number."""
    try:
        return "_" not in cell and math.isfinite(float(cell))
    except ValueError:
        return False


@contextmanager
def given(folder: Path | None, boards: Sequence[str]) -> Iterator[Given]:
    """The folder without the rows that cannot be scored, as long as the context lasts.

    Parameters
    ----------
    folder
        What the user named; None, or a file, is read as it is.
    boards
        Only tables of the sets that these scoreboards read are looked at.
    """
    if folder is None or not folder.is_dir():
        yield Given(folder, folder)
        return
    sets = {path: one for one in public_sets() if set(boards) & set(one.scoreboards) for path in one.paths(folder)}
    made = {path: _screened(folder / path, path, one) for path, one in sets.items()}
    changed = {path: table for path, table in made.items() if table is not None and table.notes}
    if not changed:
        yield Given(folder, folder)
        return
    with tempfile.TemporaryDirectory(prefix="slipstick-given-") as copy:
        for path in folder.rglob("*"):
            there = Path(copy) / path.relative_to(folder)
            if path.is_file() and path.relative_to(folder) not in changed:
                there.parent.mkdir(parents=True, exist_ok=True)
                there.symlink_to(path.resolve())  # however large, whoever may read it
        for path, table in changed.items():
            table.write(Path(copy) / path)
        rows = [skipped(path.as_posix(), "; ".join(table.notes)) for path, table in changed.items()]
        yield Given(folder, Path(copy), tuple(rows))


@dataclass(frozen=True)
class Screened:
    """A table without its bad rows, packed as its name says, and what was left out."""

    content: bytes
    notes: tuple[str, ...]

    def write(self, path: Path) -> None:
        """Write the table, packed where the name of its file says so."""
        import gzip

        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(self.content, 1) if path.suffix == ".gz" else self.content)


def _screened(path: Path, relative: Path, of: PublicSet) -> Screened | None:
    """A table without what is wrong with it; None for other files, and where the board's own reader has to say it."""
    name = relative.name.removesuffix(".gz")
    try:
        if name.endswith(".parquet"):
            return _parquet(path, of.measured)
        return _csv(path, relative, of.measured) if name.endswith(".csv") else None
    except (InputError, UnicodeDecodeError, csv.Error):
        return None


def _csv(path: Path, relative: Path, measured: Sequence[str]) -> Screened | None:
    public = training_file(relative.as_posix())
    text = read_bytes(path, LARGEST).decode("utf-8-sig")
    reader = csv.reader(io.StringIO(text, newline=""))
    names = next(reader, [])
    if public is None or not names or len(set(names)) < len(names):
        return None
    known, bad, kept, seen = _public(public, measured), list[tuple[int, str]](), [], dict[tuple[str, ...], int]()
    rows = [(reader.line_num, row) for row in reader if row]
    texts = _texts(names, [row for _, row in rows if len(row) == len(names)], known.numbers)
    known = replace(known, numbers=known.numbers - texts)
    for line, row in rows:
        if len(row) != len(names):
            bad.append((line, f"{len(row)} values for {len(names)} columns"))
        elif known.once and tuple(row) in seen:
            bad.append((line, f"stands twice, as in line {seen[tuple(row)]}"))
        elif why := known.wrong(dict(zip(names, row, strict=True))):
            bad.append((line, why))
        else:
            kept.append(row)
        seen.setdefault(tuple(row), line)
    strange = [name for name in names if name not in known.names]
    lacking = [name for name in known.names if name not in names]
    notes = _notes(bad, len(rows))
    notes += [f"not read, since the public table has no such column: {', '.join(strange)}"] if strange else []
    notes += [f"columns of the public table that are not here: {', '.join(lacking)}"] if lacking else []
    notes += [] if rows else ["a header and no rows"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    places = [at for at, name in enumerate(names) if name in known.names]
    writer.writerows([row[at] for at in places] for row in [names, *kept])
    return Screened(out.getvalue().encode(), tuple(notes))


def _texts(names: Sequence[str], rows: Sequence[Sequence[str]], numbers: frozenset[str]) -> set[str]:
    """Columns of numbers in public that are mostly words here: of another kind, and no fault of single rows."""
    return {
        name
        for at, name in enumerate(names)
        if name in numbers and 2 * sum(bool(row[at]) and not finite(row[at]) for row in rows) > len(rows)
    }


def _public(path: Path, measured: Sequence[str]) -> PublicColumns:
    with opened(path, LARGEST) as stream:
        reader = csv.reader(io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""))
        names = next(reader, [])
        return PublicColumns.of(names, [row for row in islice(reader, LOOKED_AT) if len(row) == len(names)], measured)


def _parquet(path: Path, measured: Sequence[str]) -> Screened | None:
    import numpy as np
    import pandas as pd

    frame, bad = parquet_frame(path), list[tuple[int, str]]()
    for name in [name for name in measured if name in frame]:
        values = pd.to_numeric(frame[name], errors="coerce").to_numpy(float)
        good = np.isfinite(values) & (values > 0)
        for place in np.flatnonzero(~good):
            bad.append((int(place) + 1, f"{name} = {frame[name].iloc[place]!r}: want a number above 0"))
        frame = frame[good].assign(**{name: values[good]})
    out = io.BytesIO()
    if bad:
        frame.to_parquet(out, index=False)
    return Screened(out.getvalue(), tuple(_notes(bad, len(frame) + len(bad))))


def _notes(bad: Sequence[tuple[int, str]], of: int) -> list[str]:
    """How many of how many rows were left out, and the first of each kind."""
    first: dict[str, str] = {}
    for line, why in bad:
        first.setdefault(why.partition(" = ")[0].partition(",")[0], f"line {line}: {why}")
    return [f"{len(bad)} of {of} rows are left out; {'; '.join([*first.values()][:SHOWN])}"] if bad else []
