"""A difference between two states shared out among the terms that changed: Shapley values.

Source: Shapley, A value for n-person games, 1953. Each term gets its mean effect over all orders in which the terms
could have changed; the shares add up to the whole difference, and a term without effect gets nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import factorial

from slipstick.common.errors import InputError

MOST_TERMS = 10


def shapley(terms: Sequence[str], value: Callable[[frozenset[str]], float]) -> dict[str, float]:
    """The share of each term in value(all) - value(none).

    `value`: of a set of terms that have changed; evaluated once for each of the 2^n sets.
    Raises InputError where there are more than ten terms, or one is named twice.
    """
    count = len(terms)
    if count > MOST_TERMS or len(set(terms)) < count:
        raise InputError(f"{count} terms: want at most {MOST_TERMS}, each named once")
    sets = [frozenset(chosen) for size in range(count + 1) for chosen in combinations(terms, size)]
    known = {chosen: value(chosen) for chosen in sets}
    shares = {}
    for term in terms:
        shares[term] = sum(
            factorial(len(s)) * factorial(count - len(s) - 1) / factorial(count) * (known[s | {term}] - known[s])
            for s in sets
            if term not in s
        )
    return shares
