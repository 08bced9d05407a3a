"""One point and a million are the same code: an estimator as a function of the quantities left free."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.choice import Least
from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.lambdified import FloatArray, compiled, names_of
from slipstick.estimators.core.operation_model import amount_of
from slipstick.estimators.core.parameters import Parameter
from slipstick.estimators.core.residency import sizes_read
from slipstick.estimators.core.schedule_model import AMOUNTS
from slipstick.estimators.core.separated import Chosen, Tables, Term, TermRows, separate
from slipstick.hwmodels.files.expressions import symbol
from slipstick.hwmodels.files.readers import InputError, unknown_name
from slipstick.hwmodels.files.records import Same
from slipstick.hwmodels.files.symbolic import sp
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Amount, symbols_of
from slipstick.workloads.graph.workload import Op, Workload

NAMESPACES = ("machine", "workload", "run", "estimator")
BLOCK_POINTS = 262_144
"""Points evaluated together: what keeps the arrays of one block in the cache."""
SHARED_BY = 8
"""Rows are made once for all points of equal symbols where at least so many share them on average."""
MAX_KNOWN = 1024


@dataclass(frozen=True)
class Group:
    """Operations under one formula: the distinct rows of their amounts, and how often each stands on which lane.

    `examples` holds an operation of each row, of which the terms of the formula may read more than the formula does.
    """

    formula: Formula
    amounts: Mapping[str, tuple[Amount, ...]]
    multiplicity: Mapping[str, tuple[Amount, ...]]
    examples: tuple[Op, ...] = ()

    @cached_property
    def symbols(self) -> frozenset[str]:
        """Open symbols of the amounts and of how often they stand."""
        columns = [*self.amounts.values(), *self.multiplicity.values()]
        return frozenset().union(*(symbols_of(amount) for column in columns for amount in column))


Lanes: TypeAlias = Mapping[str, tuple[Any, Tables]]


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
    counts
        Whether numbers that count (cores) must be whole; "continuous" for searches between whole numbers.
    """

    groups: tuple[Group, ...]
    schedule: Formula
    base: Mapping[str, float]
    free: tuple[str, ...]
    machine: Machine
    bounds: Mapping[str, Parameter]
    counts: Literal["whole", "continuous"] = "whole"

    vectorised = True
    alone = False

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
            if array.ndim or (name, float(array)) not in self._checked:
                self._check(name, array)
                if array.ndim == 0 and len(self._checked) < MAX_KNOWN:
                    self._checked.add((name, float(array)))
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values())) if arrays else ()
        known = self._known
        if int(np.prod(shape)) <= BLOCK_POINTS or not shape:
            return np.array(np.broadcast_to(self._evaluate(arrays, known), shape))
        result = np.empty(shape)
        axis = int(np.argmax(shape))
        step = max(1, BLOCK_POINTS * shape[axis] // int(np.prod(shape)))
        for start in range(0, shape[axis], step):
            window = slice(start, min(start + step, shape[axis]))
            part = {name: _window(array, axis, len(shape), window) for name, array in arrays.items()}
            result[(slice(None),) * axis + (window,)] = self._evaluate(part, known)
        return result

    @cached_property
    def _checked(self) -> set[tuple[str, float]]:
        """Single values that were in range."""
        return set()

    @cached_property
    def read(self) -> frozenset[str]:
        """Every name that has a say: those in the formulas, and free ones in the amounts of operations."""
        named = (names_of(sizes_read(group.formula.expression)) for group in self.groups)
        return frozenset(self.schedule.names).union(self._row_symbols, *named)

    @cached_property
    def _terms(self) -> tuple[tuple[Term, ...], ...]:
        """The formula of each group with the base put in, taken apart."""
        terms: list[tuple[Term, ...]] = []
        for group in self.groups:
            known = {name: self.base[name] for name in group.formula.names if name in self.base}
            if isinstance(group.formula, Least):
                terms.append((Chosen(group.formula.substitute(known)),))
                continue
            numbers = {symbol(name): sp.Float(value) for name, value in known.items()}
            expression = group.formula.expression.xreplace(numbers)
            terms.append(separate(expression, lambda name: str(name).startswith("operation.")))
        return tuple(terms)

    @cached_property
    def _known(self) -> dict[tuple[float, ...], Lanes]:
        """The rows' tables by the values of their symbols, kept from call to call: the machine does not change them."""
        return {}

    @cached_property
    def _row_symbols(self) -> tuple[str, ...]:
        """The free quantities that stand in amounts of operations."""
        inside = frozenset().union(*(group.symbols for group in self.groups)) if self.groups else frozenset()
        return tuple(name for name in self.free if name.partition(".")[2] in inside and _binds(name))

    def _evaluate(self, arrays: Mapping[str, FloatArray], known: dict[tuple[float, ...], Lanes]) -> FloatArray:
        """One block. Points that share the workload's symbols share the rows; `known` keeps those between blocks."""
        rows = [arrays[name] for name in self._row_symbols]
        inner = np.broadcast_shapes(*(array.shape for array in rows))
        if not rows or math.prod(inner) == 1:
            return self._at(arrays, known)
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
        result = np.empty(shape)
        if math.prod(inner) * SHARED_BY <= math.prod(shape):
            inner = (1,) * (len(shape) - len(inner)) + inner
            for place in np.ndindex(inner):
                window = tuple(slice(i, i + 1) if n > 1 else slice(None) for i, n in zip(place, inner, strict=True))
                part = {name: _cut(array, window) for name, array in arrays.items()}
                result[window] = self._at(part, known)
            return result
        flat = {name: np.broadcast_to(array, shape).ravel() for name, array in arrays.items()}
        together = np.column_stack([flat[name] for name in self._row_symbols])
        combinations, which = np.unique(together, axis=0, return_inverse=True)
        if len(combinations) * SHARED_BY > len(together):
            return self._at(arrays, {})
        line = np.empty(len(together))
        for index in range(len(combinations)):
            chosen = np.flatnonzero(which == index)
            part = {name: array[chosen] for name, array in flat.items()}
            part |= {name: part[name][:1] for name in self._row_symbols}
            line[chosen] = self._at(part, known)
        return line.reshape(shape)

    def _at(self, arrays: Mapping[str, FloatArray], known: dict[tuple[float, ...], Lanes]) -> FloatArray:
        rows = [arrays[name] for name in self._row_symbols]
        one = all(array.size == 1 for array in rows)
        key = tuple(float(array.flat[0]) for array in rows) if one else None
        lanes = known.get(key) if key is not None else None
        if lanes is None:
            by_symbol = {
                name.partition(".")[2]: arrays[name].flat[0] if one else arrays[name] for name in self._row_symbols
            }
            lanes = self._lanes(by_symbol)
            if key is not None and len(known) < MAX_KNOWN:
                known[key] = lanes
        values: dict[str, Any] = {**self.base, **arrays}
        totals: dict[str, Any] = {name: 0.0 for name in self.schedule.names if name.startswith(("time.", "count."))}
        for lane, (count, tables) in lanes.items():
            totals[f"count.{lane}"] = count
            totals[f"time.{lane}"] = tables.total(values)
        return np.asarray(self.schedule.evaluate({**values, **totals}))

    def _lanes(self, by_symbol: Mapping[str, Any]) -> Lanes:
        """The rows of each lane with the workload's symbols put in: how many operations, and their tables."""
        lanes: dict[str, tuple[Any, list[TermRows]]] = {}
        for group, terms in zip(self.groups, self._terms, strict=True):
            amounts = {name: amount_rows(column, by_symbol) for name, column in group.amounts.items()}
            for lane, multiplicity in group.multiplicity.items():
                weights = amount_rows(multiplicity, by_symbol)
                count, groups = lanes.get(lane, (0.0, []))
                lanes[lane] = (count + np.sum(weights, axis=0), [*groups, TermRows(terms, amounts, weights)])
        return {lane: (count, Tables.of(groups)) for lane, (count, groups) in lanes.items()}

    def _check(self, name: str, array: FloatArray) -> None:
        if array.size == 0:
            raise InputError(f"{name}: no values")
        if not np.all(np.isfinite(array)):
            raise InputError(f"{name}: values must be finite")
        low, high = float(array.min()), float(array.max())
        space, _, path = name.partition(".")
        if space == "machine":
            stated = self.machine.get(path)
            whole = isinstance(stated, int)
            if whole and self.counts == "whole" and not np.all(array == np.round(array)):
                raise InputError(f"{name} = {float(array[array != np.round(array)].flat[0]):g}: want whole numbers")
            for value in sorted({low, high} - {float(stated)}):  # what the machine has is valid
                _machine_with(Same(self.machine), path, math.ceil(value) if whole else value)
        elif space == "estimator":
            for value in (low, high):
                self.bounds[path].check(name, value)
        elif low < 0 or (low == 0 and name.removeprefix("run.") not in AMOUNTS):
            raise InputError(f"{name} = {low:g}: want values > 0")


@lru_cache(maxsize=4096)
def _machine_with(machine: Same[Machine], path: str, value: float) -> None:
    """Check a number of a machine once for all functions that it is given to; InputError where it is none."""
    machine.it.using({path: value})


def _binds(name: str) -> bool:
    """Whether a free name gives a symbol of the workload its value."""
    return name.startswith(("workload.", "run."))


def _cut(array: FloatArray, window: tuple[slice, ...]) -> FloatArray:
    """The part of an array inside a window of the shape it broadcasts to."""
    trailing = window[len(window) - array.ndim :]
    return np.asarray(
        array[tuple(slice(None) if n == 1 else cut for n, cut in zip(array.shape, trailing, strict=True))]
    )


def _window(array: FloatArray, axis: int, dimensions: int, window: slice) -> FloatArray:
    own_axis = axis - (dimensions - array.ndim)
    if own_axis < 0 or array.shape[own_axis] == 1:
        return array
    return np.asarray(array[(slice(None),) * own_axis + (window,)])


def amount_rows(amounts: tuple[Amount, ...], by_symbol: Mapping[str, Any]) -> FloatArray:
    """Amounts of all rows along the first axis; behind it the shape to which the symbols broadcast."""
    shape = np.broadcast_shapes(*(np.shape(value) for value in by_symbol.values()))
    numbers, open_, names, function = _column(amounts)
    rows = np.empty((len(amounts), *shape))
    rows[...] = numbers.reshape(-1, *(1,) * len(shape))
    for index, value in zip(open_, function(*(by_symbol[name] for name in names)), strict=True):
        rows[index] = value
    return rows


@lru_cache(maxsize=4096)
def _column(amounts: tuple[Amount, ...]) -> tuple[FloatArray, tuple[int, ...], tuple[str, ...], Callable[..., Any]]:
    """A column's numbers (0 where open), its open entries, their symbols, and the function of those."""
    open_ = tuple(index for index, amount in enumerate(amounts) if symbols_of(amount))
    numbers = np.array([0.0 if index in open_ else float(amount) for index, amount in enumerate(amounts)])
    names = tuple(sorted(frozenset().union(*(symbols_of(amounts[index]) for index in open_)))) if open_ else ()
    return numbers, open_, names, compiled(sp.Tuple(*(amounts[index] for index in open_)), names)


def groups_of(
    formulas: Sequence[tuple[Formula, list[int]]],
    operations: Sequence[Op],
    lane: Callable[[Op], str],
    amount: Callable[[Op, str], Amount] = amount_of,
) -> tuple[Group, ...]:
    """Operations by formula, equal rows merged; `amount` says what stands for a symbol ``operation.NAME``."""
    groups = []
    for formula, indices in formulas:
        names = [name for name in formula.names if name.startswith("operation.")]
        rows: dict[tuple[Amount, ...], dict[str, Amount]] = {}
        examples: dict[tuple[Amount, ...], Op] = {}
        for index in indices:
            op = operations[index]
            row = tuple(amount(op, name) for name in names)
            lanes = rows.setdefault(row, {})
            examples.setdefault(row, op)
            lanes[lane(op)] = lanes.get(lane(op), 0) + op.times
        amounts = {name: tuple(row[i] for row in rows) for i, name in enumerate(names)}
        lanes_seen = sorted({one for lanes in rows.values() for one in lanes})
        multiplicity = {one: tuple(lanes.get(one, 0) for lanes in rows.values()) for one in lanes_seen}
        groups.append(Group(formula, amounts, multiplicity, tuple(examples.values())))
    return tuple(groups)


def constant_group(times: FloatArray, operations: Sequence[Op], lane: Callable[[Op], str]) -> Group:
    """Operations whose times (seconds, shape (operations,)) do not vary, such as a measured table, under a schedule
    that does.
    """
    lanes = [lane(op) for op in operations]
    multiplicity = {
        name: tuple(op.times if its == name else 0 for op, its in zip(operations, lanes, strict=True))
        for name in sorted(set(lanes))
    }
    formula = Formula(symbol("operation.seconds"), "s", "times of operations that do not vary")
    return Group(formula, {"operation.seconds": tuple(map(float, times))}, multiplicity)


def check_free(free: Sequence[str]) -> None:
    """Check that free names have a namespace.

    Raises InputError where one has none.
    """
    for name in free:
        if name.partition(".")[0] not in NAMESPACES or "." not in name:
            raise InputError(f"free quantity {name!r}: want a name such as machine.clock ({'., '.join(NAMESPACES)}.)")


def leaves_operations(workload: Workload, free: tuple[str, ...]) -> bool:
    """Whether what is free changes only how operations share the time, not how long one takes."""
    inside = {
        name for op in workload for amount in [*op.dims.values(), *op.cost.values()] for name in symbols_of(amount)
    }
    return all(
        name.startswith("estimator.schedule.") or (name.startswith("run.") and name.partition(".")[2] not in inside)
        for name in free
    )
