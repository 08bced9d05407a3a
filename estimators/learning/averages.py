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

from slipstick.estimators.core.lambdified import FloatArray

_SHARES = np.array([0.005, 0.03, 0.07, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.93, 0.97, 0.995])
_BEYOND = np.array([-2.5, -1.3, -0.6, 0.6, 1.3, 2.5])
_LEAST, _SMALLEST = 1e-12, 1e-15
_FARTHEST = 8.0
_HALVES = (0.4, 0.5, 0.6)
_BLOCK, _DIGITS = 16, 65535


def shares_of_evidence(logarithms: FloatArray) -> FloatArray:
    """Posterior probabilities of candidates from the logarithms of prior times likelihood, shape (candidates, ...)."""
    weights = np.exp(logarithms - logarithms.max())
    return np.asarray(weights / weights.sum())


def rising(values: FloatArray) -> npt.NDArray[np.intp]:
    """The places of values in rising order, shape (values,).

    Small whole numbers are sorted by their digits, and what is nearly in order by runs: a third of the time of a sort
    of all values by comparing them.
    """
    low, high = float(values.min()), float(values.max())
    if not 0.0 < high - low < np.inf:
        return np.argsort(values, kind="stable")
    nearly = ((values - low) * (_DIGITS / (high - low))).astype(np.uint16).argsort(kind="stable")
    return np.asarray(nearly[values[nearly].argsort(kind="stable")])


@dataclass(frozen=True, eq=False)
class _Table:
    """The distribution at one target: points, and the probability of being below them, computed when it is wanted.

    `points`: in rising order, shape (points,).
    `normal`: that probability as a standard normal quantile, NaN where it is not known yet, shape (points,).
    `weights`, `middles`, `deviations`: of the candidates, shape (candidates,).
    `mean`, `spread`: of the whole distribution.
    """

    points: FloatArray
    normal: FloatArray
    weights: FloatArray
    middles: FloatArray
    deviations: FloatArray
    mean: float
    spread: float

    def _between(self, place: int) -> tuple[FloatArray, FloatArray]:
        """A point and the next one, and their normal quantiles."""
        from scipy.special import ndtr, ndtri

        some = slice(place, place + 2)
        for one in range(place, place + 2):
            if np.isnan(self.normal[one]):
                below = self.points[one] - self.middles
                below /= self.deviations
                share = float(self.weights @ ndtr(below, out=below))
                self.normal[one] = ndtri(min(max(share, _SMALLEST), 1.0 - _SMALLEST))
        return self.points[some], self.normal[some]

    def _before(self, point: float) -> int:
        return int(np.clip(np.searchsorted(self.points, point, side="right") - 1, 0, len(self.points) - 2))

    def normal_at(self, point: float) -> float:
        """The probability of being below a point, as a standard normal quantile."""
        return float(np.interp(point, *self._between(self._before(point))))

    def quantile(self, normal: float) -> float:
        """The quantile whose probability is given as a standard normal one."""
        place, last = self._before(self.mean + self.spread * normal), len(self.points) - 2
        points, known = self._between(place)
        while known[1] <= normal and place < last:
            place += 1
            points, known = self._between(place)
        while known[0] > normal and place > 0:
            place -= 1
            points, known = self._between(place)
        return float(np.interp(normal, known, points))


