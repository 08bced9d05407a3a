"""Measured bricks, kept by what they are, where they ran and with which software: SQLite, safe against a kill."""

from __future__ import annotations

import json
import math
import sqlite3
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slipstick.experiments.measure.clocks.timing import Timing
from slipstick.hwmodels.files.opener import require_regular
from slipstick.hwmodels.files.readers import InputError, parse_json, require_mapping
from slipstick.hwmodels.files.records import Table, validated
from slipstick.hwmodels.machine import Machine

COLD, WARM = ", cold", ", warm"
"""Ends of the protocol's text where a brick was timed after its neighbours' work, and again at once."""
COLUMNS = """identity TEXT, machine TEXT, software TEXT, protocol TEXT,
    seconds REAL, median REAL, standard_error REAL, load REAL, flags TEXT, what TEXT, reference REAL"""

MODEL_COLUMNS = "name TEXT, granularity INTEGER, whole TEXT, bricks TEXT"


@dataclass(frozen=True)
class Where:
    """On which machine (its fingerprint) and with which software."""

    machine: str
    software: str


@dataclass(frozen=True)
class Result:
    """One timing to keep, under the text of its protocol; `what` says in words what ran."""

    identity: str
    protocol: str
    timing: Timing
    what: str


@dataclass(frozen=True)
class Composition:
    """Of which bricks a model is made, without their order: identity -> how often; `whole` is the model's own."""

    name: str
    whole: str
    bricks: Table[int]


