"""What an operation model is: seconds of one execution of each operation on a machine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal, Protocol, TypeGuard, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.readers import unknown_name
from slipstick.common.records import Same
from slipstick.common.size_column import aligned
from slipstick.estimators.symbolic.formula import Formula, parameters
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable
from slipstick.estimators.symbolic.lambdified.formula_cache import Formulas, formulas_of, promises
from slipstick.hwmodels.machine import STATED, Machine
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
class BoundingModel(OperationModel, Protocol):
    """An operation model that knows what bounds each operation."""

    def bounds(self, operations: Sequence[Op], machine: Machine) -> list[str | None]:
        """What bounds each bound operation ("compute", "memory", ...), shape (operations,); None where unknown."""
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

    def amounts(self, operations: Sequence[Op], name: str) -> list[Amount]:
        """`amount` of operations of one key, shape (operations,); what depends on the name alone is found once."""
        if type(self).amount is FormulaModel.amount:
            return amounts_of(operations, name)
        return [self.amount(op, name) for op in operations]

    def caches(self, machine: Machine) -> str:
        """What the times take for granted of the caches, in words; empty where caches do not matter."""
        return ""

    def runs_at(self) -> Clock:
        """The clock whose times these are."""
        return "nominal"

    def check_free(self, free: Sequence[str]) -> None:
        """Raise InputError where the formulas do not hold while one of these quantities (machine.PATH, ...) varies."""
        return

    def holds_open(self, op: Op, machine: Machine) -> bool:
        """Whether the formula of an operation with open sizes holds for all of them: its class depends on none."""
        return True

    def form(self, machine: Machine) -> Hashable:
        """All that decides the formulas, beside an operation's key, where that is less than the model and the machine.

        Two models of one class whose forms are equal have equal formulas for equal keys: they may be kept. None:
        nothing is promised. Return `Machine.form` where no magnitude of the machine is read as a number.
        """
        return None

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds of one execution of each operation, shape (operations,); of sizes in columns (operations, points)."""
        parts: list[tuple[npt.NDArray[np.intp], FloatArray]] = []
        numbers = {f"parameter.{name}": value for name, (value, _) in parameters(self).items()}
        for rows in rows_of(self, operations, machine):
            for name, path in _paths(rows.formula.names):
                if name not in numbers:
                    numbers[name] = float(machine.get(path))
            parts.append((rows.indices, rows.formula.evaluate({**numbers, **rows.amounts})))
        points = max((made.shape[1:] for _, made in parts if made.ndim > 1), default=())
        times = np.empty((len(operations), *points))
        for indices, made in parts:
            times[indices] = made if made.ndim in (0, len(points) + 1) else made[:, None]
        return times

    def bounds(self, operations: Sequence[Op], machine: Machine) -> list[str | None]:
        """What bounds each operation: the largest term of its formula; None where it has none."""
        bounds: list[str | None] = [None] * len(operations)
        fitted = {f"parameter.{name}": value for name, (value, _) in parameters(self).items()}
        for rows in rows_of(self, operations, machine):
            terms = rows.formula.terms
            if not terms:
                continue
            names, sides = list(terms), []
            for steps in terms.values():
                values = {**fitted, **machine_values(steps, machine), **rows.amounts}
                sides.append(np.broadcast_to(steps(values), len(rows.indices)))
            for index, side in zip(rows.indices.tolist(), np.argmax(np.stack(sides), axis=0).tolist(), strict=True):
                bounds[index] = names[side]
        return bounds


class JointModel(FormulaModel):
    """Several models, each of which answers for some operations (`answering`).

    Their parameters have the names of the parts before theirs. The first part says caches and clock.
    """

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, FormulaModel]:
        """The models by name."""

    @abstractmethod
    def answering(self, op: Op) -> tuple[str, ...]:
        """Names of the parts whose formulas make an operation's; the last one counts its amounts."""

    def key(self, op: Op, machine: Machine) -> Hashable:
        """The parts that answer, and their keys."""
        return tuple((name, self.parts[name].key(op, machine)) for name in self.answering(op))

    def holds_open(self, op: Op, machine: Machine) -> bool:
        """Where each part that answers does."""
        return all(self.parts[name].holds_open(op, machine) for name in self.answering(op))

    def form(self, machine: Machine) -> Hashable:
        """The forms of all parts, and their classes; None where one has none."""
        forms = []
        for name, part in self.parts.items():
            module, form = type(part).__module__, promised_form(part, machine)
            if form is None or not module.startswith("slipstick."):
                return None
            forms.append((name, f"{module}.{type(part).__qualname__}", form))
        return tuple(forms)

    def formula(self, op: Op, machine: Machine) -> Formula:
        """That of the part that answers."""
        return self.formula_of(self.answering(op)[0], op, machine)

    def formula_of(self, name: str, op: Op, machine: Machine) -> Formula:
        """The formula of a part, its parameters renamed."""
        part = self.parts[name]
        renamed = {f"parameter.{one}": symbol(f"parameter.{name}.{one}") for one in parameters(part)}
        return part.formula(op, machine).substitute(renamed)

    def amount(self, op: Op, name: str) -> Amount:
        """As the part counts it."""
        return self.parts[self.answering(op)[-1]].amount(op, name)

    def caches(self, machine: Machine) -> str:
        """As the first part has them."""
        return next(iter(self.parts.values())).caches(machine)

    def runs_at(self) -> Clock:
        """As the first part."""
        return next(iter(self.parts.values())).runs_at()

    def check_free(self, free: Sequence[str]) -> None:
        """Raise InputError where one of the parts does."""
        for part in self.parts.values():
            part.check_free(free)


