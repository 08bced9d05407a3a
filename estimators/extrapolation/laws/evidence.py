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
from slipstick.estimators.extrapolation.laws.noises import Noises, Singles, noises, sum_of_rows
from slipstick.estimators.extrapolation.laws.priors import PRIORS, Priors, fitted_inflation
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
BLOCK = 2048
"""Curves whose times are computed at once: their arrays stay in the cache, and in memory that the process has."""
FINER = 4
"""Times as many curves are drawn in a smaller box as in one of the prior."""
SMALLER = 0.6
"""Boxes that would keep more than this of their volume stay as they are."""
LEAST_VARIANCE = 1e-10


@dataclass(frozen=True, eq=False)
class ScalingPosterior:
    """What the points leave of the curves.

    `average`: of ln time [s] at the targets.
    `fitted`: mean ln time [s] of the curves at the points.
    `shares`: posterior probability of each law in `NAMES`.
    `outliers`: posterior probability that each point is an outlier.
    `issued`: posterior probability that the work follows the machine's cycles per instruction.
    `curves`, `prior`: the averaged curves, and all of the prior.
    `targets`: workers over the fewest, shape (targets,).
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

    `u`, `log_times`: workers over the fewest, and ln of times [s], shape (points,).
    `repeats`, `spread`: runs behind each time, and their standard deviation in log time, None where nothing repeats.
    `issue`: cycles per instruction of a machine whose threads share cores, and the fewest workers.
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
    weighed = [_weigh(curves, points, possible, logs)]
    for _ in range(MOST_ROUNDS):
        total = _log_sum(np.concatenate([layer.whole for layer in weighed]))
        boxes, rest = _sharper(weighed[-1].curves, np.exp(weighed[-1].whole - total))
        if not boxes:
            break
        weighed[-1] = weighed[-1].only(rest)
        weighed.append(_weigh(together(boxes, FINER * priors.curves), points, possible))
    return _average(_spoken(weighed), points, possible, targets, priors, issues)


@lru_cache(maxsize=16)
def _logs(u: tuple[float, ...], priors: Priors) -> FloatArray:
    """ln T(u) of the prior's curves: many series are measured at the same numbers of workers."""
    return prior_curves(priors=priors).log_times(np.array(u))


@dataclass(frozen=True, eq=False)
class _Weighed:
    """Curves with ln of prior times likelihood under all noises, shape (curves,)."""

    curves: Curves
    whole: FloatArray

    def only(self, some: Places) -> _Weighed:
        """Some of the curves."""
        return _Weighed(self.curves.only(some), self.whole[some])


@dataclass(frozen=True, eq=False)
class _Block:
    """Some curves beside the points: what lies about their mean keeps its digits in single precision.

    `residuals`: ln time less that of the curve, about their mean, shape (points, curves).
    `centre`: that mean, shape (curves,).
    `logs`: ln T at the points, shape (points, curves).
    """

    residuals: Singles
    centre: FloatArray
    logs: FloatArray

    @classmethod
    def of(cls, logs: FloatArray, points: Points) -> _Block:
        """The departures of points from curves."""
        residuals = points.log_times[:, None] - logs
        centre = sum_of_rows(residuals) / len(residuals)
        residuals -= centre
        return cls(residuals.astype(np.float32), centre, logs)


def _weigh(curves: Curves, points: Points, possible: Noises, logs: FloatArray | None = None) -> _Weighed:
    """Weigh curves, of which ln T at the points may be known."""
    whole = np.empty(len(curves.box))
    for start in range(0, len(whole), BLOCK):
        some = slice(start, start + BLOCK)
        known = curves.only(some).log_times(points.u, points.issued(points.u)) if logs is None else logs[:, some]
        residuals, prior, into = _Block.of(known, points).residuals, curves.log_prior[some], whole[some]
        for part in possible.chunks(len(prior)):
            each, _ = possible.evidence(residuals[:, part], prior[part])
            most = each.max(axis=0)
            each -= most
            into[part] = np.log(sum_of_rows(np.exp(each, out=each))) + most
    return _Weighed(curves, whole)


def _sharper(curves: Curves, weights: FloatArray) -> tuple[tuple[Box, ...], Places]:
    """Smaller boxes for those of which few curves have a say, and the places of the curves of all others."""
    shares = _sums(curves.box, weights, len(curves.boxes))
    squares = _sums(curves.box, weights**2, len(curves.boxes))
    boxes = []
    replaced = np.zeros(len(curves.boxes), dtype=bool)
    for place in np.flatnonzero((shares > LIKELY) & (shares**2 < SHARP * squares)).tolist():
        box = curves.boxes[place]
        if not box.ranges:
            continue
        some = weights[curves.within(place)] / shares[place]
        where = curves.free(place)
        middle = some @ where
        smaller = box.around(middle, np.sqrt(some @ (where - middle) ** 2), len(some))
        if smaller.share < SMALLER * box.share:
            boxes.append(smaller)
            replaced[place] = True
    return tuple(boxes), np.flatnonzero(~replaced[curves.box])


def _spoken(weighed: Sequence[_Weighed]) -> _Weighed:
    """The likeliest curves, `SPOKEN` together."""
    whole = np.concatenate([layer.whole for layer in weighed])
    whole -= _log_sum(whole)
    falling = np.sort(whole)[::-1]
    least = falling[int(np.searchsorted(np.cumsum(np.exp(falling)), SPOKEN))]
    ends = np.cumsum([len(layer.whole) for layer in weighed])[:-1]
    parts = [
        layer.only(np.flatnonzero(shares >= least))
        for layer, shares in zip(weighed, np.split(whole, ends), strict=True)
    ]
    return _Weighed(joined([part.curves for part in parts]), np.concatenate([part.whole for part in parts]))


def _average(
    spoken: _Weighed,
    points: Points,
    possible: Noises,
    targets: FloatArray,
    priors: Priors,
    issues: tuple[bool, ...],
) -> ScalingPosterior:
    curves, whole = spoken.curves, np.float32(_log_sum(spoken.whole))
    block = _Block.of(curves.log_times(points.u, points.issued(points.u)), points)
    known = 1.0 / possible.precisions.sum(axis=0) + possible.beyond
    share, middle = np.empty((2, len(spoken.whole)), np.float32)
    variance = np.empty(len(share))
    outliers = np.zeros(len(known))
    for part in possible.chunks(len(share)):
        logs, scales = possible.evidence(block.residuals[:, part], curves.log_prior[part])
        logs -= whole
        each, scale = np.ascontiguousarray(np.exp(logs, out=logs).T), np.ascontiguousarray(scales.T)
        share[part] = each.sum(axis=1)
        middle[part] = np.einsum("cn,cn->c", each, scale) / share[part]
        squares = each @ known + np.einsum("cn,cn,cn->c", each, scale, scale)
        variance[part] = squares / share[part] - middle[part] ** 2
        outliers += each.sum(axis=0)
    middles = middle + block.centre
    share = share.astype(np.float64) / share.sum(dtype=np.float64)
    inflation = priors.inflation or fitted_inflation()
    ahead = curves.log_times(targets, points.issued(targets)) + middles
    return ScalingPosterior(
        Average(share, ahead.T, np.maximum(variance, LEAST_VARIANCE), inflation.of(points.repeats)),
        share @ np.ascontiguousarray((block.logs + middles).T),
        _sums(curves.law, share, len(NAMES)),
        _sums(possible.outlier + 1, outliers, len(points.u) + 1)[1:],
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
