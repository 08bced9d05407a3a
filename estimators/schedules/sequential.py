"""One operation after the other."""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.common.expressions import symbol
from slipstick.estimators.base.schedule_model import FormulaSchedule
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload


@dataclass(frozen=True)
class Sequential(FormulaSchedule):
    """The sum over all operations, each as often as it is done."""

    def lane(self, op: Op) -> str:
        """All on one lane."""
        return "all"

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """The formula ``time.all``: the sum of the parts, in seconds."""
        return Formula(symbol("time.all"), "s", "sum of parts")

    def form(self, workload: Workload, machine: Machine) -> str:
        """One formula for all."""
        return "all"