def is_formula(model: object) -> TypeGuard[FormulaModel]:
    """`isinstance`, which lists the members of a protocol at every call, for what does not inherit from it."""
    return FormulaModel in type(model).__mro__ or isinstance(model, FormulaModel)


@dataclass(frozen=True, eq=False)
class FormulaRows:
    """Operations of one formula.

    `indices`: their places among all operations.
    `amounts`: what the formula and its terms read of them, by name, see `aligned`.
    """

    formula: Evaluable
    indices: npt.NDArray[np.intp]
    amounts: Mapping[str, FloatArray]


def rows_of(model: FormulaModel, operations: Sequence[Op], machine: Machine) -> tuple[FormulaRows, ...]:
    """Bound operations by formula, ready to be evaluated; kept for the last few tuples of operations.

    Raises InputError where a formula is in no seconds, or an amount is unknown.
    """
    form = promised_form(model, machine)
    if form is None or not isinstance(operations, tuple):
        return _rows(model, operations, machine, Formulas())
    kept = _cached_rows(type(model), form, _counted_by(model), Same(operations))
    if not kept:
        kept.extend(_rows(model, operations, machine, formulas_of(type(model), form)))
    return tuple(kept)


def promised_form(model: FormulaModel, machine: Machine) -> Hashable:
    """The form of a model's formulas (`FormulaModel.form`); None where it says nothing of the formulas that it has.

    A class that replaces `formula` or `key` and not `form` has formulas that the inherited form knows nothing of.
    """
    return model.form(machine) if promises(type(model), "formula", "key") else None


def _counted_by(model: FormulaModel) -> Hashable:
    """The model where it counts amounts in a way of its own; of others the names of parameters, as keys hold some."""
    return tuple(parameters(model)) if type(model).amount is FormulaModel.amount else cast(Hashable, model)


@lru_cache(maxsize=8)
def _cached_rows(
    kind: type, form: Hashable, counted_by: Hashable, operations: Same[tuple[Op, ...]]
) -> list[FormulaRows]:
    """The place for the rows of some operations; empty at first."""
    return []


def _rows(model: FormulaModel, operations: Sequence[Op], machine: Machine, known: Formulas) -> tuple[FormulaRows, ...]:
    groups: dict[Hashable, list[int]] = {}
    for index, op in enumerate(operations):
        groups.setdefault(model.key(op, machine), []).append(index)
    rows = []
    for key, indices in groups.items():
        alike = [operations[index] for index in indices]
        formula = known.get(repr(key), partial(_lowered, model, alike[0], machine))
        amounts = aligned({name: model.amounts(alike, name) for name in formula.amounts})
        for amount in amounts.values():
            amount.flags.writeable = False
        rows.append(FormulaRows(formula, np.array(indices, dtype=np.intp), amounts))
    known.keep()
    return tuple(rows)


def _lowered(model: FormulaModel, op: Op, machine: Machine) -> Evaluable:
    return _in_seconds(model.formula(op, machine), op).lowered


def _in_seconds(formula: Formula, op: Op) -> Formula:
    if formula.unit != "s":
        raise InputError(
            f"the formula of operation {op.name!r} is in {formula.unit!r}: an operation model answers in 's'"
        )
    return formula


def grouped(model: FormulaModel, operations: Sequence[Op], machine: Machine) -> list[tuple[Formula, list[int]]]:
    """Formulas with the indices of the operations they serve.

    Raises InputError where a formula is not in seconds.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, op in enumerate(operations):
        groups.setdefault(model.key(op, machine), []).append(index)
    firsts = [(operations[indices[0]], indices) for indices in groups.values()]
    return [(_in_seconds(model.formula(first, machine), first), indices) for first, indices in firsts]


def amount_of(op: Op, name: str) -> Amount:
    """The amount behind a formula's symbol ``operation.NAME``; 0 for a resource that the operation does not use.

    Raises InputError where NAME is no resource, and neither a dimension of the operation nor of its kind.
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


def amounts_of(operations: Sequence[Op], name: str) -> list[Amount]:
    """`amount_of` of each operation, shape (operations,); what the name is, is found once."""
    part = name.removeprefix("operation.")
    if part == "bytes_moved":
        return [op.cost.bytes_moved for op in operations]
    if part == "flop":
        return [op.cost.flop for op in operations]
    if part in ("read", "written") or part.startswith("flop."):
        return [op.dims[part] if part in op.dims else op.cost[part] for op in operations]
    return [op.dims[part] if part in op.dims else amount_of(op, name) for op in operations]


class Named(Protocol):
    """What knows the names of its symbols."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the symbols, sorted."""
        ...


def machine_values(formula: Named, machine: Machine) -> Mapping[str, float]:
    """The machine's numbers that a formula names, and those that its file states (``stated.PATH``)."""
    return {name: float(machine.get(path)) for name, path in _paths(formula.names)}


@lru_cache(maxsize=1_024)
def _paths(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The names that are a machine's, each with its path."""
    return tuple((name, name.removeprefix("machine.")) for name in names if name.startswith(("machine.", STATED)))


def require_bound(op: Op) -> None:
    """Check that an operation has no open symbols.

    Raises InputError where it has.
    """
    if op.symbols:
        raise InputError(f"operation {op.name!r} has open symbols {', '.join(sorted(op.symbols))}: bind them first")
