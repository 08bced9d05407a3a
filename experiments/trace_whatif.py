"""My trace from this machine, replayed on one I do not have, or with other loading: step, band, and what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from estimators.estimate import DEFAULT_LEVEL, quantile
from estimators.operation.kernels import KernelScaling, resource_of
from estimators.schedule.replay import DEVICE_KINDS, Replay, median_steps, replay, with_workers
from hwmodels.files import InputError
from hwmodels.machine import Machine
from workloads.importers.trace_graph import TraceGraph

DRAWS = 48
SEED = 11
UNMODELLED = 0.08
"""Log spread of what a change of loading or host leaves out (contention of the workers, memory of another CPU)."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """What is different from the trace.

    Parameters
    ----------
    today, other
        The machine that the trace comes from, and the one asked about; None for no change of machine.
    workers
        Data-loading processes; None as in the trace.
    host_ratio
        Host seconds there over host seconds here, between launches (another CPU, a compiled step).
    """

    today: Machine | None = None
    other: Machine | None = None
    workers: int | None = None
    host_ratio: float = 1.0


@dataclass(frozen=True)
class TraceAnswer:
    """The step before and after, its band, and the account of the change in seconds (they sum to the difference)."""

    before: Replay
    after: Replay
    low: float
    high: float
    account: dict[str, float]

    @property
    def bottleneck(self) -> str:
        """What the changed run spends most of its span on."""
        shares = {"device": self.after.busy, "loading": self.after.shares.get("loader", 0.0)}
        shares["host"] = self.after.shares.get("host", 0.0)
        return max(shares, key=lambda name: shares[name])


def trace_whatif(graph: TraceGraph, change: Change, scaling: KernelScaling | None = None) -> TraceAnswer:
    """Replay a trace with something changed; each kernel keeps its own residual, by scaling its measured time.

    The account is the Shapley value of each term (kernels, host, loading): its mean effect over all orders in which the
    terms could have changed.
    """
    scaling = scaling or KernelScaling()
    before = replay(graph)
    terms = _terms(change)
    fed = with_workers(graph, change.workers) if change.workers is not None else graph
    cache: dict[frozenset[str], float] = {frozenset(): before.step}

    def step_with(active: frozenset[str]) -> float:
        if active not in cache:
            own = fed if "loading" in active else graph
            cache[active] = replay(own, _service(own, change, scaling, active)).step
        return cache[active]

    orders = list(permutations(terms))
    account = dict.fromkeys(terms, 0.0)
    for order in orders:
        active: frozenset[str] = frozenset()
        for term in order:
            account[term] += (step_with(active | {term}) - step_with(active)) / len(orders)
            active = active | {term}
    service = _service(fed, change, scaling, frozenset(terms))
    after = replay(fed, service)
    half = _half_width(fed, change, scaling, service, after)
    return TraceAnswer(before, after, after.step / half, after.step * half, account)


def _terms(change: Change) -> list[str]:
    terms = []
    if change.other is not None:
        terms.append("kernels")
    if change.host_ratio != 1.0:
        terms.append("host")
    if change.workers is not None:
        terms.append("loading")
    return terms


def _service(graph: TraceGraph, change: Change, scaling: KernelScaling, terms: frozenset[str]) -> Floats:
    """Seconds of every node with the named terms changed."""
    service = graph.service
    if "kernels" in terms and change.today is not None and change.other is not None:
        device = _device(graph)
        names = [graph.nodes[i].name for i in device]
        service[device] *= scaling.ratios(names, service[device], change.today, change.other)
    if "host" in terms:
        service[[node.kind == "host" for node in graph.nodes]] *= change.host_ratio
    return service


def _device(graph: TraceGraph) -> npt.NDArray[np.int64]:
    return np.flatnonzero([node.kind in DEVICE_KINDS for node in graph.nodes])


def _half_width(graph: TraceGraph, change: Change, scaling: KernelScaling, service: Floats, after: Replay) -> float:
    """The factor of the 80 % band: one draw a class of kernels from its spread, and the scatter of the steps."""
    steps = np.log(np.asarray(after.steps))
    noise = float(np.std(steps, ddof=1)) / np.sqrt(len(steps)) if len(steps) > 2 else UNMODELLED
    parts = [noise, UNMODELLED if change.workers is not None or change.host_ratio != 1.0 else 0.0]
    if change.today is not None and change.other is not None:
        device = _device(graph)
        kinds = [resource_of(graph.nodes[i].name)[0] for i in device]
        spreads = scaling.spreads([graph.nodes[i].name for i in device], change.today, change.other)
        generator = np.random.default_rng(SEED)
        factors = {kind: np.exp(generator.normal(0.0, spread, DRAWS)) for kind, spread in spreads.items()}
        if factors:
            many = np.repeat(service[:, None], DRAWS, axis=1)
            many[device] *= np.array([factors[kind] for kind in kinds])
            parts.append(float(np.std(np.log(median_steps(graph, many)))))
    return float(np.exp(quantile(DEFAULT_LEVEL, None) * np.hypot.reduce(parts)))


def rows(graph: TraceGraph, changes: Sequence[Change]) -> list[dict[str, Any]]:
    """One row a change: ratio to the trace first, then the step with its 80 % band and the account."""
    found = []
    for change in changes:
        answer = trace_whatif(graph, change)
        found.append(
            {
                "workers": change.workers,
                "machine": change.other.name if change.other else None,
                "host_ratio": change.host_ratio,
                "time_ratio": answer.after.step / answer.before.step,
                "step_s": answer.after.step,
                "low_s": answer.low,
                "high_s": answer.high,
                "measured_step_s": answer.before.step,
                "busy": answer.after.busy,
                "bottleneck": answer.bottleneck,
                **{f"{term}_s": seconds for term, seconds in answer.account.items()},
            }
        )
    return found


def changes(vary: Sequence[str], today: Machine | None, other: Machine | None) -> list[Change]:
    """Changes from ``run.workers=0..8`` and ``run.host_ratio=0.5,1``: every combination, on one other machine.

    Raises
    ------
    InputError
        Where another quantity is named, or another machine without today's.
    """
    from experiments.question import axis

    if other is not None and today is None:
        raise InputError("--on another machine needs --from: the machine that the trace was recorded on")
    found = [Change(today, other)]
    for text in vary:
        if today is None:
            from hwmodels.catalog import machine, machine_names

            on = machine(machine_names()[0])  # run.* quantities are read alike on every machine
        else:
            on = today
        name, values = axis(text, on)
        if name == "run.workers":
            found = [replace(change, workers=int(value)) for change in found for value in values]
        elif name == "run.host_ratio":
            found = [replace(change, host_ratio=float(value)) for change in found for value in values]
        else:
            raise InputError(f"{name}: a trace can vary run.workers and run.host_ratio")
    return found
