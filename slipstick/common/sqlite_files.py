"""The one way into SQLite files: plain tables alone, bounded in rows, text and time; written only where they are ours.

A database from elsewhere may hold views, triggers, virtual tables and generated columns, which run SQL when a table is
read, pages that many others share, so that a small file is a table without end, or be damaged on purpose
(https://www.sqlite.org/security.html). It is opened without its journal, nothing but SELECT is authorised, a schema
with any of these is refused, and no query gives more rows or text than the file has bytes for.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

import numpy as np

from slipstick.common.array_types import IntArray
from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE, opened, require_regular, too_long

LARGEST_FILE = 1 << 35
MOST_ROWS = 50_000_000
MOST_TABLES = 2_000
LONGEST_TEXT = 1 << 20
SECONDS, SECONDS_PER_BYTE, MOST_SECONDS = 5.0, 2e-7, 600.0
"""CPU time that reading may take: rows of an honest file come at tens of MB/s."""
LEAST_ROW = 4
"""Bytes of a page that a row takes at least: its place, its length and its header
(https://www.sqlite.org/fileformat2.html, 1.6)."""
BLOCK = 1 << 14
"""Rows fetched at a time."""
_STEPS = 1_000
"""Instructions of SQLite's machine between two looks at the clock."""
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION})
_FUNCTIONS = frozenset({"substr", "typeof"})
_MAGIC, _HEADER = b"SQLite format 3\0", 100
Row: TypeAlias = tuple[object, ...]


@dataclass(frozen=True)
class OwnKind:
    """A kind of file that we write ourselves, which is recognised before anything is written.

    `what`: in words, for messages.
    `application`, `version`: what `PRAGMA application_id` and `PRAGMA user_version` are; files of before both were
        written have 0.
    `tables`: columns and constraints of each table, as CREATE TABLE takes them; a file of this kind holds no other.
    """

    what: str
    application: int
    version: int
    tables: Mapping[str, str]


