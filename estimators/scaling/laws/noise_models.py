"""Noises that a series of times may have, and how likely each makes a curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from slipstick.estimators.scaling.laws.importance_sampling import Places
from slipstick.estimators.scaling.laws.priors import Noise
from slipstick.estimators.symbolic.lambdified import FloatArray

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

    A point departs from its law by a standard deviation, or by one that grows with every doubling of its distance from
    the last point (a law that changes slowly), or is an outlier.
    """
    points, counts = len(repeats), np.array(repeats)
    if spread is None:
        of_run, departures = np.zeros(points), belief.unrepeated
    else:
        freedom = float(np.maximum(counts - 1.0, 0.0).sum())
        pooled = (freedom * spread**2 + belief.runs * belief.repeats**2) / (freedom + belief.runs)
        of_run, departures = pooled / counts, belief.departures
    deviations, shares = np.array(departures).T
    plain = of_run[:, None] + deviations**2
    away = np.log2(u[-1] / np.array(u))[:, None]
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


def _single(values: FloatArray) -> Singles:
    return np.ascontiguousarray(values, np.float32)
