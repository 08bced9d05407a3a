"""Asynchronous dispatch: the host issues operations one by one, the device runs them stream by stream.

An operation starts when the host has issued it, its stream is free, and what it depends on is done. As a max-plus
recurrence (`AsynchronousDispatch`), and as a SimPy simulation where streams that run side by side share the memory's
bandwidth (`ContendedDispatch`). What issuing costs is in the machine's runtime record: eager issues every operation,
compiled every fused one, graph replay all of them at once.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt

from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import TRACED, Event
from slipstick.estimators.base.schedule_model import Outcome, Schedule
from slipstick.estimators.schedules.device_memory import device_memory
from slipstick.estimators.schedules.max_plus import PrecedenceGraph
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.estimators.symbolic.parameters import Parameter, check_parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload

if TYPE_CHECKING:
    import simpy


@dataclass(frozen=True)
class Dispatched:
    """A workload laid out for dispatch: operations in issue order.

    `operations`: in topological order.
    `streams`: the stream of each, shape (operations,).
    `edges`: pairs of places (before, after), shape (edges, 2).
    `issue`: host seconds to issue each, shape (operations,).
    `waits`: whether the host waits for it before it goes on, shape (operations,).
    """

    operations: tuple[Op, ...]
    streams: npt.NDArray[np.int64]
    edges: npt.NDArray[np.int64]
    issue: FloatArray
    waits: npt.NDArray[np.bool_]


def dispatched(workload: Workload, machine: Machine, issue: float = 0.0, begin: float = 0.0) -> Dispatched:
    """Issue order, streams and host costs under the machine's runtime.

    `issue`, `begin`: host seconds for each operation beyond the runtime's, and once before the first.

    The attribute `stream` (a whole number) or `synchronise` (true) of an operation wins; else collectives run on the
    last of the runtime's streams and everything else on the first. Operations of free kinds are not issued.
    """
    runtime = machine.runtime
    operations, edges = _in_order(workload)
    last = runtime.streams - 1
    streams = np.array([int(op.attributes.get("stream", last if op.kind == "collective" else 0)) for op in operations])  # type: ignore[arg-type]
    each = np.array([0.0 if op.kind in runtime.free_kinds else float(op.times) for op in operations])
    costs = (runtime.issue_overhead + issue) * each
    if runtime.mode == "graph_replay":
        costs = np.zeros(len(operations))
        costs[:1] = runtime.issue_overhead + issue
    costs[:1] += begin
    waits = np.array([bool(op.attributes.get("synchronise", False)) for op in operations], dtype=bool)
    return Dispatched(operations, streams, edges, costs, waits)


def _in_order(workload: Workload) -> tuple[tuple[Op, ...], npt.NDArray[np.int64]]:
    """Operations in topological order (their own where it is one), and edges between their places."""
    import networkx as nx

    operations = workload.operations
    for _ in range(2):
        place = {op.name: i for i, op in enumerate(operations)}
        pairs = [(place[first], place[second]) for first, second in workload.edges]
        edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        if np.all(edges[:, 0] < edges[:, 1]):
            break
        known = {op.name: op for op in operations}
        order = nx.lexicographical_topological_sort(workload.graph, key=place.__getitem__)
        operations = tuple(known[name] for name in order)
    return operations, edges


@dataclass(frozen=True)
class AsynchronousDispatch(Schedule):
    """start = max(issued, stream free, dependencies done), by one pass of the max-plus recurrence."""

    issue: Annotated[float, Parameter("s", "host time to issue an operation, beyond the runtime's", 0.0, 1e-2)] = 0.0
    begin: Annotated[float, Parameter("s", "host time before the first operation", 0.0, 10.0)] = 0.0

    def __post_init__(self) -> None:
        check_parameters(self)

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine`; metrics: device_busy, host_busy and gap shares of the span."""
        plan = dispatched(workload, machine, self.issue, self.begin)
        service = _service(workload, plan, times)
        done = _completion(plan, service)
        share, notes = device_memory(workload, machine, run)
        outcome = _outcome(plan, service, done, "dispatch: max-plus recurrence")
        metrics = outcome.metrics if share is None else FrozenDict({**outcome.metrics, "memory_share": share})
        return replace(outcome, metrics=metrics, assumptions=notes)


def _completion(plan: Dispatched, service: FloatArray) -> FloatArray:
    """Completion of every operation on the device; node 2i issues operation i, node 2i + 1 runs it."""
    places = np.arange(len(plan.operations))
    hosts, device = 2 * places, 2 * places + 1
    by_stream = np.argsort(plan.streams, kind="stable")
    same = plan.streams[by_stream][1:] == plan.streams[by_stream][:-1]
    waited = plan.waits[:-1]
    edges = np.concatenate(
        [
            np.stack([hosts[:-1], hosts[1:]], axis=1),
            np.stack([device[:-1][waited], hosts[1:][waited]], axis=1),
            np.stack([hosts, device], axis=1),
            np.stack([device[by_stream[:-1]][same], device[by_stream[1:]][same]], axis=1),
            2 * plan.edges + 1,
        ]
    )
    nodes = np.empty(2 * len(plan.operations))
    nodes[0::2], nodes[1::2] = plan.issue, service
    return np.asarray(PrecedenceGraph.from_edges(len(nodes), edges).completion(nodes)[1::2])