class SqliteTables:
    """The plain tables of an open file."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self.path = database, path
        self._size = path.stat().st_size
        named = [name for kind, name in _statements(database, path) if kind == "table"]
        self.columns = {table: _columns(database, path, table) for table in named}
        database.set_authorizer(_authorise)

    def __contains__(self, table: str) -> bool:
        return table in self.columns

    def integers(self, table: str, columns: Sequence[str]) -> IntArray:
        """Whole numbers of some columns in the order of the file, shape (rows, columns); -1 for NULL.

        Raises InputError where the table lacks a column, a value is no whole number, or there are too many rows.
        """
        missing = [name for name in columns if name not in (*self.columns.get(table, ()), "rowid")]
        if missing:
            raise InputError(f"{self.path}: table {table}: no column {', '.join(missing)}")
        listed = [
            f"CASE typeof({one}) WHEN 'integer' THEN {one} WHEN 'null' THEN -1 ELSE substr({one}, 1, 40) END"
            for one in map(_quoted, columns)
        ]
        blocks: list[IntArray] = []
        rows = 0
        for block in self._rows(listed, table):
            try:
                blocks.append(np.array(block, dtype=np.int64))
            except (TypeError, ValueError):
                at = next(i for i, row in enumerate(block) if any(type(value) is not int for value in row))
                bad = next(
                    (name, value) for name, value in zip(columns, block[at], strict=True) if type(value) is not int
                )
                place = f"{self.path}: table {table}: row {rows + at + 1}: {bad[0]}"
                raise InputError(f"{place} = {str(bad[1])[:40]!r}: want a whole number") from None
            rows += len(block)
        return np.concatenate(blocks) if blocks else np.empty((0, len(columns)), dtype=np.int64)

    def texts(self, table: str, key: str, value: str) -> dict[int, str]:
        """Text by number, such as names by their id; text is cut at 500 characters.

        Raises InputError where a column is missing, or there are too many rows.
        """
        for name in (key, value):
            if name not in (*self.columns.get(table, ()), "rowid"):
                raise InputError(f"{self.path}: no column {table}.{name}")
        result: dict[int, str] = {}
        for block in self._rows([_quoted(key), f"substr({_quoted(value)}, 1, 500)"], table):
            result.update((number, str(text)) for number, text in block if type(number) is int and text is not None)
        return result

    def rows(self, table: str, columns: Sequence[str]) -> list[Row]:
        """Some columns of a table as they are.

        Raises InputError where there are too many rows.
        """
        return [row for block in self._rows([*map(_quoted, columns)], table) for row in block]

    def _rows(self, listed: Sequence[str], table: str) -> Iterator[list[Row]]:
        """Blocks of rows, until they are more than the file can hold: pages that others share would give any number.

        There is no WHERE: rows that a condition drops would not be counted.
        """
        names = ", ".join(f"{one} AS c{number}" for number, one in enumerate(listed))
        rows, characters = 0, 0
        try:
            cursor = self._database.execute(f"SELECT {names} FROM {_quoted(table)} NOT INDEXED")
            while block := cursor.fetchmany(BLOCK):
                rows += len(block)
                characters += sum(len(value) for row in block for value in row if type(value) in (str, bytes))
                if LEAST_ROW * rows > self._size or characters > self._size:
                    raise InputError(f"{self.path}: table {table}: more rows than a file of {self._size:,} bytes holds")
                if rows > MOST_ROWS:
                    raise InputError(f"{self.path}: table {table}: more than {MOST_ROWS:,} rows")
                yield block
        except _BROKEN as error:
            raise _broken(self.path, error) from None


@contextmanager
def tables(path: str | Path) -> Iterator[SqliteTables]:
    """An SQLite file of anybody, open for reading as it lies there.

    Raises InputError where it is no SQLite file, larger than 32 GiB, damaged, or holds views, triggers, virtual tables
    or generated columns; while it is read, where that takes more CPU time than 5 s and 0.2 s a MB.
    """
    with _connected(Path(path), "mode=ro&immutable=1") as database:
        yield SqliteTables(database, Path(path))


@contextmanager
def own_tables(path: str | Path, kind: OwnKind) -> Iterator[SqliteTables]:
    """A file of our own kind, open for reading beside others who may write it.

    Raises InputError as `tables`, where it is another kind of file, or half-written by a program that was killed.
    """
    path = Path(path)
    _require_header(path, kind)
    with _connected(path, "mode=ro") as database:
        _require_kind(database, path, kind)
        yield SqliteTables(database, path)


@contextmanager
def written(path: str | Path, kind: OwnKind) -> Iterator[sqlite3.Connection]:
    """A transaction in a file of our own kind, which is made where there is none; kept whole or not at all.

    Raises InputError as `own_tables`; a file of another kind is left as it is.
    """
    path = Path(path)
    new = not path.exists()
    if not new:
        require_regular(path)
        new = path.stat().st_size == 0
    if not new and not _require_header(path, kind):
        with _connected(path, "mode=ro&immutable=1") as database:  # of before the header said whose it is
            _require_kind(database, path, kind)
    with _connected(path, "mode=rwc" if new else "mode=rw") as database:
        database.execute("BEGIN IMMEDIATE")
        try:
            if _statements(database, path):  # also where another program has made it meanwhile
                _require_kind(database, path, kind)
            else:
                for table, columns in kind.tables.items():
                    database.execute(f"CREATE TABLE {_quoted(table)} {columns}")
            for name, value in (("application_id", kind.application), ("user_version", kind.version)):
                if database.execute(f"PRAGMA {name}").fetchone()[0] != value:
                    database.execute(f"PRAGMA {name} = {value}")
            yield database
            database.execute("COMMIT")
        finally:
            if database.in_transaction:
                database.execute("ROLLBACK")


_BROKEN = (sqlite3.Error, OverflowError, UnicodeDecodeError)
"""What SQLite's module raises; the last of them for its messages, which may quote the file."""


