"""SQLite files that nobody vouches for: read only, plain tables alone, bounded in size, rows and time.

A database of a stranger may hold views, triggers, virtual tables and generated columns, which run SQL when a table is
read, or be damaged on purpose (https://www.sqlite.org/security.html). Here it is opened without its journal, nothing
but SELECT is authorised, and a schema with any of these is refused.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from slipstick.hwmodels.files.opener import MEGABYTE, require_regular, too_long
from slipstick.hwmodels.files.readers import InputError

LARGEST_FILE = 1 << 35
MOST_ROWS = 50_000_000
MOST_TABLES = 2_000
LONGEST_TEXT = 1 << 20
SECONDS = 600.0
BLOCK = 1 << 17
"""Rows fetched at a time."""
_STEPS = 1_000_000
"""Instructions of SQLite's machine between two looks at the clock."""
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION})
_FUNCTIONS = frozenset({"substr", "typeof"})


class Tables:
    """The plain tables of an open file."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self.path = database, path
        self.columns = _schema(database, path)

    def __contains__(self, table: str) -> bool:
        return table in self.columns

    def integers(self, table: str, columns: Sequence[str], where: str = "") -> npt.NDArray[np.int64]:
        """Whole numbers of some columns in the order of the file, shape (rows, columns); -1 for NULL.

        Raises
        ------
        InputError
            Where the table lacks a column, a value is no whole number, or there are too many rows.
        """
        missing = [name for name in columns if name not in (*self.columns[table], "rowid")]
        if missing:
            raise InputError(f"{self.path}: table {table}: no column {', '.join(missing)}")
        listed = ", ".join(
            f"CASE typeof({one}) WHEN 'integer' THEN {one} WHEN 'null' THEN -1 ELSE substr({one}, 1, 40) END"
            for one in map(_quoted, columns)
        )
        blocks: list[npt.NDArray[np.int64]] = []
        rows = 0
        for block in self._rows(f"SELECT {listed} FROM {_quoted(table)} {where}"):
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
            if rows > MOST_ROWS:
                raise InputError(f"{self.path}: table {table}: more than {MOST_ROWS:,} rows")
        return np.concatenate(blocks) if blocks else np.empty((0, len(columns)), dtype=np.int64)

    def texts(self, table: str, key: str, value: str, most: int = 2_000_000) -> dict[int, str]:
        """Text by number, such as names by their id; text is cut at 500 characters.

        Raises
        ------
        InputError
            Where a column is missing, or there are more than `most` rows.
        """
        result: dict[int, str] = {}
        for name in (key, value):
            if name not in (*self.columns.get(table, ()), "rowid"):
                raise InputError(f"{self.path}: no column {table}.{name}")
        for block in self._rows(f"SELECT {_quoted(key)}, substr({_quoted(value)}, 1, 500) FROM {_quoted(table)}"):
            result.update((number, str(text)) for number, text in block if type(number) is int and text is not None)
            if len(result) > most:
                raise InputError(f"{self.path}: table {table}: more than {most:,} rows")
        return result

    def _rows(self, query: str) -> Iterator[list[tuple[object, ...]]]:
        try:
            cursor = self._database.execute(query)
            while block := cursor.fetchmany(BLOCK):
                yield block
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise _broken(self.path, error) from None


@contextmanager
def tables(path: str | Path) -> Iterator[Tables]:
    """An SQLite file, open for reading.

    Raises
    ------
    InputError
        Where it is no SQLite file, larger than 32 GiB, damaged, or holds views, triggers, virtual tables or generated
        columns; while it is read, where that takes longer than 600 s.
    """
    path = Path(path)
    require_regular(path)
    if path.stat().st_size > LARGEST_FILE:
        raise too_long(path, LARGEST_FILE)
    database = None
    try:
        address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        database = sqlite3.connect(address, uri=True, isolation_level=None, cached_statements=0)
        database.text_factory = lambda content: content.decode("utf-8", errors="replace")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_TEXT)
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0"):
            database.execute(f"PRAGMA {pragma}")
        end = time.monotonic() + SECONDS
        database.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        yield Tables(database, path)
    except sqlite3.Error as error:
        raise _broken(path, error) from None
    finally:
        if database is not None:
            database.close()


def _schema(database: sqlite3.Connection, path: Path) -> dict[str, tuple[str, ...]]:
    """Columns by table; only plain tables may be there. Hereafter only SELECT is authorised."""
    listed = database.execute("SELECT type, name, substr(sql, 1, 40) FROM sqlite_master").fetchmany(MOST_TABLES + 1)
    if len(listed) > MOST_TABLES:
        raise InputError(f"{path}: more than {MOST_TABLES:,} tables and indexes")
    schema: dict[str, tuple[str, ...]] = {}
    for kind, name, sql in listed:
        virtual = "VIRTUAL" in str(sql).upper()
        if kind not in ("table", "index") or virtual:
            what = "virtual table" if virtual else str(kind)[:20]
            raise InputError(f"{path}: holds the {what} {str(name)[:60]!r}; only plain tables are read")
        if kind == "table":
            columns = database.execute(f"PRAGMA table_xinfo({_quoted(str(name))})").fetchall()
            if any(hidden for *_, hidden in columns):
                raise InputError(f"{path}: table {str(name)[:60]!r} holds a generated column; only plain ones are read")
            schema[str(name)] = tuple(str(column[1]) for column in columns)

    def authorise(action: int, first: str | None, second: str | None, *_: object) -> int:
        allowed = action in _ALLOWED and (action != sqlite3.SQLITE_FUNCTION or second in _FUNCTIONS)
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    database.set_authorizer(authorise)
    return schema


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _broken(path: Path, error: Exception) -> InputError:
    if "interrupted" in str(error):
        return InputError(f"{path}: reading takes longer than {SECONDS:g} s")
    return InputError(f"{path}: not a readable SQLite file of at most {LARGEST_FILE / MEGABYTE:,.0f} MB ({error})")
