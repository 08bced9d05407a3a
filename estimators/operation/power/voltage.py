"""What a clock costs: above a knee a chip needs more voltage, and energy of a flop grows with its square."""

from __future__ import annotations

import sympy as sp

from slipstick.estimators.core.extrema import Largest
from slipstick.hwmodels.files.expressions import symbol

KNEE = 1.4e9
"""Clock in Hz up to which the least voltage serves, and energy of a flop is the machine's number."""


def squared_voltage() -> sp.Expr:
    """The square of the voltage at machine.clock over that at the knee: 1 below it, (clock / knee)^2 above."""
    return Largest(1, symbol("machine.clock") / KNEE) ** 2


def dynamic_ratio(clock: float, rated: float) -> float:
    """Dynamic power f V^2 at a clock over that at the rated one; clocks in Hz, above 0."""
    return _dynamic(clock) / _dynamic(rated)


def clock_of_ratio(ratio: float, rated: float) -> float:
    """The clock [Hz] whose dynamic power is so many times that of the rated one: the inverse of `dynamic_ratio`."""
    dynamic = ratio * _dynamic(rated)
    return dynamic if dynamic <= KNEE else float((dynamic * KNEE**2) ** (1 / 3))


def _dynamic(clock: float) -> float:
    return float(clock * max(1.0, clock / KNEE) ** 2)
