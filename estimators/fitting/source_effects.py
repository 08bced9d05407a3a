"""How far other people's collections lie from those that a law was fitted to: a random effect of who measured.

Everything that is fitted is fitted to what few collected, and answers for what somebody else runs. `slipstick validate
--refit sources` asks the laws that ship what other collections measured of the same kind: measured seconds are answered
ones times a factor of the kind, from which each collection differs by an effect of its own; where an answer has a part
that no bytes and no flop explain (gaps between launches, sampling, the client), that part has a factor beside it.
Collections that were made by the same scripts are one, and the law's own is one at 1. How far those of a kind lie apart
is expected to be what it is over all kinds. A question is of no collection that was measured: its answer has the
factors in its time and the spread of the effects in its band; of a kind with fewer than `ENOUGH` collections no factor
is taken, but the band is as much wider. A kind whose bands hold what others measured as they are has none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import (
    ANOTHER_SOURCE,
    SOURCE,
    UNMEASURED_SOURCE,
    Coordinate,
    LawFit,
)

NAME, FACTOR, FIXED = "sources", "factor", "fixed"
"""Of what was fitted; of the whole time, and of the part that no bytes and no flop explain."""
ENOUGH = 5
"""Collections of a kind below which nothing is chosen."""


@dataclass(frozen=True, eq=False)
class SourceEffect:
    """Of a collection that was not seen: means of the logs of parameters over those of a law, shape (n,), and their
    covariance, shape (n, n)."""

    parameters: tuple[str, ...] = (FACTOR,)
    mean: FloatArray = field(default_factory=lambda: np.zeros(1))
    covariance: FloatArray = field(default_factory=lambda: np.zeros((1, 1)))

    @property
    def deviation(self) -> float:
        """Standard deviation of the log of the whole."""
        return math.sqrt(self.covariance[0, 0])

    def on(self, made: LawFit) -> LawFit:
        """A fit of whose parameters questions have the effect, as any other that was fitted.

        What a user measures then moves it: it is his own collection. On machines of which fewer than `ENOUGH`
        collections are, the factors are not taken, and the band is as much wider.
        """
        wider = self.covariance + np.outer(self.mean, self.mean)
        new = [Coordinate(name, SOURCE, who) for who in (ANOTHER_SOURCE, UNMEASURED_SOURCE) for name in self.parameters]
        logs = np.concatenate([made.logs, self.mean, 0 * self.mean])
        size, more = len(made.logs), len(self.mean)
        covariance = np.zeros((size + 2 * more,) * 2)
        covariance[:size, :size] = made.covariance
        covariance[size : size + more, size : size + more] = self.covariance
        covariance[size + more :, size + more :] = wider
        return replace(made, coordinates=(*made.coordinates, *new), logs=logs, covariance=covariance)


def effect_of(made: LawFit) -> SourceEffect:
    """Of an unseen source of one kind."""
    base = [at for at, one in enumerate(made.coordinates) if not one.level]
    names, mean = tuple(made.coordinates[at].parameter for at in base), made.logs[base]
    widths = np.diag([made.widths[name, SOURCE] ** 2 for name in names])
    known = made.covariance[np.ix_(base, base)] + widths
    chosen = len(made.seen(SOURCE)) >= ENOUGH
    return SourceEffect(names, mean * chosen, known if chosen else known + np.outer(mean, mean))


@cache
def source_effect(kind: str) -> SourceEffect:
    """What ships of a kind; nothing where its bands hold what others measured."""
    made = load_fitted(NAME).fits.get(kind)
    return effect_of(made) if made else SourceEffect()
