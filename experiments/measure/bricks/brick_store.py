"""Measured bricks, kept by what they are, where they ran and with which software: SQLite, safe against a kill."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from slipstick.common.errors import InputError
from slipstick.common.opener import require_regular
from slipstick.common.readers import parse_json, require_mapping
from slipstick.common.records import FrozenDict, validated
from slipstick.common.sqlite_files import OwnKind, own_tables, written
from slipstick.experiments.measure.clocks.timing import Timing
from slipstick.hwmodels.machine import Machine

MOST_SECONDS, MOST_COUNT = 1e9, 10**9
"""Of one brick, and how often it stands in a model: beyond them sums are no numbers any more."""
COLD, WARM = ", cold", ", warm"
"""Ends of the protocol's text where a brick was timed after its neighbours' work, and again at once."""
COLUMNS = """identity TEXT, machine TEXT, software TEXT, protocol TEXT,
    seconds REAL, median REAL, standard_error REAL, load REAL, flags TEXT, what TEXT, reference REAL"""
STORE = OwnKind(
    "store of bricks",
    0x534C4950,  # "SLIP"
    1,
    {
        "bricks": f"({COLUMNS}, PRIMARY KEY (identity, machine, software, protocol))",
        "machines": "(fingerprint TEXT PRIMARY KEY, description TEXT)",
        "models": "(name TEXT, granularity INTEGER, whole TEXT, bricks TEXT, PRIMARY KEY (name, granularity))",
    },
)


@dataclass(frozen=True)
class Where:
    """On which machine (its fingerprint) and with which software."""

    machine: str
    software: str


@dataclass(frozen=True)
class StoredTiming:
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
    bricks: FrozenDict[int]


@dataclass(frozen=True)
class MeasuredBricks:
    """Everything that was measured in one way on one machine.

    `cold`, `warm`: seconds by identity. Where each ran in a loop of its own there are only warm ones.
    """

    machine: Machine
    software: str
    protocol: str
    cold: FrozenDict[float]
    warm: FrozenDict[float]


class _Brick(NamedTuple):
    """One row of the table of results."""

    identity: str
    machine: str
    software: str
    protocol: str
    seconds: float
    reference: float | None


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
        with written(path, STORE):
            pass

    @classmethod
    def existing(cls, path: Path) -> BrickStore:
        """The store in a file, for reading: none is made, and nothing is written.

        Raises InputError where there is no such file, or it is no store.
        """
        if not path.is_file():
            require_regular(path) if path.exists() else None
            raise InputError(f"{path}: no such store of bricks (slipstick measure bricks MODEL ... makes one)")
        store = cls.__new__(cls)
        store.path = path
        with own_tables(path, STORE):
            return store

    def add(self, where: Where, results: Sequence[StoredTiming], reference: float | None = None) -> None:
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
        with written(self.path, STORE) as database:
            database.executemany(f"INSERT OR REPLACE INTO bricks VALUES ({','.join('?' * 11)})", rows)

    def missing(self, identities: Sequence[str], machine: str, software: str, protocol: str) -> list[str]:
        """Those that have no result yet, in their order."""
        known = self.seconds(machine, software, protocol)
        return [identity for identity in dict.fromkeys(identities) if identity not in known]

    def seconds(self, machine: str, software: str, protocol: str) -> FrozenDict[float]:
        """Seconds by identity, at the speed of the machine's middle session where a reference ran beside them."""
        key = machine, software, protocol
        return self._at_one_speed([one for one in self._bricks() if (one.machine, one.software, one.protocol) == key])

    def add_machine(self, machine: Machine) -> None:
        """Keep the description of a machine, so that the store knows what its results are of."""
        row = (machine.fingerprint, machine.model_dump_json())
        with written(self.path, STORE) as database:
            database.execute("INSERT OR REPLACE INTO machines VALUES (?, ?)", row)

    def add_model(self, granularity: int, composition: Composition) -> None:
        """Keep of which bricks a model is made: what the framework adds is found from models known as a whole."""
        row = (composition.name, granularity, composition.whole, json.dumps(dict(composition.bricks)))
        with written(self.path, STORE) as database:
            database.execute("INSERT OR REPLACE INTO models VALUES (?, ?, ?, ?)", row)

    def models(self, granularity: int) -> list[Composition]:
        """The models known at a granularity."""
        with own_tables(self.path, STORE) as tables:
            rows = tables.rows("models", ["name", "whole", "bricks", "granularity"])
        return [
            Composition(str(name), str(whole), self._counts(bricks, f"{self.path}: model {str(name)[:40]!r}"))
            for name, whole, bricks, size in sorted(rows, key=lambda row: str(row[0]))
            if size == granularity
        ]

    def take_in(self, other: BrickStore) -> int:
        """Copy what another store knows and this one does not; how many results that were.

        A result of the same brick, machine, software and protocol that is here already stays as it is.
        Raises InputError where a time, a machine or a model of the other store cannot be used: nothing is copied then.
        """
        other.measured()
        with own_tables(other.path, STORE) as tables:
            results, machines, models = (tables.rows(name, tables.columns[name]) for name in STORE.tables)
        for fingerprint, description in machines:
            if other._machine(fingerprint, description).fingerprint != fingerprint:
                raise InputError(f"{other.path}: machine {str(fingerprint)[:40]}: its description is another machine's")
        for name, _, _, bricks in models:
            self._counts(bricks, f"{other.path}: model {str(name)[:40]!r}")
        with written(self.path, STORE) as database:
            before = database.total_changes
            database.executemany(f"INSERT OR IGNORE INTO bricks VALUES ({','.join('?' * 11)})", results)
            taken = database.total_changes - before
            database.executemany("INSERT OR IGNORE INTO machines VALUES (?, ?)", machines)
            database.executemany("INSERT OR IGNORE INTO models VALUES (?, ?, ?, ?)", models)
        return taken

    def _bricks(self) -> list[_Brick]:
        """Results, checked."""
        with own_tables(self.path, STORE) as tables:
            rows = tables.rows("bricks", [*_Brick.__annotations__])
        for row in rows:
            *texts, seconds, reference = row
            if not all(isinstance(text, str) for text in texts):
                raise InputError(f"{self.path}: brick {str(texts)[:60]}: want text as identity, machine and software")
            for name, value in (("seconds", seconds), ("reference", 1.0 if reference is None else reference)):
                if not (isinstance(value, (int, float)) and 0 < value < MOST_SECONDS):
                    wanted = f"want a finite time > 0 s and < {MOST_SECONDS:g} s"
                    raise InputError(f"{self.path}: brick {str(row[0])[:60]!r}: {name} = {str(value)[:40]!r}: {wanted}")
        return [_Brick(*row) for row in rows]  # type: ignore[arg-type]

    def _at_one_speed(self, bricks: Sequence[_Brick]) -> FrozenDict[float]:
        references = [brick.reference for brick in bricks if brick.reference]
        middle = statistics.median(references) if references else 1.0
        return FrozenDict(
            {one.identity: one.seconds * (middle / one.reference if one.reference else 1.0) for one in bricks}
        )

    @staticmethod
    def _counts(text: object, where: str) -> FrozenDict[int]:
        """How often each brick stands in a model."""
        counts = require_mapping(parse_json(str(text), where), where, "bricks")
        for identity, count in counts.items():
            if not (type(count) is int and 0 < count <= MOST_COUNT):
                raise InputError(f"{where}: bricks.{identity[:40]} = {str(count)[:40]!r}: want a whole number > 0")
        return FrozenDict(counts)

    def measured(self) -> list[MeasuredBricks]:
        """The results by machine, software and protocol, cold and warm together."""
        held: dict[tuple[str, str, str], list[_Brick]] = {}
        for brick in self._bricks():
            held.setdefault((brick.machine, brick.software, brick.protocol), []).append(brick)
        known = self._machines({machine for machine, _, _ in held})
        ways = {(machine, software, how.removesuffix(COLD).removesuffix(WARM)): None for machine, software, how in held}
        rows = []
        for machine, software, protocol in ways:
            if machine in known:
                cold, warm, plain = (
                    self._at_one_speed(held.get((machine, software, protocol + state), []))
                    for state in (COLD, WARM, "")
                )
                rows.append(MeasuredBricks(known[machine], software, protocol, cold, warm or plain))
        return rows

    def contents(self) -> list[tuple[Machine, str, str, int]]:
        """(machine, software, protocol, results) of everything in the store."""
        counts = Counter((brick.machine, brick.software, brick.protocol) for brick in self._bricks())
        known = self._machines({machine for machine, _, _ in counts})
        return [(known[key[0]], *key[1:], count) for key, count in sorted(counts.items()) if key[0] in known]

    def _machines(self, fingerprints: Collection[str]) -> dict[str, Machine]:
        with own_tables(self.path, STORE) as tables:
            rows = tables.rows("machines", ["fingerprint", "description"])
        return {str(key): self._machine(key, description) for key, description in rows if key in fingerprints}

    def _machine(self, fingerprint: object, description: object) -> Machine:
        where = f"{self.path}: machine {str(fingerprint)[:40]}"
        machine: Machine = validated(Machine, parse_json(str(description), where), where)
        return machine
