"""The event simulation of rows of stages (SimPy): finite buffers, shared resources, barriers, closed populations.

Every service is one SimPy event; what happens between events (taking inputs, waiting for room, handing on) is plain
code that runs at once, so that there are no processes and no stores to wake.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.schedules.max_plus import TandemTimes
from slipstick.estimators.simulation.event_clock import Barrier, EventClock, SharedCapacity
from slipstick.estimators.simulation.stage import Process, Stage


class Network:
    """One run of one or more rows of stages that share resources.

    `rows`: the stages of each row; rows with barriers have the same stages.
    `service`: seconds of the successive outputs, by row and stage.
    `resources`: capacities that stages share.
    `seed`: of what processes of stages draw.
    `population`: customers that go round and round in each row; None where the first stage never lacks input.
    """

    def __init__(
        self,
        rows: Sequence[Sequence[Stage]],
        service: Sequence[Sequence[FloatArray]],
        resources: Mapping[str, int],
        population: int | None = None,
        seed: Sequence[int] = (0,),
    ) -> None:
        self.environment = EventClock()
        self.ended = self.environment.event()
        self.open_rows = len(rows)
        pools = {name: SharedCapacity(capacity) for name, capacity in resources.items()}
        self.stations = [
            [
                _Station(self, stage, draws.tolist(), pools, (*seed, row, place))
                for place, (stage, draws) in enumerate(zip(stages, times, strict=True))
            ]
            for row, (stages, times) in enumerate(zip(rows, service, strict=True))
        ]
        for row in self.stations:
            for before, after in pairwise(row):
                before.next, after.before = after, before
            row[0].supply = population
            if population is not None:
                row[-1].next_round = row[0]
        for place, stage in enumerate(rows[0]):
            if stage.together and len(rows) > 1:
                _meet([row[place] for row in self.stations])

    def run(self, until: float | None = None) -> list[TandemTimes]:
        """Simulate until every row has made its last output, or for `until` seconds; times by row.

        What was not over by then has not-a-number for its end.
        Raises InputError where a stage's own process waits for what never comes.
        """
        for row in self.stations:
            for station in row:
                station.begin()
        if self.open_rows:
            stop = self.ended if until is None else self.ended | self.environment.timeout(until)
            try:
                self.environment.run(until=stop)
            except RuntimeError as error:  # SimPy: nothing is scheduled, and the run is not over
                waiting = [each.stage.name for row in self.stations for each in row if each.stage.process is not None]
                if not waiting:
                    raise
                raise InputError(f"the process of stage {' or '.join(waiting)} waits for what never comes") from error
        return [
            TandemTimes(
                *(tuple(np.array(getattr(each, kind)) for each in row) for kind in ("taken", "started")),
                *(
                    tuple(np.array(getattr(each, kind)[: len(each.started)]) for each in row)
                    for kind in ("finished", "departed")
                ),
            )
            for row in self.stations
        ]

    def row_ended(self) -> None:
        """A row has made its last output."""
        self.open_rows -= 1
        if not self.open_rows:
            self.ended.succeed()


class _Station:
    """One stage at work: its free workers, the outputs that wait to leave, and the buffer behind it."""

    def __init__(
        self,
        network: Network,
        stage: Stage,
        service: list[float],
        pools: Mapping[str, SharedCapacity],
        seed: Sequence[int],
    ) -> None:
        self.network, self.environment, self.stage = network, network.environment, stage
        self.service, self.outputs = service, len(service)
        self.workers, self.gather, self.kept = stage.workers, stage.gather, stage.order == "kept"
        self.room = stage.buffer if stage.buffer is not None else 1 << 60
        self.random = np.random.default_rng(seed) if stage.process is not None else None
        self.pool = pools[stage.resource] if stage.resource else None
        self.free, self.ready, self.stored, self.collected, self.begun = stage.workers, False, 0, 0, 0
        self.before: _Station | None = None
        self.next: _Station | None = None
        self.next_round: _Station | None = None
        self.begins: Barrier | None = None
        self.ends: Barrier | None = None
        self.supply: int | None = None
        self.done: set[int] = set()
        self.held: deque[int] = deque()
        self.taken: list[float] = []
        self.started: list[float] = []
        self.finished: list[float] = [math.nan] * self.outputs
        self.departed: list[float] = [math.nan] * self.outputs
        self.left = 0
        self.pulling = False

    def begin(self) -> None:
        """The workers arrive."""
        if self.stage.start_up:
            self.environment.after(self.stage.start_up, self._open)
        else:
            self.ready = True
            self.pull()

    def _open(self, event: Any) -> None:
        self.ready = True
        self.pull()

    def pull(self) -> None:
        """Take inputs while a worker is free and there are any; start an output when it has all of them."""
        if not self.ready or self.pulling:
            return
        self.pulling = True
        before, now = self.before, self.environment._now
        while self.free and self.begun < self.outputs:
            if before is not None:
                if not before.stored:
                    break
                before.stored -= 1
                self.taken.append(now)
                if before.held:
                    before.let_go()
            else:
                if self.supply is not None:
                    if not self.supply:
                        break
                    self.supply -= 1
                self.collected = self.gather - 1  # nothing limits inputs here: all of an output come at once
                self.taken.extend([now] * self.gather)
            self.collected += 1
            if self.collected == self.gather:
                self.collected = 0
                self.free -= 1
                output, self.begun = self.begun, self.begun + 1
                if self.begins is not None:
                    self.begins.arrive(output)
                elif self.pool is not None:
                    self.pool.hold(self.serve, output)
                else:
                    self.serve(output)
        self.pulling = False

    def serve(self, output: int) -> None:
        """Work on an output."""
        self.started.append(self.environment._now)
        seconds, process = self.service[output], self.stage.process
        if process is None or self.random is None:
            self.environment.after(seconds, self._finish, output)
        else:
            work = self.environment.process(self._worked(process, seconds, self.random))
            work.callbacks.append(lambda event: self._finished(output))

    def _worked(self, process: Process, seconds: float, random: np.random.Generator) -> Generator[Any, Any, None]:
        try:
            yield from process.work(self.environment, seconds, random)
        except Exception as error:  # whatever the code of the user's own raises is his to read
            what = f"process {type(process).__name__} of stage {self.stage.name!r}"
            raise InputError(f"{what}: {type(error).__name__}: {error}") from error

    def _finish(self, event: Any) -> None:
        self._finished(event._value)

    def _finished(self, output: int) -> None:
        self.finished[output] = self.environment._now
        if self.ends is None:
            self.end(output)
        else:
            self.ends.arrive(output)

    def end(self, output: int) -> None:
        """An output is done: it leaves in its turn."""
        if self.pool is not None:
            self.pool.release()
        if self.kept and self.workers > 1:
            self.done.add(output)
            following = self.left + len(self.held)
            while following in self.done:
                self.done.discard(following)
                self.held.append(following)
                following += 1
        else:
            self.held.append(output)
        if self.held:
            self.let_go()

    def let_go(self) -> None:
        """Outputs leave in order while there is room behind the stage; their workers are free again."""
        now, after = self.environment._now, self.next
        while self.held and (after is None or self.stored < self.room):
            self.departed[self.held.popleft()] = now
            self.left += 1
            self.free += 1
            if after is not None:
                self.stored += 1
                after.pull()
            else:
                if self.next_round is not None:
                    self.next_round.supply = (self.next_round.supply or 0) + 1
                    self.next_round.pull()
                if self.left == self.outputs:
                    self.network.row_ended()
        self.pull()


def _meet(stations: Sequence[_Station]) -> None:
    """Rows that start an output of a stage together; it leaves all of them when the slowest is done."""

    def all_of(call: str) -> Barrier:
        calls = [getattr(station, call) for station in stations]
        return Barrier(len(stations), lambda output: [each(output) for each in calls])

    begins, ends = all_of("serve"), all_of("end")
    for station in stations:
        station.begins, station.ends = begins, ends
