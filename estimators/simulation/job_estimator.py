"""A job as an estimator: its simulated time at given numbers, so that studies sweep it as they sweep a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.estimator_base import EstimatorBase
from slipstick.estimators.base.quantity import Quantity
from slipstick.estimators.simulation.job import Job, job_numbers, with_numbers
from slipstick.estimators.symbolic.formula import Parameter
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload


@dataclass(frozen=True)
class JobEstimator(EstimatorBase):
    """The median time of runs from seeds 0, 1, ..., and between what 80 % of them lie.

    `runs`: how many at each point.
    `notes`: what the times of its stages assume.
    """

    job: Job
    runs: int
    notes: tuple[str, ...] = ()

    @property
    def workload(self) -> Workload:
        """What stands for the job in the place of a workload: nothing is counted of it."""
        return Workload(self.job.name, (Op("job", "job"),))

    @property
    def parameters(self) -> Mapping[str, tuple[float, Parameter]]:
        """Numbers of the job by name, ``decode.workers``."""
        return {
            name: (number.value, replace(number.note, whole=number.whole))
            for name, number in job_numbers(self.job).items()
        }

    def with_parameters(self, values: Mapping[str, float]) -> Self:
        """The same job with other numbers.

        Raises InputError where it has no such number, or a value is out of its bounds or no whole number.
        """
        known = self.parameters
        for name, value in values.items():
            if name in known:
                known[name][1].check(f"job.{name}", value)
        return replace(self, job=with_numbers(self.job, values))

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """The simulated time of the whole job [s]; `machine` was read by its stages already."""
        made = [self.job.simulate(seed).numbers() for seed in range(self.runs)]
        low, middle, high = np.percentile([one["time_s"] for one in made], [10, 50, 90]).tolist()
        return Estimate(
            middle,
            band=(low, high),
            rule=f"simulated: {self.runs} runs",
            metrics=FrozenDict(idle=float(np.mean([one["idle"] for one in made]))),
            others=(
                Quantity("step", float(np.mean([one["step_s"] for one in made])), "s", meaning="between two steps"),
            ),
            assumptions=self.notes,
        )
