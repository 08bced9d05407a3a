"""Formulas: broadcasting, derivatives on the active side, printing."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified import evaluate

A, B, C = symbol("a"), symbol("b.c"), symbol("c")
positive = st.floats(0.1, 100)


def test_max_broadcasts_where_numpy_stacks() -> None:
    value = evaluate(sp.Max(A, B, C), {"a": np.arange(3.0)[:, None], "b.c": np.arange(4.0), "c": 1.5})
    assert value.shape == (3, 4)
    assert value[2, 3] == 3 and value[0, 0] == 1.5


@given(positive, positive, positive)
def test_derivatives_equal_finite_differences_away_from_ridges(a: float, b: float, c: float) -> None:
    formula = Formula(sp.Max(A * B, C**2) / (1 + A) + sp.ceiling(C) * sp.sqrt(B), "s", "")
    values = {"a": a, "b.c": b, "c": c}
    for name in values:
        step = 1e-6 * values[name]
        up, down = values | {name: values[name] + step}, values | {name: values[name] - step}
        sides = [v["a"] * v["b.c"] > v["c"] ** 2 for v in (up, down)]
        if sides[0] != sides[1] or np.ceil(up["c"]) != np.ceil(down["c"]):
            continue
        slope = (float(formula.evaluate(up)) - float(formula.evaluate(down))) / (2 * step)
        assert float(formula.derivative(name).evaluate(values)) == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InputError, match=r"no value for b\.c in a formula"):
        evaluate(A + B, {"a": 1.0})
    with pytest.raises(InputError, match=r"unknown symbol of the formula 'z' \(known: a, b.c\)"):
        Formula(A + B, "s", "").derivative("z")


def test_the_largest_term_binds() -> None:
    from slipstick.common.records import FrozenDict

    formula = Formula(sp.Max(A, B), "s", "", FrozenDict({"compute": A, "memory": B}))
    assert formula.bound_by({"a": 1.0, "b.c": 2.0}) == "memory"
    assert formula.bound_by({"a": 3.0, "b.c": 2.0}) == "compute"


def test_latex_has_no_dots_to_trip_over() -> None:
    assert Formula(symbol("machine.memory.L2.bandwidth") * A, "s", "").latex() == r"\mathrm{a} \mathrm{L2\_bandwidth}"


def test_a_condition_that_chooses_between_conditions_is_evaluated() -> None:
    x, y = sp.symbols("x y")
    chosen = sp.Piecewise((1, sp.ITE(x > 0, y > 0, y < 0)), (0, True))
    values = {"x": np.array([1.0, 1.0, -1.0, -1.0]), "y": np.array([1.0, -1.0, 1.0, -1.0])}
    assert evaluate(chosen, values).tolist() == [1, 0, 0, 1]
