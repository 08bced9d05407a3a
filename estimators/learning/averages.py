"""Candidates averaged by the evidence for each: one distribution, its quantiles, and the probability of being near.

A candidate is one model with all its parameters set; what remains unknown of its answer is a normal distribution. Their
mixture is the posterior predictive distribution (Hoeting et al. 1999, Bayesian model averaging: a tutorial, Section 1).
One factor learned on groups left out, the inflation, stretches it about its median.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified import FloatArray

_SHARES = np.array([0.005, 0.03, 0.07, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.93, 0.97, 0.995])
_BEYOND = np.array([-2.5, -1.3, -0.6, 0.6, 1.3, 2.5])
_LEAST, _SMALLEST = 1e-12, 1e-15
_FARTHEST = 8.0
_HALVES = np.array([0.4, 0.5, 0.6])


def shares_of_evidence(logarithms: FloatArray) -> FloatArray:
    """Posterior probabilities of candidates from the logarithms of prior times likelihood, shape (candidates, ...)."""
    weights = np.exp(logarithms - logarithms.max())
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, eq=False)
class Average:
    """A mixture of normal distributions, usually of log time.

    `weights`: posterior probabilities of the candidates, shape (candidates,), sum 1.
    `middles`: what each says, shape (candidates, targets).
    `variances`: what remains unknown of it, shape (candidates,).
    `inflation`: how far quantiles move away from the median: 1 where the candidates are right.
    """

    weights: FloatArray
    middles: FloatArray
    variances: FloatArray
    inflation: float = 1.0

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray]:
        """Points and the probability of being below them, as standard normal quantiles; shape (targets, points)."""
        from scipy.special import ndtr, ndtri

        deviations = np.sqrt(np.maximum(self.variances, _LEAST))
        typical = float(np.sqrt(self.weights @ self.variances + _LEAST))
        places, normal = [], []
        for middles in self.middles.T:
            order = np.argsort(middles)
            inner = middles[order[np.minimum(np.searchsorted(np.cumsum(self.weights[order]), _SHARES), len(order) - 1)]]
            ends = [inner[0] - _FARTHEST * typical, inner[-1] + _FARTHEST * typical]
            points = np.sort(np.concatenate([ends, inner, inner[len(inner) // 2] + typical * _BEYOND]))
            below = points[:, None] - middles
            below /= deviations
            below = ndtr(below, out=below) @ self.weights
            places.append(points)
            normal.append(ndtri(np.clip(below, _SMALLEST, 1.0 - _SMALLEST)))
        return np.array(places), np.array(normal)

    @cached_property
    def densest(self) -> FloatArray:
        """The middle of the shortest range that holds half of the candidates' probability, shape (targets,).

        Of a lopsided distribution it lies nearer to the mode than the median does, so that the median of many errors
        is smaller (Bickel and Fruehwirth 2006, On a fast, robust estimator of the mode). The mean over ranges of 40,
        50 and 60 % keeps single candidates from deciding. Ranges that are equally short but for rounding count alike:
        the candidates lie on a lattice, so that this happens, and the first of them would change with the unit.
        """
        result = []
        for middles in self.middles.T:
            order = np.argsort(middles)
            places, above = middles[order], np.cumsum(self.weights[order])
            below = above - self.weights[order] - _LEAST
            ends = np.searchsorted(above, below + _HALVES[:, None])
            there = np.append(places, np.inf)[ends]
            lengths = there - places
            shortest = lengths <= lengths.min(axis=1, keepdims=True) + _LEAST
            result.append(
                np.mean([np.mean((places + one)[near]) / 2 for one, near in zip(there, shortest, strict=True)])
            )
        return np.array(result)

    @cached_property
    def median(self) -> FloatArray:
        """The median at each target, shape (targets,)."""
        table, normal = self._table
        return np.array([np.interp(0.0, z, x) for x, z in zip(table, normal, strict=True)])

    def quantile(self, probability: float) -> FloatArray:
        """The quantile at each target, inflated, shape (targets,)."""
        from scipy.special import ndtri

        table, normal = self._table
        wanted = float(ndtri(probability))
        plain = np.array([np.interp(wanted, z, x) for x, z in zip(table, normal, strict=True)])
        return np.asarray(self.median + self.inflation * (plain - self.median))

    def between(self, low: npt.ArrayLike, high: npt.ArrayLike) -> FloatArray:
        """The probability of lying between two ends (each of shape (targets,)) after inflation, shape (targets,)."""
        from scipy.special import ndtr

        table, normal = self._table
        ends = [
            np.array(
                [
                    np.interp(middle + (end - middle) / self.inflation, x, z)
                    for middle, end, x, z in zip(
                        self.median, np.broadcast_to(some, self.median.shape), table, normal, strict=True
                    )
                ]
            )
            for some in (low, high)
        ]
        return np.asarray(ndtr(ends[1]) - ndtr(ends[0]))