@contextmanager
def _connected(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A bounded connection: no function with effects, no other file, text of any bytes, an end."""
    if "c" not in mode.partition("&")[0]:
        require_regular(path)
    size = path.stat().st_size if path.exists() else 0
    if size > LARGEST_FILE:
        raise too_long(path, LARGEST_FILE)
    database = None
    try:
        address = f"file:{quote(str(path.absolute()))}?{mode}"
        database = sqlite3.connect(address, uri=True, isolation_level=None, cached_statements=0, timeout=30)
        database.text_factory = lambda content: content.decode("utf-8", errors="replace")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_TEXT)
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        end = time.thread_time() + min(MOST_SECONDS, SECONDS + SECONDS_PER_BYTE * size)
        database.set_progress_handler(lambda: time.thread_time() > end, _STEPS)
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "temp_store=MEMORY"):
            database.execute(f"PRAGMA {pragma}")
        if mode.startswith("mode=ro"):
            database.execute("PRAGMA query_only=ON")
        yield database
    except _BROKEN as error:
        raise _broken(path, error) from None
    finally:
        if database is not None:
            database.close()


def _require_header(path: Path, kind: OwnKind) -> bool:
    """Whether the first bytes say that a file is of a kind; False where they are of before they said it."""
    with opened(path, LARGEST_FILE) as stream:
        header = stream.read(_HEADER)
    if not header.startswith(_MAGIC) or len(header) < _HEADER:
        raise InputError(f"{path}: no {kind.what} (not an SQLite file)")
    version, application = (int.from_bytes(header[at : at + 4], "big") for at in (60, 68))
    if application not in (0, kind.application):
        raise InputError(f"{path}: no {kind.what} (SQLite file of application {application}, not {kind.application})")
    if header[18:20] != b"\x01\x01":
        raise InputError(f"{path}: no {kind.what} (its journal is a log of writes, which none of ours has)")
    if version > kind.version:
        raise InputError(f"{path}: {kind.what} of version {version}; this program knows those up to {kind.version}")
    return application == kind.application


def _require_kind(database: sqlite3.Connection, path: Path, kind: OwnKind) -> None:
    """Every table and every index is one of the kind, as it was made, and none is missing."""
    statements = _statements(database, path)
    made = {table: f"CREATE TABLE {table} {columns}" for table, columns in kind.tables.items()}
    for (what, name), statement in statements.items():
        if "".join(statement.replace('"', "").split()) != "".join(made.get(name, "").split()):
            raise InputError(f"{path}: no {kind.what} ({what} {name[:60]!r} is none of it)")
    if missing := sorted(set(made) - {name for _, name in statements}):
        raise InputError(f"{path}: no {kind.what} (it has no table {', '.join(missing)})")


def _statements(database: sqlite3.Connection, path: Path) -> dict[tuple[str, str], str]:
    """The statement that made each table and each index, by kind and name; nothing else may be there."""
    query = "SELECT type, name, substr(sql, 1, 1000) FROM sqlite_master"
    listed = database.execute(query).fetchmany(MOST_TABLES + 1)
    if len(listed) > MOST_TABLES:
        raise InputError(f"{path}: more than {MOST_TABLES:,} tables and indexes")
    result: dict[tuple[str, str], str] = {}
    for kind, name, sql in listed:
        virtual = "VIRTUAL" in str(sql)[:40].upper()
        if kind not in ("table", "index") or virtual:
            what = "virtual table" if virtual else str(kind)[:20]
            raise InputError(f"{path}: holds the {what} {str(name)[:60]!r}; only plain tables are read")
        if sql is not None:  # an index without a statement belongs to its table
            result[str(kind), str(name)] = str(sql)
    return result


def _columns(database: sqlite3.Connection, path: Path, table: str) -> tuple[str, ...]:
    columns = database.execute(f"PRAGMA table_xinfo({_quoted(table)})").fetchall()
    if any(hidden for *_, hidden in columns):
        raise InputError(f"{path}: table {table[:60]!r} holds a generated column; only plain ones are read")
    return tuple(str(column[1]) for column in columns)


def _authorise(action: int, first: str | None, second: str | None, *_: object) -> int:
    allowed = action in _ALLOWED and (action != sqlite3.SQLITE_FUNCTION or second in _FUNCTIONS)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _broken(path: Path, error: Exception) -> InputError:
    if "interrupted" in str(error):
        return InputError(f"{path}: reading takes longer than its {path.stat().st_size:,} bytes can be worth")
    if Path(f"{path}-journal").exists():
        return InputError(f"{path}: half-written by a program that was killed: run it again ({str(error)[:100]})")
    return InputError(f"{path}: not a readable SQLite file of at most {LARGEST_FILE / MEGABYTE:,.0f} MB ({error})")
