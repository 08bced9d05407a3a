"""Formulas taken apart into what differs between operations (rows) and what differs between points.

A time such as Max(flop / rate, bytes / bandwidth) + launches overhead is a sum of terms: products of a row part and a
point part, and maxima of such sums. A product's rows are summed once, whatever the points; a maximum of two products is
piecewise linear in the ratio of its point parts, so its rows are sorted once and each point is a search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np

from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.lambdified import FloatArray, compiled
from slipstick.hwmodels.files.symbolic import sp

TOGETHER = 20_000
"""Numbers up to which all rows are evaluated at once; beyond it one row after the other, in less memory."""
KEPT = 256
"""Sums that are kept for points of one value each."""

IsRow: TypeAlias = "Callable[[sp.Symbol], bool]"


@dataclass(frozen=True)
class Product:
    """A row part times a point part."""

    rows: sp.Expr
    points: sp.Expr


Sum: TypeAlias = tuple[Product, ...]


@dataclass(frozen=True)
class Maximum:
    """The largest of some sums of products."""

    sides: tuple[Sum, ...]


@dataclass(frozen=True)
class WholeTerm:
    """Anything else: a formula of both, evaluated row by row."""

    expression: sp.Expr


@dataclass(frozen=True)
class Chosen:
    """A formula that picks from a menu for every row and point (see `slipstick.estimators.core.choice.Least`)."""

    formula: Formula


Term: TypeAlias = Product | Maximum | WholeTerm | Chosen


def separate(expression: sp.Expr, is_row: IsRow) -> tuple[Term, ...]:
    """Terms whose sum is the expression; products of equal point parts are merged."""
    terms: list[Term] = []
    products: list[Product] = []
    for term in _terms(expression, is_row):
        if isinstance(term, Product):
            products.append(term)
        else:
            terms.append(term)
    return (*_merged(products), *terms)


def _terms(expression: sp.Expr, is_row: IsRow) -> list[Term]:
    if expression.is_Add:
        return [term for part in expression.args for term in _terms(part, is_row)]
    product = _product(expression, is_row)
    if product is not None:
        return [product]
    if expression.is_Mul:
        mixed = [factor for factor in expression.args if _kind(factor, is_row) == "both"]
        rest = sp.Mul(*(factor for factor in expression.args if factor not in mixed))
        if len(mixed) == 1 and mixed[0].is_Add:
            return [term for part in mixed[0].args for term in _terms(rest * part, is_row)]
        if len(mixed) == 1 and isinstance(mixed[0], sp.Max) and rest.is_positive:
            return [_maximum([rest * side for side in mixed[0].args], is_row) or WholeTerm(expression)]
    if isinstance(expression, sp.Max):
        return [_maximum(list(expression.args), is_row) or WholeTerm(expression)]
    return [WholeTerm(expression)]


def _maximum(sides: list[sp.Expr], is_row: IsRow) -> Maximum | None:
    sums = []
    for side in sides:
        products = [_product(sp.sympify(part, strict=True), is_row) for part in sp.Add.make_args(sp.expand_mul(side))]
        if any(product is None for product in products):
            return None
        sums.append(_merged([product for product in products if product is not None]))
    return Maximum(tuple(sums))


def _product(expression: sp.Expr, is_row: IsRow) -> Product | None:
    rows: list[sp.Expr] = []
    points: list[sp.Expr] = []
    for factor in sp.Mul.make_args(expression):
        kind = _kind(factor, is_row)
        if kind == "both":
            return None
        (points if kind == "points" else rows).append(factor)
    return Product(sp.Mul(*rows), sp.Mul(*points))


def _kind(expression: sp.Expr, is_row: IsRow) -> str:
    kinds = {bool(is_row(symbol)) for symbol in expression.free_symbols}
    return "both" if len(kinds) == 2 else "points" if kinds == {False} else "rows"


def _merged(products: list[Product]) -> Sum:
    by_points: dict[sp.Expr, sp.Expr] = {}
    for product in products:
        number, points = product.points.as_coeff_Mul()
        by_points[points] = by_points.get(points, sp.Integer(0)) + number * product.rows
    return tuple(Product(rows, points) for points, rows in by_points.items())


@dataclass(frozen=True)
class TermRows:
    """Terms with the numbers of their rows.

    `values`: row symbol -> its values, shape (rows, ...); what follows the rows broadcasts against the points.
    `weights`: how often each row counts, shape (rows, ...).
    """

    terms: tuple[Term, ...]
    values: Mapping[str, FloatArray]
    weights: FloatArray

    def part(self, expression: sp.Expr) -> FloatArray:
        """A row part, weighted."""
        return np.asarray(self.weights * _at(expression, self.values))

    def whole(self, term: WholeTerm | Chosen, points: Mapping[str, Any]) -> Any:
        """The weighted sum of a term over the rows, one after the other; kept for the last points that are one each."""
        given = [points[name] for name in self._outer(term)]
        if any(np.ndim(value) for value in given):
            return self._whole(term, points)
        key = (term, *map(float, given))
        total = self._kept.get(key)
        if total is None:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            total = self._kept[key] = self._whole(term, points)
        return total

    def _outer(self, term: WholeTerm | Chosen) -> tuple[str, ...]:
        """The names of a term that are no columns of the rows."""
        names = self._outers.get(term)
        if names is None:
            names = self._outers[term] = tuple(name for name in _names(term) if name not in self.values)
        return names

    @cached_property
    def _outers(self) -> dict[WholeTerm | Chosen, tuple[str, ...]]:
        """See `_outer`."""
        return {}

    @cached_property
    def _counts(self) -> tuple[bool, ...]:
        """Whether a row stands at all."""
        return tuple(bool(np.any(weight)) for weight in self.weights)

    @cached_property
    def _kept(self) -> dict[Hashable, Any]:
        """Sums by term and values of its symbols: where one quantity varies, most terms do not change."""
        return {}

    def _whole(self, term: WholeTerm | Chosen, points: Mapping[str, Any]) -> Any:
        total: Any = 0.0
        shape = np.broadcast_shapes(*(np.shape(points[name]) for name in self._outer(term)))
        columns = [self.values[name] for name in _names(term) if name in self.values]
        if columns and len(self.weights) * math.prod(shape) <= TOGETHER and all(c.ndim == 1 for c in columns):
            along = (-1, *(1,) * len(shape))
            values = {**points, **{name: column.reshape(along) for name, column in self.values.items()}}
            each = term.formula.evaluate(values) if isinstance(term, Chosen) else _at(term.expression, values)
            each = np.broadcast_to(each, (len(self.weights), *shape))
            for weight, one, counts in zip(self.weights, each, self._counts, strict=True):
                total = total + weight * one if counts else total
            return total
        for index, (weight, counts) in enumerate(zip(self.weights, self._counts, strict=True)):
            if counts:
                values = {**points, **{name: column[index] for name, column in self.values.items()}}
                one = term.formula.evaluate(values) if isinstance(term, Chosen) else _at(term.expression, values)
                total = total + weight * one
        return total


@dataclass(frozen=True)
class Tables:
    """The sum over all rows of all terms, ready for any points; equal point parts share a table."""

    products: tuple[tuple[sp.Expr, Any], ...]
    pairs: tuple[tuple[sp.Expr, sp.Expr, _Sorted], ...]
    maxima: tuple[tuple[Maximum, list[list[FloatArray]]], ...]
    wholes: tuple[tuple[WholeTerm | Chosen, TermRows], ...]

    @classmethod
    def of(cls, groups: Sequence[TermRows]) -> Tables:
        """The tables of some groups of rows."""
        products: dict[sp.Expr, Any] = {}
        pairs: dict[tuple[sp.Expr, sp.Expr], list[tuple[FloatArray, FloatArray]]] = {}
        maxima, wholes = [], []
        for group in groups:
            for term in group.terms:
                if isinstance(term, Product):
                    products[term.points] = products.get(term.points, 0.0) + np.sum(group.part(term.rows), axis=0)
                elif isinstance(term, WholeTerm | Chosen):
                    wholes.append((term, group))
                else:
                    sides = [[group.part(product.rows) for product in side] for side in term.sides]
                    if len(sides) == 2 and all(len(side) == 1 and side[0].ndim == 1 for side in sides):
                        first, second = sorted(
                            ((side[0].points, table[0]) for side, table in zip(term.sides, sides, strict=True)),
                            key=lambda pair: _text(pair[0]),
                        )
                        pairs.setdefault((first[0], second[0]), []).append((first[1], second[1]))
                    else:
                        maxima.append((term, sides))
        tables = tuple(
            (x, y, _Sorted.of(np.concatenate([a for a, _ in rows]), np.concatenate([b for _, b in rows])))
            for (x, y), rows in pairs.items()
        )
        return cls(tuple(products.items()), tables, tuple(maxima), tuple(wholes))

    def total(self, points: Mapping[str, Any]) -> FloatArray:
        """The sum at the points."""
        total: Any = 0.0
        for part, coefficient in self.products:
            total = total + coefficient * _at(part, points)
        for first, second, table in self.pairs:
            total = total + table.total(_at(first, points), _at(second, points))
        for term, sides in self.maxima:
            total = total + _row_by_row(term, sides, points)
        for whole, rows in self.wholes:
            total = total + rows.whole(whole, points)
        return np.asarray(total)


@dataclass(frozen=True)
class _Sorted:
    """Sum over rows of max(a x, b y) for rows sorted by where the second side takes over: y / x = a / b."""

    borders: FloatArray
    first: FloatArray
    second: FloatArray

    @classmethod
    def of(cls, a: FloatArray, b: FloatArray) -> _Sorted:
        with np.errstate(divide="ignore", invalid="ignore"):
            borders = np.where(b > 0, a / b, np.inf)
        order = np.argsort(borders, kind="stable")
        first = np.concatenate([np.cumsum(a[order][::-1])[::-1], [0.0]])
        second = np.concatenate([[0.0], np.cumsum(b[order])])
        return cls(borders[order], first, second)

    def total(self, x: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.asarray(y / x)
        place = np.searchsorted(self.borders, ratio)
        return np.asarray(self.first[place] * x + self.second[place] * y)


def _row_by_row(term: Maximum, weighted: list[list[FloatArray]], points: Mapping[str, Any]) -> Any:
    parts = [[np.asarray(_at(product.points, points)) for product in side] for side in term.sides]
    total: Any = 0.0
    for index in range(len(weighted[0][0])):
        best: Any = None
        for side, one in zip(weighted, parts, strict=True):
            value = side[0][index] * one[0]
            for more, part in zip(side[1:], one[1:], strict=True):
                value = value + more[index] * part
            best = value if best is None else np.maximum(best, value)
        total = total + best
    return total


@lru_cache(maxsize=4096)
def _names(term: WholeTerm | Chosen) -> tuple[str, ...]:
    return term.formula.names if isinstance(term, Chosen) else _function(term.expression)[0]


@lru_cache(maxsize=4096)
def _text(expression: sp.Expr) -> str:
    return str(expression)


def _at(expression: sp.Expr, values: Mapping[str, Any]) -> Any:
    names, function = _function(expression)
    return function(*(values[name] for name in names))


@lru_cache(maxsize=4096)
def _function(expression: sp.Expr) -> tuple[tuple[str, ...], Callable[..., Any]]:
    names = tuple(sorted(str(symbol) for symbol in expression.free_symbols))
    if not names:
        number = float(expression)
        return names, lambda: number
    return names, compiled(expression, names)
