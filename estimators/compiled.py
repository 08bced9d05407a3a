"""One point and a million are the same code: an estimator as a function of the quantities left free."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from estimators.formula import FloatArray, Formula, evaluate
from estimators.operation.model import amount_of
from estimators.parameters import Parameter
from hwmodels.expressions import symbol
from hwmodels.files import InputError, unknown_name
from hwmodels.machine import Machine
from workloads.cost import Amount, symbols_of
from workloads.workload import Op, Workload

NAMESPACES = ("machine", "workload", "run", "estimator")
CHUNK_BYTES = 64_000_000


@dataclass(frozen=True)
class Group:
    """Operations under one formula: the distinct rows of their amounts, and how often each stands on which lane."""

    formula: Formula
    amounts: Mapping[str, tuple[Amount, ...]]
    multiplicity: Mapping[str, tuple[Amount, ...]]


@dataclass(frozen=True)
class Compiled:
    """Times as a function of arrays, made by `Composite.compile`; call it with one array a free name.

    Parameters
    ----------
    free
        Dotted names with their namespace.
    base
        The values of every other quantity that the formulas name.
    machine, bounds
        What the arrays are checked against.
    """

    groups: tuple[Group, ...]
    schedule: Formula
    base: Mapping[str, float]
    free: tuple[str, ...]
    machine: Machine
    bounds: Mapping[str, Parameter]

    def __call__(self, values: Mapping[str, npt.ArrayLike]) -> FloatArray:
        """Seconds, in the shape to which the arrays broadcast; computed in chunks of bounded memory.

        Raises
        ------
        InputError
            Where a free name has no array, an unknown one is given, or a value is out of its range.
        """
        for name in values:
            if name not in self.free:
                raise unknown_name("free quantity", name, self.free)
        missing = [name for name in self.free if name not in values]
        if missing:
            raise InputError(f"no array for the free quantity {', '.join(missing)}")
        arrays = {name: np.asarray(values[name], dtype=np.float64) for name in self.free}
        for name, array in arrays.items():
            self._check(name, array)
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values())) if arrays else ()
        widest = max((len(rows) for group in self.groups for rows in group.multiplicity.values()), default=1)
        limit = max(1, CHUNK_BYTES // (8 * max(1, widest)))
        if int(np.prod(shape)) <= limit or not shape:
            return np.array(np.broadcast_to(self._evaluate(arrays), shape))
        result = np.empty(shape)
        axis = int(np.argmax(shape))
        step = max(1, limit * shape[axis] // int(np.prod(shape)))
        for start in range(0, shape[axis], step):
            window = slice(start, min(start + step, shape[axis]))
            part = {name: _window(array, axis, len(shape), window) for name, array in arrays.items()}
            result[(slice(None),) * axis + (window,)] = self._evaluate(part)
        return result

    def _evaluate(self, arrays: Mapping[str, FloatArray]) -> FloatArray:
        by_symbol = {
            name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(("workload.", "run."))
        }
        values: dict[str, Any] = {**self.base, **arrays}
        columns = {name: value[..., None] if np.ndim(value) else value for name, value in values.items()}
        totals: dict[str, Any] = {}
        for group in self.groups:
            row_values = {**columns, **{name: _row(amounts, by_symbol) for name, amounts in group.amounts.items()}}
            times = group.formula.evaluate(row_values)
            for lane, multiplicity in group.multiplicity.items():
                weights = _row(multiplicity, by_symbol)
                totals[f"time.{lane}"] = totals.get(f"time.{lane}", 0.0) + _dot(times, weights)
                totals[f"count.{lane}"] = totals.get(f"count.{lane}", 0.0) + np.sum(weights, axis=-1)
        for name in self.schedule.names:
            if name.partition(".")[0] in ("time", "count"):
                totals.setdefault(name, 0.0)
        return np.asarray(self.schedule.evaluate({**values, **totals}))

    def _check(self, name: str, array: FloatArray) -> None:
        if array.size == 0:
            raise InputError(f"{name}: no values")
        if not np.all(np.isfinite(array)):
            raise InputError(f"{name}: values must be finite")
        low, high = float(array.min()), float(array.max())
        space, _, path = name.partition(".")
        if space == "machine":
            whole = isinstance(self.machine.get(path), int)
            if whole and not np.all(array == np.round(array)):
                raise InputError(f"{name} = {float(array[array != np.round(array)].flat[0]):g}: want whole numbers")
            for value in (low, high):
                self.machine.using({path: int(value) if whole else value})
        elif space == "estimator":
            for value in (low, high):
                self.bounds[path].check(name, value)
        elif low <= 0:
            raise InputError(f"{name} = {low:g}: want values > 0")


def _dot(times: FloatArray, weights: FloatArray) -> FloatArray:
    if weights.ndim != 1 or times.ndim == 0:
        return np.asarray(np.sum(times * weights, axis=-1))
    if times.shape[-1] == 1:
        return np.asarray(times[..., 0] * weights.sum())
    return np.asarray(times @ weights)


def _window(array: FloatArray, axis: int, dimensions: int, window: slice) -> FloatArray:
    own_axis = axis - (dimensions - array.ndim)
    if own_axis < 0 or array.shape[own_axis] == 1:
        return array
    return np.asarray(array[(slice(None),) * own_axis + (window,)])


def _row(amounts: Sequence[Amount], by_symbol: Mapping[str, FloatArray]) -> FloatArray:
    """Amounts of all rows along a last axis; those with open symbols take the symbols' shape before it."""
    if not any(symbols_of(amount) for amount in amounts):
        return np.array([float(amount) for amount in amounts])
    columns = [evaluate(amount, by_symbol) if symbols_of(amount) else np.float64(amount) for amount in amounts]
    return np.stack(np.broadcast_arrays(*columns), axis=-1)


