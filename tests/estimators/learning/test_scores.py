"""Scores of predictions and bands: published formulas, closed forms, and what no change of unit may alter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from slipstick.estimators.fitting import scores

POSITIVE = st.floats(1e-6, 1e6)
ROWS = st.lists(st.tuples(POSITIVE, POSITIVE, POSITIVE, POSITIVE), min_size=1, max_size=20)


def test_the_interval_score_is_that_of_gneiting_and_raftery() -> None:
    """Inside: the width; a factor e outside: 2 / 0.2 more (Gneiting and Raftery 2007, equation 43, in log time)."""
    assert scores.interval_score([1.0], [np.e], [1.5]) == pytest.approx(1.0)
    assert scores.interval_score([1.0], [np.e], [1 / np.e]) == pytest.approx(1.0 + 10.0)
    assert scores.interval_score([1.0], [np.exp(2.0)], [np.exp(3.0)], 0.9) == pytest.approx(2.0 + 20.0)


def test_the_binomial_interval_is_that_of_clopper_and_pearson() -> None:
    """None of 10 leaves up to 1 - 0.025^(1/10); 5 of 10 is symmetric."""
    assert scores.binomial_interval(0, 10) == (0.0, pytest.approx(1 - 0.025**0.1))
    low, high = scores.binomial_interval(5, 10)
    assert low == pytest.approx(1 - high)


def test_groups_drawn_again_scatter_as_a_binomial_share() -> None:
    """40 groups of 25 rows, 30 of them wholly inside: the coverage of drawn groups is a binomial share of 40."""
    groups = [f"source {place}" for place in range(40) for _ in range(25)]
    held = np.repeat(np.arange(40) < 30, 25)
    low, high = scores.grouped_coverage(groups, held)
    assert [40 * low, 40 * high] == pytest.approx(binom.ppf([0.05, 0.95], 40, 0.75), abs=1)
    assert scores.grouped_coverage(["one"] * 4, [1, 1, 1, 0]) == (0.75, 0.75)


@given(ROWS, POSITIVE)
def test_another_unit_of_time_changes_no_score(rows: list[tuple[float, ...]], unit: float) -> None:
    predicted, low, wide, measured = np.array(rows).T
    high = low * (1 + wide)
    plain = scores.score(predicted, low, high, measured)
    scaled = scores.score(*(unit * values for values in (predicted, low, high, measured)))
    for name in ("mape", "median", "ninetieth", "width"):
        assert getattr(scaled, name) == pytest.approx(getattr(plain, name), rel=1e-9, abs=1e-9)
    assert plain.interval >= float(np.mean(np.log(high / low))) - 1e-9


def test_one_band_for_all_rows_is_chosen_with_hindsight() -> None:
    """Log errors 0, 1, 2, 3, 4: four of five lie within 3.2, so 2 x 3.2 wide and 0.8 of one row outside."""
    measured = np.exp([0.0, 1.0, -2.0, 3.0, -4.0])
    assert scores.constant_band_score(np.ones(5), measured) == pytest.approx(6.4 + 10 * 0.8 / 5)


def test_the_width_that_would_have_held_is_that_of_the_row_at_the_level() -> None:
    """Half-widths away by hand, each side by its own width; bands made so much wider hold 80 % to a row."""
    away = scores.half_widths_away([1.0, 0.5, 2.0], [2.0, 1.0, 2.0], [8.0, 2.0, 2.0], [4.0, 0.25, 2.0])
    assert away == pytest.approx([0.5, 2.0, 0.0])
    ours, measured = np.ones(10), np.exp(np.arange(10) / 10)
    away = scores.half_widths_away(ours / 1.5, ours, 1.5 * ours, measured)
    wide = 1.5 ** np.quantile(away, 0.8)
    assert scores.coverage(ours / wide, ours * wide, measured) == 0.8
