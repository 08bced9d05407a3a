"""Loops over arrays on as many cores as the run has threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipstick.estimators.composites.composite import Composite
from slipstick.estimators.contract.base import PointByPoint
from slipstick.estimators.core.estimate import Estimate, Spread
from slipstick.estimators.operation.cpu.saturating_loops import SaturatingLoops, measured_curve
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload


@dataclass(frozen=True)
class LoopsOnCores(Composite):
    """One thread a core, cores filled in order; `threads` of the run are the cores that work, all without it."""

    operation: SaturatingLoops

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """See `Composite.estimate`; with the band of CPUs left out, or that of the machine's measured curve."""
        run = dict(run or {})
        cores = int(run.pop("threads", self.operation.cores) or machine.cores)
        counted = replace(self, operation=replace(self.operation, cores=cores))
        answer = Composite.estimate(counted, workload, machine, run)
        curve = measured_curve(machine)
        notes = [f"one thread on each of {cores} of {machine.cores} cores"]
        notes.append("bandwidth by cores as measured on the machine" if curve else "bandwidth of the data sheet")
        notes += [curve.doubt] if curve and curve.doubt else []
        spread = Spread(residual=self.operation.scatter(machine, cores))
        return replace(answer, spread=spread, assumptions=(*answer.assumptions, *notes))

    def compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: Mapping[str, float] | None = None
    ) -> PointByPoint:
        """Point by point: threads and machine decide the traffic."""
        return PointByPoint(self, workload, machine, dict(run or {}), tuple(free))

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """Also the threads."""
        return Composite.run_names(self, workload, machine) | {"threads"}
