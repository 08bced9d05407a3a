"""Where a formula turns: a maximum changes its side, a condition its truth, or a step its value."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstick.common.cached_parts import cached_list, cached_texts
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp
from slipstick.estimators.symbolic.lambdified import names_of, steps_of
from slipstick.estimators.symbolic.lambdified.evaluable import Steps

TIE = 1e-9
"""Two sides of a maximum, or of a condition, count as equal within this relative distance."""
MOST_BORDERS = 100_000


@dataclass(frozen=True)
class BranchBorder:
    """Two sides that are equal where the formula turns, and the symbols on which their difference hangs."""

    left: Steps
    right: Steps
    names: tuple[str, ...]


@dataclass(frozen=True)
class Breakpoints:
    """The borders of a formula."""

    borders: tuple[BranchBorder, ...]

    def at(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Symbol -> whether the point lies where a maximum, a minimum, a condition or a step of that symbol turns."""
        turns: dict[str, Any] = {}
        for border in self.borders:
            if any(name not in values for name in (*border.left.names, *border.right.names)):
                continue  # inside a row of a menu: which row is picked is no border of a quantity
            one, other = border.left(values), border.right(values)
            near = np.abs(one - other) <= TIE * np.maximum(np.abs(one), np.abs(other))
            for name in border.names:
                turns[name] = turns.get(name, False) | near
        return turns

    def data(self) -> list[Any]:
        """As JSON holds it."""
        return [[border.left.data(), border.right.data(), list(border.names)] for border in self.borders]

    @classmethod
    def of(cls, data: Any) -> Breakpoints:
        """The borders of `data`.

        Raises InputError where that are none.
        """
        try:
            rows = [cached_list(row, "border", 3) for row in cached_list(data, "borders", MOST_BORDERS)]
            borders = [
                BranchBorder(Steps.of(one), Steps.of(other), cached_texts(names, "names")) for one, other, names in rows
            ]
        except (TypeError, ValueError):
            raise InputError("borders as steps: want two sides and names") from None
        return cls(tuple(borders))

    @classmethod
    def of_expression(cls, expression: sp.Expr) -> Breakpoints:
        """The borders of an expression."""
        pairs = [(left, right, names_of(left - right)) for left, right in _borders(expression)]
        return cls(tuple(BranchBorder(steps_of(left), steps_of(right), names) for left, right, names in pairs))


def _borders(expression: sp.Expr) -> list[tuple[sp.Expr, sp.Expr]]:
    pairs: list[tuple[sp.Expr, sp.Expr]] = []
    for node in expression.atoms(sp.Max, sp.Min, sp.Piecewise, sp.floor, sp.ceiling):
        if isinstance(node, (sp.Max, sp.Min)):
            pairs += itertools.combinations(node.args, 2)
        elif isinstance(node, sp.Piecewise):
            for _, condition in node.args:
                relations = sp.sympify(condition, strict=True).atoms(sp.core.relational.Relational)
                pairs += [(relation.lhs, relation.rhs) for relation in relations]
        else:
            pairs.append((node.args[0], node))
    return pairs
