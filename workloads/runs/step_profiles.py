"""Step profiles: what each step of a run did, as counts and total durations per operation.

The common coin between traces, recorded runs and the finding of phases. Only statistics are kept: a step of a
million events is a few dozen numbers.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.opener import opened
from slipstick.common.readers import number_of, whole_of
from slipstick.common.writer import atomic_write

if TYPE_CHECKING:
    from scipy import sparse

_LARGEST_LINE = 1 << 24
_LARGEST_FILE = 1 << 33
_MOST = 10**15
"""Invocations of one operation in a step."""
_LONGEST = 1e12
"""Seconds that are no time of a run any more (30,000 years): their sums would overflow."""

Place = Literal["host", "device"]


@dataclass(frozen=True)
class Operation:
    """How often and how long [s] in total one operation ran within a step, and where."""

    count: int
    time: float
    place: Place = "host"


def operations_of(timed: Iterable[tuple[str, Place, float]]) -> dict[str, Operation]:
    """How often and how long each operation ran, of their names, places and seconds.

    A name that runs in both places stands by itself where it came first, and as `add_operation` has it later.
    """
    counts, times = Counter[tuple[str, Place]](), defaultdict[tuple[str, Place], float](float)
    for name, place, time in timed:
        counts[name, place] += 1
        times[name, place] += time
    operations: dict[str, Operation] = {}
    for (name, place), count in counts.items():
        add_operation(operations, name, Operation(count, times[name, place], place))
    return operations


def add_operation(operations: dict[str, Operation], name: str, one: Operation) -> None:
    """Add an operation to those of a step; where its name is taken, as of the other place, with its place behind it."""
    while name in operations:
        name = f"{name} ({one.place})"
    operations[name] = one


@dataclass(frozen=True)
class StepProfile:
    """One step: its number, start and duration [s], and its operations. `label` is the known kind of step, where it
    is known.
    """

    step: int
    start: float
    duration: float
    operations: Mapping[str, Operation] = field(default_factory=dict)
    label: str | None = None
    checkpoint: bool = False
    """A checkpoint was stored at the end of this step."""
    processor_time: float | None = None
    """CPU seconds of the thread that ran the step, where they were measured."""


def without_stolen_time(step: StepProfile, waits: str = r"enumerate\(DataLoader\).*") -> StepProfile:
    """The step as it would be without other programs on the machine: what does not wait takes its CPU time.

    `waits` matches the operations that wait for input; their wall time is kept. All other operations are scaled by the
    same factor, CPU time over the wall time that was not waited. Without a measured CPU time the step stays as it is.
    """
    if step.processor_time is None:
        return step
    waited = sum(each.time for name, each in step.operations.items() if re.fullmatch(waits, name))
    working = step.duration - waited
    factor = min(1.0, step.processor_time / working) if working > 0 else 1.0
    operations = {
        name: each if re.fullmatch(waits, name) else replace(each, time=each.time * factor)
        for name, each in step.operations.items()
    }
    return replace(step, duration=waited + working * factor, operations=operations)


@dataclass(frozen=True, eq=False)
class StepTable:
    """Many step profiles as sparse matrices: rows are steps, columns the operations `names` (their `places` beside
    them).
    """

    steps: tuple[StepProfile, ...]
    names: tuple[str, ...]
    places: tuple[Place, ...]
    counts: sparse.csr_array
    times: sparse.csr_array

    @classmethod
    def of(cls, steps: Iterable[StepProfile]) -> StepTable:
        """Collect profiles.

        Raises InputError where there is none.
        """
        from scipy import sparse

        profiles = tuple(steps)
        if not profiles:
            raise InputError("no step profiles")
        columns: dict[str, int] = {}
        places: list[Place] = []
        row, column, count, time = [], [], [], []
        for index, profile in enumerate(profiles):
            for name, operation in profile.operations.items():
                if name not in columns:
                    columns[name] = len(columns)
                    places.append(operation.place)
                row.append(index)
                column.append(columns[name])
                count.append(operation.count)
                time.append(operation.time)
        shape = (len(profiles), len(columns))
        counts = sparse.csr_array((np.array(count, dtype=np.float64), (row, column)), shape=shape)
        times = sparse.csr_array((np.array(time, dtype=np.float64), (row, column)), shape=shape)
        return cls(profiles, tuple(columns), tuple(places), counts, times)

    @property
    def durations(self) -> FloatArray:
        """Duration of each step [s]."""
        return np.array([step.duration for step in self.steps])


def save_steps(steps: Iterable[StepProfile], path: str | Path) -> None:
    """Write profiles as JSON lines, one a step, times in seconds; packed where the name ends in .gz."""
    with atomic_write(path, "wb") as file:
        packed = gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if str(path).endswith(".gz") else file
        for profile in steps:
            packed.write((json.dumps(_record(profile)) + "\n").encode())
        if packed is not file:
            packed.close()


def _record(profile: StepProfile) -> dict[str, Any]:
    record: dict[str, Any] = {
        "step": profile.step,
        "start_s": profile.start,
        "duration_s": profile.duration,
        "operations": {name: [each.count, each.time, each.place] for name, each in profile.operations.items()},
    }
    if profile.label is not None:
        record["label"] = profile.label
    if profile.checkpoint:
        record["checkpoint"] = True
    if profile.processor_time is not None:
        record["processor_time_s"] = profile.processor_time
    return record


def load_steps(path: str | Path) -> Iterator[StepProfile]:
    """Read profiles written by `save_steps`, one at a time.

    Raises InputError, which names the file and the line where a record is wrong.
    """
    number = 0
    try:
        with opened(path, _LARGEST_FILE) as file:
            while line := file.readline(_LARGEST_LINE):
                number += 1
                yield _profile(json.loads(line))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        if isinstance(error, InputError) and number == 0:
            raise
        raise InputError(f"{path}: line {number}: not a step profile ({error})") from None


def _profile(record: Any) -> StepProfile:
    label, worked = record.get("label"), record.get("processor_time_s")
    return StepProfile(
        int(record["step"]),
        number_of(record["start_s"], "start_s", -_LONGEST, _LONGEST, "s"),
        number_of(record["duration_s"], "duration_s", 0, _LONGEST, "s"),
        {str(name): _operation(str(name), *each) for name, each in record["operations"].items()},
        None if label is None else str(label),
        record.get("checkpoint") is True,
        None if worked is None else number_of(worked, "processor_time_s", 0, _LONGEST, "s"),
    )


def _operation(name: str, count: float, time: float, place: str) -> Operation:
    if place not in ("host", "device"):
        raise InputError(f"place {place!r}; known: host, device")
    number = whole_of(count, f"operation {name[:60]!r}: count", 0, _MOST)
    seconds = number_of(time, f"time of operation {name[:60]!r}", 0, _LONGEST, "s")
    return Operation(number, seconds, "device" if place == "device" else "host")
