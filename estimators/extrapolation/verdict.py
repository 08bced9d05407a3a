"""Trust, wide, or do not extrapolate: one word for each target, with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.extrapolation.intervals import Doubt, beyond
from slipstick.estimators.extrapolation.series import Series
from slipstick.estimators.tuned.tuned_intervals import (
    BELOW,
    BENDING,
    DISAGREEMENT,
    MISSES,
    REFUSED,
    SHORTFALL,
    USUAL_REFUSED,
    USUAL_WIDE,
    WIDE,
)

Word = Literal["trust", "wide", "do not extrapolate"]
ENOUGH_POINTS = 4


@dataclass(frozen=True)
class Verdict:
    """A word and why."""

    word: Word
    reason: str


def verdicts(
    series: Series,
    kind: str,
    doubt: Doubt | None,
    to: FloatArray,
    value: FloatArray,
    known_borders: tuple[float, ...],
) -> list[Verdict]:
    """One verdict a target, where the answer is `value` seconds."""
    points = len(series)
    if doubt is None:
        reason = f"too few points: {points}, want at least {ENOUGH_POINTS} to try an extrapolation on what is known"
        return [Verdict("do not extrapolate", reason)] * len(to)
    below, above = doubt.band(0.80)
    half = (below + above) / 2
    doubling = half / doubt.reach
    wide, refused = WIDE.get(kind, USUAL_WIDE), REFUSED.get(kind, USUAL_REFUSED)
    span = series.x[-1] / series.x[0]
    ratios = beyond(np.asarray(series.x), np.asarray(to))
    result = []
    for i, target in enumerate(to):
        if not (np.isfinite(value[i]) and np.isfinite(half[i])):
            # a comparison with nan is false, so it would pass every limit below
            reason = f"no finite answer: {value[i]:g} s, half-width of the 80 % band {half[i]:g} in log time"
            result.append(Verdict("do not extrapolate", reason))
            continue
        ratio, under = float(ratios[i]), target < series.x[0]
        crossed = [border for border in known_borders if series.x[-1] <= border < target]
        reasons = [_worst(doubt, i)] if half[i] > wide or doubling[i] > refused else []
        if ratio > span:
            reasons.append(
                f"ratio too large: {ratio:.3g} times {'below the first' if under else 'the last'} value, the data span "
                f"{span:.3g} times"
            )
        if crossed:
            reasons.append(f"crosses a border of the machine that no measurement crossed: {crossed[0]:g}")
        word: Word = (
            "do not extrapolate" if doubling[i] > refused or ratio > span**2 else "wide" if reasons else "trust"
        )
        steady = f"{_missed(doubt, i)}, and the laws agree"
        result.append(Verdict(word, "; ".join(reasons) or steady))
    return result


def _worst(doubt: Doubt, i: int) -> str:
    parts = {
        _missed(doubt, i): MISSES * doubt.misses[i],
        f"laws that fit about as well differ by {doubt.disagreement[i]:.0%} here": DISAGREEMENT * doubt.disagreement[i],
        "the last points were slower than predicted: a change point may be under way": (SHORTFALL * doubt.shortfall[i]),
        "the last step bends upward: non-monotone, or a change point under way": BENDING * doubt.bending[i],
        f"the first points, predicted from the later ones, were missed by {doubt.below[i]:.0%}": BELOW * doubt.below[i],
    }
    return max(parts, key=lambda reason: float(np.asarray(parts[reason])))


def _missed(doubt: Doubt, i: int) -> str:
    return f"the last points, predicted from the earlier ones, were missed by {doubt.misses[i]:.0%}"
