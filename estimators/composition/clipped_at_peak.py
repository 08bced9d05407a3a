"""Composites on machines whose stated clock is their highest: no band ends below what the data sheet allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from slipstick.common.records import FrozenDict, Same
from slipstick.common.size_column import Sized
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.composition.workload_cache import resident
from slipstick.estimators.roofline.physical_bound import PhysicalBound, weight_bytes
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload


@dataclass(frozen=True)
class ClippedAtPeak(ComposedEstimator):
    """A composite whose answers say the least time of their program (`PhysicalBound.together`), weights included.

    Not for CPUs: the clock of their data sheets is the base clock, which they exceed.
    """

    def as_clocked(self, workload: Workload, machine: Machine, run: FrozenDict[float]) -> Estimate:
        """See `ComposedEstimator.as_clocked`; no band ends below what the machine's peaks allow."""
        answer = super().as_clocked(workload, machine, run)
        bound = self.bound(workload, machine, run)
        least = float(PhysicalBound(between_uses(bound, machine)).together(bound))
        return replace(answer, least=max(answer.least, least))


def between_uses(bound: Workload, machine: Machine) -> Machine:
    """The machine as a program finds it: between two uses of a weight all the others are read."""
    return machine if machine.runtime.weights_between else _after(machine, _weights(Same(bound)) or 0.0)


@lru_cache(maxsize=8)
def _weights(workload: Same[Workload]) -> Sized | None:
    """Bytes that a program keeps from one pass to the next: what its graph states, or the weights of its products.

    An operation alone stands for itself: it finds what the repetition before left.
    """
    known = resident(workload)
    if known is None and len(workload.it) > 1 and not workload.it.symbols:
        each = [weight_bytes(op) for op in workload.it.distinct.operations]
        return sum(map(each.__getitem__, workload.it.distinct.place.tolist()))
    return known


@lru_cache(maxsize=32)
def _after(machine: Machine, weights: float) -> Machine:
    return machine.after_weights(float(weights)) if weights else machine
