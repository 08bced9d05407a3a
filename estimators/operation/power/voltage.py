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
