"""SQLite files whose pages share children: a few kilobytes that are a table of 10^15 rows; no mutation finds these.

Format: https://www.sqlite.org/fileformat2.html, 1.6 (b-tree pages).
"""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

CELLS = 200


def rebuilt(path: Path, kind: str) -> None:
    """An SQLite file with pages that share children, or with a view or a trigger that never ends."""
    with closing(sqlite3.connect(path)) as database:
        tables = [
            name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
        if kind == "view":
            database.execute(f"DROP TABLE {tables[0]}")
            database.execute(f"CREATE VIEW {tables[0]} AS {endless}")
        elif kind == "trigger":
            database.execute(f"CREATE TRIGGER t AFTER INSERT ON {tables[0]} BEGIN DELETE FROM {tables[0]}; END")
        database.commit()
    if kind == "shared pages":
        share_pages(path, tables[len(path.read_bytes()) // 4096 % len(tables)])


def share_pages(path: Path, table: str, levels: int = 8) -> None:
    """Make each interior page of a table's tree point to one child only, again and again; its last leaf is its own."""
    with closing(sqlite3.connect(path)) as database:
        size = database.execute("PRAGMA page_size").fetchone()[0]
        root = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        root = root[0] if root else 1
    content = bytearray(path.read_bytes())
    pages = len(content) // size
    start = size * (root - 1)
    leaf = bytes(content[start : start + size])
    own = pages + levels  # the page on which the leaf lies now
    for level in range(levels):
        page = root if level == 0 else pages + level
        child = pages + level + 1
        made = _interior(size, child, 100 if page == 1 else 0)
        if page == root:
            content[start + (100 if root == 1 else 0) : start + size] = made[100 if root == 1 else 0 :]
        else:
            content += made
    content += leaf
    content[28:32] = struct.pack(">I", own)
    path.write_bytes(bytes(content))


def _interior(size: int, child: int, offset: int) -> bytes:
    """An interior page of a table whose cells all point to one child."""
    cells = [struct.pack(">I", child) + _varint(number + 1) for number in range(CELLS)]
    body, pointers, end = bytearray(size), b"", size
    for cell in cells:
        end -= len(cell)
        body[end : end + len(cell)] = cell
        pointers += struct.pack(">H", end)
    header = struct.pack(">BHHHBI", 5, 0, len(cells), end, 0, child)
    body[offset : offset + len(header) + len(pointers)] = header + pointers
    return bytes(body)


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([0x80 | number >> 7, number & 127])
