"""What is fitted through a simulation, what was measured for it, and what a fit gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slipstick.common.array_types import FloatArray


@dataclass(frozen=True)
class Adjustable:
    """A parameter of a simulation.

    `width`: how far from its start it is expected, as a standard deviation: it decides where measurements say nothing.
    `step`: the least difference that shows.
    `whole`: whether it is a whole number: then values are tried and none has a derivative.
    """

    name: str
    start: float
    low: float
    high: float
    width: float
    step: float = 0.0
    whole: bool = False


@dataclass(frozen=True, eq=False)
class MeasuredFigures:
    """One configuration that was measured.

    `measured`: logarithms of the measured figures, shape (figures,): means over `repeats` runs.
    `spread`: covariance of those of one run as the measured values by themselves show it, shape (figures, figures).
    `simulate`: parameters by name and a seed to the same figures of one simulated run.
    `formula`: parameters by name to the log of the mean by a closed form, beside the measured one; None where there is
        none.
    """

    measured: FloatArray
    spread: FloatArray
    simulate: Callable[[Mapping[str, float], int], FloatArray]
    repeats: int = 1
    formula: Callable[[Mapping[str, float]], float] | None = None


@dataclass(frozen=True, eq=False)
class SimulatedFit:
    """Parameters result through a simulation.

    `names`, `values`, `covariance`: of the parameters, whole numbers among them; a whole number's variance is that of
        its draws.
    `residuals`: simulated minus measured figures, in their standard deviations.
    `chi_square`: sum of the squares of `residuals`, as many as `degrees_of_freedom` where the simulation is right.
    `formula`: what the closed form by itself gives, by name; what it does not depend on stays as it was.
    `whole`: probability of each combination of whole numbers that was tried: (values, probability).
    """

    names: tuple[str, ...]
    values: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    residuals: tuple[float, ...]
    degrees_of_freedom: int
    chi_square: float
    held: tuple[str, ...]
    formula: Mapping[str, float]
    whole: tuple[tuple[Mapping[str, float], float], ...] = ()
    runs: int = 0
