"""One point and a million are the same code: an estimator as a function of the quantities left free."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import Same
from slipstick.estimators.base.operation_model import machine_values
from slipstick.estimators.base.schedule_model import AMOUNTS
from slipstick.estimators.composition.formula_group_steps import GroupSteps
from slipstick.estimators.composition.formula_groups import Group
from slipstick.estimators.composition.geometry import followed, follows
from slipstick.estimators.symbolic.batched_sum import Tables, Term, TermRows
from slipstick.estimators.symbolic.formula import Parameter
from slipstick.estimators.symbolic.formula_steps import FormulaSteps
from slipstick.estimators.symbolic.lambdified.formula_cache import CachedParts
from slipstick.hwmodels.machine import REACHED, Machine
from slipstick.workloads.graph.cost import symbols_of
from slipstick.workloads.graph.workload import Workload

NAMESPACES = ("machine", "workload", "run", "estimator", "job")
BLOCK_POINTS = 262_144
"""Points evaluated together: what keeps the arrays of one block in the cache."""
SHARED_BY = 8
"""Rows are made once for all points of equal symbols where at least so many share them on average."""
MAX_KNOWN = 1024


Lanes: TypeAlias = Mapping[str, tuple[Any, Tables]]


@dataclass(frozen=True)
class Compiled:
    """Times as a function of arrays, made by `ComposedEstimator.compile`; call it with one array a free name.

    Parameters
    ----------
    free
        Dotted names with their namespace.
    base
        The values of every other quantity that the formulas name.
    machine, bounds
        What the arrays are checked against.
    identity
        Text that says all that decides the formulas; None where they are not kept from run to run.
    counts
        Whether numbers that count (cores) must be whole; "continuous" for searches between whole numbers.
    """

    groups: tuple[GroupSteps, ...]
    schedule: FormulaSteps
    base: Mapping[str, float]
    free: tuple[str, ...]
    machine: Machine
    bounds: Mapping[str, Parameter]
    identity: str | None = field(default=None, repr=False)
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
        arrays |= self.following(arrays)
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
        """Every name that has a say: those in the formulas or that these follow, free ones in amounts of operations."""
        named = (group.formula.sizes_read for group in self.groups)
        names = frozenset(self.schedule.names).union(self._row_symbols, *named)
        also = (one.names for name, one in [*follows(self.machine).items(), *self.followed.items()] if name in names)
        return frozenset(name for name in names.union(*also) if not name.endswith(f".{REACHED}"))

    def following(self, values: Mapping[str, Any]) -> dict[str, FloatArray]:
        """What numbers of the machine become that follow the free ones; `values`: of the free ones."""
        return {name: one.evaluate({**self.stated, **values}) for name, one in self.followed.items()}

    @cached_property
    def followed(self) -> Mapping[str, FormulaSteps]:
        """Numbers of the machine that follow the free ones."""
        return followed(self.machine, self.free)

    @cached_property
    def stated(self) -> dict[str, float]:
        """Today's values of what those formulas name."""
        return {n: v for one in self.followed.values() for n, v in machine_values(one, self.machine).items()}

    @property
    def made(self) -> tuple[Group, ...]:
        """The groups with their expressions."""
        return self.groups[0].source.groups if self.groups else ()

    @cached_property
    def _terms(self) -> tuple[tuple[Term, ...], ...]:
        """The formula of each group with the base put in, taken apart."""
        terms: list[tuple[Term, ...]] = []
        for group in self.groups:
            fixed = self.base.keys() - self.followed.keys()
            known = {name: self._folded(name) for name in group.formula.names if name in fixed}
            terms.append(group.formula.terms(known, self._parts))
        return tuple(terms)

    def _folded(self, name: str) -> float:
        """A number of the base; counts stay whole: 4,480 blocks over 40 cores are 112 waves, by 0.025 they are 113."""
        counts = name.startswith("machine.") and isinstance(self.machine.get(name.removeprefix("machine.")), int)
        return int(self.base[name]) if counts else self.base[name]

    def keep(self) -> None:
        """Keep from run to run what the function is made of, as far as it was read."""
        self._parts.keep()
        self.schedule.parts.keep()

    @cached_property
    def _parts(self) -> CachedParts:
        """Where the terms are kept: they are others where other quantities are free."""
        return CachedParts(None if self.identity is None else f"{self.identity} free {sorted(self.free)}", "functions")

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
            amounts = {name: column.rows(by_symbol) for name, column in group.amounts.items()}
            for lane, multiplicity in group.multiplicity.items():
                weights = multiplicity.rows(by_symbol)
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
