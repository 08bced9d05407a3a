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

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.lambdified.menu import LARGE
from slipstick.estimators.extrapolation.laws.noises import Marginal, Noises, noises
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
FINER = 4
"""Times as many curves are drawn in a smaller box as in one of the prior."""
SMALLER = 0.6
"""Boxes that would keep more than this of their volume stay as they are."""
LEAST_VARIANCE = 1e-10
FURTHER = 4.0
"""Where the likeliest curves end is looked for among shares below a limit that grows by this."""


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
        return replace(self, average=self.average.first(targets), targets=self.targets[:targets])


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
    np.empty(LARGE)  # then what each series gives back stays with the process: 500 pages of memory
    issues = (False,) if points.issue is None else (False, True)
    possible = noises(tuple(points.u.tolist()), tuple(points.repeats.tolist()), points.spread, priors.noise)
    curves = prior_curves(issues, priors)
    logs = curves.log_times(points.u, points.issued(points.u)) if points.issue else _logs(tuple(points.u), priors)
    weighed = [_weigh(curves, points, possible, logs)]
    for _ in range(MOST_ROUNDS):
        total = _log_sum(np.concatenate([layer.marginal.whole for layer in weighed]))
        boxes, rest = _sharper(weighed[-1].curves, np.exp(weighed[-1].marginal.whole - total))
        if not boxes:
            break
        weighed[-1] = weighed[-1].only(rest)
        curves = together(boxes, FINER * priors.curves)
        weighed.append(_weigh(curves, points, possible, curves.log_times(points.u, points.issued(points.u))))
    return _average(_spoken(weighed), points, targets, priors, issues)


@lru_cache(maxsize=16)
def _logs(u: tuple[float, ...], priors: Priors) -> FloatArray:
    """ln T(u) of the prior's curves: many series are measured at the same numbers of workers."""
    return prior_curves(priors=priors).log_times(np.array(u))


@dataclass(frozen=True, eq=False)
class _Weighed:
    """Curves and what they say under all noises.

    `logs`: ln T at the points, shape (points, curves).
    `centre`: the mean over the points of ln time less that, shape (curves,); the mean ln scale lies about it.
    """

    curves: Curves
    logs: FloatArray
    centre: FloatArray
    marginal: Marginal

    def only(self, some: Places) -> _Weighed:
        """Some of the curves."""
        return _Weighed(
            self.curves.only(some), self.logs.take(some, axis=1), self.centre.take(some), self.marginal.only(some)
        )


def _weigh(curves: Curves, points: Points, possible: Noises, logs: FloatArray) -> _Weighed:
    """Weigh curves, of which ln T at the points is known."""
    residuals = points.log_times[:, None] - logs
    centre = np.add.reduce(residuals) / len(residuals)
    residuals -= centre
    return _Weighed(curves, logs, centre, possible.weigh(residuals, curves.log_prior))


def _sharper(curves: Curves, weights: FloatArray) -> tuple[tuple[Box, ...], Places]:
    """Smaller boxes for those of which few curves have a say, and the places of the curves of all others."""
    starts = curves.starts[:-1]
    shares, squares = np.add.reduceat(weights, starts), np.add.reduceat(weights**2, starts)
    boxes = []
    replaced = np.zeros(len(curves.boxes), dtype=bool)
    for place in np.flatnonzero((shares > LIKELY) & (shares**2 < SHARP * squares)).tolist():
        box = curves.boxes[place]
        if not box.ranges:
            continue
        some = weights[curves.within(place)] / shares[place]
        where = curves.free(place)
        middle = where @ some
        smaller = box.around(middle, np.sqrt((where - middle[:, None]) ** 2 @ some), len(some))
        if smaller.share < SMALLER * box.share:
            boxes.append(smaller)
            replaced[place] = True
    return tuple(boxes), np.flatnonzero(~replaced[curves.box])


def _spoken(weighed: Sequence[_Weighed]) -> _Weighed:
    """The likeliest curves, `SPOKEN` together."""
    whole = np.concatenate([layer.marginal.whole for layer in weighed])
    shares = np.exp(whole - _log_sum(whole))
    least = _least_spoken(shares)
    ends = np.cumsum([len(layer.centre) for layer in weighed])[:-1]
    parts = [
        layer.only(np.flatnonzero(some >= least)) for layer, some in zip(weighed, np.split(shares, ends), strict=True)
    ]
    return _Weighed(
        joined([part.curves for part in parts]),
        np.concatenate([part.logs for part in parts], axis=1),
        np.concatenate([part.centre for part in parts]),
        Marginal.joined([part.marginal for part in parts]),
    )


def _least_spoken(shares: FloatArray) -> float:
    """The least share of the likeliest curves that have `SPOKEN` together; only those near it are sorted."""
    left, high = 1.0 - SPOKEN, (1.0 - SPOKEN) / len(shares)
    few = shares
    while high < 1.0:
        few = shares[shares < high]
        if few.sum() > left:
            break
        high *= FURTHER
    few = np.sort(few)
    return float(few[min(int(np.searchsorted(np.cumsum(few), left, side="right")), len(few) - 1)])


def _average(
    spoken: _Weighed,
    points: Points,
    targets: FloatArray,
    priors: Priors,
    issues: tuple[bool, ...],
) -> ScalingPosterior:
    curves, marginal = spoken.curves, spoken.marginal
    share = np.exp(marginal.whole - _log_sum(marginal.whole))
    share /= share.sum()
    middles = marginal.middle + spoken.centre
    inflation = priors.inflation or fitted_inflation()
    ahead = curves.log_times(targets, points.issued(targets)) + middles
    return ScalingPosterior(
        Average.of(share, ahead.T, np.maximum(marginal.variance, LEAST_VARIANCE), inflation.of(points.repeats)),
        spoken.logs @ share + middles @ share,
        np.asarray(np.bincount(curves.law, share, len(NAMES)), dtype=np.float64),
        np.asarray(marginal.outlier @ share, dtype=np.float64),
        float(share @ curves.issue),
        curves,
        prior_curves(issues, priors),
        targets,
    )


def _log_sum(logs: FloatArray) -> float:
    """ln of the sum of exponentials."""
    most = float(logs.max())
    return most + float(np.log(np.exp(logs - most).sum()))
