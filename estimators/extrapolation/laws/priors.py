"""What is believed of scaling curves and of noise before any point is seen."""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.estimators.tuned.tuned_scaling import (
    CHOSEN,
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
    TURNS,
    UNREPEATED,
    WEIGHTS,
)
from slipstick.hwmodels.files.records import Table

Levels = tuple[tuple[float, float], ...]
"""Standard deviations in log time with their prior probabilities."""


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
class Priors:
    """Prior beliefs about scaling curves T(u) = u^-k + b + c g(u) and about noise.

    `weights`: prior probability of each law.
    `serial`, `no_serial`: range of b, log-uniform, and the probability that there is none.
    `overhead`: range of c of each overhead, log-uniform.
    `border`: range of s, in the fewest workers measured, log-uniform.
    `exponent`, `superlinear`: range of k, uniform on either side of 1, and the probability that it is above.
    `curves`: how many are drawn of a law of two free coordinates.
    `inflation`: how far the band stretches about the median.
    """

    weights: Table[float] = Table(WEIGHTS)
    serial: tuple[float, float] = SERIAL
    no_serial: float = NO_SERIAL
    overhead: Table[tuple[float, float]] = Table(OVERHEADS)
    exponent: tuple[float, float] = EXPONENT
    border: tuple[float, float] = TURNS
    superlinear: float = 0.2
    curves: int = CURVES
    inflation: float = 1.0
    noise: Noise = Noise()


Choice = tuple[float, float, float]
"""What is learned: `superlinear`, a factor on departures from the law, `inflation`."""


def chosen(choice: Choice) -> Priors:
    """The priors of a choice."""
    superlinear, factor, inflation = choice
    departures, unrepeated = (
        tuple((deviation * factor, share) for deviation, share in levels) for levels in (DEPARTURES, UNREPEATED)
    )
    noise = Noise(departures=departures, unrepeated=unrepeated)
    return Priors(superlinear=superlinear, inflation=inflation, noise=noise)


PRIORS = chosen(CHOSEN)
