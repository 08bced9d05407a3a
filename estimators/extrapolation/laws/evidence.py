"""How much the points speak for each scaling curve, and what the curves say together.

Times are proportional to a curve, with normal noise in log time. For every noise that is thought possible (that of the
repeats, departures of unknown size, one point that is an outlier) the scale is integrated out in closed form (flat in
log time), so that the evidence of all curves under all noises is two matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.extrapolation.laws.priors import PRIORS, Noise, Priors
from slipstick.estimators.extrapolation.laws.scaling_laws import (
    MOST_ROUNDS,
    NAMES,
    SHARP,
    Curves,
    Places,
    prior_curves,
    together,
)
from slipstick.estimators.extrapolation.laws.terms import SharedIssue
from slipstick.estimators.learning.averages import Average

SPOKEN = 0.999
"""The likeliest curves with this posterior probability together are averaged."""
NEGLIGIBLE, LIKELY = 1e-4, 0.05
"""Boxes of curves below the one posterior probability are left; above the other, more are drawn where few count."""
LEAST_VARIANCE = 1e-10
ENOUGH_FOR_OUTLIERS = 4
"""Points from which on one may be called an outlier: two and a law explain any third."""


@dataclass(frozen=True, eq=False)
class Noises:
    """Noises that are thought possible.

    Parameters
    ----------
    precisions
        1 / variance of each point, shape (points, noises).
    log_prior
        Shape (noises,).
    beyond
        Variance of a new point about its law, shape (noises,).
    outlier
        Which point is taken as an outlier; -1: none.
    """

    precisions: FloatArray
    log_prior: FloatArray
    beyond: FloatArray
    outlier: Places


def noises(u: FloatArray, repeats: FloatArray, spread: float | None, belief: Noise) -> Noises:
    """Noises of points at u, with so many repeats (shape (points,)), that spread so much in log time (None: unknown).

    A point departs from its law by a standard deviation, or by one that grows with every doubling of its distance from
    the last point (a law that changes slowly), or is an outlier.
    """
    points = len(repeats)
    if spread is None:
        of_run, departures = np.zeros(points), belief.unrepeated
    else:
        freedom = float(np.maximum(repeats - 1.0, 0.0).sum())
        pooled = (freedom * spread**2 + belief.runs * belief.repeats**2) / (freedom + belief.runs)
        of_run, departures = pooled / repeats, belief.departures
    deviations, shares = np.array(departures).T
    plain = of_run[:, None] + deviations**2
    away = np.log2(u[-1] / u)[:, None]
    doubted = range(points) if points >= ENOUGH_FOR_OUTLIERS and belief.outlier > 0 else range(0)
    odds = np.log(belief.outlier) - np.log1p(-belief.outlier) if doubted else 0.0
    steady = float(np.log1p(-sum(share for _, share in belief.drifts)))
    groups = [(plain, steady, -1)]
    groups += [(plain + (drift * away) ** 2, float(np.log(share)), -1) for drift, share in belief.drifts]
    for place in doubted:
        wide = plain.copy()
        wide[place] += belief.size**2
        groups.append((wide, odds, place))
    return Noises(
        1.0 / np.concatenate([variances for variances, _, _ in groups], axis=1),
        np.concatenate([np.log(shares) + prior for _, prior, _ in groups]),
        np.tile(deviations**2, len(groups)),
        np.repeat([place for _, _, place in groups], len(shares)),
    )


@dataclass(frozen=True, eq=False)
class ScalingPosterior:
    """What the points leave of the curves.

    Parameters
    ----------
    average
        Of ln time [s] at the targets.
    fitted
        Mean ln time [s] of the curves at the points.
    shares
        Posterior probability of each law in `NAMES`.
    outliers
        Posterior probability that each point is an outlier.
    issued
        Posterior probability that the work follows the machine's cycles per instruction.
    laws
        The place in `NAMES` of each averaged curve's law, shape (candidates,).
    """

    average: Average
    fitted: FloatArray
    shares: FloatArray
    outliers: FloatArray
    issued: float
    laws: Places

    def at(self, targets: int) -> ScalingPosterior:
        """The belief about the first targets alone."""
        return replace(self, average=replace(self.average, middles=self.average.middles[:, :targets]))


@dataclass(frozen=True, eq=False)
class Points:
    """A series as the laws see it.

    Parameters
    ----------
    u, log_times
        Workers over the fewest, and ln of times [s], shape (points,).
    repeats, spread
        Runs behind each time, and their standard deviation in log time, None where nothing repeats.
    issue
        Cycles per instruction of a machine whose threads share cores, and the fewest workers.
    """

    u: FloatArray
    log_times: FloatArray
    repeats: FloatArray
    spread: float | None
    issue: SharedIssue | None = None
    first: float = 1.0

    def issued(self, u: FloatArray) -> FloatArray | None:
        """ln of the cycles per instruction at u over those of the fewest workers."""
        if self.issue is None:
            return None
        cycles = self.issue.values(u * self.first) * u * self.first
        return np.log(cycles / (self.issue.values(np.array([self.first])) * self.first))


def believe(points: Points, targets: FloatArray, priors: Priors = PRIORS) -> ScalingPosterior:
    """Weigh the curves by the points, and average what they say at targets (workers over the fewest)."""
    curves = prior_curves((False,) if points.issue is None else (False, True), priors)
    possible = noises(points.u, points.repeats, points.spread, priors.noise)
    weighed = _weigh(curves, points, possible)
    for _ in range(MOST_ROUNDS):
        sharper = _sharper(curves, weighed.whole.astype(np.float64), priors.curves)
        if sharper is None:
            break
        curves, weighed = sharper, _weigh(sharper, points, possible)
    return _average(curves, weighed, points, possible, targets, priors.inflation)


@dataclass(frozen=True, eq=False)
class _Weighed:
    """Posterior probabilities, shape (curves, noises), and their sums; the mean ln scale is `scale + centre`."""

    each: npt.NDArray[np.float32]
    whole: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    centre: FloatArray
    logs: FloatArray


def _weigh(curves: Curves, points: Points, possible: Noises) -> _Weighed:
    logs = curves.log_times(points.u, points.issued(points.u))
    residuals = points.log_times - logs
    # about the mean of each curve, so that the difference of squares keeps its digits in single precision
    centre = residuals.mean(axis=1, keepdims=True)
    residuals = (residuals - centre).astype(np.float32)
    precisions = possible.precisions.astype(np.float32)
    total = precisions.sum(axis=0)
    scale = residuals @ precisions / total
    constant = possible.log_prior + 0.5 * np.log(possible.precisions).sum(axis=0) - 0.5 * np.log(total)
    each = (residuals**2) @ precisions
    each -= total * scale**2
    each *= np.float32(-0.5)
    each += constant.astype(np.float32)
    each += curves.log_prior[:, None].astype(np.float32)
    each -= each.max()
    np.exp(each, out=each)
    each /= each.sum()
    return _Weighed(each, each.sum(axis=1), scale, centre[:, 0], logs)


def _sharper(curves: Curves, weights: FloatArray, count: int) -> Curves | None:
    """More curves where those with a say lie; None where there are enough of them."""
    shares = _sums(curves.box, weights, len(curves.boxes))
    squares = _sums(curves.box, weights**2, len(curves.boxes))
    boxes, changed = [], False
    for place, box in enumerate(curves.boxes):
        if shares[place] < NEGLIGIBLE:
            continue
        free = len(box.ranges)
        if free and shares[place] > LIKELY and shares[place] ** 2 < SHARP * squares[place]:
            some = weights[curves.box == place] / shares[place]
            where = curves.free(place)
            middle = some @ where
            box = box.around(middle, np.sqrt(some @ (where - middle) ** 2), count)
            changed = True
        boxes.append(box)
    return together(tuple(boxes), count) if changed else None


def _average(
    curves: Curves, weighed: _Weighed, points: Points, possible: Noises, targets: FloatArray, inflation: float
) -> ScalingPosterior:
    order = np.argsort(weighed.whole)[::-1]
    kept = order[: int(np.searchsorted(np.cumsum(weighed.whole[order]), SPOKEN)) + 1]
    each, scale, share = weighed.each[kept], weighed.scale[kept], weighed.whole[kept].astype(np.float64)
    middle = np.einsum("cn,cn->c", each, scale) / share
    known = 1.0 / possible.precisions.sum(axis=0) + possible.beyond
    variance = (each @ known + np.einsum("cn,cn,cn->c", each, scale, scale)) / share - middle**2
    middle = middle + weighed.centre[kept]
    share = share / share.sum()
    some = curves.only(kept)
    ahead = some.log_times(targets, points.issued(targets)) + middle[:, None]
    return ScalingPosterior(
        Average(share, ahead, np.maximum(variance, LEAST_VARIANCE), inflation),
        share @ (weighed.logs[kept] + middle[:, None]),
        _sums(some.law, share, len(NAMES)),
        _sums(possible.outlier + 1, weighed.each.sum(axis=0), len(points.u) + 1)[1:],
        float(share @ some.issue),
        some.law,
    )


def _sums(places: Places, weights: npt.NDArray[np.floating], count: int) -> FloatArray:
    """Weights summed by place, shape (count,)."""
    return np.asarray(np.bincount(places, weights, count), dtype=np.float64)
