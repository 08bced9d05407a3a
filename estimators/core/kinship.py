"""How much measurements of one machine count for another: by the leading words that their families share."""

from __future__ import annotations

RELATIVES = (0.1, 0.5, 5.0, 30.0)
"""Weight of a machine with which 0, 1, 2, 3 words of the family are shared (vendor, generation, chip): the best of a
few round ones over all public collections, every machine left out."""
PRIOR_WEIGHT = 0.2


def shared_words(one: str, other: str) -> int:
    """How many leading words two families share, at most three."""
    count = 0
    for a, b in zip(one.split("-"), other.split("-"), strict=False):
        if a != b:
            break
        count += 1
    return min(count, 3)
