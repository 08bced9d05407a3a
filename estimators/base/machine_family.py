"""How much measurements of one machine count for another: by the leading words that their families share."""

from __future__ import annotations

MOST_WORDS = 3
"""Words of a family that count: vendor, generation, chip."""


def shared_words(one: str, other: str) -> int:
    """How many leading words two families share, at most `MOST_WORDS`."""
    count = 0
    for a, b in zip(one.split("-"), other.split("-"), strict=False):
        if a != b:
            break
        count += 1
    return min(count, MOST_WORDS)