@dataclass(frozen=True)
class ContendedDispatch(Schedule):
    """The same by simulation, with streams that share the main memory's bandwidth while they run side by side.

    An operation alone needs its bytes over its time; where the sum of all that run exceeds the bandwidth, each is
    slowed by the excess (processor sharing).
    """

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine`."""
        plan = dispatched(workload, machine)
        service = _service(workload, plan, times)
        bandwidth = machine.bandwidth(machine.main_memory)
        moved = np.array([float(op.cost.bytes_moved) * float(op.times) for op in plan.operations])
        with np.errstate(divide="ignore", invalid="ignore"):
            demand = np.where(service > 0, np.minimum(moved / np.maximum(service, 1e-30) / bandwidth, 1.0), 0.0)
        done = _simulate(plan, service, demand)
        return _outcome(plan, service, done, "dispatch: simulated, streams share the bandwidth")


def _simulate(plan: Dispatched, service: FloatArray, demand: FloatArray) -> FloatArray:
    """Completion of every operation, by SimPy: one process for the host, one a stream, and a shared device."""
    import simpy

    env = simpy.Environment()
    count = len(plan.operations)
    before: list[list[int]] = [[] for _ in range(count)]
    for first, second in plan.edges.tolist():
        before[second].append(first)
    issued = [env.event() for _ in range(count)]
    finished = [env.event() for _ in range(count)]
    done = np.zeros(count)
    device = _SharedDevice(env)

    def host() -> Generator[Any, Any, None]:
        for i in range(count):
            if plan.issue[i]:
                yield env.timeout(float(plan.issue[i]))
            issued[i].succeed()
            if plan.waits[i]:
                yield finished[i]

    def stream(indices: list[int]) -> Generator[Any, Any, None]:
        for i in indices:
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


class _SharedDevice:
    """Work in progress that slows down together where the demands for bandwidth add up to more than there is."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.work: dict[int, list[Any]] = {}  # number -> [seconds left alone, demand, event]
        self.since = 0.0
        self.number = 0
        self.turn = 0

    def run(self, seconds: float, demand: float) -> simpy.Event:
        """An event that comes when `seconds` of work are done."""
        self._advance()
        event = self.env.event()
        self.number += 1
        self.work[self.number] = [seconds, demand, event]
        self._plan()
        return event

    def _speed(self) -> float:
        return 1.0 / max(1.0, sum(float(entry[1]) for entry in self.work.values()))

    def _advance(self) -> None:
        passed = (self.env.now - self.since) * self._speed()
        for entry in self.work.values():
            entry[0] -= passed
        self.since = self.env.now

    def _plan(self) -> None:
        self.turn += 1
        if self.work:
            nearest = min(entry[0] for entry in self.work.values())
            self.env.process(self._finish(max(0.0, nearest) / self._speed(), self.turn))

    def _finish(self, delay: float, turn: int) -> Generator[Any, Any, None]:
        yield self.env.timeout(delay)
        if turn != self.turn:
            return
        self._advance()
        least = min(entry[0] for entry in self.work.values())
        for number in [n for n, entry in self.work.items() if entry[0] <= least + 1e-15]:
            self.work.pop(number)[2].succeed()
        self._plan()


def _service(workload: Workload, plan: Dispatched, times: FloatArray) -> FloatArray:
    seconds = {op.name: float(time) * float(op.times) for op, time in zip(workload, times, strict=True)}
    return np.array([seconds[op.name] for op in plan.operations])


def _outcome(plan: Dispatched, service: FloatArray, done: FloatArray, rule: str) -> Outcome:
    host = float(plan.issue.sum())
    span = max(float(done.max(initial=0.0)), host)
    order = np.argsort(done - service)
    reach = np.maximum.accumulate(done[order]) if len(done) else done
    begins = (done - service)[order]
    covered = (
        np.clip(reach - np.maximum(begins, np.concatenate([[0.0], reach[:-1]])), 0, None).sum() if len(done) else 0.0
    )
    busy = float(covered) / span if span else 0.0
    trace: tuple[Event, ...] = ()
    if len(done) <= TRACED:
        trace = tuple(
            Event(op.name, f"stream {stream}", float(end - time), float(end))
            for op, stream, time, end in zip(plan.operations, plan.streams, service, done, strict=True)
        )
    return Outcome(
        span,
        rule,
        FrozenDict(
            device_busy=min(busy, 1.0), host_busy=min(host / span, 1.0) if span else 0.0, gaps=max(0.0, 1 - busy)
        ),
        trace,
        sides=FrozenDict(device=float(covered), host=host),
    )
