"""What is computed in blocks, in single precision, or only where it is asked, beside the sums of its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.model_averaging import Average
from slipstick.estimators.scaling.laws.marginal_likelihood import noises
from slipstick.estimators.scaling.laws.priors import PRIORS


@pytest.mark.parametrize("runs", [(1.0,) * 6, (3.0, 1.0, 2.0, 3.0, 3.0, 5.0)])
def test_curves_are_weighed_as_normal_noise_whose_scale_is_integrated_out(runs: tuple[float, ...]) -> None:
    """ln of the integral over ln scale of the normal densities of all points, for each noise, and their mean."""
    generator = np.random.default_rng(1)
    possible = noises((1.0, 2.0, 3.0, 4.0, 8.0, 16.0), runs, 0.02 if max(runs) > 1 else None, PRIORS.noise)
    residuals = generator.normal(0.0, 0.05, (6, 700))
    residuals[2, ::7] += 0.6
    residuals -= residuals.mean(axis=0)
    prior = generator.normal(-8.0, 1.0, 700)
    marginal = possible.weigh(residuals, prior)

    weights = possible.precisions[..., None]
    scale = (weights * residuals[:, None]).sum(axis=0) / weights.sum(axis=0)
    squares = (weights * (residuals[:, None] - scale) ** 2).sum(axis=0)
    logs = 0.5 * (np.log(weights).sum(axis=0) - np.log(weights.sum(axis=0)) - squares) + possible.log_prior[:, None]
    shares = np.exp(logs - logsumexp(logs, axis=0))
    middle = (shares * scale).sum(axis=0)
    known = 1.0 / weights.sum(axis=0) + possible.beyond[:, None]
    variance = (shares * (known + (scale - middle) ** 2)).sum(axis=0)
    outlier = np.stack([shares[possible.outlier == point].sum(axis=0) for point in range(6)])

    assert marginal.whole == pytest.approx(logsumexp(logs, axis=0) + prior, abs=2e-5)
    assert marginal.middle == pytest.approx(middle, abs=1e-6)
    assert marginal.variance == pytest.approx(variance, rel=2e-5, abs=1e-8)
    assert marginal.outlier == pytest.approx(outlier, abs=1e-5)


def test_curves_that_say_the_same_weigh_the_same_wherever_they_stand() -> None:
    possible = noises((1.0, 2.0, 4.0, 8.0, 16.0), (1.0,) * 5, None, PRIORS.noise)
    for curves in (33, 700, 1501):
        residuals = np.repeat(np.array([[0.01], [-0.03], [0.02], [0.03], [-0.03]]), curves, axis=1)
        marginal = possible.weigh(residuals, np.zeros(curves))
        assert (
            len(set(marginal.whole.tolist()))
            == len(set(marginal.middle.tolist()))
            == len(set(marginal.variance.tolist()))
            == 1
        )


def mixture(seed: int, candidates: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights, middles in two lumps, and variances, of seeds."""
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.full(candidates, 0.3))
    middles = generator.normal(size=(candidates, 2)) + 3.0 * (generator.random((candidates, 1)) < 0.3)
    return weights, middles, generator.uniform(0.01, 0.3, candidates)


@pytest.mark.parametrize("seed", range(4))
def test_quantiles_and_probabilities_are_those_of_the_mixture(seed: int) -> None:
    weights, middles, variances = mixture(seed, 900)
    average = Average(weights, middles, variances)
    for level in (0.1, 0.5, 0.9):
        at = average.quantiles(level)[0]
        below = [weights @ norm.cdf((at[i] - middles[:, i]) / np.sqrt(variances)) for i in range(2)]
        assert below == pytest.approx([level, level], abs=0.01)
    inside = average.between(np.array([-0.5, 0.0]), np.array([0.7, 2.0]))
    ends = [norm.cdf((end - middles) / np.sqrt(variances)[:, None]) for end in ([-0.5, 0.0], [0.7, 2.0])]
    assert inside == pytest.approx(weights @ (ends[1] - ends[0]), abs=0.01)


def test_stretched_scores_move_ends_and_probabilities_together() -> None:
    weights, middles, variances = mixture(1, 300)
    plain, wide = (Average(weights, middles, variances, *ends) for ends in ((1.0, 1.0), (1.2, 1.5)))
    for average in (plain, wide):
        low, middle, high = average.quantiles(0.1, 0.5, 0.9)
        assert average.between(low, high) == pytest.approx([0.8, 0.8], abs=1e-3)
        assert middle == pytest.approx(plain.quantiles(0.5)[0], abs=1e-4)
    # 1.2816 x 1.5 deviations up are those of 97.3 %
    assert wide.quantiles(0.9)[0] == pytest.approx(plain.quantiles(norm.cdf(1.5 * norm.ppf(0.9)))[0], abs=1e-3)
