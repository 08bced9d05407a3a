"""Menus on many points: rows that are never the least are left out, and the answer is that of all rows."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.symbolic.formula import MinOverConfigs

X, Y, T, S = (symbol(name) for name in ("x", "y", "t", "s"))
TILES, SPLITS = (1.0, 2.0, 3.0, 4.0, 7.0), (0.5, 2.0, 5.0, 9.0)
ROWS = tuple((tile, split) for tile in TILES for split in SPLITS)
MENU = FrozenDict({"t": tuple(tile for tile, _ in ROWS), "s": tuple(split for _, split in ROWS)})
FORMULAS = (
    sp.ceiling(X / T) * T / Y + S * Y,
    sp.Max(X / T, Y * S) + sp.Min(X, S) / T,
    (X - Y * T) ** 2 + S,
    sp.sqrt(X) * T - Y / S,
    sp.Max(0, X - T) * Y - S * X,
    sp.log(X) * T + sp.exp(-Y) * S,
    X ** sp.Rational(2, 3) / T + sp.Mod(Y, S),
    sp.Piecewise((X * T, X > Y), (Y * S, True)),
    (X / Y) ** 3 / T + S / X**2,
    X / (Y - T),
    X + Y,
)


@pytest.mark.parametrize("formula", FORMULAS, ids=str)
@pytest.mark.parametrize("least", [-3.0, 1e-3])
@pytest.mark.parametrize("shape", [(30_000, 1), (5, 6_000), (150, 150)])
def test_the_least_of_many_points_is_that_of_every_row_by_itself(
    formula: sp.Expr, least: float, shape: tuple[int, int]
) -> None:
    """One row at a time is computed without ranges; signs, poles and what is not a number included."""
    generator = np.random.default_rng(len(str(formula)))
    x, y = np.sort(generator.uniform(least, 9, shape[0]))[:, None], generator.uniform(least, 5, shape[1])
    whole = MinOverConfigs(formula, "1", "", menu=MENU)
    with np.errstate(all="ignore"):
        found = whole.evaluate({"x": x, "y": y})
        each = [whole.lowered.whole({"x": x, "y": y, "t": tile, "s": split}) for tile, split in ROWS]
    assert np.array_equal(found, np.min(np.broadcast_arrays(*each), axis=0), equal_nan=True)
