"""Candidates averaged by the evidence for each: one distribution, its quantiles, and the probability of being near.

A candidate is one model with all its parameters set; what remains unknown of its answer is a normal distribution. Their
mixture is the posterior predictive distribution (Hoeting et al. 1999, Bayesian model averaging: a tutorial, Section 1).
One factor learned on groups left out, the inflation, stretches it about its median.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from slipstick.estimators.symbolic.lambdified import FloatArray

_LEAST, _SMALLEST = 1e-12, 1e-15
_HALVES = np.array([0.4, 0.5, 0.6])
_BLOCK, _DIGITS = 16, 65535
_ALMOST, _ROUNDS, _FARTHEST = 1e-5, 60, 9.0
"""Standard normal quantiles are found to this, within so many steps, and so many standard deviations off at most."""


def rising(values: FloatArray) -> npt.NDArray[np.intp]:
    """The places of values in rising order along the last axis, shape (..., values).

    Small whole numbers are sorted by their digits, and what is nearly in order by runs: a third of the time of a sort
    of all values by comparing them.
    """
    low, high = values.min(axis=-1, keepdims=True), values.max(axis=-1, keepdims=True)
    lengths = high - low
    if not ((lengths > 0.0) & (lengths < np.inf)).all():
        return np.argsort(values, axis=-1, kind="stable")
    nearly = ((values - low) * (_DIGITS / lengths)).astype(np.uint16).argsort(axis=-1, kind="stable")
    exactly = np.take_along_axis(values, nearly, -1).argsort(axis=-1, kind="stable")
    return np.take_along_axis(nearly, exactly, -1)


@dataclass(frozen=True, eq=False)
class Average:
    """A mixture of normal distributions, usually of log time.

    `weights`: posterior probabilities of the candidates, shape (candidates,), sum 1.
    `middles`: what each says, shape (candidates, targets).
    `variances`: what remains unknown of it, shape (candidates,).
    `inflation`: how far quantiles move away from the median: 1 where the candidates are right.
    `orders`: places of the candidates as their middles rise, shape (targets, candidates).
    """

    weights: FloatArray
    middles: FloatArray
    variances: FloatArray
    inflation: float
    orders: npt.NDArray[np.intp]

    @classmethod
    def of(cls, weights: FloatArray, middles: FloatArray, variances: FloatArray, inflation: float = 1.0) -> Average:
        """The mixture of candidates in any order."""
        return cls(weights, middles, variances, inflation, rising(middles.T))

    def first(self, targets: int) -> Average:
        """The average at the first targets alone."""
        return replace(self, middles=self.middles[:, :targets], orders=self.orders[:targets])

    @cached_property
    def _deviations(self) -> FloatArray:
        return np.asarray(np.sqrt(np.maximum(self.variances, _LEAST)))

    @cached_property
    def _places(self) -> FloatArray:
        return np.take_along_axis(self.middles.T, self.orders, 1)

    @cached_property
    def _solved(self) -> dict[float, FloatArray]:
        """Quantiles found so far, before inflation: probability -> shape (targets,)."""
        return {}

    @cached_property
    def densest(self) -> FloatArray:
        """The middle of the shortest range that holds half of the candidates' probability, shape (targets,).

        Of a lopsided distribution it lies nearer to the mode than the median does, so that the median of many errors
        is smaller (Bickel and Fruehwirth 2006, On a fast, robust estimator of the mode). The mean over ranges of 40,
        50 and 60 % keeps single candidates from deciding. Ranges that are equally short but for rounding count alike:
        the candidates lie on a lattice, so that this happens, and the first of them would change with the unit.
        """
        return np.asarray(_shortest(self._places, self.weights[self.orders], _HALVES).mean(axis=0))

    def _plain(self, *probabilities: float) -> list[FloatArray]:
        """Quantiles before inflation, those not known yet found together by Newton's method.

        It goes by standard normal quantiles, in which a mixture is nearly straight, from the quantiles of the middles
        as far apart as all is, and by halves where a step leaves what is known to hold the answer.
        """
        from scipy.special import ndtri

        missing = [one for one in probabilities if one not in self._solved]
        if missing:
            rows, places = self.middles.T, self._places
            targets = range(len(rows))
            above = np.cumsum(self.weights[self.orders], axis=1)
            first = [np.minimum(np.searchsorted(one, missing), len(one) - 1) for one in above]
            at = np.array([places[i, first[i]] for i in targets]).T
            wanted, row = np.repeat(ndtri(missing), len(rows)), np.tile(targets, len(missing))
            mean = rows @ self.weights
            apart, within = np.square(rows - mean[:, None]) @ self.weights, self.weights @ self.variances
            at = mean + (at - mean) * np.sqrt(1.0 + within / (apart + _LEAST))
            far = _FARTHEST * float(self._deviations.max())
            low, high = places[row, 0] - far, places[row, -1] + far
            solved, some = np.clip(at.ravel(), low, high), np.arange(at.size)
            for _ in range(_ROUNDS):
                at = solved[some]
                below, density = self._distribution(at, row[some])
                normal = ndtri(np.clip(below, _SMALLEST, 1.0 - _SMALLEST))
                off = wanted[some] - normal
                if (left := np.abs(off) > _ALMOST).sum() == 0:
                    break
                low[some], high[some] = np.where(off > 0, at, low[some]), np.where(off < 0, at, high[some])
                at = at + off * np.exp(-0.5 * normal * normal) / np.maximum(density, _SMALLEST)
                inside = (low[some] < at) & (at < high[some])
                solved[some] = np.where(inside, at, 0.5 * (low[some] + high[some]))
                some = some[left]
            self._solved.update(zip(missing, solved.reshape(len(missing), -1), strict=True))
        return [self._solved[one] for one in probabilities]

    def _distribution(self, at: FloatArray, row: npt.NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Probability below values at targets, and its density times the square root of 2 pi, shape (values,)."""
        from scipy.special import ndtr

        away = (at[:, None] - self.middles.T[row]) / self._deviations
        below = ndtr(away) @ self.weights
        np.square(away, out=away)
        away *= -0.5
        return below, np.exp(away, out=away) @ (self.weights / self._deviations)

    @property
    def median(self) -> FloatArray:
        """The median at each target, shape (targets,)."""
        return self._plain(0.5)[0]

    def quantiles(self, *probabilities: float) -> list[FloatArray]:
        """Quantiles at each target, inflated, each of shape (targets,)."""
        median, *plain = self._plain(0.5, *probabilities)
        return [median + self.inflation * (one - median) for one in plain]

    def between(self, low: npt.ArrayLike, high: npt.ArrayLike) -> FloatArray:
        """The probability of lying between two ends (each of shape (targets,)) after inflation, shape (targets,)."""
        median = self.median
        ends = [median + (np.asarray(end) - median) / self.inflation for end in (low, high)]
        below, above = np.split(self._distribution(np.concatenate(ends), np.tile(np.arange(len(median)), 2))[0], 2)
        return np.asarray(above - below)


