"""How sure an answer is: the probability that it is within 20 %, and one word for it, the same of every verb."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Literal

Word = Literal["trust", "wide", "do not trust"]
NEAR = 0.20
"""Relative error that the probability is about."""
SURE = 0.80
"""Probability of being that near from which on an answer is trusted: the level of bands."""
BELOW, ABOVE = -math.log(1.0 + NEAR), -math.log(1.0 - NEAR)
"""ln(truth / answer) at which the relative error of the answer is `NEAR`."""
HOPELESS = (ABOVE - BELOW) / math.log(10.0)
"""Probability of being that near below which an answer says little, 18 %: that of a band that spans a factor of ten,
where every ratio is as likely. It follows from `NEAR`; no score chose it."""
SURELY = 0.99
"""Probability above which no digit is told."""


def word_of(probability: float) -> Word:
    """The word of a probability of being within 20 %, as it is printed: one percentage never has two words."""
    stated = round(100 * probability)
    return "trust" if stated >= 100 * SURE else "wide" if stated >= 100 * HOPELESS else "do not trust"


def within_near(value: float, low: float, high: float) -> float:
    """Probability that the truth is within 20 % of a value, by its 80 % band.

    The band is that of two halves of a log-normal with one mode, as `Estimate.interval` has it.

    Examples
    --------
    A band of a tenth either way, and one of a factor of three either way:

    >>> [round(within_near(1.0, 1 / wide, wide), 2) for wide in (1.1, 3.0)]
    [0.99, 0.19]
    """
    normal = NormalDist()
    sides = [(math.log(value / low) if low > 0 else math.inf, -BELOW), (math.log(high / value), ABOVE)]
    deviations = [half / normal.inv_cdf(0.5 + SURE / 2) for half, _ in sides]
    if not any(deviations) or math.inf in deviations:
        return 0.0 if math.inf in deviations else 1.0
    inside = [2 * normal.cdf(near / one) - 1 if one else 1.0 for one, (_, near) in zip(deviations, sides, strict=True)]
    return sum(one * share for one, share in zip(deviations, inside, strict=True)) / sum(deviations)


def sure_shown(probability: float) -> str:
    """A probability for people: "84 %"; no digit where nothing speaks against it."""
    return f"over {SURELY:.0%}".replace("%", " %") if probability > SURELY else f"{100 * probability:.0f} %"


def sureness(within: float) -> str:
    """The probability of being near for people: "within 20 %: 84 % sure"."""
    return f"within {100 * NEAR:.0f} %: {sure_shown(within)} sure"


def verdict_text(within: float | None) -> str:
    """The word with its probability, behind a comma: ``, trust: within 20 %: 84 % sure``; "" where none is known."""
    return "" if within is None else f", {word_of(within)}: {sureness(within)}"


def sure_row(within: float | None) -> dict[str, float | str | None]:
    """The probability and its word as JSON has them; null where none is known."""
    return {"probability_within_20_percent": within, "verdict": None if within is None else word_of(within)}
