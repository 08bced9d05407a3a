"""Formulas taken apart give the numbers of the formula evaluated whole, row by row."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.expressions import parse_expression
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.symbolic.batched_sum import Maximum, Product, Tables, TermRows, WholeTerm
from slipstick.estimators.symbolic.factored_formula import separate
from slipstick.estimators.symbolic.lambdified import evaluate
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload

TEXTS = {
    "product": "r.a*p.x/p.y",
    "sum": "r.a/p.x + r.b*(p.y + 3)",
    "two sides": "Max(r.a/p.x, r.b/p.y) + r.b*p.y",
    "two sides, scaled": "2*p.y*Max(r.a/p.x, r.b*p.y + r.a*p.y)",
    "three sides": "Max(r.a/p.x, r.b/p.y, r.a*p.y)",
    "sides of several parts": "Max(r.a/p.x + r.b*p.y, r.b/p.y)",
    "nested": "Max(r.a/p.x, r.b*(p.y + Max(r.a, p.x)))",
    "steps": "ceiling(r.a/p.x)*p.y",
    "of rows alone": "Max(r.a, r.b) + 2",
    "of points alone": "sqrt(p.x)",
}
positive = st.floats(1e-3, 1e3)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@given(
    rows=st.lists(st.tuples(positive, positive, st.integers(0, 5)), min_size=1, max_size=6),
    points=st.lists(st.tuples(positive, positive), min_size=1, max_size=6),
)
def test_the_parts_add_up_to_the_whole(
    text: str, rows: list[tuple[float, float, int]], points: list[tuple[float, float]]
) -> None:
    expression = parse_expression(text)
    terms = separate(expression, lambda symbol: str(symbol).startswith("r."))
    a, b, weights = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    x, y = (np.array(column) for column in zip(*points, strict=True))
    found = Tables.of([TermRows(terms, {"r.a": a, "r.b": b}, weights)]).total({"p.x": x, "p.y": y})
    grid = {"r.a": a[:, None], "r.b": b[:, None], "p.x": x[None], "p.y": y[None]}
    whole = np.sum(weights[:, None] * np.broadcast_to(evaluate(expression, grid), (len(a), len(x))), axis=0)
    assert np.allclose(np.broadcast_to(found, x.shape), whole, rtol=1e-11, atol=0)


def test_a_roofline_is_products_and_one_maximum() -> None:
    terms = separate(parse_expression("Max(r.f/p.x + r.g/p.x, r.b/p.y) + r.n*(p.o + p.q)"), _is_row)
    assert [type(term) for term in terms] == [Product, Maximum]
    maximum = terms[1]
    assert isinstance(maximum, Maximum)
    assert sorted(len(side) for side in maximum.sides) == [1, 1]


def test_what_cannot_be_taken_apart_stays_whole() -> None:
    assert isinstance(separate(parse_expression("sqrt(r.a + p.x)"), _is_row)[0], WholeTerm)


def _is_row(symbol: sp.Symbol) -> bool:
    return str(symbol).startswith("r.")


def test_gnmt_at_random_points_equals_its_single_estimates() -> None:
    gnmt, v100 = workload("gnmt"), machine("v100-sxm")
    model = ComposedEstimator(Roofline(0.6, 0.8, 2e-6), Sequential())
    bandwidth = f"machine.memory.{v100.main_memory}.bandwidth"
    free = ("workload.seq_len", "machine.clock", bandwidth, "estimator.operation.compute_efficiency")
    function = model.compile(gnmt, v100, free)
    assert isinstance(function, Compiled)
    generator = np.random.default_rng(3)
    count = 12
    points = {
        "workload.seq_len": generator.integers(1, 300, count).astype(float),
        "machine.clock": generator.uniform(5e8, 3e9, count),
        bandwidth: generator.uniform(1e11, 4e12, count),
        "estimator.operation.compute_efficiency": generator.uniform(0.1, 1.0, count),
    }
    together = function(points)
    for index in range(count):
        changed = v100.using({"clock": points["machine.clock"][index], bandwidth[8:]: points[bandwidth][index]})
        one = ComposedEstimator(
            Roofline(points["estimator.operation.compute_efficiency"][index], 0.8, 2e-6), Sequential()
        )
        single = one.estimate(gnmt, changed, {"seq_len": points["workload.seq_len"][index]}).time
        assert together[index] == pytest.approx(single, rel=1e-12)