def _shortest(places: FloatArray, weights: FloatArray, shares: FloatArray) -> FloatArray:
    """The mean of the middles of the shortest ranges that hold a share, shape (shares, rows).

    Ranges begin at each candidate. Neither their begin nor their end ever falls, so that no range of a block is shorter
    than from the begin of its last to the end of its first: only blocks are looked at whole that may hold the shortest.

    `places`, `weights`: where the candidates lie, rising, and their probability, shape (rows, candidates).
    """
    rows, count = places.shape
    # rows lie behind one another, 2 apart in probability: every end is found in one search
    base = 2.0 * np.arange(rows)[:, None]
    above = np.cumsum(weights, axis=1) + base
    below = above - weights - _LEAST
    beyond = np.append(places, np.full((rows, 1), np.inf), axis=1).ravel()
    row = np.arange(rows)[:, None]

    def ends(needles: FloatArray, row: npt.NDArray[np.intp]) -> FloatArray:
        return np.asarray(beyond[np.searchsorted(above.ravel(), needles) + row])

    starts = np.arange(0, count, _BLOCK)
    first = ends(below[:, starts] + shares[:, None, None], row)
    most = (first - places[:, starts]).min(axis=2, keepdims=True) + _LEAST
    share, row, block = np.nonzero(first - places[:, np.minimum(starts + _BLOCK, count) - 1] <= most)
    begins = starts[block, None] + np.arange(_BLOCK)
    inside = begins < count
    begins = np.minimum(begins, count - 1)
    last = ends(below[row[:, None], begins] + shares[share, None], row[:, None])
    begin = places[row[:, None], begins]
    lengths = np.where(inside, last - begin, np.inf)
    group = share * rows + row
    firsts = np.searchsorted(group, np.arange(len(shares) * rows))
    least = np.minimum.reduceat(lengths.min(axis=1), firsts)
    near = lengths <= least[group, None] + _LEAST
    sums = np.add.reduceat(np.where(near, begin + last, 0.0).sum(axis=1), firsts)
    return (0.5 * sums / np.add.reduceat(near.sum(axis=1), firsts)).reshape(len(shares), rows)
