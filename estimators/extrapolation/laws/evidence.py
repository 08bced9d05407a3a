"""How much the points speak for each scaling curve, and what the curves say together.

Times are proportional to a curve, with normal noise in log time. For every noise that is thought possible (that of the
repeats, departures of unknown size, one point that is an outlier) the scale is integrated out in closed form (flat in
log time), so that the evidence of all curves under all noises is two matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.extrapolation.laws.priors import PRIORS, Noise, Priors
from slipstick.estimators.extrapolation.laws.rivals import Rivals, rivals
from slipstick.estimators.extrapolation.laws.scaling_laws import (
    MOST_ROUNDS,
    NAMES,
    SHARP,
    Box,
    Curves,
    Places,
    joined,
    prior_curves,
    together,
)
from slipstick.estimators.extrapolation.laws.terms import SharedIssue
from slipstick.estimators.learning.averages import Average

SPOKEN = 0.999
"""The likeliest curves with this posterior probability together are averaged."""
LIKELY = 1e-4
"""More curves are drawn in boxes above this posterior probability where few count."""
CHUNK = 512
"""Curves weighed at a time: their arrays stay in the cache, and the products are too small to wake other threads."""
FINER = 4
"""Times as many curves are drawn in a smaller box as in one of the prior."""
SMALLER = 0.6
"""Boxes that would keep more than this of their volume stay as they are."""
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
    curves, prior
        The averaged curves, and all of the prior.
    targets
        Workers over the fewest, shape (targets,).
    """

    average: Average
    fitted: FloatArray
    shares: FloatArray
    outliers: FloatArray
    issued: float
    curves: Curves
    prior: Curves
    targets: FloatArray

    def rivals(self) -> Rivals:
        """The laws whose overhead the points do not exclude."""
        return rivals(self.average, self.curves, self.prior, self.targets)

    def at(self, targets: int) -> ScalingPosterior:
        """The belief about the first targets alone."""
        average = replace(self.average, middles=self.average.middles[:, :targets])
        return replace(self, average=average, targets=self.targets[:targets])


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
    issues = (False,) if points.issue is None else (False, True)
    possible = noises(points.u, points.repeats, points.spread, priors.noise)
    curves = prior_curves(issues, priors)
    logs = curves.log_times(points.u, points.issued(points.u)) if points.issue else _logs(tuple(points.u), priors)
    weighed = [_weigh(curves, logs, points, possible)]
    for _ in range(MOST_ROUNDS):
        total = _log_sum(np.concatenate([layer.whole for layer in weighed]))
        boxes, rest = _sharper(weighed[-1].curves, np.exp(weighed[-1].whole - total))
        if not boxes:
            break
        weighed[-1] = weighed[-1].only(rest)
        finer = together(boxes, FINER * priors.curves)
        weighed.append(_weigh(finer, finer.log_times(points.u, points.issued(points.u)), points, possible))
    return _average(_spoken(weighed), points, possible, targets, priors, issues)


@lru_cache(maxsize=16)
def _logs(u: tuple[float, ...], priors: Priors) -> FloatArray:
    """ln T(u) of the prior's curves: many series are measured at the same numbers of workers."""
    return prior_curves(priors=priors).log_times(np.array(u))


@dataclass(frozen=True, eq=False)
class _Weighed:
    """Curves with what the points say of them.

    Parameters
    ----------
    each, whole
        ln of prior times likelihood under each noise, shape (curves, noises), and under all of them.
    scale, centre
        Their sum is the mean ln scale, shapes (curves, noises) and (curves,).
    logs
        ln T at the points, shape (curves, points).
    """

    curves: Curves
    each: npt.NDArray[np.float32]
    whole: FloatArray
    scale: npt.NDArray[np.float32]
    centre: FloatArray
    logs: FloatArray

    def only(self, some: Places) -> _Weighed:
        """Some of the curves."""
        return _Weighed(
            self.curves.only(some),
            self.each[some],
            self.whole[some],
            self.scale[some],
            self.centre[some],
            self.logs[some],
        )


