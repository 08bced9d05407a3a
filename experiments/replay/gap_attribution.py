"""Why a measured step is not what was predicted: the difference shared out among what a prediction leaves out.

Predicted is the sum of the kernels' times by the model, one after the other. Terms that turn it into the trace:
kernels (each runs as fast as measured, not as predicted: the choice of kernel), clock (the device did not run at the
clock of its record), fusion (operations that were predicted but have no kernel), gaps (the device waits for the host),
overlap (streams run side by side). The account is a Shapley value, so it adds up to the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.gpu.kernels.traced_kernels import KernelScaling, predicted
from slipstick.estimators.schedules.trace_replay import DEVICE_KINDS, completion_of, replay, replay_of
from slipstick.estimators.sensitivity.attribution import shapley
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.importers.traces.trace_graph import TraceGraph


@dataclass(frozen=True, eq=False)
class GapAttribution:
    """A trace beside its prediction.

    Parameters
    ----------
    predicted
        Seconds of each node by the model at the clock of the record; measured ones where the model knows nothing.
    clocked
        The same at the clock that the device ran at, shape (nodes,).
    unfused
        Seconds a step of operations that were predicted but are part of other kernels in the trace.
    """

    graph: TraceGraph
    predicted: FloatArray
    clocked: FloatArray
    unfused: float = 0.0

    @property
    def terms(self) -> list[str]:
        """What can differ."""
        differs = {
            "kernels": not np.array_equal(self.graph.service[self._device], self.clocked[self._device]),
            "clock": not np.array_equal(self.predicted, self.clocked),
            "fusion": self.unfused != 0,
        }
        return [*(name for name, does in differs.items() if does), "gaps", "overlap"]

    @property
    def _device(self) -> Mask:
        return self.graph.of_kind(*DEVICE_KINDS)

    @cached_property
    def middle(self) -> tuple[TraceGraph, ...]:
        """The trace with its median step alone; of an even number of steps with each of the two whose mean is that."""
        steps = replay(self.graph).steps
        order = sorted(range(len(steps)), key=steps.__getitem__)
        places = {order[(len(order) - 1) // 2], order[len(order) // 2]}
        return tuple(replace(self.graph, steps=(self.graph.steps[place],)) for place in sorted(places))

    def step(self, terms: frozenset[str]) -> float:
        """Seconds of the median step with the named terms as in the trace and the others as predicted."""
        base = self.clocked if "clock" in terms else self.predicted
        ratio = np.divide(self.graph.service, self.clocked, out=np.ones(len(base)), where=self.clocked > 0)
        seconds = np.where(self._device, base * ratio if "kernels" in terms else base, self.graph.service)
        done = completion_of(self.graph, seconds)
        return float(np.mean([self._step(one, terms, seconds, done) for one in self.middle]))

    def _step(self, one: TraceGraph, terms: frozenset[str], seconds: FloatArray, done: FloatArray) -> float:
        """Of the one step of a trace."""
        again = replay_of(one, seconds, done)
        alone = float(seconds[self._device & self._inside(one)].sum())
        hidden = max(0.0, alone - again.busy * again.step)
        span = again.step + hidden if "gaps" in terms else alone
        return span - (hidden if "overlap" in terms else 0.0) + (0.0 if "fusion" in terms else self.unfused)

    def _inside(self, one: TraceGraph) -> Mask:
        """Nodes that begin within its step."""
        starts = one.columns.start
        ends = starts + one.columns.service
        ((first, last),) = one.steps
        return np.asarray((starts >= ends[first] - 1e-12) & (starts < ends[last]))

    def account(self) -> dict[str, float]:
        """Seconds of each term; they sum to measured minus predicted."""
        return shapley(self.terms, self.step)


def miss_of(
    graph: TraceGraph,
    operations: Mapping[int, Op],
    machine: Machine,
    ran_at: Machine | None = None,
    unfused: float = 0.0,
) -> GapAttribution:
    """A trace beside the tiled roofline of the machine.

    Parameters
    ----------
    operations
        What kernels compute, by correlation number; the others count as predicted right.
    ran_at
        The machine at the clock that it really ran at, where that is known.
    """
    fixed = KernelScaling().fixed

    def times(at: Machine) -> FloatArray:
        seconds = graph.service
        for i, node in enumerate(graph.nodes):
            op = operations.get(node.correlation) if node.kind == "kernel" else None
            time = predicted(op, op.dtype, at) if op is not None else None
            if time is not None:
                seconds[i] = fixed + time
        return seconds

    here = times(machine)
    return GapAttribution(graph, here, here if ran_at is None else times(ran_at), unfused)


def explain_trace(
    path: str, machine_name: str | None, set_: list[str], workload: str | None = None
) -> tuple[tuple[str, str], list[dict[str, object]]]:
    """What was predicted and measured of a trace, what was assumed, and rows of the account, largest first.

    Parameters
    ----------
    set_
        ``machine.clock=1.2GHz``: what the machine really ran at.
    workload
        What ran, by name, if the trace is of a compiled run: the time of what fusion saves is then predicted.

    Raises
    ------
    InputError
        Where neither the trace nor the user says which machine it was recorded on.
    """
    from slipstick.common.errors import InputError
    from slipstick.common.formatting import shown
    from slipstick.experiments.question.settings import assignments
    from slipstick.experiments.replay.replay import read_recorded, step_named
    from slipstick.hwmodels.catalog import machine

    read = read_recorded(path, machine(machine_name) if machine_name else None)
    if read.machine is None:
        raise InputError(f"{path}: does not say which machine it was recorded on: give --on MACHINE")
    settings = assignments(set_, ["machine"])["machine"]
    miss = miss_of(
        read.graph,
        read.operations,
        read.machine,
        read.machine.using(settings) if settings else None,
        _unfused(workload, read.machine) if workload else 0.0,
    )
    account = miss.account()
    none, all_ = miss.step(frozenset()), miss.step(frozenset(miss.terms))
    head = (
        f"{step_named(path, read)} on {read.machine.name}: {shown(all_, 's')} {read.provenance}, {shown(none, 's')} "
        f"predicted, kernels one after the other; {read.provenance}"
    )
    rows: list[dict[str, object]] = [
        {"term": term, "time_s": seconds, "share_of_measured": seconds / all_}
        for term, seconds in sorted(account.items(), key=lambda item: -abs(item[1]))
    ]
    return (head, f"assuming: {read.note}"), rows


def _unfused(name: str, machine: Machine) -> float:
    """Predicted seconds that fusion saves of a workload."""
    from slipstick.estimators.roofline.roofline import Roofline
    from slipstick.workloads.catalog import workload
    from slipstick.workloads.transforms.fusion import fused

    whole = workload(name)
    before, after = (
        float(np.dot(Roofline().times(w.operations, machine), [float(op.times) for op in w]))
        for w in (whole.bound(), fused(whole, machine.runtime.free_kinds).bound())
    )
    return before - after
