"""Candidates averaged by the evidence for each: one distribution, its quantiles, and the probability of being near.

A candidate is one model with all its parameters set; what remains unknown of its answer is a normal distribution. Their
mixture is the posterior predictive distribution (Hoeting et al. 1999, Bayesian model averaging: a tutorial, Section 1).
Two factors learned on groups left out stretch its standard normal scores to either side of the median (a recalibration
of the whole distribution: Kuleshov et al. 2018, Accurate uncertainties for deep learning using calibrated regression),
so that a band reaches what rare candidates say, and not just farther.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray

_LEAST, _SMALLEST = 1e-12, 1e-15
_CLOSE, _ROUNDS, _FARTHEST = 1e-3, 60, 9.0
"""Newton's step from a standard normal score this near is the last, since it squares the distance; so many steps, and
so many standard deviations off at most."""


@dataclass(frozen=True, eq=False)
class Average:
    """A mixture of normal distributions, usually of log time.

    `weights`: posterior probabilities of the candidates, shape (candidates,), sum 1.
    `middles`: what each says, shape (candidates, targets).
    `variances`: what remains unknown of it, shape (candidates,).
    `below`, `above`: how far normal scores are stretched to either side of the median: 1 where the candidates are
        right.
    """

    weights: FloatArray
    middles: FloatArray
    variances: FloatArray
    below: float = 1.0
    above: float = 1.0

    def first(self, targets: int) -> Average:
        """The average at the first targets alone."""
        return replace(self, middles=self.middles[:, :targets])

    @cached_property
    def _deviations(self) -> FloatArray:
        return np.asarray(np.sqrt(np.maximum(self.variances, _LEAST)))

    @cached_property
    def _solved(self) -> dict[float, FloatArray]:
        """Quantiles found so far: probability -> shape (targets,)."""
        return {}

    def quantiles(self, *probabilities: float) -> list[FloatArray]:
        """Quantiles at each target after recalibration, each of shape (targets,)."""
        from scipy.special import ndtri

        missing = [one for one in probabilities if one not in self._solved]
        if missing:
            scores = np.repeat(ndtri(missing)[:, None], self.middles.shape[1], axis=1)
            solved = self._plain(scores * np.where(scores < 0.0, self.below, self.above))
            self._solved.update(zip(missing, solved, strict=True))
        return [self._solved[one] for one in probabilities]

    def _plain(self, scores: FloatArray) -> FloatArray:
        """Where the mixture has standard normal scores, shape (scores, targets), by Newton's method.

        In normal scores a mixture is nearly straight: steps begin at its mean by its deviation, and go by halves where
        one leaves what is known to hold the answer.
        """
        from scipy.special import ndtri

        rows, far = self.middles.T, _FARTHEST * float(self._deviations.max())
        mean = rows @ self.weights
        apart = np.square(rows - mean[:, None]) @ self.weights + self.weights @ self.variances
        wanted, row = scores.ravel(), np.tile(np.arange(len(rows)), len(scores))
        low, high = rows.min(axis=1)[row] - far, rows.max(axis=1)[row] + far
        solved = np.clip((mean + scores * np.sqrt(apart)).ravel(), low, high)
        some = np.arange(len(solved))
        for _ in range(_ROUNDS):
            at = solved[some]
            below, density = self._distribution(at, row[some])
            normal = ndtri(np.clip(below, _SMALLEST, 1.0 - _SMALLEST))
            off = wanted[some] - normal
            low[some], high[some] = np.where(off > 0, at, low[some]), np.where(off < 0, at, high[some])
            at = at + off * np.exp(-0.5 * normal * normal) / np.maximum(density, _SMALLEST)
            inside = (low[some] < at) & (at < high[some])
            solved[some] = np.where(inside, at, 0.5 * (low[some] + high[some]))
            some = some[(np.abs(off) > _CLOSE) | (~inside & (low[some] < high[some]))]
            if not len(some):
                break
        return np.asarray(solved.reshape(scores.shape))

    def _distribution(self, at: FloatArray, row: npt.NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Probability below values at targets, and its density times the square root of 2 pi, shape (values,)."""
        from scipy.special import ndtr

        away = (at[:, None] - self.middles.T[row]) / self._deviations
        below = ndtr(away) @ self.weights
        np.square(away, out=away)
        away *= -0.5
        return below, np.exp(away, out=away) @ (self.weights / self._deviations)

    def score(self, at: npt.ArrayLike) -> FloatArray:
        """The standard normal score of a value at each target, before recalibration, shape (targets,)."""
        from scipy.special import ndtri

        below, _ = self._distribution(np.asarray(at, dtype=np.float64), np.arange(self.middles.shape[1]))
        return np.asarray(ndtri(np.clip(below, _SMALLEST, 1.0 - _SMALLEST)))

    def between(self, low: npt.ArrayLike, high: npt.ArrayLike) -> FloatArray:
        """The probability of lying between two ends (each of shape (targets,)) after recalibration."""
        from scipy.special import ndtr

        ends = [ndtr(z / np.where(z < 0.0, self.below, self.above)) for z in (self.score(low), self.score(high))]
        return np.asarray(ends[1] - ends[0])
