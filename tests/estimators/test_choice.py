"""The least over a menu, against a loop over its rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.symbolic.formula import MinOverConfigs
from slipstick.estimators.symbolic.lambdified import argmin_over_menu as blocks
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest

TILES, SPLITS = ((128.0, 64.0), (64.0, 64.0), (32.0, 16.0)), (1.0, 2.0, 4.0, 8.0)
ROWS = [(*tile, split) for tile, split in itertools.product(TILES, SPLITS)]
MENU = FrozenDict({f"choice.{n}": tuple(row[i] for row in ROWS) for i, n in enumerate(("rows", "columns", "parts"))})
M, N, CORES, RATE = (symbol(n) for n in ("m", "n", "cores", "rate"))
A, B, P = (symbol(f"choice.{n}") for n in ("rows", "columns", "parts"))
EXPRESSION = Largest(M / A * N / B * P / CORES, 3 / P) * A * B / RATE + P


def by_row(values: dict[str, np.ndarray]) -> np.ndarray:
    """The same, one row of the menu after the other."""
    m, n, cores, rate = (values[name] for name in ("m", "n", "cores", "rate"))
    found = [np.maximum(m / a * n / b * p / cores, 3 / p) * a * b / rate + p for a, b, p in ROWS]
    return np.asarray(np.min(np.broadcast_arrays(*found), axis=0))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), st.integers(1, 9), st.integers(24, 4000), st.integers(1, 40), st.booleans())
def test_blocks_of_any_size_give_the_loop(
    operations: int, machines: int, chunk: int, inner: int, swapped: bool
) -> None:
    generator = np.random.default_rng(operations)
    m, n = (generator.uniform(1, 1e4, operations) for _ in range(2))
    cores, rate = (generator.uniform(1, 200, machines) for _ in range(2))
    values = {"m": m[:, None], "n": n[:, None], "cores": cores, "rate": rate}
    if swapped:
        values = {name: array.T if array.ndim == 2 else array[:, None] for name, array in values.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "CHUNK", chunk)
        patch.setattr(blocks, "INNER", inner)
        found = MinOverConfigs(EXPRESSION, "s", "", menu=MENU).evaluate(values)
    assert found == pytest.approx(by_row(values), rel=1e-12)


def test_three_axes_and_scalars() -> None:
    generator = np.random.default_rng(1)
    values = {
        "m": generator.uniform(1, 1e4, (40, 1, 1)),
        "n": generator.uniform(1, 1e4, (30, 1)),
        "cores": generator.uniform(1, 200, 50),
        "rate": np.array(2.0),
    }
    found = MinOverConfigs(EXPRESSION, "s", "", menu=MENU).evaluate(values)
    assert found.shape == (40, 30, 50)
    assert found == pytest.approx(by_row(values), rel=1e-12)


def test_slopes_keep_the_row_of_each_point() -> None:
    m = np.linspace(10, 5000, 300)
    values = {"m": m, "n": np.array(300.0), "cores": np.array(64.0), "rate": np.array(5.0)}
    formula = MinOverConfigs(EXPRESSION, "s", "", menu=MENU)
    slope = formula.derivative("m").evaluate(values)
    higher, lower = (formula.evaluate({**values, "m": m + step}) for step in (1e-5, -1e-5))
    assert np.median(np.abs(slope - (higher - lower) / 2e-5)) < 1e-6


def test_a_menu_that_is_no_product_is_one_axis() -> None:
    menu: FrozenDict[tuple[float, ...]] = FrozenDict({"choice.a": (1.0, 2.0, 3.0), "choice.b": (5.0, 5.0, 7.0)})
    formula = MinOverConfigs((symbol("x") - symbol("choice.a")) ** 2 + symbol("choice.b"), "1", "", menu=menu)
    assert formula.evaluate({"x": np.array([1.0, 2.1, 9.0])}) == pytest.approx([5.0, 5.01, 43.0])
