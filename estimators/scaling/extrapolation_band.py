"""How far off an extrapolation may be: a band in log time from the series' own residuals.

Parts, all seen before the answer is known: a base (residual scatter), the error of earlier extrapolations in the
same series (parameters), families that disagree at the target (model choice), earlier extrapolations that all fell
short and an end that bends upward (a change point under way). They add in squares and grow with log2(ratio)^GROWTH;
quantiles in that scale give the level. The band reaches farther up than down, because what is not seen in a series (a
full cache, a network that saturates, imbalance) makes programs slower, hardly ever faster: so on every tuning source.

The weights of the parts and the quantiles were fitted on the tuning sources (docs/notes/extrapolation.md: 1,949
predictions of six codes, groups weighed by the root of their count); one set serves every kind, because so few sources
identify no more of them. Strong scaling has another band (`scaling/laws/marginal_likelihood.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.formatting import share_shown
from slipstick.estimators.scaling.laws.band_constants import (
    BASE,
    BELOW,
    BENDING,
    DISAGREEMENT,
    FIRST_ORIGIN,
    GROWTH,
    LEVELS,
    MISSES,
    NEAREST_RATIO,
    ORIGINS,
    PLAUSIBLE,
    QUANTILES,
    SHORTFALL,
    SKEW,
    WORST,
)
from slipstick.estimators.scaling.laws.nonnegative_fits import fit_prefixes
from slipstick.estimators.scaling.laws.selection import Mixture

FARTHEST = 8.0
"""Quantile of probability 1, about twice that of 95 %."""
NEUTRAL_SLOPE = {"strong": 0.0, "weak": 1.0, "problem_size": 1.0, "collective": 1.0}


@dataclass(frozen=True)
class AnswerWarning:
    """The parts of the band at each target, before level and ratio: relative standard deviations.

    All but `noise`, the standard error of the times in log time, have the shape of the targets; `reach` is
    log2(ratio)^GROWTH.
    """

    misses: FloatArray
    disagreement: FloatArray
    shortfall: FloatArray
    bending: FloatArray
    reach: FloatArray
    below: FloatArray
    noise: float = 0.0

    @property
    def scale(self) -> FloatArray:
        """All parts together at the target's distance."""
        parts = (
            BASE**2
            + (MISSES * self.misses) ** 2
            + (DISAGREEMENT * self.disagreement) ** 2
            + (SHORTFALL * self.shortfall) ** 2
            + (BENDING * self.bending) ** 2
            + (BELOW * self.below) ** 2
            + self.noise**2
        )
        return np.asarray(np.sqrt(parts) * self.reach)

    def band(self, level: float) -> tuple[FloatArray, FloatArray]:
        """How far the band reaches below and above the answer in log time, both >= 0.

        Raises InputError where the level is outside 0.01 .. 0.95: the tuning sources hold nothing beyond.
        """
        checked(level)
        middle = np.interp(level, LEVELS, QUANTILES) * self.scale
        return np.asarray(middle * np.exp(-SKEW)), np.asarray(middle * np.exp(SKEW))

    def within(self, below: float, above: float) -> FloatArray:
        """Probability that ln(truth / answer) lies between -below and above, both > 0; shape of the targets."""
        levels, quantiles = (*LEVELS, 1.0), (*QUANTILES, FARTHEST)
        reaches = (below * np.exp(SKEW), above * np.exp(-SKEW))
        with np.errstate(divide="ignore", invalid="ignore"):
            sides = [np.interp(reach / self.scale, quantiles, levels) for reach in reaches]
        return np.asarray((sides[0] + sides[1]) / 2)


def checked(level: float) -> float:
    """The probability of a band.

    Raises InputError where it is outside 0.01 .. 0.95.
    """
    if not 0.01 <= level <= LEVELS[-1]:
        raise InputError(f"interval level {level:g}: want 0.01 .. {LEVELS[-1]:g}")
    return level