@dataclass(frozen=True, eq=False)
class Average:
    """A mixture of normal distributions, usually of log time.

    `weights`: posterior probabilities of the candidates, shape (candidates,), sum 1.
    `middles`: what each says, shape (candidates, targets).
    `variances`: what remains unknown of it, shape (candidates,).
    `inflation`: how far quantiles move away from the median: 1 where the candidates are right.
    `orders`: places of the candidates as their middles rise, one array a target.
    """

    weights: FloatArray
    middles: FloatArray
    variances: FloatArray
    inflation: float
    orders: tuple[npt.NDArray[np.intp], ...]

    @classmethod
    def of(cls, weights: FloatArray, middles: FloatArray, variances: FloatArray, inflation: float = 1.0) -> Average:
        """The mixture of candidates in any order."""
        return cls(weights, middles, variances, inflation, tuple(rising(some) for some in middles.T))

    def first(self, targets: int) -> Average:
        """The average at the first targets alone."""
        return replace(self, middles=self.middles[:, :targets], orders=self.orders[:targets])

    @cached_property
    def _tables(self) -> tuple[_Table, ...]:
        deviations = np.sqrt(np.maximum(self.variances, _LEAST))
        within = float(self.weights @ self.variances)
        typical = float(np.sqrt(within + _LEAST))
        tables = []
        for middles, order in zip(self.middles.T, self.orders, strict=True):
            above = np.cumsum(self.weights[order])
            inner = middles[order[np.minimum(np.searchsorted(above, _SHARES), len(order) - 1)]]
            ends = [inner[0] - _FARTHEST * typical, inner[-1] + _FARTHEST * typical]
            points = np.sort(np.concatenate([ends, inner, inner[len(inner) // 2] + typical * _BEYOND]))
            mean = float(self.weights @ middles)
            spread = float(np.sqrt(within + self.weights @ (middles - mean) ** 2))
            unknown = np.full(len(points), np.nan)
            tables.append(_Table(points, unknown, self.weights, middles, deviations, mean, spread))
        return tuple(tables)

    @cached_property
    def densest(self) -> FloatArray:
        """The middle of the shortest range that holds half of the candidates' probability, shape (targets,).

        Of a lopsided distribution it lies nearer to the mode than the median does, so that the median of many errors
        is smaller (Bickel and Fruehwirth 2006, On a fast, robust estimator of the mode). The mean over ranges of 40,
        50 and 60 % keeps single candidates from deciding. Ranges that are equally short but for rounding count alike:
        the candidates lie on a lattice, so that this happens, and the first of them would change with the unit.
        """
        result = []
        for middles, order in zip(self.middles.T, self.orders, strict=True):
            weights, places = self.weights[order], np.append(middles[order], np.inf)
            above = np.cumsum(weights)
            below = above - weights - _LEAST
            result.append(np.mean([_shortest(places, below, above, half) for half in _HALVES]))
        return np.array(result)

    @cached_property
    def median(self) -> FloatArray:
        """The median at each target, shape (targets,)."""
        return np.array([table.quantile(0.0) for table in self._tables])

    def quantile(self, probability: float) -> FloatArray:
        """The quantile at each target, inflated, shape (targets,)."""
        from scipy.special import ndtri

        wanted = float(ndtri(probability))
        plain = np.array([table.quantile(wanted) for table in self._tables])
        return np.asarray(self.median + self.inflation * (plain - self.median))

    def between(self, low: npt.ArrayLike, high: npt.ArrayLike) -> FloatArray:
        """The probability of lying between two ends (each of shape (targets,)) after inflation, shape (targets,)."""
        from scipy.special import ndtr

        ends = []
        for some in (low, high):
            plain = self.median + (np.broadcast_to(some, self.median.shape) - self.median) / self.inflation
            ends.append([table.normal_at(end) for table, end in zip(self._tables, plain.tolist(), strict=True)])
        return np.asarray(ndtr(ends[1]) - ndtr(ends[0]))


def _shortest(places: FloatArray, below: FloatArray, above: FloatArray, share: float) -> float:
    """The mean of the middles of the shortest ranges that hold a share.

    Ranges begin at each candidate. Neither their begin nor their end ever falls, so that no range of a block is shorter
    than from the begin of its last to the end of its first: only blocks are looked at whole that may hold the shortest.

    `places`: where the candidates lie, rising, and infinity, shape (candidates + 1,).
    `below`, `above`: probability before each and with it, shape (candidates,).
    """
    starts = np.arange(0, len(below), _BLOCK)
    ends = places[np.searchsorted(above, below[starts] + share)]
    most = float((ends - places[starts]).min()) + _LEAST
    last = places[np.minimum(starts + _BLOCK, len(below)) - 1]
    blocks = starts[ends - last <= most]
    some = (blocks[:, None] + np.arange(_BLOCK)).ravel()
    some = some[: len(some) - max(int(some[-1]) + 1 - len(below), 0)]
    begins, ends = places[some], places[np.searchsorted(above, below[some] + share)]
    lengths = ends - begins
    near = lengths <= lengths.min() + _LEAST
    return float(np.mean((begins[near] + ends[near]) / 2))
