"""Fits without groups: known numbers come back, outliers and repeated rows do not decide."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.estimators.fitting.fitted_model import FormulaLaw
from slipstick.estimators.fitting.formula_model import expected, plain_fit

WORK = np.exp(np.random.default_rng(1).uniform(-6.0, 6.0, 200))
LINE = FormulaLaw(
    "line", (expected("start", 0.1, 1.0), expected("slope", 1.0, 1.0)), lambda n, _: n["start"] + n["slope"] * WORK
)
TRUE = {"start": 0.4, "slope": 2.5}
SECONDS = TRUE["start"] + TRUE["slope"] * WORK


def test_the_numbers_of_a_line_come_back() -> None:
    assert plain_fit(LINE, SECONDS) == pytest.approx(TRUE, rel=1e-3)


def test_a_tenth_of_outliers_moves_nothing() -> None:
    wild = np.where(np.arange(len(WORK)) % 10 == 0, 8.0, 1.0)
    assert plain_fit(LINE, SECONDS * wild) == pytest.approx(TRUE, rel=0.05)


def test_rows_of_one_configuration_count_as_few() -> None:
    """Half of the rows are one configuration that takes twice as long: between the two, nearer to the others."""
    off, alike = np.where(np.arange(200) < 100, 2.0, 1.0), ["one"] * 100 + [str(row) for row in range(100)]
    flat = FormulaLaw("flat", (expected("level", 1.0, 1.0),), lambda n, _: n["level"] * np.ones(200))
    single, counted = plain_fit(flat, off)["level"], plain_fit(flat, off, alike)["level"]
    assert counted == pytest.approx(1.0, abs=0.05) and single > 1.2


def test_a_number_ends_where_it_must() -> None:
    factor = np.linspace(-1.0, 1.0, 50)
    share = FormulaLaw("share", (expected("share", 0.7, 0.3, high=1.0),), lambda n, _: np.exp(n["share"] * factor))
    assert plain_fit(share, np.exp(3.0 * factor))["share"] == pytest.approx(1.0, rel=1e-6)


def test_no_time_that_is_not_positive() -> None:
    with pytest.raises(ValueError, match="want at least one, all of positive times"):
        plain_fit(LINE, np.zeros(200))