def doubt(
    mixture: Mixture, kind: str, x: FloatArray, y: FloatArray, to: FloatArray, noise: float = 0.0
) -> AnswerWarning | None:
    """The parts of the band; None where no earlier extrapolation could be tried (fewer than four points).

    `x`, `y`: values of the parameter and times in seconds, shape (n,).
    `to`: targets, shape (m,); the parts have that shape, in log space.
    `noise`: standard error of the times, in log time, where repeats tell it.
    """
    if not len(mixture.ahead):
        return None
    spans = np.sqrt(np.maximum(np.log2(mixture.ahead_ratios), 0.25))
    misses = float(np.sqrt(np.mean((np.minimum(np.abs(mixture.ahead), 1.5) / spans) ** 2)))
    plausible = 1.0 / (mixture.errors**2 + PLAUSIBLE**2)
    each = np.log(np.maximum(mixture.each(to), 1e-300))
    middle = np.log(np.maximum(mixture(to), 1e-300))
    disagreement = np.sqrt(plausible / plausible.sum() @ (each - middle) ** 2)
    step = np.log(x[-1] / x[-2])
    slope, neutral = float(np.log(y[-1] / y[-2]) / step), NEUTRAL_SLOPE[kind]
    if mixture.replaced:
        # a law that is steeper by itself and predicted the later points: only what bends beyond it is in doubt
        last = mixture(x[-2:])
        neutral = max(neutral, float(np.log(last[1] / last[0]) / step))
    whole = np.ones_like(to)
    return AnswerWarning(
        min(misses, 1.0) * whole,
        np.minimum(disagreement, 1.0),
        min(max(-float(np.mean(mixture.ahead)), 0.0), 1.0) * whole,
        min(max(slope - neutral, 0.0), 1.0) * whole,
        np.log2(np.maximum(beyond(x, to), NEAREST_RATIO)) ** GROWTH,
        missed_below(mixture, x, y) * (to < x[0]) if (to < x[0]).any() else np.zeros_like(to),
        noise,
    )


def reasons(doubt: AnswerWarning) -> tuple[str, ...]:
    """What makes the band as wide as it is, the largest part of it, one a target."""
    return tuple(_worst(doubt, i) for i in range(len(doubt.reach)))


def _worst(doubt: AnswerWarning, i: int) -> str:
    apart, first = share_shown(doubt.disagreement[i]), share_shown(doubt.below[i])
    parts = {
        f"the last points, predicted from the earlier ones, were missed by {share_shown(doubt.misses[i])}": (
            MISSES * doubt.misses[i]
        ),
        f"laws that fit about as well differ by {apart} here": DISAGREEMENT * doubt.disagreement[i],
        "the last points were slower than predicted: a change point may be under way": SHORTFALL * doubt.shortfall[i],
        "the last step bends upward: non-monotone, or a change point under way": BENDING * doubt.bending[i],
        f"the repeats of a value leave its time uncertain by {share_shown(doubt.noise)}": doubt.noise,
        f"the first points, predicted from the later ones, were missed by {first}": BELOW * doubt.below[i],
    }
    return max(parts, key=lambda reason: float(np.asarray(parts[reason])))


def missed_below(mixture: Mixture, x: FloatArray, y: FloatArray) -> float:
    """What the first values are missed by when the laws see only the later ones: a root mean square in log time."""
    misses = []
    for first in range(1, min(ORIGINS, len(x) - FIRST_ORIGIN) + 1):
        later, times = x[None, first:], y[None, first:]
        answer = np.zeros(first)
        for part, weight in zip(mixture.parts, mixture.weights, strict=True):
            knots = part.family.knots(later)
            fitted = fit_prefixes(part.family, later, times, knots, (len(x) - first,))[0, 0]
            answer += weight * (part.family.matrix(x[:first], knots[0]) @ fitted)
        errors = np.log(np.maximum(answer, 1e-300) / y[:first])
        misses.append(np.clip(errors, -WORST, WORST) / np.sqrt(np.maximum(np.log2(x[first] / x[:first]), 0.25)))
    return float(np.sqrt(np.mean(np.concatenate(misses) ** 2))) if misses else WORST


def beyond(x: FloatArray, to: FloatArray) -> FloatArray:
    """Ratio of each target to the last of the values x, or of the first of them to it; 1 between; shape of `to`."""
    return np.asarray(np.maximum(np.maximum(to / x[-1], x[0] / to), 1.0))
