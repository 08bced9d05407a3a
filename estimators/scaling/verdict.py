"""How sure an extrapolation is (`sureness`), and why.

The probability comes from laws, parameters and noise together. It is of the time that runs settle at, not of one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.estimators.base.sureness import Word, sureness, word_of
from slipstick.estimators.scaling.extrapolation_band import beyond
from slipstick.estimators.scaling.series import Series
from slipstick.estimators.symbolic.lambdified import FloatArray

ENOUGH_POINTS = 4
UNCONFIRMED = 0.5
"""Most that is sure across a border that no measurement crossed: even odds, for nothing measured says whether the law
goes on there. Set by hand; the scoring board, which names no machine, cannot see it."""
FARTHEST = 16.0
"""Ratio to the last value up to which codes and series that were left out confirmed the probabilities."""


@dataclass(frozen=True)
class Verdict:
    """A word, why, and the probability of being within 20 % (None where it is unknown)."""

    word: Word
    reason: str
    probability: float | None = None


@dataclass(frozen=True, eq=False)
class Certainty:
    """What an answer's uncertainty is, one a target.

    `within`: probability that the answer is within 20 % of the truth.
    `low`, `high`: ends of the 80 % band [s].
    `reasons`: what makes the band as wide as it is, in words.
    `misfit`: in words, that no law fits; empty where one does.
    `held`: where none does, the share of the points within 20 % of the answer's law: no target is surer than that.
    """

    within: FloatArray
    low: FloatArray
    high: FloatArray
    reasons: tuple[str, ...]
    misfit: str = ""
    held: float = 1.0


def too_few(points: int) -> Verdict:
    """The verdict of a series too short for a band."""
    reason = f"too few points: {points}, want at least {ENOUGH_POINTS} to try an extrapolation on what is known"
    return Verdict("do not trust", reason)


def verdicts(
    series: Series, certainty: Certainty, to: FloatArray, value: FloatArray, known_borders: Sequence[float] = ()
) -> list[Verdict]:
    """One verdict a target, where the answer is `value` seconds.

    The probability is that of the laws and the noise, and what neither knows takes from it: beyond the ratio that the
    data span, or `FARTHEST`, it falls with the ratio; across a border of the machine that no measurement crossed it is
    at most `UNCONFIRMED`. The word follows it.
    """
    span = series.x[-1] / series.x[0]
    most = min(span, FARTHEST)
    ratios = beyond(np.asarray(series.x), np.asarray(to))
    result = []
    for i, target in enumerate(to):
        within = float(certainty.within[i])
        width = float(certainty.high[i] / certainty.low[i]) if certainty.low[i] > 0 else np.inf
        if not (np.isfinite(value[i]) and np.isfinite(width) and np.isfinite(within)):
            # a comparison with nan is false, so it would pass every limit below
            reason = f"no finite answer: {value[i]:g} s, 80 % band {certainty.low[i]:g} .. {certainty.high[i]:g} s"
            result.append(Verdict("do not trust", reason))
            continue
        ratio, under = float(ratios[i]), target < series.x[0]
        crossed = [border for border in known_borders if series.x[-1] <= border < target]
        caps = [certainty.misfit] if certainty.misfit else []
        if ratio > most:
            within *= most / ratio
            limit = f"the data span {span:.3g} times" if span <= FARTHEST else f"confirmed up to {FARTHEST:g} times"
            end = "below the first" if under else "the last"
            caps.append(f"ratio too large: {ratio:.3g} times {end} value, {limit}")
        if crossed:
            within = min(within, UNCONFIRMED)
            caps.append(f"crosses a border of the machine that no measurement crossed: {crossed[0]:g}")
        if certainty.misfit:
            within = min(within, certainty.held)
        word = word_of(within)
        why = () if word == "trust" else (certainty.reasons[i],)
        result.append(Verdict(word, "; ".join([sureness(within), *caps, *why]), within))
    return result
