"""Whole numbers under which something fits best: no derivative leads to them, so that neighbours are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

MOST_TRIED = 60
"""Points of whole numbers that are tried."""

Whole: TypeAlias = tuple[float, ...]
Made = TypeVar("Made")


def search_whole(
    start: Whole,
    low: Sequence[float],
    high: Sequence[float],
    fit: Callable[[Whole, Made | None], Made],
    cost: Callable[[Made], float],
    reach: int = 1,
) -> tuple[Whole, dict[Whole, Made]]:
    """The whole numbers of least cost, and all that were tried: neighbours, halves and doubles until none is better.

    Parameters
    ----------
    low, high
        Bounds of each number.
    fit
        What fits best under some whole numbers; its second argument is what did so under the best ones before, None at
        first.
    reach
        How far neighbours are: one at a time may end where a little further all is better.
    """
    best, tried = start, {start: fit(start, None)}
    while len(tried) < MOST_TRIED:
        near = tried[best]
        for other in _neighbours(best, low, high, reach):
            if other not in tried and len(tried) < MOST_TRIED:
                tried[other] = fit(other, near)
        better = min(tried, key=lambda key: cost(tried[key]))
        if better == best:
            break
        best = better
    return best, tried


def _neighbours(at: Whole, low: Sequence[float], high: Sequence[float], reach: int) -> list[Whole]:
    steps = [sign * step for step in range(1, reach + 1) for sign in (-1, 1)]
    return [
        (*at[:place], float(other), *at[place + 1 :])
        for place, value in enumerate(at)
        for other in (*(value + step for step in steps), round(value / 2), value * 2)
        if low[place] <= other <= high[place] and other != value
    ]
