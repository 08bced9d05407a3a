"""Noises that a series of times may have, and how likely each makes a curve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.extrapolation.laws.priors import Noise
from slipstick.estimators.extrapolation.laws.scaling_laws import Places

Singles: TypeAlias = npt.NDArray[np.float32]
Real = TypeVar("Real", np.float32, np.float64)
ENOUGH_FOR_OUTLIERS = 4
"""Points from which on one may be called an outlier: two and a law explain any third."""
ALONE = 2**18
"""Products of fewer multiplications wake no other threads."""
PAIRED = 128
"""Rows that are summed without halving them."""


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
    def _single(self) -> tuple[Singles, Singles, Singles, Singles]:
        """Precisions, shape (noises, points), -1/2 of them, their sums, and what does not depend on the residuals."""
        plain = self.precisions.astype(np.float32)
        each, total = np.ascontiguousarray(plain.T), plain.sum(axis=0)[:, None]
        constant = self.log_prior + 0.5 * np.log(self.precisions).sum(axis=0) - 0.5 * np.log(total[:, 0])
        return each, np.float32(-0.5) * each, total, constant.astype(np.float32)[:, None]

    def chunks(self, curves: int) -> list[slice]:
        """Curves that are weighed at a time."""
        length = max(4, ALONE // self.precisions.size // 4 * 4)
        return [slice(start, start + length) for start in range(0, curves, length)]

    def evidence(self, residuals: Singles, log_prior: FloatArray) -> tuple[Singles, Singles]:
        """ln of prior times likelihood of curves under each noise, and the mean of their ln scale.

        `residuals`: shape (points, curves), and so are the results, but with noises in the place of points.
        """
        precisions, halves, total, constant = self._single
        scale = precisions @ residuals
        scale /= total
        each = halves @ np.square(residuals)
        square = np.square(scale)
        square *= np.float32(0.5) * total
        each += square
        each += constant
        each += log_prior.astype(np.float32)
        return each, scale


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


def sum_of_rows(values: npt.NDArray[Real]) -> npt.NDArray[Real]:
    """The sum over the first axis, added pairwise as numpy adds along the last: many columns at a time are faster.

    Eight running sums, and halves of more than 128 rows: rounding grows with the logarithm of the rows alone.
    """
    rows = len(values)
    if rows > PAIRED:
        half = rows // 16 * 8
        return np.asarray(sum_of_rows(values[:half]) + sum_of_rows(values[half:]))
    even, total = rows // 8 * 8, np.zeros_like(values[0])
    if even:
        eight = values[:even].reshape(-1, 8, *values.shape[1:]).sum(axis=0)
        total += ((eight[0] + eight[1]) + (eight[2] + eight[3])) + ((eight[4] + eight[5]) + (eight[6] + eight[7]))
    for row in values[even:]:
        total += row
    return np.asarray(total)
