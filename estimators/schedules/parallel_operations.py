"""Operations side by side where the user's rules allow it."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from slipstick.common.answer import Event
from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.schedule_model import Outcome, Schedule
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload

Rule = tuple[str, str]


def parse_rule(text: str) -> Rule:
    """``PATTERN+PATTERN``, with * and ? in patterns: such operations may run at the same time.

    Raises InputError where the text has another form.

    Examples
    --------
    >>> parse_rule("*conv*+*pool*")
    ('*conv*', '*pool*')
    """
    parts = [part.strip() for part in text.split("+")]
    if len(parts) != 2 or not all(parts):
        raise InputError(f"rule {text!r}: want PATTERN+PATTERN, as *conv*+*pool*")
    return parts[0], parts[1]


@dataclass(frozen=True)
class SideBySide(Schedule):
    """Operations begin in the order of the workload, each as soon as its edges, the rules and the workers let it.

    `rules`: pairs of patterns; two operations may overlap where one matches each side. A pattern is held against the
        name of an operation, its kind and what it says it does; a brick matches where all of its layers do.
    `workers`: how many operations may run at the same time; any number if None.

    Raises
    ------
    InputError
        Where `workers` is below 1.
    """

    rules: tuple[Rule, ...] = ()
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(f"workers = {self.workers}: want 1 or more, or None for any number")

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine`; the trace has each operation on the lane of its worker."""
        duration = {op.name: float(time) * float(op.times) for op, time in zip(workload, times, strict=True)}
        sides = {op.name: tuple((_matches(op, a), _matches(op, b)) for a, b in self.rules) for op in workload}
        waits = {op.name: workload.structure.in_degree(op.name) for op in workload}
        place = {op.name: i for i, op in enumerate(workload)}
        ready = [place[name] for name, count in waits.items() if count == 0]
        heapq.heapify(ready)
        running: list[tuple[float, int, int]] = []  # (end, place, worker)
        idle: list[int] = []
        now, events, operations = 0.0, [], workload.operations
        while ready or running:
            postponed = []
            while ready and (self.workers is None or len(running) < self.workers):
                index = heapq.heappop(ready)
                name = operations[index].name
                if all(self._together(sides[name], sides[operations[other].name]) for _, other, _ in running):
                    worker = heapq.heappop(idle) if idle else len(running)
                    heapq.heappush(running, (now + duration[name], index, worker))
                    events.append(Event(name, f"worker {worker}", now, now + duration[name]))
                else:
                    postponed.append(index)
            for index in postponed:
                heapq.heappush(ready, index)
            now, done, worker = heapq.heappop(running)
            heapq.heappush(idle, worker)
            for after in workload.structure.successors(operations[done].name):
                waits[after] -= 1
                if not waits[after]:
                    heapq.heappush(ready, place[after])
        parallelism = sum(duration.values()) / now if now else 1.0
        return Outcome(now, "end of the last part", FrozenDict(parallelism=parallelism), tuple(events))

    def _together(self, one: tuple[tuple[bool, bool], ...], other: tuple[tuple[bool, bool], ...]) -> bool:
        return any((a and d) or (b and c) for (a, b), (c, d) in zip(one, other, strict=True))


def _matches(op: Op, pattern: str) -> bool:
    if op.body is not None and op.kind == "brick":
        return all(_matches(inner, pattern) for inner in op.body)
    texts = (op.name, op.kind, str(op.attributes.get("does", "")))
    return any(fnmatchcase(text, pattern) for text in texts)
