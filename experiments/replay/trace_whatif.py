"""My trace from this machine, replayed on one I do not have, or with other loading: step, band, and what changed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from slipstick.common.answer import Answer, Event, Provenance
from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.columns import SHARE, Column, in_seconds
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Estimate, OperationTime, Spread, quantile
from slipstick.estimators.base.quantity import Quantity
from slipstick.estimators.gpu.kernels.traced_kernels import KernelScaling, resource_of
from slipstick.estimators.schedules.trace_replay import (
    DEVICE_KINDS,
    Replay,
    completion_of,
    critical_shares,
    first_steps,
    median_steps,
    replay,
    replay_of,
    under_runtime,
    with_workers,
)
from slipstick.estimators.sensitivity.attribution import shapley
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.importers.traces.trace_graph import TraceGraph, TraceNode
from slipstick.workloads.transforms.fusion import fusible

DRAWS = 48
SEED = 11
MOST_DRAWN = 100_000
"""Nodes of the first steps of a long trace, on which the scatter of classes of kernels is drawn."""
UNMODELLED = 0.08
"""Log spread of what a change of loading or host leaves out (contention of the workers, memory of another CPU)."""
HOST = 0.2
"""Log spread of the host's seconds between launches where another machine brings another host: a guess (processors of
servers bought within some years of each other differ by a third in what one thread does)."""
RUNTIME = 0.15
"""Log spread of what a change of runtime leaves out: a compiler also writes other products and other host code."""
POINTWISE = re.compile(r"elementwise|vectorized_|unrolled_|CUDAFunctor|pointwise", re.IGNORECASE)
ALIKE = 1.5
"""Elementwise kernels of unknown sizes are taken to go over the same elements up to this ratio of durations."""


@dataclass(frozen=True)
class TraceChange:
    """What is different from the trace.

    Parameters
    ----------
    today, other
        The machine that the trace comes from, and the target; None for no change of machine.
    workers
        Data-loading processes; None as in the trace.
    host_ratio
        Host seconds there over host seconds here, between launches (another CPU).
    runtime
        "compiled" or "graph_replay" in place of the eager one that the trace shows; None as in the trace.
    """

    today: Machine | None = None
    other: Machine | None = None
    workers: int | None = None
    host_ratio: float = 1.0
    runtime: str | None = None


TERMS = ("clock", "kernels", "collectives", "runtime", "host", "loading")
"""Of the account of a change."""
COLUMNS = (
    *in_seconds(TERMS),
    Column("busy", "busy", SHARE),
    Column("measured_step_s", "measured step", "s"),
)
"""The terms of the account, and shares, as columns of a replay."""


@dataclass(frozen=True, repr=False)
class TraceAnswer(Answer):
    """The step before and after, its band, and the account of the change in seconds (they sum to the difference).

    Parameters
    ----------
    critical
        Share of the changed span that each resource has on the critical path, largest first.
    replayed
        What was replayed: a graph, and the seconds that each node takes and at which it ends, shape (nodes,).
    """

    before: Replay
    after: Replay
    low: float
    high: float
    account: dict[str, float]
    critical: dict[str, float]
    replayed: tuple[TraceGraph, FloatArray, FloatArray] | None = None

    @property
    def provenance(self) -> Provenance:
        """A measured step as it was, or changed."""
        return "calibrated" if self.account else "measured"

    @property
    def bottleneck(self) -> str:
        """What most of the changed run's critical path is spent on, with its share."""
        name, share = next(iter(self.critical.items()), ("host", 1.0))
        return f"{name} {share:.0%}"

    @property
    def estimate(self) -> Estimate:
        """The changed step as an answer like all others: its time and band, kernels, and how long the device idles."""
        after = self.after
        kernels = Quantity("kernels", after.shares.get("kernel", 0.0) * after.step, "s", meaning="of kernels in a step")
        parts = tuple(
            OperationTime(name, name, share * after.step, bound_by=name) for name, share in self.critical.items()
        )
        return Estimate(
            after.step,
            parts=parts,
            rule="the critical path of the replayed graph",
            metrics=FrozenDict(busy=min(1.0, after.busy), idle=max(0.0, 1.0 - after.busy)),
            spread=Spread(residual=math.log(self.high / after.step) / quantile(DEFAULT_LEVEL, None)),
            others=(kernels, Quantity("measured", self.before.step, "s", meaning="the step of the trace, replayed")),
            band=(min(self.low, after.step), max(self.high, after.step)),
            provenance=self.provenance,
        )

    def events(self) -> Iterator[Event]:
        """The changed replay, each stream and thread a lane; none where the answer was made without one."""
        if self.replayed is None:
            return iter(())
        graph, service, ended = self.replayed
        nodes, starts = graph.columns, (ended - service).tolist()
        names, lanes = (nodes.names[code] for code in nodes.name), (nodes.lanes[code] for code in nodes.lane)
        return map(Event, names, lanes, starts, ended.tolist())

    def rows(self) -> list[dict[str, Any]]:
        """One row: ratio to the trace, the step with its 80 % band, the bottleneck, and the account in seconds."""
        return [
            {
                "time_ratio": self.after.step / self.before.step,
                "step_s": self.after.step,
                "low_s": self.low,
                "high_s": self.high,
                "measured_step_s": self.before.step,
                "busy": self.after.busy,
                "bottleneck": self.bottleneck,
                **{f"{term}_s": seconds for term, seconds in self.account.items()},
            }
        ]

    @property
    def declared(self) -> tuple[Column, ...]:
        """The terms of the account are seconds, the busy time a share."""
        return COLUMNS


