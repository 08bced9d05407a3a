"""Priors and inflation of the average over laws of strong scaling (`estimators/extrapolation/laws/evidence.py`).

version: 2
chosen on: public codes left out one by one, and random series of seeds below 1,000
    (`experiments/evidence/validation/scaling/scaling_refit.py`); the weights of the laws and the form of the priors are
    fixed beforehand: Amdahl's law 0.4, each overhead and the power 0.15, coefficients log-uniform.
refit: ``slipstick validate scaling --refit`` repeats the choice.
scored on the same data: no figure of the boards: there each code's widths and inflation come of the other codes.
"""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.hwmodels.files.records import Table


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

    repeats: float = 0.02
    runs: float = 1.0
    departures: tuple[tuple[float, float], ...] = (
        *((0.0, 0.40), (0.01, 0.15), (0.02, 0.15), (0.05, 0.15), (0.10, 0.10), (0.20, 0.05)),
    )
    unrepeated: tuple[tuple[float, float], ...] = (
        *((0.003, 0.10), (0.01, 0.20), (0.02, 0.20), (0.05, 0.20), (0.10, 0.20), (0.20, 0.10)),
    )
    drifts: tuple[tuple[float, float], ...] = ((0.05, 0.15), (0.15, 0.15))
    outlier: float = 0.02
    size: float = 0.5


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

    weights: Table[float] = Table({"amdahl": 0.4, "amdahl-log": 0.15, "usl": 0.15, "amdahl-sqrt": 0.15, "power": 0.15})
    serial: tuple[float, float] = (1e-3, 10.0)
    no_serial: float = 0.1
    overhead: Table[tuple[float, float]] = Table(
        {"amdahl-log": (1e-5, 0.3), "usl": (1e-5, 0.1), "amdahl-sqrt": (1e-5, 0.3)}
    )
    exponent: tuple[float, float] = (0.6, 1.3)
    superlinear: float = 0.2
    curves: int = 192
    inflation: float = 1.0
    noise: Noise = Noise()


PRIORS = Priors()
