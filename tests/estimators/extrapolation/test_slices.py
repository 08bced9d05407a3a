"""A target beyond the data in one parameter alone is answered by the series along it; nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.estimators.scaling.extrapolate import extrapolate
from slipstick.estimators.scaling.series import Series
from slipstick.estimators.scaling.surfaces import extrapolate_surface

SIZES = np.array([100.0, 140.0, 200.0, 280.0, 400.0, 560.0, 800.0, 1120.0])
GRID = np.array([(p, n) for p in (1.0, 2.0) for n in SIZES])
NAMES = ["threads", "n"]


def seconds(points: np.ndarray) -> np.ndarray:
    """A sweep whose array leaves a cache at n = 200 on one thread; two threads have two caches."""
    p, n = points.T
    return 1e-6 * (n + 2 * np.maximum(n - p * 200.0, 0)) / p


def test_the_series_along_the_parameter_answers_at_measured_levels_of_the_others() -> None:
    to = np.array([(1.0, 1600.0), (2.0, 1600.0)])
    answers = extrapolate_surface(GRID, seconds(GRID), NAMES, to).answers
    for one, target, truth in zip(answers, to, seconds(to), strict=True):
        kept = GRID[:, 0] == target[0]
        alone = extrapolate(Series.of(SIZES, seconds(GRID)[kept], "n"), [1600.0], "problem_size")
        assert one.time == pytest.approx(alone.value[0])
        assert alone.low is not None and one.low is not None and one.low <= alone.low[0] < one.time
        assert float(one.law(target)[0]) == pytest.approx(one.time, rel=1e-3)
        assert one.shares and all(name.startswith("series of n") for name, _ in one.shares)
        assert one.time == pytest.approx(truth, rel=0.05)


def test_a_short_series_and_levels_that_were_not_measured_need_the_surface() -> None:
    few = GRID[GRID[:, 1] >= 280]
    (short,) = extrapolate_surface(few, seconds(few), NAMES, [(1.0, 1600.0)]).answers
    (between,) = extrapolate_surface(GRID, seconds(GRID), NAMES, [(1.5, 1600.0)]).answers
    (beyond,) = extrapolate_surface(GRID, seconds(GRID), NAMES, [(4.0, 1600.0)]).answers
    for one in (short, between, beyond):
        assert not any(name.startswith("series") for name, _ in one.shares)