@dataclass(frozen=True)
class Measured:
    """Everything that was measured in one way on one machine.

    Parameters
    ----------
    cold, warm
        Seconds by identity. Where each ran in a loop of its own there are only warm ones.
    """

    machine: Machine
    software: str
    protocol: str
    cold: Table[float]
    warm: Table[float]


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
            if "reference" not in {row[1] for row in database.execute("PRAGMA table_info(bricks)")}:
                database.execute("ALTER TABLE bricks ADD COLUMN reference REAL")  # a store of an earlier version
            database.execute("CREATE TABLE IF NOT EXISTS machines (fingerprint TEXT PRIMARY KEY, description TEXT)")
            database.execute(f"CREATE TABLE IF NOT EXISTS models ({MODEL_COLUMNS}, PRIMARY KEY (name, granularity))")

    @classmethod
    def existing(cls, path: Path) -> BrickStore:
        """The store in a file, for reading: none is made.

        Raises
        ------
        InputError
            Where there is no such file, or it is no store.
        """
        if not path.is_file():
            require_regular(path) if path.exists() else None
            raise InputError(f"{path}: no such store of bricks (slipstick measure bricks MODEL ... makes one)")
        return cls(path)

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

    def add(self, where: Where, results: Sequence[Result], reference: float | None = None) -> None:
        """Keep results together, all or none; older ones of the same keys are replaced.

        `reference`: seconds that the reference took in their session.
        """
        rows = [
            (
                result.identity,
                where.machine,
                where.software,
                result.protocol,
                result.timing.value,
                result.timing.median,
                result.timing.standard_error,
                max(result.timing.load) if result.timing.load else None,
                "; ".join(result.timing.flags),
                result.what,
                reference,
            )
            for result in results
        ]
        with self._connection() as database:
            database.executemany(f"INSERT OR REPLACE INTO bricks VALUES ({','.join('?' * 11)})", rows)

    def missing(self, identities: Sequence[str], machine: str, software: str, protocol: str) -> list[str]:
        """Those that have no result yet, in their order."""
        known = self.seconds(machine, software, protocol)
        return [identity for identity in dict.fromkeys(identities) if identity not in known]

    def seconds(self, machine: str, software: str, protocol: str) -> Table[float]:
        """Seconds by identity, at the speed of the machine's middle session where a reference ran beside them."""
        question = "SELECT identity, seconds, reference FROM bricks WHERE machine = ? AND software = ? AND protocol = ?"
        with self._connection() as database:
            rows = database.execute(question, (machine, software, protocol)).fetchall()
        for identity, value, reference in rows:
            self._check_seconds(f"brick {identity!r}: seconds", value)
            if reference is not None:
                self._check_seconds(f"brick {identity!r}: reference", reference)
        references = [reference for _, _, reference in rows if reference]
        middle = statistics.median(references) if references else 1.0
        return Table(
            {identity: value * (middle / reference if reference else 1.0) for identity, value, reference in rows}
        )

    def add_machine(self, machine: Machine) -> None:
        """Keep the description of a machine, so that the store knows what its results are of."""
        row = (machine.fingerprint, machine.model_dump_json())
        with self._connection() as database:
            database.execute("INSERT OR REPLACE INTO machines VALUES (?, ?)", row)

    def add_model(self, granularity: int, composition: Composition) -> None:
        """Keep of which bricks a model is made: what the framework adds is found from models known as a whole."""
        row = (composition.name, granularity, composition.whole, json.dumps(dict(composition.bricks)))
        with self._connection() as database:
            database.execute("INSERT OR REPLACE INTO models VALUES (?, ?, ?, ?)", row)

    def models(self, granularity: int) -> list[Composition]:
        """The models known at a granularity."""
        question = "SELECT name, whole, bricks FROM models WHERE granularity = ? ORDER BY name"
        with self._connection() as database:
            rows = database.execute(question, (granularity,)).fetchall()
        return [
            Composition(str(name), str(whole), self._counts(bricks, f"{self.path}: model {name!r}"))
            for name, whole, bricks in rows
        ]

    def granularities(self) -> list[int]:
        """At which granularities models are known, smallest first."""
        with self._connection() as database:
            return [int(row[0]) for row in database.execute("SELECT DISTINCT granularity FROM models ORDER BY 1")]

    def take_in(self, other: BrickStore) -> int:
        """Copy what another store knows and this one does not; how many results that were.

        A result of the same brick, machine, software and protocol that is here already stays as it is.

        Raises
        ------
        InputError
            Where a time, a machine or a model of the other store cannot be used: nothing is copied then.
        """
        for machine, software, protocol, _ in other.contents():
            other.seconds(machine.fingerprint, software, protocol)
        with other._connection() as database:
            results = database.execute("SELECT * FROM bricks").fetchall()
            machines = database.execute("SELECT fingerprint, description FROM machines").fetchall()
            models = database.execute("SELECT name, granularity, whole, bricks FROM models").fetchall()
        for fingerprint, description in machines:
            if other._machine(fingerprint, description).fingerprint != fingerprint:
                raise InputError(f"{other.path}: machine {str(fingerprint)[:40]}: its description is another machine's")
        for name, _, _, bricks in models:
            self._counts(bricks, f"{other.path}: model {name!r}")
        with self._connection() as database:
            before = database.total_changes
            database.executemany(f"INSERT OR IGNORE INTO bricks VALUES ({','.join('?' * 11)})", results)
            taken = database.total_changes - before
            database.executemany("INSERT OR IGNORE INTO machines VALUES (?, ?)", machines)
            database.executemany("INSERT OR IGNORE INTO models VALUES (?, ?, ?, ?)", models)
        return taken

    def _check_seconds(self, what: str, value: object) -> None:
        if not (isinstance(value, (int, float)) and 0 < value < math.inf):
            raise InputError(f"{self.path}: {what} = {str(value)[:40]!r}: want a finite time > 0 s")

    @staticmethod
    def _counts(text: object, where: str) -> Table[int]:
        """How often each brick stands in a model."""
        counts = require_mapping(parse_json(str(text), where), where, "bricks")
        for identity, count in counts.items():
            if not (type(count) is int and count > 0):
                raise InputError(f"{where}: bricks.{identity[:40]} = {str(count)[:40]!r}: want a whole number > 0")
        return Table(counts)

    def measured(self) -> list[Measured]:
        """The results by machine, software and protocol, cold and warm together."""
        ways: dict[tuple[str, str, str], Machine] = {}
        for machine, software, protocol, _ in self.contents():
            ways[machine.fingerprint, software, protocol.removesuffix(COLD).removesuffix(WARM)] = machine
        rows = []
        for (fingerprint, software, protocol), machine in ways.items():
            cold = self.seconds(fingerprint, software, protocol + COLD)
            warm = self.seconds(fingerprint, software, protocol + WARM) or self.seconds(fingerprint, software, protocol)
            rows.append(Measured(machine, software, protocol, cold, warm))
        return rows

    def contents(self) -> list[tuple[Machine, str, str, int]]:
        """(machine, software, protocol, results) of everything in the store."""
        counts = "SELECT machine, software, protocol, COUNT(*) FROM bricks GROUP BY machine, software, protocol"
        with self._connection() as database:
            known = dict(database.execute("SELECT fingerprint, description FROM machines").fetchall())
            rows = database.execute(counts).fetchall()
        return [
            (self._machine(machine, known[machine]), str(software), str(protocol), count)
            for machine, software, protocol, count in rows
            if machine in known
        ]

    def _machine(self, fingerprint: str, description: object) -> Machine:
        where = f"{self.path}: machine {str(fingerprint)[:40]}"
        machine: Machine = validated(Machine, parse_json(str(description), where), where)
        return machine
