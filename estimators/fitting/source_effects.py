"""How far other people's collections lie from those that a law was fitted to: a random effect of who measured.

Everything that is fitted is fitted to what few collected, and asked of what somebody else runs. `slipstick validate
--refit sources` asks the laws that ship what other collections measured of the same kind: measured seconds are answered
ones times a factor of the kind, from which each collection differs by an effect of its own. Collections that were made
by the same scripts are one, and the law's own is one at 1. How far those of a kind lie apart is expected to be what it
is over all kinds. A question is of no collection that was measured: its answer has the factor in its time and the
spread of the effects in its band; of a kind with fewer than `ENOUGH` collections no factor is taken, but the band is as
much wider. A kind whose bands hold what others measured as they are has none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import (
    ANOTHER_SOURCE,
    SOURCE,
    Coordinate,
    LawFit,
)

NAME, FACTOR = "sources", "factor"
ENOUGH = 5
"""Collections of a kind below which nothing is chosen."""


@dataclass(frozen=True)
class SourceEffect:
    """Of a collection that was not seen: mean of the log of its times over those of a law, and standard deviation."""

    mean: float = 0.0
    deviation: float = 0.0

    def on(self, made: LawFit) -> LawFit:
        """A fit of whose whole (`FACTOR`) questions have the effect, as any other that was fitted.

        What a user measures then moves it: it is his own collection.
        """
        size = len(made.logs)
        covariance = np.zeros((size + 1, size + 1))
        covariance[:size, :size], covariance[size, size] = made.covariance, self.deviation**2
        coordinates = (*made.coordinates, Coordinate(FACTOR, SOURCE, ANOTHER_SOURCE))
        return replace(made, coordinates=coordinates, logs=np.append(made.logs, self.mean), covariance=covariance)


def effect_of(made: LawFit) -> SourceEffect:
    """Of an unseen source of one kind."""
    base = next(at for at, one in enumerate(made.coordinates) if not one.level)
    mean = float(made.logs[base])
    spread = math.hypot(math.sqrt(made.covariance[base, base]), made.widths[FACTOR, SOURCE])
    chosen = len(made.seen(SOURCE)) >= ENOUGH
    return SourceEffect(mean, spread) if chosen else SourceEffect(0.0, math.hypot(spread, mean))


@cache
def source_effect(kind: str) -> SourceEffect:
    """What ships of a kind; nothing where its bands hold what others measured."""
    made = load_fitted(NAME).fits.get(kind)
    return effect_of(made) if made else SourceEffect()
