"""One side of a step on a TPU alone: what the device takes, or its infeed."""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.common.expressions import symbol
from slipstick.estimators.base.schedule_model import FormulaSchedule
from slipstick.estimators.schedules.infeed import InfeedOverlap
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload


@dataclass(frozen=True)
class Lane(FormulaSchedule):
    """The total time of one lane of `InfeedOverlap` alone: to look at a side by itself."""

    name: str

    def lane(self, op: Op) -> str:
        """As `InfeedOverlap`."""
        return InfeedOverlap().lane(op)

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """The formula ``time.NAME``: seconds of this lane alone."""
        return Formula(symbol(f"time.{self.name}"), "s", f"the {self.name} alone")