def trace_whatif(
    graph: TraceGraph,
    change: TraceChange,
    scaling: KernelScaling | None = None,
    operations: Mapping[int, Op] | None = None,
) -> TraceAnswer:
    """Replay a trace with something changed; each kernel keeps its own residual, by scaling its measured time.

    Parameters
    ----------
    operations
        What kernels compute, by correlation number, where it is known.

    The account is the Shapley value of each term: clock (of the same machine at the other's clock), kernels,
    collectives, runtime, host, loading.
    """
    changed = _Changed(graph, change, scaling or KernelScaling(), operations or {})
    before = replay(graph)
    whole = frozenset(changed.terms)
    service = changed.service(changed.with_loading, whole)
    done = completion_of(changed.with_loading, service)
    after = replay_of(changed.with_loading, service, done)

    def step_with(active: frozenset[str]) -> float:
        if active in (frozenset(), whole):
            return after.step if active else before.step
        changed_graph = changed.with_loading if "loading" in active else graph
        return replay(changed_graph, changed.service(changed_graph, active)).step

    account = shapley(changed.terms, step_with)
    half = changed.half_width(service, after)
    critical = critical_shares(changed.with_loading, bound_by, service, done)
    replayed = changed.with_loading, service, done
    return TraceAnswer(before, after, after.step / half, after.step * half, account, critical, replayed)


def bound_by(node: TraceNode) -> str:
    """The resource that a stretch of a trace takes."""
    resources = {"matrix": "matrix products", "memory": "memory", "link": "collectives", "host_link": "host copies"}
    if node.kind in DEVICE_KINDS:
        return "collectives" if node.kind == "collective" else resources[resource_of(node.name)[0]]
    return {"loader": "loading"}.get(node.kind, "host")


