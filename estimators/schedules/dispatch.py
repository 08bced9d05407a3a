"""Asynchronous dispatch: the host issues operations one by one, the device runs them stream by stream.

An operation starts when the host has issued it, its stream is free, and what it depends on is done. As a max-plus
recurrence; `simulation/contended_dispatch.py` simulates streams that share the memory's bandwidth. What issuing costs
is in the machine's runtime record: eager issues every operation, compiled every fused one, graph replay all of them at
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from slipstick.common.answer import Event
from slipstick.common.array_types import FloatArray, IntArray, Mask
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import TRACED
from slipstick.estimators.base.schedule_model import Outcome, Schedule
from slipstick.estimators.schedules.device_memory import device_memory
from slipstick.estimators.schedules.max_plus import PrecedenceGraph
from slipstick.estimators.symbolic.formula import Parameter, check_parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload


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
    streams: IntArray
    edges: IntArray
    issue: FloatArray
    waits: Mask


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


def _in_order(workload: Workload) -> tuple[tuple[Op, ...], IntArray]:
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
        service = service_times(workload, plan, times)
        done = _completion(plan, service)
        share, notes = device_memory(workload, machine, run)
        outcome = outcome_of(plan, service, done, "dispatch: max-plus recurrence")
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


def service_times(workload: Workload, plan: Dispatched, times: FloatArray) -> FloatArray:
    """Seconds of each operation, all its executions together, in issue order."""
    seconds = {op.name: float(time) * float(op.times) for op, time in zip(workload, times, strict=True)}
    return np.array([seconds[op.name] for op in plan.operations])


def outcome_of(plan: Dispatched, service: FloatArray, done: FloatArray, rule: str) -> Outcome:
    """The outcome (seconds, shares of the span, trace) of operations that take `service` and end at `done`."""
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
            Event(op.name, f"stream {stream}", float(end - time), float(end), op.kind)
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
