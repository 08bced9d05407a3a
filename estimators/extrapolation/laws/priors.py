"""What is believed of scaling curves and of noise before any point is seen."""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.estimators.tuned.tuned_scaling import (
    CURVES,
    DEPARTURES,
    DRIFTS,
    EXPONENT,
    INFLATION,
    NO_SERIAL,
    OUTLIER,
    OUTLIER_SIZE,
    OVERHEAD,
    RUN_NOISE,
    RUNS,
    SERIAL,
    SUPERLINEAR,
    UNREPEATED,
    WEIGHTS,
)
from slipstick.hwmodels.files.records import Table

Levels = tuple[tuple[float, float], ...]
"""Standard deviations in log time with their prior probabilities."""


@dataclass(frozen=True)
class Noise:
    """What may separate a measured time from the law, in log time.

    Parameters
    ----------
    repeats, runs
        Prior belief about the noise of one run, and how many repeats that belief counts as.
    departures
        Standard deviations of what repeats do not show (a placement, a cache, a network), with prior probabilities:
        for series with repeats, and for series without any, where it holds all noise.
    drifts
        Standard deviations per doubling of the distance from the last point, for laws that change slowly.
    outlier, size
        Prior probability that one point is an outlier, and by how much (standard deviation).
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

    Parameters
    ----------
    weights
        Prior probability of each law.
    serial, no_serial
        Range of b, log-uniform, and the probability that there is none.
    overhead
        Range of c of each overhead, log-uniform.
    exponent, superlinear
        Range of k, uniform on either side of 1, and the probability that it is above.
    curves
        How many are drawn of a law of two free coordinates.
    inflation
        How far the band stretches about the median.
    """

    weights: Table[float] = Table(WEIGHTS)
    serial: tuple[float, float] = SERIAL
    no_serial: float = NO_SERIAL
    overhead: Table[tuple[float, float]] = Table(OVERHEAD)
    exponent: tuple[float, float] = EXPONENT
    superlinear: float = SUPERLINEAR
    curves: int = CURVES
    inflation: float = INFLATION
    noise: Noise = Noise()


PRIORS = Priors()
