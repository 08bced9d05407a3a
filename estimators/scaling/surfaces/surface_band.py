"""How far off a surface may be at a target: a band in log time from the points that were left out.

Parts: what left-out points were missed by, their common shortfall, the scatter about the fit, candidates that disagree
at the target, and a base. They add in squares and grow with log2(ratio)^GROWTH. Weights were fitted to hommexx and five
published laws with noise of 0, 3 and 10 % (`slipstick validate surfaces` names them) by the interval score; the other
laws and relearn125 were held out.

Where a target has more workers than were measured, the average over laws along that parameter, whose bands public codes
have taught, has its own doubt; the two count alike, as the variance of a mixture of both.
"""

from __future__ import annotations

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.scaling.extrapolation_band import FARTHEST
from slipstick.estimators.scaling.laws.band_constants import LEVELS, NEAREST_RATIO, QUANTILES
from slipstick.estimators.scaling.surfaces.candidate_scores import Weighed
from slipstick.estimators.scaling.surfaces.surface_constants import (
    BASE,
    DISAGREEMENT,
    GROWTH,
    MISSES,
    SCATTER,
    SHORTFALL,
    UNTRIED,
    WORST,
)

REACH = 2.0
"""Farther than the farthest point left out, to this power, an answer is ever less sure however well those were
predicted. Set by hand: as many doublings again as were tried; no refit chose it."""


def surface_scale(
    weighed: Weighed, to: FloatArray, ratios: FloatArray, along: FloatArray, noise: float = 0.0
) -> FloatArray:
    """Half-width of the 80 % band at twice the data, in log time, one a target.

    `ratios`: how far each lies beyond the data.
    `along`: half-width of the band of series along the workers (`half_widths`), nan where there is none.
    `noise`: standard error of the times, in log time, where repeats tell it.
    """
    middle = np.log(np.maximum(weighed.weights @ weighed.each(to), 1e-300))
    apart = np.minimum(np.abs(np.log(np.maximum(weighed.each(to), 1e-300)) - middle), WORST)
    disagreement = np.sqrt(weighed.weights @ apart**2)
    short = min(max(-float(np.mean(weighed.ahead)), 0.0), WORST)
    fixed = BASE**2 + (MISSES * missed(weighed)) ** 2 + (SHORTFALL * short) ** 2 + (SCATTER * weighed.scatter) ** 2
    untried = UNTRIED * np.log2(np.maximum(ratios / tried(weighed), 1.0)) / _reach(ratios)
    squares = fixed + noise**2 + (DISAGREEMENT * disagreement) ** 2 + untried**2
    both = (squares + (along / _reach(ratios)) ** 2) / 2.0
    return np.asarray(np.sqrt(np.where(np.isnan(along), squares, both)))


def tried(weighed: Weighed) -> float:
    """Ratio up to which points left out say how sure an answer is: the farthest of them, to the power `REACH`."""
    return float(weighed.ahead_ratios.max() ** REACH)


def _reach(ratios: FloatArray) -> FloatArray:
    return np.asarray(np.log2(np.maximum(ratios, NEAREST_RATIO)) ** GROWTH)


def missed(weighed: Weighed) -> float:
    """What the points left out were missed by, brought to twice the data: a root mean square in log time."""
    spans = np.sqrt(np.maximum(np.log2(weighed.ahead_ratios), 0.25))
    return min(float(np.sqrt(np.mean((np.minimum(np.abs(weighed.ahead), 1.5) / spans) ** 2))), WORST)


def surface_band(scale: FloatArray, ratios: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """How far the band reaches below and above in log time, at targets so many times beyond the data.

    Raises InputError where the level is outside 0.01 .. 0.95.
    """
    if not 0.01 <= level <= LEVELS[-1]:
        raise InputError(f"interval level {level:g}: want 0.01 .. {LEVELS[-1]:g}")
    quantile = np.interp(level, LEVELS, QUANTILES) / np.interp(0.80, LEVELS, QUANTILES)
    middle = quantile * scale * _reach(ratios)
    return np.asarray(middle), np.asarray(middle)


def surface_within(scale: FloatArray, ratios: FloatArray, below: float, above: float) -> FloatArray:
    """Probability that ln(truth / answer) lies between -below and above, both > 0; shape (targets,)."""
    reach = scale * _reach(ratios) / np.interp(0.80, LEVELS, QUANTILES)
    with np.errstate(divide="ignore", invalid="ignore"):
        sides = [np.interp(end / reach, (*QUANTILES, FARTHEST), (*LEVELS, 1.0)) for end in (below, above)]
    return np.asarray((sides[0] + sides[1]) / 2)
