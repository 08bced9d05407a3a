"""One operation after the other."""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.estimators.formula import Formula
from slipstick.estimators.schedule.model import FormulaSchedule
from slipstick.hwmodels.expressions import symbol
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.workload import Op, Workload


@dataclass(frozen=True)
class Sequential(FormulaSchedule):
    """The sum over all operations, each as often as it is done."""

    def lane(self, op: Op) -> str:
        """All on one lane."""
        return "all"

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """time.all"""
        return Formula(symbol("time.all"), "s", "sum of parts")
