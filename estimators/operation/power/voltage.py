"""What a clock costs: above a knee a chip needs more voltage, and energy of a flop grows with its square."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.lambdified.extrema import Largest
from slipstick.hwmodels.files.expressions import symbol
from slipstick.hwmodels.files.symbolic import sp

KNEE = 1.4e9
"""Clock in Hz up to which the least voltage serves, and energy of a flop is the machine's number."""


def squared_voltage() -> sp.Expr:
    """The square of the voltage at machine.clock over that at the knee: 1 below it, (clock / knee)^2 above."""
    return Largest(1, symbol("machine.clock") / KNEE) ** 2


def dynamic_share(clock: npt.ArrayLike, knee: npt.ArrayLike) -> FloatArray:
    """Dynamic power f V^2 at a clock over that at the rated one; clock and knee in Hz over the rated clock."""
    share, turn = np.asarray(clock, dtype=np.float64), np.asarray(knee, dtype=np.float64)
    return np.asarray(share * (np.maximum(share, turn) / np.maximum(1.0, turn)) ** 2)


def clock_share(ratio: npt.ArrayLike, knee: npt.ArrayLike) -> FloatArray:
    """The clock, over the rated one, whose dynamic power is so many times that of it: inverse of `dynamic_share`."""
    turn = np.asarray(knee, dtype=np.float64)
    dynamic = np.asarray(ratio, dtype=np.float64) * np.maximum(1.0, turn) ** 2
    return np.asarray(np.where(dynamic <= turn**3, dynamic / turn**2, np.cbrt(dynamic)))


def dynamic_ratio(clock: float, rated: float) -> float:
    """Dynamic power f V^2 at a clock over that at the rated one; clocks in Hz, above 0."""
    return float(dynamic_share(clock / rated, KNEE / rated))


def clock_of_ratio(ratio: float, rated: float) -> float:
    """The clock [Hz] whose dynamic power is so many times that of the rated one: the inverse of `dynamic_ratio`."""
    return rated * float(clock_share(ratio, KNEE / rated))
