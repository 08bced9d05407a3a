"""Curves drawn where the points leave them, beside the integrals that they stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from slipstick.estimators.scaling.laws.importance_sampling import ImportanceSampler
from slipstick.estimators.scaling.laws.marginal_likelihood import Points, believe, noises
from slipstick.estimators.scaling.laws.priors import PRIORS
from slipstick.estimators.scaling.laws.scaling_laws import NAMES, Curves, prior_boxes

WHOLE = ImportanceSampler.whole([(0, False, 0.3, ((-2.0, 2.0), (-3.0, 3.0), None, None))], 64)


def drawn(counts: int, middle: tuple[float, float], covariance: list[list[float]]) -> ImportanceSampler:
    """Curves about a mean of ln b and ln c."""
    wide = np.zeros((4, 4, 1))
    wide[:2, :2, 0] = covariance
    smaller = replace(WHOLE, counts=np.array([10**6])).around(np.array([0]), np.array([[*middle, 0, 0]]).T, wide)
    return replace(smaller, counts=np.array([counts]))


@pytest.mark.parametrize(("middle", "slope"), [((0.0, 0.0), 0.0), ((0.5, -1.0), 0.8), ((1.9, 2.9), -0.7)])
def test_curves_about_a_mean_stand_for_all_of_the_prior(middle: tuple[float, float], slope: float) -> None:
    """The sum of their prior probabilities is that of the law, and its mean that of the ranges."""
    where, logs = drawn(60_000, middle, [[1.0, slope], [slope, 1.0]]).drawn()
    assert np.exp(logs).sum() == pytest.approx(0.3, rel=0.01)
    assert where[:2] @ np.exp(logs) / 0.3 == pytest.approx([0.0, 0.0], abs=0.03)
    assert np.abs(where[0]).max() <= 2.0 and np.abs(where[1]).max() <= 3.0
    assert np.all(where[2] == 1.0) and np.all(np.exp(where[0]) > 0)


def test_a_narrow_likelihood_is_integrated_by_few_curves() -> None:
    """Of a normal likelihood with correlated coordinates, the integral in closed form by 300 curves."""
    deviations, correlation = (0.02, 0.05), 0.95
    covariance = np.outer(deviations, deviations) * [[1.0, correlation], [correlation, 1.0]]
    where, logs = drawn(304, (0.31, -0.52), covariance.tolist()).drawn()
    first = (where[0] - 0.3) / deviations[0]
    second = ((where[1] + 0.5) / deviations[1] - correlation * first) / np.sqrt(1 - correlation**2)
    whole = float(np.exp(logs) @ (norm.pdf(first) * norm.pdf(second)))
    assert whole == pytest.approx(0.3 / (4.0 * 6.0) * np.prod(deviations) * np.sqrt(1 - correlation**2), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_shares_of_laws_are_those_of_a_million_curves_of_the_prior(noise: float) -> None:
    """The evidence for each law without any curves drawn anew, as it is defined."""
    u, generator = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0]), np.random.default_rng(3)
    times = np.log(2 + 60 / u + 0.05 * u) + noise * generator.standard_normal(len(u))
    points = Points(u, times, np.ones(len(u)), None)
    boxes = prior_boxes((False,), replace(PRIORS, curves=80_000))
    curves = Curves.of(boxes, *boxes.evenly())
    residuals = times[:, None] - curves.log_times(u)
    residuals -= residuals.mean(axis=0)
    weights = np.exp(noises(tuple(u), (1.0,) * len(u), None, PRIORS.noise).weigh(residuals, curves.log_prior).whole)
    shares = np.bincount(curves.law, weights, len(NAMES)) / weights.sum()
    assert believe(points, np.array([64.0])).shares == pytest.approx(shares, abs=0.04)
