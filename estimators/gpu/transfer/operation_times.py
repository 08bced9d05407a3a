"""Measured times of single operations on one machine: rows by column, and what a model says of the same rows.

Some rows stand for what one would measure first on a new machine (anchors). Others no machine can do: faster than its
arithmetic, or than its main memory for what no cache holds. Those are measured wrongly, or labelled wrongly (another
device, dtype, or shape), and a fit must not learn them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import is_symbolic, sp
from slipstick.common.size_column import SizeColumn
from slipstick.estimators.base.operation_model import FormulaModel, amount_of, machine_values
from slipstick.estimators.gpu.kernels.kernel_classes import apart, class_of
from slipstick.estimators.roofline.physical_bound import TOLERANCE, PhysicalBound
from slipstick.estimators.roofline.roofline import serving_rate
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified import evaluate
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.kinds import KINDS, SIZE_BYTES, operation
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


MAX_DISTANCE = 3.0
"""How far (in doublings, over all dims) the row that stands for an anchor may lie from the requested one."""


@dataclass(frozen=True)
class Anchor:
    """A row to measure on a new machine: class of operations and dims; the nearest measured row stands for it."""

    name: str
    dims: Mapping[str, float]


def taken(
    forms: Sequence[OperationTimes], anchors: Sequence[Anchor]
) -> tuple[list[OperationTimes], list[OperationTimes]]:
    """The forms without the rows that stand for anchors, and those rows.

    Raises InputError where an anchor has a dim that its operation lacks.
    """
    left, measured = list(forms), []
    for anchor in anchors:
        best: tuple[float, int, int] | None = None
        for place, form in enumerate(left):
            if anchor.name not in (form.name, f"{form.op.kind}.{form.op.dtype}") or len(form) < 2:
                continue
            unknown = sorted(set(anchor.dims) - set(form.op.dims))
            if unknown:
                known = ", ".join(form.op.dims)
                raise InputError(f"anchor of {anchor.name}: unknown dim {unknown[0]!r} (known: {known})")
            steps = [np.abs(np.log2(form.column(dim) / size)) for dim, size in anchor.dims.items()]
            away = np.sum(steps, axis=0)
            row = int(np.argmin(away))
            if best is None or away[row] < best[0]:
                best = (float(away[row]), place, row)
        if best and best[0] <= MAX_DISTANCE:
            _, place, row = best
            form = left[place]
            measured.append(form.some(np.array([row])))
            left[place] = form.some(np.delete(np.arange(len(form)), row))
    return left, measured


@dataclass(frozen=True)
class Violation:
    """Rows of one form that no machine of these numbers can have done.

    `rows`: their places in the form.
    `total`: rows of the form.
    `bound`: which one: "arithmetic", "main memory".
    `worst`: bound over time of the worst row: how many times too fast.
    `example`: that row in words.
    """

    machine: str
    operation: str
    source: str
    bound: str
    rows: tuple[int, ...]
    total: int
    worst: float
    example: str


def least_times(form: OperationTimes) -> dict[str, FloatArray]:
    """Seconds that each row takes at least, by what bounds it ("arithmetic", "main memory"; `PhysicalBound`), shape
    (rows,). Keys and values may be stored in a narrower dtype than the rest."""
    op, stored = form.op, str(form.op.attributes.get("kv_dtype", form.op.dtype))
    if op.kind == "attention" and stored != op.dtype:
        sizes = (op.dims[name] for name in ("batch", "kv_heads", "keys"))
        elements = math.prod(sizes) * (op.dims["head_dim"] + op.dims["value_dim"])
        spared = elements * (SIZE_BYTES[op.dtype] - SIZE_BYTES[stored])
        op = replace(op, cost=Cost({**op.cost, "read": op.cost["read"] - spared}))
    bound = op.bind({name: column.view(SizeColumn) for name, column in form.dims.items()})
    bounds = PhysicalBound(form.machine).bounds((bound,))
    return {name: np.broadcast_to(np.ravel(seconds), len(form)) for name, seconds in bounds.items()}


def violations(forms: Sequence[OperationTimes]) -> list[Violation]:
    """Every form and bound that some rows undercut by more than `TOLERANCE`."""
    result = []
    for form in forms:
        for bound, least in least_times(form).items():
            ratio = least / form.times
            rows = np.flatnonzero(ratio > 1 + TOLERANCE)
            if len(rows):
                worst = int(np.argmax(ratio))
                dims = ", ".join(f"{name} {column[worst]:g}" for name, column in form.dims.items())
                example = f"{dims}: {form.times[worst] * 1e6:.4g} us, at least {least[worst] * 1e6:.4g} us"
                example += _hint(form, least, worst) if bound == "arithmetic" else ""
                result.append(
                    Violation(
                        form.machine.name,
                        form.name,
                        form.source,
                        bound,
                        tuple(map(int, rows)),
                        len(form),
                        float(ratio[worst]),
                        example,
                    )
                )
    return result


def possible(forms: Sequence[OperationTimes]) -> list[OperationTimes]:
    """The same without the rows that undercut a bound; forms of which nothing is left are gone."""
    result = []
    for form in forms:
        least = np.max(list(least_times(form).values()), axis=0)
        kept = np.flatnonzero(least / form.times <= 1 + TOLERANCE)
        if len(kept):
            result.append(form.some(kept))
    return result


def _hint(form: OperationTimes, least: FloatArray, row: int) -> str:
    """Where a narrower dtype would explain the time."""
    machine, dtype = form.machine, form.op.dtype
    if dtype != "float32":
        return ""
    peak = machine.peak(*serving_rate(machine, "matrix", dtype))
    for other in ("tfloat32", "bfloat16", "float16"):
        for engine in machine.engines.values():
            if other in engine.flop_per_cycle:
                rate = engine.flop_per_cycle[other] * machine.clock * machine.cores
                if least[row] * peak / rate <= form.times[row] * (1 + TOLERANCE):
                    return f" (within the peak of {other})"
    return ""
