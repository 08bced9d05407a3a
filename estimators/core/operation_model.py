"""What an operation model is: seconds of one execution of each operation on a machine."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.parameters import parameters
from slipstick.hwmodels.files.readers import InputError, unknown_name
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import RESOURCES, Amount
from slipstick.workloads.graph.kinds import KINDS
from slipstick.workloads.graph.workload import Op

Clock = Literal["nominal", "held"]
"""The machine's own clock, whatever that draws; or the one that its power cap leaves."""


@runtime_checkable
class OperationModel(Protocol):
    """Times of operations on a machine: learned, measured, or by formula."""

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds of one execution of each operation, shape (operations,)."""
        ...


@runtime_checkable
class FormulaModel(OperationModel, Protocol):
    """An operation model that is a formula, one for each class of operations.

    Classes inherit `times` from here and give `key` and `formula`. Symbols of the formula: ``operation.NAME`` (a
    resource of the cost, ``operation.bytes_moved``, ``operation.flop`` or a dim), ``machine.PATH``, ``parameter.NAME``.
    """

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Operations of equal key share a formula."""
        ...

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Seconds of one execution."""
        ...

    def amount(self, op: Op, name: str) -> Amount:
        """What stands for a formula's symbol ``operation.NAME``; a model with a table of its own looks there."""
        return amount_of(op, name)

    def caches(self, machine: Machine) -> str:
        """What the times take for granted of the caches, in words; empty where caches do not matter."""
        return ""

    def runs_at(self) -> Clock:
        """The clock whose times these are."""
        return "nominal"

    def check_free(self, free: Sequence[str]) -> None:
        """Raise InputError where the formulas do not hold while one of these quantities (machine.PATH, ...) varies."""
        return

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds of one execution of each operation, shape (operations,)."""
        times = np.empty(len(operations))
        fitted = {f"parameter.{name}": value for name, (value, _) in parameters(self).items()}
        for formula, indices in grouped(self, operations, machine):
            values: dict[str, Any] = {**fitted, **machine_values(formula, machine)}
            for name in formula.names:
                if name.startswith("operation."):
                    values[name] = np.array([float(self.amount(operations[i], name)) for i in indices])
            times[indices] = formula.evaluate(values)
        return times


def grouped(model: FormulaModel, operations: Sequence[Op], machine: Machine) -> list[tuple[Formula, list[int]]]:
    """Formulas with the indices of the operations they serve.

    Raises
    ------
    InputError
        Where a formula is not in seconds.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, op in enumerate(operations):
        groups.setdefault(model.key(op, machine), []).append(index)
    formulas = [(model.formula(operations[indices[0]], machine), indices) for indices in groups.values()]
    for formula, indices in formulas:
        if formula.unit != "s":
            name = operations[indices[0]].name
            raise InputError(
                f"the formula of operation {name!r} is in {formula.unit!r}: an operation model answers in 's'"
            )
    return formulas


def amount_of(op: Op, name: str) -> Amount:
    """The amount behind a formula's symbol ``operation.NAME``; 0 for a resource that the operation does not use.

    Raises
    ------
    InputError
        Where NAME is no resource, and neither a dimension of the operation nor of its kind.
    """
    part = name.removeprefix("operation.")
    if part == "bytes_moved":
        return op.cost.bytes_moved
    if part == "flop":
        return op.cost.flop
    if part in op.dims:
        return op.dims[part]
    dims = (*KINDS[op.kind].dims, *KINDS[op.kind].optional) if op.kind in KINDS else ()
    if part in dims or part.partition(".")[0] in RESOURCES:
        return op.cost[part]
    known = [f"operation.{one}" for one in ("flop", "bytes_moved", *(dims or op.dims), *RESOURCES)]
    raise unknown_name(f"amount of operation {op.name!r} ({op.kind})", name, known)


def machine_values(formula: Formula, machine: Machine) -> Mapping[str, float]:
    """The machine's numbers that a formula names."""
    return {
        name: float(machine.get(name.removeprefix("machine."))) for name in formula.names if name.startswith("machine.")
    }


def require_bound(op: Op) -> None:
    """Check that an operation has no open symbols.

    Raises
    ------
    InputError
        Where it has.
    """
    if op.symbols:
        raise InputError(f"operation {op.name!r} has open symbols {', '.join(sorted(op.symbols))}: bind them first")
