"""The gradient backwards through a formula is what sympy's symbolic derivatives say, and what differences say."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.symbolic.formula import Formula, MinOverConfigs
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest

A, B, C = (symbol(name) for name in ("a", "b.long", "c"))
POINTS = dict(zip(["a", "b.long", "c"], np.broadcast_arrays([0.7, 2.0, 5.1], [[1.3], [4.0]], 2.2), strict=True))


@pytest.mark.parametrize(
    "expression",
    [
        A * B / C + sp.sqrt(A) - B**2.5,
        sp.Max(A * B, C**2, B + 3),
        Largest(A, Smallest(B, C) * 1.7, C / 3) * Largest(A, B),
        sp.Piecewise((A**2, A < B), (B * C, B > 2), (C, True)),
        sp.ceiling(A / B) * B + sp.floor(C) * A + sp.Mod(A, C) * B,
        sp.exp(-A / C) * sp.log(B) + A**B + 2**A,
        sp.Min(A, B) / (A + sp.Max(B, C)),
    ],
)
def test_the_gradient_is_that_of_the_symbolic_derivatives(expression: sp.Expr) -> None:
    formula = Formula(expression, "s", "")
    found = formula.gradient(POINTS)
    assert set(found) == set(formula.names)
    for name in formula.names:
        wanted = np.broadcast_to(formula.derivative(name).evaluate(POINTS), (2, 3))
        np.testing.assert_allclose(np.broadcast_to(found[name], (2, 3)), wanted, rtol=1e-12, atol=1e-14)


def test_the_first_of_equal_sides_counts_and_an_infinite_inactive_side_does_not() -> None:
    assert float(Formula(Largest(2 * A, B), "s", "").gradient({"a": 1.0, "b.long": 2.0})["a"]) == 2.0
    guarded = sp.Piecewise((B, A < 1), (C / (A - 0.5), True))
    assert float(Formula(guarded, "s", "").gradient({"a": 0.5, "b.long": 2.0, "c": 1.0})["c"]) == 0.0


@pytest.mark.parametrize("criterion", [None, symbol("tile") * A])
def test_a_choice_keeps_the_row_that_it_picks(criterion: sp.Expr | None) -> None:
    tile = symbol("tile")
    least = MinOverConfigs(B * C / tile + A * tile, "s", "", menu=FrozenDict(tile=(1.0, 2.0, 7.0)), criterion=criterion)
    step = 1e-6
    for name, slope in least.gradient(POINTS).items():
        up, down = ({**POINTS, name: POINTS[name] + sign * step} for sign in (1, -1))
        numeric = (least.evaluate(up) - least.evaluate(down)) / (2 * step)
        np.testing.assert_allclose(np.broadcast_to(slope, (2, 3)), numeric, rtol=1e-6, atol=1e-7)


def test_slopes_come_by_name_so_that_sums_of_them_have_one_order() -> None:
    """A set's order hangs on PYTHONHASHSEED, and the last digit of a sum on the order."""
    many = sp.Add(*(symbol(name) ** 2 for name in "zyxwvutsr"))
    assert list(Formula(many, "s", "").gradient(dict.fromkeys("zyxwvutsr", 1.0))) == sorted("zyxwvutsr")
