"""Mixtures of predictions: laws of the weights, and bands that widen by what the ways lie apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.fitted_model import QUANTILE
from slipstick.experiments.scoreboards.experts.ensemble_weights import MethodWeights, Split, mixture

WAYS = ("formula", "nearest")


def splits(generator: np.random.Generator, scatters: tuple[float, float], groups: int = 3) -> list[Split]:
    found = []
    for number in range(groups):
        truth = generator.normal(-7, 2, 400)
        ways = {name: truth + generator.normal(0, s, 400) for name, s in zip(WAYS, scatters, strict=True)}
        found.append(Split(ways, truth, f"generation {number}", np.full(400, QUANTILE * scatters[0])))
    return found


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([(0.1, 0.1), (0.05, 0.8), (0.8, 0.05), (0.3, 0.4)]), st.integers(1, 8))
def test_weights_are_shares_between_equal_ones_and_those_of_least_variance(
    seed: int, scatters: tuple[float, float], groups: int
) -> None:
    """Of independent normal errors least squares and one group more, in which both err alike, have a closed form.

    In the group more each errs by what the ways lie apart, half the sum of the variances; n groups count n times.
    """
    mixed = mixture(WAYS, splits(np.random.default_rng(seed), scatters, groups))
    first, second = (scatter**2 for scatter in scatters)
    drawn = (first + second) / groups  # of both ways
    assert sum(mixed.weights.values()) == pytest.approx(1)
    assert mixed.weights["formula"] == pytest.approx((second + drawn / 2) / (first + second + drawn), abs=0.07)


def test_more_groups_leave_equal_weights_behind() -> None:
    generator = np.random.default_rng(3)
    few, many = (mixture(WAYS, splits(generator, (0.1, 0.5), groups)).weights["formula"] for groups in (1, 20))
    assert 0.5 < few < many < 1.0
    assert many == pytest.approx(0.25 / 0.26, abs=0.05)


def test_twins_count_as_one_group() -> None:
    """Four devices of one generation that say the same say it once."""
    one = splits(np.random.default_rng(4), (0.1, 0.5), 1)
    assert mixture(WAYS, one * 4).weights == pytest.approx(dict(mixture(WAYS, one).weights), abs=1e-3)


def test_other_cases_stand_in_the_place_of_equal_weights() -> None:
    generator = np.random.default_rng(5)
    others, own = splits(generator, (0.05, 0.8), 6), splits(generator, (0.3, 0.3), 1)
    alone, among = mixture(WAYS, own), mixture(WAYS, [*others, *own], own)
    assert alone.weights["formula"] == pytest.approx(0.5, abs=0.05)
    assert among.weights["formula"] > 0.65
    assert mixture(WAYS, others, []).weights == mixture(WAYS, others).weights


def test_two_equally_good_independent_ways_are_averaged_and_their_band_holds_80_percent() -> None:
    """The mean of two independent errors of one size has 1/sqrt(2) of it."""
    known = splits(np.random.default_rng(1), (0.2, 0.2), 40)
    mixed, own = mixture(WAYS, known), np.full(400, QUANTILE * 0.2)
    assert mixed.weights["formula"] == pytest.approx(0.5, abs=0.05)
    held = [
        np.abs(mixed.median(one.predicted, own) - one.measured) <= mixed.half_width(one.predicted, own) for one in known
    ]
    assert 0.8 <= np.mean(held) < 0.84  # four groups more speak for the wider band of a mixture


def test_without_groups_weights_are_equal_and_the_band_is_that_of_a_mixture() -> None:
    mixed = mixture(WAYS, [])
    assert mixed.weights == {"formula": 0.5, "nearest": 0.5} and mixed.stretch == 1.0
    ways = {"formula": np.array([1.0, 1.0]), "nearest": np.array([3.0, 1.0])}
    half = mixed.half_width(ways, np.array([0.5, 0.5]))
    assert half == pytest.approx([np.hypot(0.5, QUANTILE), 0.5])  # the ways lie 1 from their middle


def test_a_way_without_a_prediction_leaves_the_row_to_the_others() -> None:
    mixed = MethodWeights({"formula": 0.5, "nearest": 0.5})
    ways = {"formula": np.array([1.0, 1.0]), "nearest": np.array([3.0, np.nan])}
    assert mixed.mean(ways).tolist() == [2.0, 1.0]
    assert mixed.median(ways, np.full(2, 0.3)) == pytest.approx([2.0, 1.0])
    alone = MethodWeights({"formula": 0.0, "nearest": 1.0})
    assert alone.mean({"formula": np.array([1.0]), "nearest": np.array([np.nan])}).tolist() == [1.0]
    with pytest.raises(InputError, match="no finite prediction"):
        mixed.mean({"formula": np.array([np.nan]), "nearest": np.array([np.nan])})


def test_one_way_far_off_moves_a_median_little_and_near_ones_are_averaged() -> None:
    """Among three the farthest leaves the 3/4 quantile of the others at most; within the scatter the mean is right."""
    three = MethodWeights(dict.fromkeys(("a", "b", "c"), 1 / 3))
    own = np.array([0.01 * QUANTILE, 100.0])
    logs = three.median({"a": np.array([1.0, 1.0]), "b": np.array([2.0, 2.0]), "c": np.array([50.0, 4.5])}, own)
    assert logs == pytest.approx([2.0, 2.5], abs=1e-3)


@given(
    st.lists(st.floats(-5, 5), min_size=4, max_size=4),
    st.lists(st.floats(0.01, 1), min_size=4, max_size=4),
    st.floats(0.05, 2),
)
def test_a_median_lies_among_the_ways_and_moves_with_them(logs: list[float], weights: list[float], own: float) -> None:
    names = ("a", "b", "c", "d")
    total = sum(weights)
    mixed = MethodWeights({name: weight / total for name, weight in zip(names, weights, strict=True)})

    def median(values: list[float]) -> float:
        ways = {name: np.array([value]) for name, value in zip(names, values, strict=True)}
        return float(mixed.median(ways, np.array([own]))[0])

    found = median(logs)
    assert min(logs) - 1e-9 <= found <= max(logs) + 1e-9
    assert median([value + 1.5 for value in logs]) == pytest.approx(found + 1.5, abs=1e-6)
    assert median([-value for value in logs]) == pytest.approx(-found, abs=1e-6)


def test_no_way_is_refused() -> None:
    with pytest.raises(InputError, match="no way of predicting"):
        mixture([], [])