def groups_of(
    formulas: Sequence[tuple[Formula, list[int]]], operations: Sequence[Op], lane: Callable[[Op], str]
) -> tuple[Group, ...]:
    """Operations by formula, equal rows merged."""
    groups = []
    for formula, indices in formulas:
        names = [name for name in formula.names if name.startswith("operation.")]
        rows: dict[tuple[Amount, ...], dict[str, Amount]] = {}
        for index in indices:
            op = operations[index]
            row = tuple(amount_of(op, name) for name in names)
            lanes = rows.setdefault(row, {})
            lanes[lane(op)] = lanes.get(lane(op), 0) + op.times
        amounts = {name: tuple(row[i] for row in rows) for i, name in enumerate(names)}
        lanes_seen = sorted({own for lanes in rows.values() for own in lanes})
        multiplicity = {own: tuple(lanes.get(own, 0) for lanes in rows.values()) for own in lanes_seen}
        groups.append(Group(formula, amounts, multiplicity))
    return tuple(groups)


def constant_group(times: FloatArray, operations: Sequence[Op], lane: Callable[[Op], str]) -> Group:
    """Operations whose times do not vary (a measured table), under a schedule that does."""
    lanes = [lane(op) for op in operations]
    multiplicity = {
        own: tuple(op.times if its == own else 0 for op, its in zip(operations, lanes, strict=True))
        for own in sorted(set(lanes))
    }
    formula = Formula(symbol("operation.seconds"), "s", "times of operations that do not vary")
    return Group(formula, {"operation.seconds": tuple(map(float, times))}, multiplicity)


@dataclass(frozen=True)
class PointByPoint:
    """The same call for estimators that are no formula: a loop over the points.

    Parameters
    ----------
    estimator
        Has `at(workload, machine, run, point)`, seconds at one point.
    """

    estimator: Any
    workload: Workload
    machine: Machine
    run: Mapping[str, float]
    free: tuple[str, ...]

    def at(self, point: Mapping[str, float]) -> float:
        """Seconds at one point."""
        return float(self.estimator.at(self.workload, self.machine, self.run, point))

    def __call__(self, values: Mapping[str, npt.ArrayLike]) -> FloatArray:
        """Seconds, in the shape to which the arrays broadcast."""
        for name in self.free:
            if name not in values:
                raise InputError(f"no array for the free quantity {name}")
        arrays = np.broadcast_arrays(*(np.asarray(values[name], dtype=np.float64) for name in self.free))
        shape = arrays[0].shape if arrays else ()
        points = zip(*(array.ravel() for array in arrays), strict=True) if arrays else [()]
        times = [self.at(dict(zip(self.free, map(float, point), strict=True))) for point in points]
        return np.array(times).reshape(shape)


def check_free(free: Sequence[str]) -> None:
    """Raise InputError where a free name has no namespace."""
    for name in free:
        if name.partition(".")[0] not in NAMESPACES or "." not in name:
            raise InputError(f"free quantity {name!r}: want a name such as machine.clock ({'., '.join(NAMESPACES)}.)")
