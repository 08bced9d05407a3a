"""Rows chosen beforehand, a folder of them to score, and one of everything else to learn from."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from slipstick.common.opener import opened
from slipstick.common.readers import read_json
from tools.rehearsal.tables import Table, Take

Row: TypeAlias = dict[str, str]
SHARE = 0.1
"""Of a table's rows: as many groups are taken as hold this much."""
MOST = 0.5
"""Of a table's rows: no more is taken, for the rest has to teach; a group of more is left where it is."""
LARGEST = 2_000_000_000


@dataclass
class Given:
    """What was taken out: groups, and rows by file (1 for a file that is given whole)."""

    groups: tuple[str, ...]
    rows: dict[str, int] = field(default_factory=dict)


def chosen(name: str, counts: Sequence[Mapping[str, int]]) -> tuple[str, ...]:
    """Groups to take out, in the order of a digest of their names: nobody's choice, and no score's.

    Tables in turn: what is chosen for one is chosen for all, and more is taken only while a table has too little.

    Parameters
    ----------
    name
        Of the rehearsal: another one takes other groups.
    counts
        For each table, rows of each group.
    """
    taken: list[str] = []

    def held(table: Mapping[str, int], groups: Sequence[str]) -> float:
        return sum(table.get(group, 0) for group in groups) / sum(table.values())

    for table in counts:
        for one in sorted(table, key=lambda group: hashlib.sha256(f"{name}: {group}".encode()).digest()):
            if held(table, taken) < SHARE and all(
                held(other, [*taken, one]) <= MOST for other in counts if one in other
            ):
                taken.append(one)
    return tuple(dict.fromkeys(taken))


def read_rows(path: Path) -> tuple[list[str], list[Row]]:
    """Names of the columns and rows of a CSV, or of a JSON list of objects (each value as JSON text)."""
    if ".json" in path.name:
        rows = [{name: json.dumps(value) for name, value in one.items()} for one in read_json(path)]
        return list(rows[0]), rows
    with opened(path, LARGEST) as stream:
        reader = csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""))
        rows = [{name: row[name] or "" for name in reader.fieldnames or ()} for row in reader]
        return list(reader.fieldnames or ()), rows


def write_rows(path: Path, names: Sequence[str], rows: Sequence[Row]) -> None:
    """The same kind of file as `read_rows` took."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    if ".json" in path.name:
        json.dump([{name: json.loads(value) for name, value in row.items()} for row in rows], text)
    else:
        writer = csv.DictWriter(text, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_bytes(path, text.getvalue().encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Packed where the name ends in .gz; what stood there (a link, too) is gone."""
    path.unlink(missing_ok=True)
    path.write_bytes(gzip.compress(content, 1, mtime=0) if path.suffix == ".gz" else content)


def files(table: Table, public: Path) -> list[Path]:
    """Of a table, relative to the folder."""
    return sorted(path.relative_to(public) for path in public.glob(table.pattern) if path.is_file())


def groups_of(table: Table, file: Path, rows: Sequence[Row]) -> list[str]:
    """The group of each row of a file by a column."""
    names = [row[str(table.by)] for row in rows]
    known = {name: table.group(name) for name in dict.fromkeys(names)}
    return [known[name] for name in names]


def counted(table: Table, public: Path) -> Counter[str]:
    """Rows of each group of a table; files where a part of the path names the group."""
    found: Counter[str] = Counter()
    for file in files(table, public):
        if isinstance(table.by, int):
            found[table.group(file.parts[table.by])] += 1
        elif table.by is not None:
            rows = read_rows(public / file)[1]
            name, word = table.counts or ("", None)
            found.update(groups_of(table, file, [row for row in rows if row.get(name) == word]))
    return found


def part(take: Take, public: Path, given: Path, rest: Path) -> Given:
    """Write the folder that is scored and the public folder without its rows.

    Raises OSError where the folders cannot be written.
    """
    counts = [counted(table, public) for table in take.tables]
    made = Given(chosen(take.name, [one for one in counts if one]))
    for folder in (given, rest):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for path in public.rglob("*"):
        if path.is_file():
            there = rest / path.relative_to(public)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.symlink_to(path.resolve())
    for table in take.tables:
        for file in files(table, public):
            made.rows.update(_split(table, file, set(made.groups), public, given, rest))
    return made


def _split(
    table: Table, file: Path, taken: set[str], public: Path, given: Path, rest: Path
) -> Iterator[tuple[str, int]]:
    whole = table.by is None
    if whole or isinstance(table.by, int):
        if whole or table.group(file.parts[int(table.by or 0)]) in taken:
            (given / file).parent.mkdir(parents=True, exist_ok=True)
            (given / file).symlink_to((public / file).resolve())
            if not whole:
                (rest / file).unlink()
            yield file.as_posix(), 1
        return
    names, rows = read_rows(public / file)
    inside = [group in taken for group in groups_of(table, file, rows)]
    if not any(inside):
        return
    out = [row for row, there in zip(rows, inside, strict=True) if there]
    write_rows(given / file, names, out)
    write_rows(rest / file, names, [row for row, there in zip(rows, inside, strict=True) if not there])
    yield file.as_posix(), len(out)
