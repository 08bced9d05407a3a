"""Formulas as steps: the same values as sympy's own evaluation, and nothing from a file that is not such steps."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.estimators.symbolic.lambdified import evaluate
from slipstick.estimators.symbolic.lambdified.lowering import lowered
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.estimators.symbolic.lambdified.tape import Tape

A, B, C = symbol("a"), symbol("machine.b"), symbol("c")
LEAVES = st.sampled_from([A, B, C]) | st.integers(-9, 9).map(sp.Integer) | st.floats(0.1, 9).map(sp.Float)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from([sp.Add, sp.Mul, sp.Max, sp.Min, Largest, Smallest]), inner, inner).map(
            lambda one: one[0](one[1], one[2])
        ),
        st.tuples(inner, st.sampled_from([-2, -1, sp.Rational(-1, 2), sp.Rational(1, 3), 2])).map(
            lambda one: sp.Abs(one[0] + 10) ** one[1]
        ),
        inner.map(sp.ceiling),
        inner.map(sp.floor),
    ),
    max_leaves=12,
)
POINT = {"a": 1.375, "machine.b": 2.5, "c": 0.8125}


@given(TREES)
def test_a_tape_is_the_expression(expression: sp.Expr) -> None:
    exact = expression.subs({symbol(name): sp.Float(value, 40) for name, value in POINT.items()}).evalf(30)
    if exact.is_finite and exact.is_real:
        steps = sorted({*expression.atoms(sp.floor, sp.ceiling)}, key=str)
        if not steps:  # at a step, a rounding error decides
            assert float(evaluate(expression, POINT)) == pytest.approx(float(exact), rel=1e-9, abs=1e-9)


@given(TREES)
def test_a_tape_comes_back_from_its_data(expression: sp.Expr) -> None:
    tape = lowered(expression, ("a", "c", "machine.b"))
    again = Tape.of(json.loads(json.dumps(tape.data())))
    assert again == tape
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(again(1.375, 0.8125, 2.5), tape(1.375, 0.8125, 2.5))


CALLS = st.lists(
    st.tuples(*[st.sampled_from([1.5, 2.25, 3.0])] * 2, st.sampled_from([0, 1, 2])), min_size=2, max_size=9
)


@given(TREES, CALLS)
def test_what_a_call_before_left_changes_no_answer(expression: sp.Expr, calls: list[tuple[float, float, int]]) -> None:
    """The same numbers and arrays again and again, beside steps that were never called."""
    names = ("a", "c", "machine.b")
    tape, arrays = lowered(expression, names), [np.array([1.0, 4.0, 2.5]), np.array([0.5, 3.0, 9.0]), np.ones(5)]
    for one in arrays[1:]:
        one.flags.writeable = False
    for a, c, place in calls:
        arrays[0] += 1.0
        fresh = Tape(tape.arguments, tape.constants, tape.steps, tape.results)
        with np.errstate(all="ignore"):
            given_now = tape(a, np.asarray(c), arrays[place])
            np.testing.assert_array_equal(given_now, fresh(a, np.asarray(c), arrays[place]))
        if isinstance(given_now, np.ndarray) and all(given_now is not one for one in arrays):
            given_now[...] = -1.0


def test_arrays_broadcast_and_steps_hold() -> None:
    expression = sp.Piecewise((A, A < B), (sp.Mod(A, B), True)) + sp.ceiling(A / 3) * Largest(A, B, 1)
    a, b = np.arange(1.0, 7.0)[:, None], np.array([2.0, 4.0])
    wanted = np.where(a < b, a, a % b) + np.ceil(a / 3) * np.maximum(np.maximum(a, b), 1)
    np.testing.assert_allclose(evaluate(expression, {"a": a, "machine.b": b}), wanted, rtol=1e-15)


def test_what_no_tape_knows_is_refused() -> None:
    with pytest.raises(InputError, match="no function that can be evaluated"):
        lowered(sp.Function("__import__")(A), ("a",))
    with pytest.raises(InputError, match="no value for machine.b"):
        lowered(A + B, ("a",))


@pytest.mark.parametrize(
    "data",
    [
        [1, [], [["system", 0]], [1], 0],
        [1, ["1"], [], [0], 0],
        [1, [], [["add", 0, 1]], [1], 0],
        [1, [], [["add", 0, -1]], [1], 0],
        [1, [], [["add", 0]], [1], 0],
        [1, [], [["select", 0]], [1], 0],
        [1, [True], [], [0], 0],
        [1, [], [], [7], 0],
        [1, [], [], [], 0],
        {"steps": 1},
        None,
        [1.5, [], [], [0], 0],
    ],
)
def test_data_that_is_no_tape_is_refused(data: Any) -> None:
    with pytest.raises(InputError):
        Tape.of(data)
