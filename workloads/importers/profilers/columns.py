"""Parts of a timeline (kernels, copies, calls, ranges) as one table of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.workloads.runs.event_table import EventTable, TraceNotes

LATEST = 1 << 61
"""Clocks beyond it are broken: differences of two of them would overflow."""


@dataclass(frozen=True, eq=False)
class EventColumns:
    """Events of one category.

    `start`, `end`: ticks of the profiler's clock, shape (events,).
    `names`: numbers into `labels`, or, where `labels` is None, into the file's common table of names.
    `process`, `thread`: numbers of the process and thread, or of the device and stream; their labels are these numbers.
    `arguments`: numeric arguments, NaN where absent; what a part lacks is NaN in all its rows.
    """

    category: str
    start: IntArray
    end: IntArray
    names: IntArray
    labels: tuple[str, ...] | None
    process: IntArray
    thread: IntArray
    arguments: Mapping[str, FloatArray] = field(default_factory=dict)


def event_table(
    parts: Sequence[EventColumns], strings: Mapping[int, str], notes: TraceNotes, tick: float
) -> EventTable:
    """The parts one after the other; events with a broken clock are left out and counted.

    `strings`: names by number, of parts without labels of their own.
    `tick`: seconds of one tick of the clock.
    """
    parts = [_usable(part, notes) for part in parts]
    origin = min((int(part.start.min()) for part in parts if len(part.start)), default=0)
    names = _Codes()
    name = []
    for part in parts:
        labels = strings if part.labels is None else dict(enumerate(part.labels))
        name.append(names.of(part.names, labels))
    processes, threads, categories = _Codes(), _Codes(), _Codes()
    process = [processes.of(part.process) for part in parts]
    thread = [threads.of(part.thread) for part in parts]
    category = [np.full(len(part.start), categories.code(part.category), dtype=np.int32) for part in parts]
    wanted = dict.fromkeys(["correlation", "stream", "bytes", *(key for part in parts for key in part.arguments)])
    missing = np.full(1, np.nan)
    arguments = {
        key: np.concatenate([np.broadcast_to(part.arguments.get(key, missing), len(part.start)) for part in parts])
        for key in wanted
    }
    return EventTable(
        names.labels,
        categories.labels,
        processes.labels,
        threads.labels,
        np.concatenate(name),
        np.concatenate(category),
        np.concatenate(process),
        np.concatenate(thread),
        np.concatenate([(part.start - origin) * tick for part in parts]),
        np.concatenate([(part.end - part.start) * tick for part in parts]),
        arguments,
        origin * tick,
        notes,
    )


@dataclass
class _Codes:
    """Labels as they are met, and their codes."""

    known: dict[str, int] = field(default_factory=dict)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.known)

    def code(self, label: str) -> int:
        return self.known.setdefault(label, len(self.known))

    def of(self, numbers: IntArray, labels: Mapping[int, str] | None = None) -> npt.NDArray[np.int32]:
        """Codes of numbers by their labels; a number without one is its own."""
        distinct, inverse = np.unique(numbers, return_inverse=True)
        codes = [self.code(str(n) if labels is None else labels.get(n, f"name {n}")) for n in distinct.tolist()]
        return np.array(codes, dtype=np.int32)[inverse.reshape(-1)]


def _usable(part: EventColumns, notes: TraceNotes) -> EventColumns:
    """The part without events whose clock is broken; they are counted."""
    good = (part.end >= part.start) & (part.start >= 0) & (part.end < LATEST)
    notes.skipped += int(np.count_nonzero(~good))
    notes.phases["X"] += int(np.count_nonzero(good))
    if good.all():
        return part
    arguments = {key: values[good] for key, values in part.arguments.items()}
    arrays = (part.start[good], part.end[good], part.names[good])
    return EventColumns(part.category, *arrays, part.labels, part.process[good], part.thread[good], arguments)
