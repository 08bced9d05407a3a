"""Formulas with a choice: the least of one expression over a small menu, as a library picks its kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.gradient import gradient
from slipstick.estimators.core.lambdified import FloatArray, evaluate, names_of
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.files.records import Table

CHUNK = 200_000
"""Numbers of one intermediate array."""
INNER = 100
"""Numbers of an inner loop, from which numpy's cost of starting one no longer counts."""
LARGE = 4_000_000
"""Numbers of a block that is allocated and freed before large evaluations: the C library then keeps what smaller
blocks give back, in place of mapping every array anew, page by page (a third of the time)."""


@dataclass(frozen=True)
class Least(Formula):
    """The least value of `expression` over the rows of a menu.

    Parameters
    ----------
    menu
        Symbol -> its value in each row (equal lengths). These symbols are no longer names of the formula.
    criterion
        What is minimised to pick the row; the expression itself where None. A derivative keeps the row that its
        function picks.

    Raises
    ------
    InputError
        Where the menu is empty or its columns differ in length.

    Examples
    --------
    >>> from slipstick.hwmodels.files.expressions import symbol
    >>> tiles = Least(sp.ceiling(symbol("n") / symbol("tile")) * symbol("tile"), "1", "", menu=Table(tile=(64, 48)))
    >>> tiles.names, [float(tiles.evaluate({"n": n})) for n in (64, 65, 129)]
    (('n',), [64.0, 96.0, 144.0])
    """

    menu: Table[tuple[float, ...]] = Table()
    criterion: sp.Expr | None = None

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.menu.values()}
        if len(lengths) != 1 or 0 in lengths:
            raise InputError(f"menu of a formula: want columns of one length >= 1, got lengths {sorted(lengths)}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the symbols that are not chosen, sorted."""
        rule = names_of(self.criterion) if self.criterion is not None else ()
        return tuple(sorted({*names_of(self.expression), *rule} - set(self.menu)))

    def evaluate(self, values: Mapping[str, Any]) -> FloatArray:
        """The least value on arrays that broadcast against each other.

        Raises
        ------
        InputError
            Where a symbol has no value.
        """
        arrays = {name: np.asarray(values[name], dtype=np.float64) for name in self.names if name in values}
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values())) if arrays else ()
        size, rows = math.prod(shape), len(next(iter(self.menu.values())))
        if rows * size <= CHUNK:
            return self._least(arrays, len(shape))
        # The longest axis goes last, so that numpy's inner loop is long; then blocks of it and of the next longest one.
        order = sorted(range(len(shape)), key=shape.__getitem__)
        lengths = [shape[axis] for axis in order]
        moved = {name: _ordered(array, order) for name, array in arrays.items()}
        np.empty(LARGE)
        inner = max(INNER, CHUNK * lengths[-1] // (rows * size))
        outer = max(1, CHUNK * lengths[-2] * lengths[-1] // (rows * size * inner)) if len(lengths) > 1 else 1
        result = np.empty(lengths)
        for first in range(0, lengths[-2] if len(lengths) > 1 else 1, outer):
            for start in range(0, lengths[-1], inner):
                block = (slice(first, first + outer), slice(start, start + inner))[-len(lengths) :]
                part = {name: _block(array, block) for name, array in moved.items()}
                result[(..., *block)] = self._least(part, len(lengths))
        return np.transpose(result, np.argsort(order))

    def derivative(self, name: str) -> Formula:
        """The partial derivative by one symbol, in the row that the function picks."""
        slope = Formula(self.expression, self.unit, self.source).derivative(name)
        picked = self.expression if self.criterion is None else self.criterion
        return Least(slope.expression, slope.unit, slope.source, menu=self.menu, criterion=picked)

    def gradient(self, values: Mapping[str, Any]) -> dict[str, FloatArray]:
        """The derivative by every symbol at points, in the row that the function picks there."""
        arrays = {name: np.asarray(values[name], dtype=np.float64) for name in self.names}
        dimensions = len(np.broadcast_shapes(*(array.shape for array in arrays.values())))
        columns = {name: np.array(column).reshape(-1, *(1,) * dimensions) for name, column in self.menu.items()}
        rule = self.expression if self.criterion is None else self.criterion
        best = np.argmin(evaluate(rule, {**arrays, **columns}), axis=0)
        picked = {name: np.array(column)[best] for name, column in self.menu.items()}
        slopes = gradient(self.expression, {**arrays, **picked})
        return {name: slopes.get(name, np.zeros(())) for name in self.names}

    def substitute(self, values: Mapping[str, Any]) -> Formula:
        """The formula with some symbols replaced by numbers or expressions; the menu stays."""
        plain = Formula(self.expression, self.unit, self.source, self.terms).substitute(values)
        criterion = None
        if self.criterion is not None:
            criterion = Formula(self.criterion, self.unit, self.source).substitute(values).expression
        return Least(plain.expression, plain.unit, plain.source, plain.terms, self.menu, criterion)

    def _least(self, arrays: Mapping[str, FloatArray], dimensions: int) -> FloatArray:
        menu, axes = _spread(tuple(self.menu.items()), dimensions)
        table = evaluate(self.expression, {**arrays, **menu})
        if self.criterion is None:
            first = table.ndim - dimensions
            return np.asarray(table.min(axis=tuple(range(first)))) if first > 0 else table
        rule = np.broadcast_arrays(
            evaluate(self.criterion, {**arrays, **menu}), table, np.empty((*axes, *(1,) * dimensions))
        )
        flat = [side.reshape(-1, *side.shape[len(axes) :]) for side in rule[:2]]
        best = np.argmin(flat[0], axis=0, keepdims=True)
        return np.asarray(np.take_along_axis(flat[1], best, axis=0)[0])


@lru_cache(maxsize=256)
def _spread(
    columns: tuple[tuple[str, tuple[float, ...]], ...], dimensions: int
) -> tuple[dict[str, FloatArray], tuple[int, ...]]:
    """A menu's columns along axes of their own, before `dimensions` others.

    A menu that holds every combination of some columns with every one of others gets an axis for each: what depends on
    the tile alone is then computed once for all splits.
    """
    axes = _axes([column for _, column in columns])
    menu = {}
    for name, column in columns:
        table = np.array(column).reshape(axes)
        for axis in range(len(axes)):
            if np.all(table == np.take(table, [0], axis=axis)):
                table = np.take(table, [0], axis=axis)
        menu[name] = table.reshape(*table.shape, *(1,) * dimensions)
    return menu, axes


def _axes(columns: Sequence[tuple[float, ...]]) -> tuple[int, ...]:
    """Lengths of two axes along which every column varies on one of them only; else one axis."""
    rows = len(columns[0])
    for inner in range(2, rows):
        if rows % inner == 0:
            tables = [np.array(column).reshape(-1, inner) for column in columns]
            if all(np.all(t == t[:1]) or np.all(t == t[:, :1]) for t in tables):
                return rows // inner, inner
    return (rows,)


def _ordered(array: FloatArray, order: Sequence[int]) -> FloatArray:
    """The axes of what arrays broadcast to in another order; scalars stay."""
    if array.ndim == 0:
        return array
    whole = array.reshape((1,) * (len(order) - array.ndim) + array.shape)
    return np.ascontiguousarray(np.transpose(whole, order))


def _block(array: FloatArray, block: Sequence[slice]) -> FloatArray:
    """A block of the last axes, of those along which an array varies."""
    lengths = array.shape[-len(block) :]
    cut: tuple[Any, ...] = tuple(
        slice(None) if length == 1 else part for length, part in zip(lengths, block, strict=False)
    )
    return np.asarray(array[(Ellipsis, *cut)]) if array.ndim else array
