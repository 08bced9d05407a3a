"""A workload on as many cores of a CPU as the run has threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.estimator_base import PointByPoint
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload


@dataclass(frozen=True)
class Multicore(ComposedEstimator):
    """A composite whose operations run on `threads` cores of the run, one thread a core; on all cores without it.

    Caches and main memory shared by the cores stay whole. Two threads a core work as one.
    """

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """See `ComposedEstimator.estimate`.

        Raises InputError also where the run has more threads than the machine.
        """
        run = dict(run or {})
        threads = int(run.pop("threads", machine.cores))
        most = machine.cores * machine.threads_per_core
        if threads > most:
            raise InputError(f"run.threads = {threads}: {machine.name} has {most} hardware threads")
        cores = min(threads, machine.cores)
        answer = ComposedEstimator.estimate(self, workload, machine.using({"cores": cores}), run)
        note = f"{threads} threads on {cores} of {machine.cores} cores, which share the work of each operation"
        return replace(answer, assumptions=(*answer.assumptions, note))

    def compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: Mapping[str, float] | None = None
    ) -> Compiled | PointByPoint:
        """Point by point: threads and machine decide the cores."""
        return PointByPoint(self, workload, machine, dict(run or {}), tuple(free))

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """Also the threads."""
        return ComposedEstimator.run_names(self, workload, machine) | {"threads"}