def _weigh(curves: Curves, logs: FloatArray, points: Points, possible: Noises) -> _Weighed:
    residuals = points.log_times - logs
    # about the mean of each curve, so that the difference of squares keeps its digits in single precision
    centre = residuals.mean(axis=1, keepdims=True)
    residuals = (residuals - centre).astype(np.float32)
    precisions = possible.precisions.astype(np.float32)
    total = precisions.sum(axis=0)
    constant = possible.log_prior + 0.5 * np.log(possible.precisions).sum(axis=0) - 0.5 * np.log(total)
    constant, prior = constant.astype(np.float32), curves.log_prior[:, None].astype(np.float32)
    shape = len(residuals), len(total)
    each, scale, whole = np.empty(shape, np.float32), np.empty(shape, np.float32), np.empty(len(residuals))
    half_precisions, half_total = np.float32(-0.5) * precisions, np.float32(0.5) * total
    for start in range(0, len(residuals), CHUNK):
        some = slice(start, start + CHUNK)
        one, middle = each[some], scale[some]
        np.matmul(residuals[some], precisions, out=middle)
        middle /= total
        np.matmul(residuals[some] ** 2, half_precisions, out=one)
        one += half_total * middle**2
        one += constant
        one += prior[some]
        most = one.max(axis=1, keepdims=True)
        whole[some] = np.log(np.exp(one - most).sum(axis=1)) + most[:, 0]
    return _Weighed(curves, each, whole, scale, centre[:, 0], logs)


def _sharper(curves: Curves, weights: FloatArray) -> tuple[tuple[Box, ...], Places]:
    """Smaller boxes for those of which few curves have a say, and the places of the curves of all others."""
    shares = _sums(curves.box, weights, len(curves.boxes))
    squares = _sums(curves.box, weights**2, len(curves.boxes))
    boxes = []
    replaced = np.zeros(len(curves.boxes), dtype=bool)
    for place in np.flatnonzero((shares > LIKELY) & (shares**2 < SHARP * squares)):
        box = curves.boxes[place]
        if not box.ranges:
            continue
        some = weights[curves.box == place] / shares[place]
        where = curves.free(int(place))
        middle = some @ where
        smaller = box.around(middle, np.sqrt(some @ (where - middle) ** 2), len(some))
        if smaller.share < SMALLER * box.share:
            boxes.append(smaller)
            replaced[place] = True
    return tuple(boxes), np.flatnonzero(~replaced[curves.box])


def _spoken(weighed: Sequence[_Weighed]) -> _Weighed:
    """The likeliest curves, `SPOKEN` together, with their posterior probabilities."""
    whole = np.concatenate([layer.whole for layer in weighed])
    whole -= _log_sum(whole)
    order = np.argsort(whole)[::-1]
    least = whole[order[int(np.searchsorted(np.cumsum(np.exp(whole[order])), SPOKEN))]]
    ends = np.cumsum([len(layer.whole) for layer in weighed])[:-1]
    parts = [
        layer.only(np.flatnonzero(shares >= least))
        for layer, shares in zip(weighed, np.split(whole, ends), strict=True)
    ]
    each, wholes, scale, centre, logs = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("each", "whole", "scale", "centre", "logs")
    )
    chances = np.exp(each - np.float32(_log_sum(wholes)))
    return _Weighed(joined([part.curves for part in parts]), chances, chances.sum(axis=1), scale, centre, logs)


def _average(
    spoken: _Weighed,
    points: Points,
    possible: Noises,
    targets: FloatArray,
    priors: Priors,
    issues: tuple[bool, ...],
) -> ScalingPosterior:
    each, scale, share = spoken.each, spoken.scale, spoken.whole
    middle = np.einsum("cn,cn->c", each, scale) / share
    known = 1.0 / possible.precisions.sum(axis=0) + possible.beyond
    variance = (each @ known + np.einsum("cn,cn,cn->c", each, scale, scale)) / share - middle**2
    middle = middle + spoken.centre
    share = share.astype(np.float64) / share.sum(dtype=np.float64)
    curves = spoken.curves
    ahead = curves.log_times(targets, points.issued(targets)) + middle[:, None]
    return ScalingPosterior(
        Average(share, ahead, np.maximum(variance, LEAST_VARIANCE), priors.inflation),
        share @ (spoken.logs + middle[:, None]),
        _sums(curves.law, share, len(NAMES)),
        _sums(possible.outlier + 1, each.sum(axis=0), len(points.u) + 1)[1:],
        float(share @ curves.issue),
        curves,
        prior_curves(issues, priors),
        targets,
    )


def _log_sum(logs: FloatArray) -> float:
    """ln of the sum of exponentials."""
    most = float(logs.max())
    return most + float(np.log(np.exp(logs - most).sum()))


def _sums(places: Places, weights: npt.NDArray[np.floating], count: int) -> FloatArray:
    """Weights summed by place, shape (count,)."""
    return np.asarray(np.bincount(places, weights, count), dtype=np.float64)
