"""Asynchronous dispatch simulated: streams that run side by side share the main memory's bandwidth."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.schedule_model import Outcome, Schedule
from slipstick.estimators.schedules.dispatch import Dispatched, dispatched, outcome_of, service_times
from slipstick.estimators.simulation.event_clock import EventClock, SharedRate
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload


@dataclass(frozen=True)
class ContendedDispatch(Schedule):
    """The same by simulation, with streams that share the main memory's bandwidth while they run side by side.

    An operation alone needs its bytes over its time; where the sum of all that run exceeds the bandwidth, each is
    slowed by the excess (processor sharing).
    """

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine`."""
        plan = dispatched(workload, machine)
        service = service_times(workload, plan, times)
        bandwidth = machine.bandwidth(machine.main_memory)
        moved = np.array([float(op.cost.bytes_moved) * float(op.times) for op in plan.operations])
        with np.errstate(divide="ignore", invalid="ignore"):
            demand = np.where(service > 0, np.minimum(moved / np.maximum(service, 1e-30) / bandwidth, 1.0), 0.0)
        done = completion_simulated(plan, service, demand)
        return outcome_of(plan, service, done, "dispatch: simulated, streams share the bandwidth")


def completion_simulated(plan: Dispatched, service: FloatArray, demand: FloatArray) -> FloatArray:
    """Seconds at which every operation ends: one process for the host, one a stream, and a shared device."""
    env, count = EventClock(), len(plan.operations)
    before: list[list[int]] = [[] for _ in range(count)]
    for first, second in plan.edges.tolist():
        before[second].append(first)
    issued, finished = ([env.event() for _ in range(count)] for _ in range(2))
    done, device = np.zeros(count), SharedRate(env)

    def host() -> Generator[Any, Any, None]:
        for i in range(count):
            if plan.issue[i]:
                yield env.timeout(float(plan.issue[i]))
            issued[i].succeed()
            if plan.waits[i]:
                yield finished[i]

    def stream(operations: Sequence[int]) -> Generator[Any, Any, None]:
        for i in operations:
            yield issued[i]
            for j in before[i]:
                if not finished[j].processed:
                    yield finished[j]
            yield device.run(float(service[i]), float(demand[i]))
            done[i] = env.now
            finished[i].succeed()

    env.process(host())
    for number in sorted(set(plan.streams.tolist())):
        env.process(stream(np.flatnonzero(plan.streams == number).tolist()))
    env.run()
    return done
