"""What is believed of scaling curves and of noise before any point is seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from slipstick.common.records import FrozenDict
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.scaling.laws.strong_scaling_priors import (
    CURVES,
    DEPARTURES,
    DRIFTS,
    EXPONENT,
    NO_SERIAL,
    OUTLIER,
    OUTLIER_SIZE,
    OVERHEADS,
    RUN_NOISE,
    RUNS,
    SERIAL,
    SUPERLINEAR,
    TURNS,
    UNREPEATED,
    WEIGHTS,
)
from slipstick.estimators.symbolic.lambdified import FloatArray

Levels = tuple[tuple[float, float], ...]
"""Standard deviations in log time with their prior probabilities."""
FITTED_NAME = "scaling"
FEW_RUNS = 2.0
"""Of two runs of a value nobody can say which is the outlier."""


@dataclass(frozen=True)
class Noise:
    """What may separate a measured time from the law, in log time.

    `repeats`, `runs`: prior belief about the noise of one run, and how many repeats that belief counts as.
    `departures`: standard deviations of what repeats do not show (a placement, a cache, a network), with prior
        probabilities: for series with repeats, and for series without any, where it holds all noise.
    `drifts`: standard deviations per doubling of the distance from the last point, for laws that change slowly.
    `outlier`, `size`: prior probability that one point is an outlier, and by how much (standard deviation).
    """

    repeats: float = RUN_NOISE
    runs: float = RUNS
    departures: Levels = DEPARTURES
    unrepeated: Levels = UNREPEATED
    drifts: Levels = DRIFTS
    outlier: float = OUTLIER
    size: float = OUTLIER_SIZE


@dataclass(frozen=True)
class Inflation:
    """How far 80 % of left-out codes lie from the median of the laws, over the end of the band that the laws give.

    `repeated`: where a value has more than two runs on the mean, so that an outlier among them shows.
    `other`: elsewhere; there no more is known of the noise than before.
    """

    repeated: float
    other: float

    def of(self, runs: FloatArray) -> float:
        """The factor of a series with so many (effective) runs of its values, shape (points,)."""
        return self.repeated if has_repeats(runs) else self.other


def has_repeats(runs: FloatArray) -> bool:
    """Whether values have more than two (effective) runs on the mean, shape (points,)."""
    return float(runs.mean()) > FEW_RUNS


@lru_cache(maxsize=1)
def fitted_inflation() -> Inflation:
    """That of `slipstick validate --refit scaling`."""
    return Inflation(**load_fitted(FITTED_NAME).facts["inflation"])


@dataclass(frozen=True)
class Priors:
    """Prior beliefs about scaling curves T(u) = u^-k + b + c g(u) and about noise.

    `weights`: prior probability of each law.
    `serial`, `no_serial`: range of b, log-uniform, and the probability that there is none.
    `overhead`: range of c of each overhead, log-uniform.
    `border`: range of s, in the fewest workers measured, log-uniform.
    `exponent`, `superlinear`: range of k, uniform on either side of 1, and the probability that it is above.
    `curves`: how many are drawn of a law of two free coordinates.
    `inflation`: how far the band stretches about the median; None: as fitted.
    """

    weights: FrozenDict[float] = FrozenDict(WEIGHTS)
    serial: tuple[float, float] = SERIAL
    no_serial: float = NO_SERIAL
    overhead: FrozenDict[tuple[float, float]] = FrozenDict(OVERHEADS)
    exponent: tuple[float, float] = EXPONENT
    border: tuple[float, float] = TURNS
    superlinear: float = SUPERLINEAR
    curves: int = CURVES
    inflation: Inflation | None = None
    noise: Noise = Noise()


PRIORS = Priors()
