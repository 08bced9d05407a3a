"""Formulas with a choice: the least of one expression over a small menu, as a library picks its kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from estimators.formula import FloatArray, Formula, evaluate
from hwmodels.files import InputError
from hwmodels.records import Table

CHUNK = 2_000_000
"""Numbers of one intermediate array."""


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
    >>> from hwmodels.expressions import symbol
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
        symbols = self.expression.free_symbols | (self.criterion.free_symbols if self.criterion is not None else set())
        return tuple(sorted({str(s) for s in symbols} - set(self.menu)))

    def evaluate(self, values: Mapping[str, Any]) -> FloatArray:
        """The least value on arrays that broadcast against each other.

        Raises
        ------
        InputError
            Where a symbol has no value.
        """
        arrays = {name: np.asarray(values[name], dtype=np.float64) for name in self.names if name in values}
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values())) if arrays else ()
        rows = len(next(iter(self.menu.values())))
        if not shape or rows * int(np.prod(shape)) <= CHUNK:
            return self._least(arrays, len(shape))
        flat = {name: _flat(array, shape) for name, array in arrays.items()}
        size, step = int(np.prod(shape)), max(1, CHUNK // rows)
        parts = [
            self._least({name: a[i : i + step] if a.ndim else a for name, a in flat.items()}, 1)
            for i in range(0, size, step)
        ]
        return np.concatenate([np.broadcast_to(p, min(step, size - i * step)) for i, p in enumerate(parts)]).reshape(
            shape
        )

    def derivative(self, name: str) -> Formula:
        """The partial derivative by one symbol, in the row that the function picks."""
        slope = Formula(self.expression, self.unit, self.source).derivative(name)
        picked = self.expression if self.criterion is None else self.criterion
        return Least(slope.expression, slope.unit, slope.source, menu=self.menu, criterion=picked)

    def substitute(self, values: Mapping[str, Any]) -> Formula:
        """The formula with some symbols replaced by numbers or expressions; the menu stays."""
        plain = Formula(self.expression, self.unit, self.source, self.terms).substitute(values)
        criterion = None
        if self.criterion is not None:
            criterion = Formula(self.criterion, self.unit, self.source).substitute(values).expression
        return Least(plain.expression, plain.unit, plain.source, plain.terms, self.menu, criterion)

    def _least(self, arrays: Mapping[str, FloatArray], dimensions: int) -> FloatArray:
        menu = {name: np.array(column).reshape(-1, *(1,) * dimensions) for name, column in self.menu.items()}
        table = evaluate(self.expression, {**arrays, **menu})
        if self.criterion is None:
            return np.asarray(table.min(axis=0)) if table.ndim > dimensions else table
        rule = np.broadcast_arrays(evaluate(self.criterion, {**arrays, **menu}), table)
        best = np.argmin(rule[0], axis=0, keepdims=True)
        return np.asarray(np.take_along_axis(rule[1], best, axis=0)[0])


def _flat(array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    return array if array.ndim == 0 else np.broadcast_to(array, shape).reshape(-1)
