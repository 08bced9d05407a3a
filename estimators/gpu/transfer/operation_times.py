"""Measured times of single operations on one machine, by column, and what a model says of the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.lazy_sympy import is_symbolic, sp
from slipstick.estimators.base.operation_model import FormulaModel, amount_of, machine_values
from slipstick.estimators.gpu.kernels.kernel_classes import apart, class_of
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified import FloatArray, evaluate
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import KINDS, operation
from slipstick.workloads.graph.workload import Attribute, Op

FIXED = ("groups", "in_depth", "out_depth", "kernel_depth", "kernel_height", "kernel_width")
"""Dims of a convolution that stand as numbers: they decide the form of a formula."""


@dataclass(frozen=True, eq=False)
class OperationTimes:
    """Operations of one form (kind, dtype, attributes) that were timed on one machine.

    `machine`: as it was used.
    `op`: one operation whose dims are symbols of their own name, or numbers where all rows have the same.
    `dims`: of each row, by symbol; arrays of one length.
    `times`: seconds, shape (rows,).
    `source`: the file that they come from.
    """

    machine: Machine
    op: Op
    dims: Mapping[str, FloatArray]
    times: FloatArray
    source: str = ""

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def of(
        cls,
        machine: Machine,
        kind: str,
        dtype: str,
        dims: Mapping[str, npt.ArrayLike],
        times: npt.ArrayLike,
        attributes: Mapping[str, Attribute] | None = None,
        source: str = "",
    ) -> OperationTimes:
        """From columns; dims that decide the form of an operation must be one number.

        Raises InputError where kind, dtype or a dim is unknown or missing, or a time or dim is not positive.
        """
        measured = np.asarray(times, dtype=np.float64)
        columns = {name: np.broadcast_to(np.asarray(v, dtype=np.float64), measured.shape) for name, v in dims.items()}
        for name, column in [("time", measured), *columns.items()]:
            if not (np.all(np.isfinite(column)) and np.all(column > 0)):
                raise InputError(f"{kind} on {machine.name}: {name} = {float(np.min(column))!r}: want numbers > 0")
        numbers: dict[str, Any] = {}
        one = apart(f"{kind}.{dtype}")
        for name, column in columns.items():
            fixed = name in FIXED and kind == "convolution"
            single = one is not None and name == one.dim and bool(np.all(column == 1))
            if fixed and len(np.unique(column)) > 1:
                raise InputError(f"{kind} on {machine.name}: rows of several {name} are several forms: split them")
            numbers[name] = int(column[0]) if fixed or single else sp.Symbol(name, positive=True)
        op = operation("row", kind, numbers, dtype, dict(attributes or {}))
        varying = {name: column for name, column in columns.items() if isinstance(numbers[name], sp.Symbol)}
        return cls(machine, op, varying, measured, source)

    @property
    def name(self) -> str:
        """Of the class of operations, as `TiledRoofline.kernels` has them."""
        return class_of(self.op)

    def some(self, index: npt.NDArray[Any] | slice) -> OperationTimes:
        """Some of the rows."""
        return replace(self, dims={name: column[index] for name, column in self.dims.items()}, times=self.times[index])

    def amount(self, name: str) -> FloatArray:
        """An amount of every row, by a formula's name for it (``operation.bytes_moved``)."""
        amount = amount_of(self.op, name)
        value = evaluate(amount, self.dims) if is_symbolic(amount) else float(amount)
        return np.broadcast_to(np.asarray(value, dtype=np.float64), self.times.shape)

    def column(self, dim: str) -> FloatArray:
        """A dim of every row."""
        value = self.dims.get(dim)
        return np.full(len(self), float(self.op.dims[dim])) if value is None else value

    def place(self) -> FloatArray:
        """Rows as points: binary logarithms of their dims, shape (rows, dims of the kind)."""
        return np.stack([np.log2(self.column(name)) for name in KINDS[self.op.kind].dims], axis=1)


@dataclass(frozen=True, eq=False)
class RowFormula(Formula):
    """Times of given rows, of one or several forms, as a function of a model's parameters alone.

    `rows`: for each form: its formula, the values of everything but parameters, and how many rows it has.
    """

    rows: tuple[tuple[Formula, Mapping[str, Any], int], ...] = field(default=())

    @classmethod
    def of(cls, model: FormulaModel, forms: Sequence[OperationTimes]) -> RowFormula:
        """What a model says of the rows of `forms`, one after the other."""
        rows = []
        for form in forms:
            formula = _formula(model, form.op, form.machine)  # type: ignore[arg-type]  # models are frozen records
            values: dict[str, Any] = dict(machine_values(formula, form.machine))
            values |= {name: form.amount(name) for name in formula.names if name.startswith("operation.")}
            rows.append((formula, values, len(form)))
        return cls(sp.Integer(0), "s", "times of measured rows", rows=tuple(rows))

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that any form has."""
        result = {name for formula, values, _ in self.rows for name in formula.names if name not in values}
        return tuple(sorted(result))

    def evaluate(self, values: Mapping[str, Any]) -> FloatArray:
        """Seconds of every row, shape (..., rows): values may have axes of their own before a last one of length 1."""
        parts = [np.atleast_1d(formula.evaluate({**known, **values})) for formula, known, _ in self.rows]
        front = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
        counts = [count for *_, count in self.rows]
        wide = [np.broadcast_to(part, (*front, count)) for part, count in zip(parts, counts, strict=True)]
        return np.concatenate(wide, axis=-1)


@lru_cache(maxsize=1024)
def _formula(model: FormulaModel, op: Op, machine: Machine) -> Formula:
    """Made once for all fits and forecasts of a class on a machine."""
    return model.formula(op, machine)


def joined_times(forms: Sequence[OperationTimes]) -> FloatArray:
    """Measured seconds of several forms, one after the other."""
    return np.concatenate([form.times for form in forms])


def thinned(forms: Sequence[OperationTimes], count: int, seed: int = 4) -> list[OperationTimes]:
    """At most about `count` rows of several forms together, spread evenly at random, always the same."""
    total = sum(len(form) for form in forms)
    if total <= count:
        return list(forms)
    generator = np.random.default_rng(seed)
    result = []
    for form in forms:
        kept = max(1, round(len(form) * count / total))
        index = np.sort(generator.choice(len(form), size=min(kept, len(form)), replace=False))
        result.append(form.some(index))
    return result
