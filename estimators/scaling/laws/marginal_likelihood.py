"""How much the points speak for each scaling curve, and what the curves say together.

Times are proportional to a curve, with normal noise in log time. For every noise that is thought possible (that of the
repeats, departures of unknown size, one point that is an outlier) the scale is integrated out in closed form (flat in
log time), so that the evidence of all curves under all noises is two matrix products. Where few of the curves of a law
have a say, more are drawn about them, and those replace the first (`scaling/laws/importance_sampling.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from slipstick.estimators.fitting.model_averaging import Average
from slipstick.estimators.scaling.laws.alternative_overheads import Rivals, rivals
from slipstick.estimators.scaling.laws.importance_sampling import Boxes, Places
from slipstick.estimators.scaling.laws.noise_models import Marginal, Noises, noises
from slipstick.estimators.scaling.laws.priors import PRIORS, Priors, fitted_inflation
from slipstick.estimators.scaling.laws.scaling_laws import (
    NAMES,
    Curves,
    prior_boxes,
    prior_curves,
)
from slipstick.estimators.scaling.laws.terms import SharedIssue
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.estimators.symbolic.lambdified.argmin_over_menu import LARGE

SPOKEN = 0.999
"""The likeliest curves with this posterior probability together are averaged."""
LIKELY = 1e-8
"""More curves are drawn of boxes above this posterior probability of which few have a say."""
ENOUGH, SHARP = 8.0, 40.0
"""Effective curves (1 over the sum of their squared shares) that a box wants at least, and times the root of its
probability."""
FINER, DENSER = 512.0, 2.0
"""Curves drawn of a box the next time, times the root of its probability, and how much denser at least."""
FEWEST, MOST, STEP = 32, 2048, 16
"""Curves drawn of a box in steps, so that few lattices are kept."""
MOST_ROUNDS = 6
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
    boxes, curves = prior_boxes(issues, priors), prior_curves(issues, priors)
    logs = curves.log_times(points.u, points.issued(points.u)) if points.issue else _logs(tuple(points.u), priors)
    weighed = [_weigh(curves, points, possible, logs)]
    for _ in range(MOST_ROUNDS):
        total = _log_sum(np.concatenate([layer.marginal.whole for layer in weighed]))
        finer, replaced = _finer(boxes, curves.coordinates, np.exp(weighed[-1].marginal.whole - total))
        if finer is None:
            break
        weighed[-1] = weighed[-1].without(replaced)
        boxes, curves = finer, Curves.of(finer, *finer.drawn())
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

    def without(self, some: npt.NDArray[np.bool_]) -> _Weighed:
        """The same where some of the curves count no more."""
        return replace(self, marginal=replace(self.marginal, whole=np.where(some, -np.inf, self.marginal.whole)))

    def only(self, some: Places) -> _Weighed:
        """Some of the curves."""
        return _Weighed(
            self.curves.only(some), self.logs.take(some, axis=1), self.centre.take(some), self.marginal.only(some)
        )

    @classmethod
    def joined(cls, parts: Sequence[_Weighed]) -> _Weighed:
        """Several layers as one."""
        return cls(
            Curves.joined([part.curves for part in parts]),
            np.concatenate([part.logs for part in parts], axis=1),
            np.concatenate([part.centre for part in parts]),
            Marginal.joined([part.marginal for part in parts]),
        )


def _weigh(curves: Curves, points: Points, possible: Noises, logs: FloatArray) -> _Weighed:
    """Weigh curves, of which ln T at the points is known."""
    residuals = points.log_times[:, None] - logs
    centre = np.add.reduce(residuals) / len(residuals)
    residuals -= centre
    return _Weighed(curves, logs, centre, possible.weigh(residuals, curves.log_prior))


def _finer(boxes: Boxes, coordinates: FloatArray, weights: FloatArray) -> tuple[Boxes | None, npt.NDArray[np.bool_]]:
    """Where curves are drawn anew, since too few of a box have a say, and which curves they replace; None: nowhere."""
    every, box = len(boxes.law), boxes.box
    shares = np.bincount(box, weights, every)
    need = np.maximum(ENOUGH, SHARP * np.sqrt(shares)) * np.bincount(box, weights**2, every)
    wanted = np.flatnonzero((shares > LIKELY) & (shares**2 < need) & (boxes.counts > 1))
    ranks = np.full(every, -1)
    ranks[wanted] = np.arange(len(wanted))
    rank = ranks.take(box)
    replaced = rank >= 0
    some = np.flatnonzero(replaced)
    if not len(some):
        return None, replaced
    inside = rank.take(some)
    starts = np.searchsorted(inside, np.arange(len(wanted)))
    where, parts = coordinates.take(some, axis=1), weights.take(some) / shares[wanted].take(inside)
    middle = np.add.reduceat(where * parts, starts, axis=1)
    where -= middle.take(inside, axis=1)
    smaller = boxes.around(wanted, middle, np.add.reduceat(where[:, None] * (where * parts), starts, axis=2))
    ratio = (smaller.deviations / boxes.deviations[:, wanted]).prod(axis=0)
    counts = np.maximum(FINER * np.sqrt(shares[wanted]), DENSER * boxes.counts[wanted] * ratio)
    counts = (np.clip(counts, FEWEST, MOST) / STEP).astype(np.intp) * STEP
    return replace(smaller, counts=counts), replaced


def _spoken(weighed: Sequence[_Weighed]) -> _Weighed:
    """The likeliest curves, `SPOKEN` together."""
    whole = np.concatenate([layer.marginal.whole for layer in weighed])
    shares = np.exp(whole - _log_sum(whole))
    least = _least_spoken(shares)
    ends = np.cumsum([len(layer.centre) for layer in weighed])[:-1]
    return _Weighed.joined(
        [layer.only(np.flatnonzero(some >= least)) for layer, some in zip(weighed, np.split(shares, ends), strict=True)]
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
