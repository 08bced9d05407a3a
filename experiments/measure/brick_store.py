"""Measured bricks, kept by what they are, where they ran and with which software: SQLite, safe against a kill."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from experiments.measure.timing import Timing
from hwmodels.files import InputError
from hwmodels.machine import Machine, validated
from hwmodels.records import Table

COLUMNS = """identity TEXT, machine TEXT, software TEXT, protocol TEXT,
    seconds REAL, median REAL, standard_error REAL, load REAL, flags TEXT, what TEXT"""


class BrickStore:
    """Results keyed by (identity, machine, software, protocol); each is written whole or not at all.

    Raises
    ------
    InputError
        Where the file is no store.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._connection() as database:
            database.execute(
                f"CREATE TABLE IF NOT EXISTS bricks ({COLUMNS}, PRIMARY KEY (identity, machine, software, protocol))"
            )
            database.execute("CREATE TABLE IF NOT EXISTS machines (fingerprint TEXT PRIMARY KEY, description TEXT)")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            database = sqlite3.connect(self.path, timeout=30)
            try:
                with database:
                    yield database
            finally:
                database.close()
        except sqlite3.DatabaseError as error:
            raise InputError(f"{self.path}: no store of bricks ({error})") from None

    def add(self, identity: str, machine: str, software: str, timing: Timing, what: str) -> None:
        """Keep one result; an older one of the same key is replaced."""
        row = (
            identity,
            machine,
            software,
            str(timing.protocol),
            timing.value,
            timing.median,
            timing.standard_error,
            max(timing.load) if timing.load else None,
            "; ".join(timing.flags),
            what,
        )
        with self._connection() as database:
            database.execute(f"INSERT OR REPLACE INTO bricks VALUES ({','.join('?' * len(row))})", row)

    def missing(self, identities: Sequence[str], machine: str, software: str, protocol: str) -> list[str]:
        """Those that have no result yet, in their order."""
        known = self.seconds(machine, software, protocol)
        return [identity for identity in dict.fromkeys(identities) if identity not in known]

    def seconds(self, machine: str, software: str, protocol: str) -> Table[float]:
        """Seconds by identity."""
        question = "SELECT identity, seconds FROM bricks WHERE machine = ? AND software = ? AND protocol = ?"
        with self._connection() as database:
            return Table(dict(database.execute(question, (machine, software, protocol)).fetchall()))

    def add_machine(self, machine: Machine) -> None:
        """Keep the description of a machine, so that the store knows what its results are of."""
        row = (machine.fingerprint, machine.model_dump_json())
        with self._connection() as database:
            database.execute("INSERT OR REPLACE INTO machines VALUES (?, ?)", row)

    def contents(self) -> list[tuple[Machine, str, str, int]]:
        """(machine, software, protocol, results) of everything in the store."""
        counts = "SELECT machine, software, protocol, COUNT(*) FROM bricks GROUP BY machine, software, protocol"
        with self._connection() as database:
            known = dict(database.execute("SELECT fingerprint, description FROM machines").fetchall())
            found = database.execute(counts).fetchall()
        return [
            (
                validated(Machine, json.loads(known[machine]), f"{self.path}: machine {machine}"),
                software,
                protocol,
                count,
            )
            for machine, software, protocol, count in found
            if machine in known
        ]
