"""What lists show of each shipped machine; ``python -m tools.indexes`` writes the index anew.

A row counts only while its file is what it was made from (a digest says so): a stale index costs time, and no truth.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from slipstick.common.opener import read_bytes
from slipstick.common.readers import read_json

FILE = Path(__file__).with_name("index.json")


class CatalogEntry(NamedTuple):
    """A machine in a line: SI units; `bandwidth` of main memory, `price` in dollars an hour or None."""

    name: str
    cores: int
    clock: float
    bandwidth: float
    price: float | None


def outline(path: Path) -> CatalogEntry:
    """The line of a machine's file, from the index where that is of this very file."""
    row = _rows().get(path.name)
    if row is not None and row[0] == digest_of(path):
        _, name, cores, clock, bandwidth, price = row
        return CatalogEntry(name, cores, clock, bandwidth, price)
    return built(path)


def built(path: Path) -> CatalogEntry:
    """The line of a machine that is read for it."""
    from slipstick.hwmodels.machine_file import load_machine

    one = load_machine(path)
    return CatalogEntry(one.name, one.cores, one.clock, one.bandwidth(one.main_memory), one.price)


def digest_of(path: Path) -> str:
    """Of the file that a row was made from."""
    return hashlib.sha256(read_bytes(path)).hexdigest()[:16]


@cache
def _rows() -> dict[str, tuple[str, str, int, float, float, float | None]]:
    stored: dict[str, tuple[str, str, int, float, float, float | None]] = read_json(FILE) if FILE.is_file() else {}
    return stored
