"""Formulas taken apart into what differs between operations (rows) and what differs between points, as steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from slipstick.common.expressions import sp
from slipstick.estimators.symbolic.batched_sum import Maximum, PointPart, Product, Term, WholeTerm
from slipstick.estimators.symbolic.lambdified import compiled, names_of
from slipstick.estimators.symbolic.lambdified.evaluable import Steps

IsRow: TypeAlias = "Callable[[sp.Symbol], bool]"


@dataclass(frozen=True)
class _Product:
    rows: sp.Expr
    points: sp.Expr


_Sum: TypeAlias = tuple[_Product, ...]
_Term: TypeAlias = "_Product | tuple[_Sum, ...] | sp.Expr"
"""A product; the sides of a maximum; anything else."""


def separate(expression: sp.Expr, is_row: IsRow) -> tuple[Term, ...]:
    """Terms whose sum is the expression; products of equal point parts are merged."""
    terms = _terms(expression, is_row)
    merged = _merged([term for term in terms if isinstance(term, _Product)])
    return tuple(map(_as_steps, [*merged, *(term for term in terms if not isinstance(term, _Product))]))


def _as_steps(term: _Term) -> Term:
    if isinstance(term, _Product):
        return _product_as_steps(term)
    if isinstance(term, tuple):
        return Maximum(tuple(tuple(map(_product_as_steps, side)) for side in term))
    return WholeTerm(_steps(term))


def _product_as_steps(product: _Product) -> Product:
    return Product(_steps(product.rows), PointPart(str(product.points), _steps(product.points)))


def _steps(expression: sp.Expr) -> Steps:
    names = names_of(expression)
    return Steps(names, compiled(expression if names else sp.Float(float(expression)), names))


def _terms(expression: sp.Expr, is_row: IsRow) -> list[_Term]:
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
            return [_maximum([rest * side for side in mixed[0].args], is_row) or expression]
    if isinstance(expression, sp.Max):
        return [_maximum(list(expression.args), is_row) or expression]
    return [expression]


def _maximum(sides: list[sp.Expr], is_row: IsRow) -> tuple[_Sum, ...] | None:
    sums = []
    for side in sides:
        products = [_product(sp.sympify(part, strict=True), is_row) for part in sp.Add.make_args(sp.expand_mul(side))]
        if any(product is None for product in products):
            return None
        sums.append(_merged([product for product in products if product is not None]))
    return tuple(sums)


def _product(expression: sp.Expr, is_row: IsRow) -> _Product | None:
    rows: list[sp.Expr] = []
    points: list[sp.Expr] = []
    for factor in sp.Mul.make_args(expression):
        kind = _kind(factor, is_row)
        if kind == "both":
            return None
        (points if kind == "points" else rows).append(factor)
    return _Product(sp.Mul(*rows), sp.Mul(*points))


def _kind(expression: sp.Expr, is_row: IsRow) -> str:
    kinds = {bool(is_row(symbol)) for symbol in expression.free_symbols}
    return "both" if len(kinds) == 2 else "points" if kinds == {False} else "rows"


def _merged(products: list[_Product]) -> _Sum:
    by_points: dict[sp.Expr, sp.Expr] = {}
    for product in products:
        number, points = product.points.as_coeff_Mul()
        by_points[points] = by_points.get(points, sp.Integer(0)) + number * product.rows
    return tuple(_Product(rows, points) for points, rows in by_points.items())