@dataclass(frozen=True, eq=False)
class _Changed:
    """A trace and what changes about it."""

    graph: TraceGraph
    change: TraceChange
    scaling: KernelScaling
    operations: Mapping[int, Op] = field(default_factory=dict)

    @cached_property
    def with_loading(self) -> TraceGraph:
        """The trace with the other loading."""
        return with_workers(self.graph, self.change.workers) if self.change.workers is not None else self.graph

    @cached_property
    def terms(self) -> list[str]:
        """What differs."""
        change, terms = self.change, []
        if change.other is not None and change.today is not None:
            if change.today.clock != change.other.clock and change.today.name == change.other.name:
                terms.append("clock")
            if self._at_clock != change.other:
                terms.append("kernels")
                if self.graph.of_kind("collective").any():
                    terms.append("collectives")
        flags = {
            "runtime": change.runtime is not None,
            "host": change.host_ratio != 1.0,
            "loading": change.workers is not None,
        }
        return [*terms, *(name for name, differs in flags.items() if differs)]

    @cached_property
    def _at_clock(self) -> Machine | None:
        """Today's machine at the other's clock, where they are the same machine."""
        today, other = self.change.today, self.change.other
        if today is None or other is None or today.name != other.name:
            return today
        changed = today.using(clock=other.clock) if today.clock != other.clock else today
        return other if changed.fingerprint == other.fingerprint else changed

    def service(self, graph: TraceGraph, terms: frozenset[str]) -> FloatArray:
        """Seconds of every node with the named terms changed."""
        service = graph.service
        device = _device(graph)
        if "runtime" in terms and self.change.runtime is not None:
            service = under_runtime(graph, self.change.runtime, self._joins(graph))
        if self.change.today is not None and self.change.other is not None and self._at_clock is not None:
            linked = graph.of_kind("collective")[device]
            measured = graph.service[device]
            if "clock" in terms:
                service[device] *= self._ratios(graph, device, measured, self.change.today, self._at_clock)
            for term, chosen in (("kernels", ~linked), ("collectives", linked)):
                if term in terms and chosen.any():
                    nodes = device[chosen]
                    ratios = self._ratios(graph, nodes, measured[chosen], self._at_clock, self.change.other)
                    service[nodes] *= ratios
        if "host" in terms:
            service[graph.of_kind("host")] *= self.change.host_ratio
        return service

    def _ratios(
        self, graph: TraceGraph, device: IntArray, seconds: FloatArray, today: Machine, other: Machine
    ) -> FloatArray:
        names = _names(graph, device)
        known = [self.operations.get(number) for number in graph.columns.correlation[device].tolist()]
        return self.scaling.ratios(names, seconds, today, other, known)

    def _joins(self, graph: TraceGraph) -> Any:
        """Whether a compiler would make the second of two neighbours on a stream part of the first."""

        def joins(first: int, second: int) -> bool:
            one, other = graph.nodes[first], graph.nodes[second]
            if one.kind != "kernel" or other.kind != "kernel":
                return False
            known, next_ = self.operations.get(one.correlation), self.operations.get(other.correlation)
            if known is not None and next_ is not None:
                return fusible(known, next_)
            pointwise = POINTWISE.search(one.name) and POINTWISE.search(other.name)
            return bool(pointwise) and 1 / ALIKE <= one.service / max(other.service, 1e-12) <= ALIKE

        return joins

    def half_width(self, service: FloatArray, after: Replay) -> float:
        """The factor of the 80 % band: one draw a class of kernels from its spread, and the scatter of the steps."""
        change, graph = self.change, self.with_loading
        steps = np.log(np.asarray(after.steps))
        noise = float(np.std(steps, ddof=1)) / np.sqrt(len(steps)) if len(steps) > 2 else UNMODELLED
        parts = [noise, UNMODELLED if change.workers is not None or change.host_ratio != 1.0 else 0.0]
        parts.append(RUNTIME if change.runtime is not None else 0.0)
        if change.today is not None and change.other is not None:
            device = _device(graph)
            names = _names(graph, device)
            kinds = [resource_of(name)[0] for name in names]
            spreads = self.scaling.spreads(names, change.today, change.other)
            generator = np.random.default_rng(SEED)
            factors = {kind: np.exp(generator.normal(0.0, spread, DRAWS)) for kind, spread in spreads.items()}
            if factors:
                on_host = np.ones(DRAWS)
                if change.today.name != change.other.name and change.host_ratio == 1.0:
                    on_host = np.exp(generator.normal(0.0, HOST, DRAWS))
                codes = {kind: code for code, kind in enumerate(factors)}
                table = np.array([factors[kind] for kind in codes])
                of_kind = np.array([codes[kind] for kind in kinds])
                first = first_steps(graph, MOST_DRAWN)
                drawn = len(first.nodes)
                inside = device < drawn
                many = np.repeat(service[:drawn, None], DRAWS, axis=1)
                many[device[inside]] *= table[of_kind[inside]]
                many[graph.of_kind("host")[:drawn]] *= on_host
                parts.append(float(np.std(np.log(median_steps(first, many)))))
        return float(np.exp(quantile(DEFAULT_LEVEL, None) * np.hypot.reduce(parts)))


def _device(graph: TraceGraph) -> IntArray:
    return np.flatnonzero(graph.of_kind(*DEVICE_KINDS))


def _names(graph: TraceGraph, nodes: IntArray) -> list[str]:
    columns = graph.columns
    return [columns.names[code] for code in columns.name[nodes].tolist()]
