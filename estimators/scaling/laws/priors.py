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
    GROWING,
    LATENESS,
    NO_SERIAL,
    OUTLIER,
    OUTLIER_SIZE,
    OVERHEADS,
    RUN_NOISE,
    RUNS,
    SERIAL,
    STEEPNESS,
    TURNS,
    UNREPEATED,
)

Levels = tuple[tuple[float, float], ...]
"""Standard deviations in log time with their prior probabilities."""
FITTED_NAME = "scaling"


@dataclass(frozen=True)
class Noise:
    """What may separate a measured time from the law, in log time.

    `repeats`, `runs`: prior belief about the noise of one run, and how many repeats that belief counts as.
    `departures`: standard deviations of what repeats do not show (a placement, a cache, a network), with prior
        probabilities: for series with repeats, and for series without any, where it holds all noise.
    `drifts`: standard deviations per doubling of the distance from the last point, for laws that change slowly.
    `growing`: powers of the workers with which the variance of runs and departures may grow, with prior probabilities.
    `outlier`, `size`: prior probability that one point is an outlier, and by how much (standard deviation).
    """

    repeats: float = RUN_NOISE
    runs: float = RUNS
    departures: Levels = DEPARTURES
    unrepeated: Levels = UNREPEATED
    drifts: Levels = DRIFTS
    growing: Levels = GROWING
    outlier: float = OUTLIER
    size: float = OUTLIER_SIZE

    @property
    def known(self) -> float:
        """Standard deviation below which no number of repeats makes a point known: the least of a point without any."""
        return min(deviation for deviation, _ in self.unrepeated)


@dataclass(frozen=True)
class Recalibration:
    """What later values of public codes say of the average over laws.

    `answer`: the quantile that answers: that of the least mean |ln(answer / truth)|, too long and too short alike.
    `below`, `above`: factors on the normal scores to either side of the median with which an 80 % band leaves a tenth
        of the later values beyond each end.
    """

    answer: float = 0.5
    below: float = 1.0
    above: float = 1.0


@lru_cache(maxsize=1)
def fitted_recalibration() -> Recalibration:
    """That of `slipstick validate --refit scaling`, from all codes."""
    return Recalibration(**load_fitted(FITTED_NAME).facts["all"])


@dataclass(frozen=True)
class Priors:
    """Prior beliefs about scaling curves and about noise; every law is as likely.

    `constant_work`: of weak scaling and of collectives the laws of constant work are averaged, else those of shared.
    `codes`: which quantile answers and how far the band stretches; None: as fitted to all public codes of strong
        scaling.
    `serial`, `no_serial`: range of b, log-uniform, and the probability that there is none.
    `overhead`: range of c of each overhead, log-uniform.
    `border`: range of s, in the fewest workers measured, log-uniform.
    `exponent`, `lateness`, `steepness`: ranges of k of the work, of waiting for the slowest, and of steep overheads.
    `curves`: how many are drawn of a law of two free coordinates.
    """

    constant_work: bool = False
    codes: Recalibration | None = None
    serial: tuple[float, float] = SERIAL
    no_serial: float = NO_SERIAL
    overhead: FrozenDict[tuple[float, float]] = FrozenDict(OVERHEADS)
    exponent: tuple[float, float] = EXPONENT
    lateness: tuple[float, float] = LATENESS
    steepness: tuple[float, float] = STEEPNESS
    border: tuple[float, float] = TURNS
    curves: int = CURVES
    noise: Noise = Noise()

    @property
    def recalibration(self) -> Recalibration:
        """What public codes say."""
        return self.codes or fitted_recalibration()


PRIORS = Priors()
WEAK_PRIORS = Priors(constant_work=True)
