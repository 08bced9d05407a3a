"""Measured times of operations, looked up by what they are, where they ran and how they were measured."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import Clock, FormulaModel, amount_of
from slipstick.estimators.symbolic.formula import CheckedParameters, Formula, Parameter
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Op


class OfOneMachine(FormulaModel):
    """Times that were measured on one machine, for which alone they hold."""

    def runs_at(self) -> Clock:
        """That of the measurement, under the cap."""
        return "held"

    def check_free(self, free: Sequence[str]) -> None:
        """Refuse every quantity of the machine: measured times hold for the machine that was measured.

        Raises
        ------
        InputError
            Where one is free.
        """
        for name in free:
            if name.startswith("machine."):
                raise InputError(f"{name} cannot vary: measured times do not answer a what-if on the machine")


@dataclass(frozen=True)
class MeasuredTimes(CheckedParameters, OfOneMachine):
    """t = scale x ((1 - warmth) x seconds + warmth x warm) + overhead, of one execution.

    Parameters
    ----------
    seconds
        By operation: its attribute `measured_as` where it has one, else its identity.
    fingerprint
        Of the machine measured; a changed machine is refused, since the old times say nothing about it.
    protocol, source
        How and by whom they were measured.
    warm
        The same operations with their weights and code in the cache, where that was measured too; inside a model an
        operation finds some of both there.
    hint
        What to measure where a time is missing.
    """

    seconds: FrozenDict[float]
    fingerprint: str
    protocol: str = ""
    source: str = ""
    scale: Annotated[float, Parameter("1", "time inside a model over time alone", 0.01, 100.0)] = 1.0
    overhead: Annotated[float, Parameter("s", "of the framework for each operation in a model", -1e-3, 1.0)] = 0.0
    warm: FrozenDict[float] = FrozenDict()
    hint: str = ""
    warmth: Annotated[float, Parameter("1", "share of the way from cold to warm inside a model", -4.0, 1.0)] = 0.0

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds of one execution of each operation, shape (operations,).

        Raises
        ------
        InputError
            Where the machine is another than the measured one, or an operation was not measured.
        """
        missing = [op.name for op in operations if measured_key(op) not in self.seconds]
        if missing:
            named = f"{', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}"
            raise InputError(f"no measured time for {named}{self.hint and f'; {self.hint}'}")
        return FormulaModel.times(self, operations, machine)

    def key(self, op: Op, machine: Machine) -> Hashable:
        """One formula for all.

        Raises
        ------
        InputError
            Where the machine is not the measured one.
        """
        if machine.fingerprint != self.fingerprint:
            raise InputError(
                f"machine {machine.name!r} is not the measured one (fingerprint {machine.fingerprint}, measured "
                f"{self.fingerprint}): measured times do not answer a what-if on the machine"
            )
        return "measured"

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.measured_s (and operation.warm_s), parameter.scale, .warmth, .overhead."""
        alone = symbol("operation.measured_s")
        if self.warm:
            warmth = symbol("parameter.warmth")
            alone = (1 - warmth) * alone + warmth * symbol("operation.warm_s")
        return Formula(symbol("parameter.scale") * alone + symbol("parameter.overhead"), "s", self.source)

    def amount(self, op: Op, name: str) -> Amount:
        """The measured seconds from the table; anything else from the operation.

        Raises
        ------
        InputError
            Where the operation was not measured.
        """
        table = {"operation.measured_s": self.seconds, "operation.warm_s": self.warm}.get(name)
        if table is None:
            return amount_of(op, name)
        seconds = table.get(measured_key(op))
        if seconds is None:
            raise InputError(f"no measured time for {op.name}")
        return seconds


def measured_key(op: Op) -> str:
    """The key of an operation in a table of measured times."""
    return str(op.attributes.get("measured_as") or op.identity)
