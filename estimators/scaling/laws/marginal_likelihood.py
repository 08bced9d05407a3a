"""How much the points speak for each scaling curve, and what the curves say together.

Times are proportional to a curve, with normal noise in log time. For every noise that is thought possible (that of the
repeats, departures of unknown size, one point that is an outlier) the scale is integrated out in closed form (flat in
log time), so that the evidence of all curves under all noises is two matrix products. Where few of the curves of a law
have a say, more are drawn about them, and those replace the first (`scaling/laws/importance_sampling.py`).

Noises that a series of times may have, and how likely each makes a curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.fitting.model_averaging import Average
from slipstick.estimators.scaling.laws.importance_sampling import ImportanceSampler, Places
from slipstick.estimators.scaling.laws.priors import PRIORS, Noise, Priors
from slipstick.estimators.scaling.laws.scaling_laws import NAMES, Curves, prior_boxes, prior_curves
from slipstick.estimators.scaling.laws.terms import SharedIssue
from slipstick.estimators.symbolic.lambdified.argmin_over_menu import LARGE

Singles: TypeAlias = npt.NDArray[np.float32]
ENOUGH_FOR_OUTLIERS = 4
"""Points from which on one may be called an outlier: two and a law explain any third."""
LOWEST = -60.0
"""ln evidence below that of a curve's likeliest noise counts as this: numbers too small for all digits of single
precision take processors many times as long."""
ALONE = 2**18
"""Products of fewer multiplications wake no other threads."""
ALIKE = 32
"""Columns of products come in multiples of this: a remainder is added up in another order, and of two curves that say
the same one would count as likelier."""


@dataclass(frozen=True, eq=False)
class Marginal:
    """What curves say when every noise counts as it is likely beside them: noises summed out.

    `whole`: ln of prior times likelihood under all noises, shape (curves,).
    `middle`, `variance`: mean ln scale, and the variance of a new point about it, shape (curves,).
    `outlier`: probability that each point is an outlier, shape (points, curves).
    """

    whole: FloatArray
    middle: Singles
    variance: FloatArray
    outlier: Singles

    def only(self, some: Places) -> Marginal:
        """What some of the curves say."""
        sums = self.whole.take(some), self.middle.take(some), self.variance.take(some)
        return Marginal(*sums, self.outlier.take(some, axis=1))

    @classmethod
    def joined(cls, parts: Sequence[Marginal]) -> Marginal:
        """What several sets of curves say."""
        return cls(
            np.concatenate([one.whole for one in parts]),
            np.concatenate([one.middle for one in parts]),
            np.concatenate([one.variance for one in parts]),
            np.concatenate([one.outlier for one in parts], axis=1),
        )


@dataclass(frozen=True, eq=False)
class Noises:
    """Noises that are thought possible.

    `precisions`: 1 / variance of each point, shape (points, noises).
    `log_prior`: shape (noises,).
    `beyond`: variance of a new point about its law, shape (noises,).
    `outlier`: which point is taken as an outlier; -1: none.
    """

    precisions: FloatArray
    log_prior: FloatArray
    beyond: FloatArray
    outlier: Places

    @cached_property
    def _factors(self) -> tuple[Singles, Singles, Singles, Singles]:
        """What everything is a product of, the noises of a layer of curves being the same.

        Residuals to ln scale over its standard deviation and the square root of 2, shape (noises, points); squares of
        residuals and 1 to ln evidence less the square of that, (noises, points + 1); evidence to its sums in `Marginal`
        (points + 2, noises); and from the first to ln scale, (noises,).
        """
        points, plain, total = len(self.precisions), self.precisions, self.precisions.sum(axis=0)
        constant = self.log_prior + 0.5 * (np.log(plain).sum(axis=0) - np.log(total))
        lengths = (plain / np.sqrt(2.0 * total)).T
        squares = np.column_stack([-0.5 * plain.T, constant])
        sums = np.stack([np.ones_like(total), 1.0 / total + self.beyond, *(self.outlier == i for i in range(points))])
        return _single(lengths), _single(squares), _single(sums), _single(np.sqrt(2.0 / total))

    def weigh(self, residuals: FloatArray, log_prior: FloatArray) -> Marginal:
        """What curves say under all noises together.

        `residuals`: of the points about their mean, so that they keep their digits in single precision; shape (points,
            curves).
        `log_prior`: shape (curves,).
        """
        lengths, squares, sums, back = self._factors
        (points, curves), noises = residuals.shape, len(back)
        whole = -(-curves // ALIKE) * ALIKE
        single, known = np.zeros((2, points + 1, whole), np.float32)
        single[:-1, :curves], known[-1] = residuals, 1.0
        np.square(single[:-1], out=known[:-1])
        most, marginal = np.empty(whole, np.float32), np.empty((points + 4, whole), np.float32)
        blocks = -(-whole * self.precisions.size // ALONE)
        size = -(-whole // blocks // ALIKE) * ALIKE
        scale, square, each = np.empty((3, noises, size), np.float32)
        for start in range(0, whole, size):
            part = slice(start, start + size)
            scale, square, each = scale[:, : whole - start], square[:, : whole - start], each[:, : whole - start]
            np.matmul(lengths, single[:-1, part], out=scale)
            np.square(scale, out=square)
            np.matmul(squares, known[:, part], out=each)
            each += square
            each -= np.maximum.reduce(each, out=most[part])
            np.maximum(each, LOWEST, out=each)
            np.exp(each, out=each)
            scale *= each
            square *= each
            into = marginal[:, part]
            np.matmul(sums, each, out=into[:-2])
            np.matmul(back, scale, out=into[-2])
            np.matmul(back * back, square, out=into[-1])
        marginal = marginal[:, :curves]
        marginal[1:] /= marginal[0]
        variance = marginal[1].astype(np.float64) + marginal[-1]
        variance -= np.square(marginal[-2], dtype=np.float64)
        return Marginal(log_prior + most[:curves] + np.log(marginal[0]), marginal[-2], variance, marginal[2:-2])


@lru_cache(maxsize=16)
def noises(u: tuple[float, ...], repeats: tuple[float, ...], spread: float | None, belief: Noise) -> Noises:
    """Noises of points at u, with so many repeats each, that spread so much in log time (None: unknown).

    A point departs from its law by a standard deviation, or by one that grows with the workers, or with every doubling
    of its distance from the last point (a law that changes slowly), or is an outlier.
    """
    points, counts = len(repeats), np.array(repeats)
    if spread is None:
        of_run, departures = np.zeros(points), belief.unrepeated
    else:
        freedom = float(np.maximum(counts - 1.0, 0.0).sum())
        pooled = (freedom * spread**2 + belief.runs * belief.repeats**2) / (freedom + belief.runs)
        of_run, departures = np.maximum(pooled / counts, belief.known**2), belief.departures
    deviations, shares = np.array(departures).T
    plain = of_run[:, None] + deviations**2
    away = np.log2(u[-1] / np.array(u))[:, None]
    doubted = range(points) if points >= ENOUGH_FOR_OUTLIERS and belief.outlier > 0 else range(0)
    odds = np.log(belief.outlier) - np.log1p(-belief.outlier) if doubted else 0.0
    steady = float(np.log1p(-sum(share for _, share in (*belief.drifts, *belief.growing))))
    groups = [(plain, steady, -1)]
    for power, share in belief.growing:
        larger = np.array(u) ** power
        groups.append((plain * (larger / larger.mean())[:, None], float(np.log(share)), -1))
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


def _single(values: FloatArray) -> Singles:
    return np.ascontiguousarray(values, np.float32)


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
    `curves`: the averaged curves.
    `targets`: workers over the fewest, shape (targets,).
    """

    average: Average
    fitted: FloatArray
    shares: FloatArray
    outliers: FloatArray
    issued: float
    curves: Curves
    targets: FloatArray

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
    return _average(_spoken(weighed), points, targets, priors)


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

    def without(self, some: Mask) -> _Weighed:
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


def _finer(
    boxes: ImportanceSampler, coordinates: FloatArray, weights: FloatArray
) -> tuple[ImportanceSampler | None, Mask]:
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
) -> ScalingPosterior:
    curves, marginal = spoken.curves, spoken.marginal
    share = np.exp(marginal.whole - _log_sum(marginal.whole))
    share /= share.sum()
    middles = marginal.middle + spoken.centre
    codes = priors.recalibration
    ahead = curves.log_times(targets, points.issued(targets)) + middles
    return ScalingPosterior(
        Average(share, ahead.T, np.maximum(marginal.variance, LEAST_VARIANCE), codes.below, codes.above),
        spoken.logs @ share + middles @ share,
        np.asarray(np.bincount(curves.law, share, len(NAMES)), dtype=np.float64),
        np.asarray(marginal.outlier @ share, dtype=np.float64),
        float(share @ curves.issue),
        curves,
        targets,
    )


def _log_sum(logs: FloatArray) -> float:
    """ln of the sum of exponentials."""
    most = float(logs.max())
    return most + float(np.log(np.exp(logs - most).sum()))
