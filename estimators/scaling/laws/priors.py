"""What is believed of scaling curves and of noise before any point is seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from slipstick.common.records import FrozenDict
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.scaling.laws.repeats import FEW_RUNS
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
from slipstick.estimators.symbolic.lambdified import FloatArray

Levels = tuple[tuple[float, float], ...]
"""Standard deviations in log time with their prior probabilities."""
FITTED_NAME = "scaling"
FARTHEST_DOUBLINGS, STRETCH = 4.0, (-1.0, 2.0)
"""Beyond so many doublings no code was left out, and ends of the logarithm of a stretch."""


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


@dataclass(frozen=True)
class CodesPriors:
    """What public codes say beforehand: how often each law holds, and how far off the average then is.

    `weights`: prior probability of each law.
    `below`, `above`: logarithm of the factor by which the normal scores of the average are stretched to either side of
        its median: at twice the last value and five points without repeats; more for a doubling of the distance; more
        for a doubling of the points; and more where a value has more than two runs on the mean.
    """

    weights: FrozenDict[float]
    below: tuple[float, ...]
    above: tuple[float, ...]

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> CodesPriors:
        """Those of a fitted file."""
        ends = (tuple(map(float, facts[name])) for name in ("below", "above"))
        return cls(FrozenDict(facts["weights"]), *ends)

    def stretch(self, ratios: FloatArray, runs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Factors below and above at ratios to the last value, of a series with so many (effective) runs a value."""
        features = regime(ratios, runs)
        below, above = (np.exp(np.clip(features @ np.array(one), *STRETCH)) for one in (self.below, self.above))
        return below, above


def regime(ratios: FloatArray, runs: FloatArray) -> FloatArray:
    """What a stretch depends on, shape (targets, 4): 1, log2 of the distance over 2, of points over 5, and repeats.

    `ratios`: values over the last one measured, shape (targets,).
    `runs`: effective runs of each value, shape (points,).
    """
    away = np.clip(np.log2(np.maximum(ratios, 1.0)), 0.0, FARTHEST_DOUBLINGS) - 1.0
    points, repeated = np.log2(len(runs) / 5.0), float(runs.mean() > FEW_RUNS)
    return np.stack([np.ones_like(away), away, np.full_like(away, points), np.full_like(away, repeated)], axis=1)


@lru_cache(maxsize=1)
def fitted_priors() -> CodesPriors:
    """Those of `slipstick validate --refit scaling`, from all codes."""
    return CodesPriors.of(load_fitted(FITTED_NAME).facts["all"])


@dataclass(frozen=True)
class Priors:
    """Prior beliefs about scaling curves and about noise.

    `codes`: how often each law holds and how far the band stretches; None: as fitted to all public codes of strong
        scaling.
    `serial`, `no_serial`: range of b, log-uniform, and the probability that there is none.
    `overhead`: range of c of each overhead, log-uniform.
    `border`: range of s, in the fewest workers measured, log-uniform.
    `exponent`, `lateness`, `steepness`: ranges of k of the work, of waiting for the slowest, and of steep overheads.
    `curves`: how many are drawn of a law of two free coordinates.
    """

    codes: CodesPriors | None = None
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
    def learned(self) -> CodesPriors:
        """What public codes say."""
        return self.codes or fitted_priors()


PRIORS = Priors()
