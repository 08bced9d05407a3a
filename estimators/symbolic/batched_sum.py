"""The sum of a formula over many operations (rows) at many points, from the terms into which it is taken apart.

A time such as Max(flop / rate, bytes / bandwidth) + launches overhead is a sum of terms: products of a row part and a
point part, and maxima of such sums. A product's rows are summed once, whatever the points; a maximum of two products is
piecewise linear in the ratio of its point parts, so its rows are sorted once and each point is a search.

Terms are steps: plain data, which a file may hold. `slipstick.estimators.symbolic.factored_formula` makes them of
a formula.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.cached_parts import cached_list, cached_text
from slipstick.common.errors import InputError
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable, Steps

TOGETHER = 20_000
"""Numbers up to which all rows are evaluated at once; beyond it one row after the other, in less memory."""
KEPT = 256
"""Sums that are kept for points of one value each."""
MOST_TERMS = 10_000


@dataclass(frozen=True, eq=False)
class PointPart:
    """A point part; equal ones share a table."""

    text: str
    steps: Steps

    @cached_property
    def _key(self) -> tuple[str, tuple[object, ...]]:
        # the text alone has 15 digits of a number
        return self.text, self.steps.tape.constants

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PointPart) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@dataclass(frozen=True, eq=False)
class Product:
    """A row part times a point part."""

    rows: Steps
    points: PointPart


Sum: TypeAlias = tuple[Product, ...]


@dataclass(frozen=True, eq=False)
class Maximum:
    """The largest of some sums of products."""

    sides: tuple[Sum, ...]


@dataclass(frozen=True, eq=False)
class WholeTerm:
    """Anything else: a formula of both, evaluated row by row."""

    steps: Steps

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the symbols, sorted."""
        return self.steps.names

    def at(self, values: Mapping[str, Any]) -> Any:
        """The value at arrays that broadcast."""
        return self.steps.raw(values)


@dataclass(frozen=True, eq=False)
class Chosen:
    """A formula that picks from a menu for every row and point (see `formula.MinOverConfigs`)."""

    formula: Evaluable

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the symbols, sorted."""
        return self.formula.names

    def at(self, values: Mapping[str, Any]) -> FloatArray:
        """The value at arrays that broadcast."""
        return self.formula.evaluate(values)


Term: TypeAlias = Product | Maximum | WholeTerm | Chosen


@dataclass(frozen=True, eq=False)
class SeparatedTerms:
    """SeparatedTerms whose sum is a formula."""

    listed: tuple[Term, ...]

    def data(self) -> list[Any]:
        """As JSON holds it."""
        return list(map(_term_data, self.listed))

    @classmethod
    def of(cls, data: Any) -> SeparatedTerms:
        """The terms of `data`.

        Raises InputError where that are none.
        """
        try:
            return cls(tuple(_term(*cached_list(one, "term", 2)) for one in cached_list(data, "terms", MOST_TERMS)))
        except (TypeError, ValueError):
            raise InputError("formula as steps: not the terms of one") from None


def _term_data(term: Term) -> list[Any]:
    match term:
        case Product():
            return ["product", _product_data(term)]
        case Maximum():
            return ["maximum", [list(map(_product_data, side)) for side in term.sides]]
        case WholeTerm():
            return ["whole", term.steps.data()]
    return ["chosen", term.formula.data()]


def _product_data(product: Product) -> list[Any]:
    return [product.rows.data(), product.points.text, product.points.steps.data()]


def _term(kind: Any, data: Any) -> Term:
    match kind:
        case "product":
            return _product(data)
        case "maximum":
            sides = [tuple(map(_product, cached_list(side, "side"))) for side in cached_list(data, "maximum")]
            if not sides or not all(sides):
                raise InputError("formula as steps: a maximum of nothing")
            return Maximum(tuple(sides))
        case "whole":
            return WholeTerm(Steps.of(data))
        case "chosen":
            return Chosen(Evaluable.of(data))
    raise InputError("formula as steps: an unknown term")


def _product(data: Any) -> Product:
    rows, text, points = cached_list(data, "product", 3)
    return Product(Steps.of(rows), PointPart(cached_text(text, "text"), Steps.of(points)))


@dataclass(frozen=True)
class TermRows:
    """SeparatedTerms with the numbers of their rows.

    `values`: row symbol -> its values, shape (rows, ...); what follows the rows broadcasts against the points.
    `weights`: how often each row counts, shape (rows, ...).
    """

    terms: tuple[Term, ...]
    values: Mapping[str, FloatArray]
    weights: FloatArray

    def part(self, steps: Steps) -> FloatArray:
        """A row part, weighted."""
        return np.asarray(self.weights * steps.raw(self.values))

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
            names = self._outers[term] = tuple(name for name in term.names if name not in self.values)
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
        columns = [self.values[name] for name in term.names if name in self.values]
        if columns and len(self.weights) * math.prod(shape) <= TOGETHER and all(c.ndim == 1 for c in columns):
            along = (-1, *(1,) * len(shape))
            values = {**points, **{name: column.reshape(along) for name, column in self.values.items()}}
            each = term.at(values)
            each = np.broadcast_to(each, (len(self.weights), *shape))
            for weight, one, counts in zip(self.weights, each, self._counts, strict=True):
                total = total + weight * one if counts else total
            return total
        for index, (weight, counts) in enumerate(zip(self.weights, self._counts, strict=True)):
            if counts:
                values = {**points, **{name: column[index] for name, column in self.values.items()}}
                one = term.at(values)
                total = total + weight * one
        return total


@dataclass(frozen=True)
class Tables:
    """The sum over all rows of all terms, ready for any points; equal point parts share a table."""

    products: tuple[tuple[PointPart, Any], ...]
    pairs: tuple[tuple[PointPart, PointPart, _Sorted], ...]
    maxima: tuple[tuple[Maximum, list[list[FloatArray]]], ...]
    wholes: tuple[tuple[WholeTerm | Chosen, TermRows], ...]

    @classmethod
    def of(cls, groups: Sequence[TermRows]) -> Tables:
        """The tables of some groups of rows."""
        products: dict[PointPart, Any] = {}
        pairs: dict[tuple[PointPart, PointPart], list[tuple[FloatArray, FloatArray]]] = {}
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
                            key=lambda pair: pair[0].text,
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
            total = total + coefficient * part.steps.raw(points)
        for first, second, table in self.pairs:
            total = total + table.total(first.steps.raw(points), second.steps.raw(points))
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
    parts = [[np.asarray(product.points.steps.raw(points)) for product in side] for side in term.sides]
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
