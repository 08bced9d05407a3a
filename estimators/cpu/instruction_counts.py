"""Instructions over the clock: strategy (a) of Viebke et al. 2019, for any graph."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated

from slipstick.common.expressions import symbol
from slipstick.estimators.base.operation_model import FormulaModel, amount_of
from slipstick.estimators.symbolic.formula import CheckedParameters, Formula, Parameter
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.instruction_count import counted_instructions
from slipstick.workloads.graph.workload import Op


@dataclass(frozen=True)
class InstructionCount(CheckedParameters, FormulaModel):
    """t = operation_factor x instructions / clock, for one thread that has its core to itself.

    Instructions are the workload's where it states them (resource `instructions`), else counted from flop, bytes and
    data type (`workloads.instruction_count`).
    """

    operation_factor: Annotated[
        float, Parameter("1", "cycles a counted instruction takes; absorbs vectorisation (Table III: 15)", 1e-3, 1e4)
    ] = 15.0

    def key(self, op: Op, machine: Machine) -> Hashable:
        """One formula for all."""
        return "instructions"

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.instructions, machine.clock, parameter.operation_factor."""
        expression = symbol("parameter.operation_factor") * symbol("operation.instructions") / symbol("machine.clock")
        return Formula(expression, "s", "Viebke et al. 2019, Table V")

    def amount(self, op: Op, name: str) -> Amount:
        """Instructions as stated or counted; anything else from the operation."""
        return counted_instructions(op) if name == "operation.instructions" else amount_of(op, name)
