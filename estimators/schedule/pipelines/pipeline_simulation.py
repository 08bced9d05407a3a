"""The event simulation behind `Pipeline.simulate` (SimPy): a process a worker, a store a buffer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import simpy

from slipstick.estimators.schedule.pipelines.recurrence import Floats, TandemTimes
from slipstick.estimators.schedule.pipelines.stage import Stage
from slipstick.hwmodels.files.readers import InputError


class Simulation:
    """One SimPy run: a process per worker, a store per buffer.

    `service` [s] holds each stage's times of its outputs, `resources` the capacities that stages share.
    """

    def __init__(self, stages: Sequence[Stage], service: Sequence[Floats], resources: Mapping[str, int]) -> None:
        self.environment = simpy.Environment()
        self.stages = stages
        self.service = [draw.tolist() for draw in service]
        self.taken: list[list[float]] = [[] for _ in self.stages]
        self.started: list[list[float]] = [[] for _ in self.stages]
        self.finished: list[list[float]] = [[0.0] * len(draw) for draw in service]
        self.departed: list[list[float]] = [[] for _ in self.stages]
        self.buffers = [simpy.Store(self.environment, stage.buffer) for stage in self.stages[:-1]]
        self.resources = {name: simpy.Resource(self.environment, capacity) for name, capacity in resources.items()}
        self.ended = self.environment.event()

    def times(self) -> TandemTimes:
        for position, stage in enumerate(self.stages):
            work = self._alone if stage.workers == 1 else self._among
            gate = None if stage.workers == 1 else _Gate(self)
            for _ in range(stage.workers):
                self.environment.process(work(position, stage, gate))
        self.environment.run(until=self.ended)
        kinds = (self.taken, self.started, self.finished, self.departed)
        return TandemTimes(*(tuple(np.array(each) for each in kind) for kind in kinds))

    def _alone(self, position: int, stage: Stage, gate: _Gate | None) -> Iterator[simpy.Event]:
        """The only worker of a stage: takes, works, puts."""
        environment = self.environment
        last = position == len(self.stages) - 1
        get = self.buffers[position - 1].get if position else None
        put = None if last else self.buffers[position].put
        resource = self.resources[stage.resource] if stage.resource else None
        take, start, finish, depart = (
            self.taken[position].append,
            self.started[position].append,
            self.finished[position],
            self.departed[position],
        )
        if stage.start_up:
            yield environment.timeout(stage.start_up)
        for output, duration in enumerate(self.service[position]):
            for _ in range(stage.gather):
                if get is not None:
                    yield get()
                take(environment.now)
            start(environment.now)
            if resource is None:
                yield environment.timeout(duration)
            else:
                with resource.request() as turn:
                    yield turn
                    yield environment.timeout(duration)
            finish[output] = environment.now
            if put is not None:
                yield put(output)
            depart.append(environment.now)
        if last:
            self.ended.succeed()

    def _among(self, position: int, stage: Stage, gate: _Gate | None) -> Iterator[simpy.Event]:
        """One of several workers: they take turns at the inputs, and hand over their outputs in the same order."""
        environment = self.environment
        last = position == len(self.stages) - 1
        get = self.buffers[position - 1].get if position else None
        put = None if last else self.buffers[position].put
        resource = self.resources[stage.resource] if stage.resource else None
        service, departed = self.service[position], self.departed[position]
        if gate is None:
            raise InputError("several workers need a gate")
        if stage.start_up:
            yield environment.timeout(stage.start_up)
        while True:
            with gate.inputs.request() as turn:
                yield turn
                output = len(self.started[position])
                if output == len(service):
                    return
                for _ in range(stage.gather):
                    if get is not None:
                        yield get()
                    self.taken[position].append(environment.now)
                self.started[position].append(environment.now)
            if resource is None:
                yield environment.timeout(service[output])
            else:
                with resource.request() as held:
                    yield held
                    yield environment.timeout(service[output])
            self.finished[position][output] = environment.now
            if len(departed) < output:
                yield gate.wait(output)
            if put is not None:
                yield put(output)
            departed.append(environment.now)
            gate.open(output + 1)
            if last and output + 1 == len(service):
                self.ended.succeed()


class _Gate:
    """Keeps the workers of one stage in order: at the inputs one at a time, at the outputs by number."""

    def __init__(self, simulation: Simulation) -> None:
        self.environment = simulation.environment
        self.inputs = simpy.Resource(self.environment, 1)
        self.waiting: dict[int, simpy.Event] = {}

    def wait(self, output: int) -> simpy.Event:
        """An event that comes when all outputs before `output` have left."""
        return self.waiting.setdefault(output, self.environment.event())

    def open(self, output: int) -> None:
        """Let `output` leave if it waits."""
        event = self.waiting.pop(output, None)
        if event is not None:
            event.succeed()
