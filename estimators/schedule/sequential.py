"""One operation after the other."""

from __future__ import annotations

from dataclasses import dataclass

from estimators.formula import Formula
from estimators.schedule.model import FormulaSchedule
from hwmodels.expressions import symbol
from hwmodels.machine import Machine
from workloads.workload import Op, Workload


@dataclass(frozen=True)
class Sequential(FormulaSchedule):
    """The sum over all operations, each as often as it is done."""

    def lane(self, op: Op) -> str:
        """All on one lane."""
        return "all"

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """time.all"""
        return Formula(symbol("time.all"), "s", "sum of parts")
