"""Mixtures of predictions: laws of the weights, and no worse than the best single way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.estimators.learning.mixing import MethodWeights, Split, mixture
from slipstick.estimators.tuned.tuned_unseen import SOFT
from slipstick.hwmodels.files.readers import InputError

EXPECTED = {"formula": 0.5, "nearest": 0.5}


def splits(generator: np.random.Generator, scatters: tuple[float, float], groups: int = 3) -> list[Split]:
    found = []
    for _ in range(groups):
        truth = generator.normal(-7, 2, 200)
        ways = {
            name: truth + generator.normal(0, s, 200) for name, s in zip(("formula", "nearest"), scatters, strict=True)
        }
        found.append(Split(ways, truth))
    return found


def rms(mixed: MethodWeights, new: Split) -> float:
    return float(np.sqrt(np.mean((mixed.log(new.predicted) - new.measured) ** 2)))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([(0.1, 0.1), (0.05, 0.8), (0.8, 0.05), (0.3, 0.4)]))
def test_weights_are_shares_and_no_worse_than_the_best_way(seed: int, scatters: tuple[float, float]) -> None:
    generator = np.random.default_rng(seed)
    known, new = splits(generator, scatters), splits(generator, scatters, 1)[0]
    mixed = mixture(EXPECTED, known)
    assert sum(mixed.weights.values()) == pytest.approx(1)
    assert min(mixed.weights.values()) >= 0
    single = min(rms(MethodWeights({name: 1.0}, None), new) for name in EXPECTED)
    assert rms(mixed, new) <= single + 0.1 * SOFT  # errors far below SOFT hardly count


def test_two_equally_good_independent_ways_are_averaged() -> None:
    """The mean of two independent errors of one size has 1/sqrt(2) of it, and the spread says so."""
    generator = np.random.default_rng(1)
    mixed = mixture(EXPECTED, splits(generator, (0.2, 0.2), 6))
    assert mixed.weights["formula"] == pytest.approx(0.5, abs=0.1)
    assert mixed.spread == pytest.approx(0.2 / np.sqrt(2), rel=0.1)


def test_without_groups_the_expected_weights_stay_and_the_spread_is_unknown() -> None:
    mixed = mixture({"formula": 3.0, "nearest": 1.0}, [])
    assert mixed.weights == {"formula": 0.75, "nearest": 0.25} and mixed.spread is None


def test_a_way_without_a_prediction_leaves_the_row_to_the_others() -> None:
    mixed = MethodWeights({"formula": 0.5, "nearest": 0.5}, None)
    logs = mixed.log({"formula": np.array([1.0, 1.0]), "nearest": np.array([3.0, np.nan])})
    assert logs.tolist() == [2.0, 1.0]
    alone = MethodWeights({"formula": 0.0, "nearest": 1.0}, None)
    assert alone.log({"formula": np.array([1.0]), "nearest": np.array([np.nan])}).tolist() == [1.0]
    with pytest.raises(InputError, match="no finite prediction"):
        mixed.log({"formula": np.array([np.nan]), "nearest": np.array([np.nan])})


def test_weights_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="expected weights"):
        mixture({"formula": -1.0, "nearest": 2.0}, [])
