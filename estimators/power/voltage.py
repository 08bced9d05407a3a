"""What a clock costs: above a knee a chip needs more voltage, and energy of a flop grows with its square."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import sp, symbol
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest
from slipstick.hwmodels.machine import Machine

KNEE = 1.4e9
"""Clock in Hz up to which the least voltage serves, and energy of a flop is the machine's number: an H100's."""
KNEE_SHARE = KNEE / 1.98e9
"""The same over an H100's highest clock (0.72 fitted to training on three other boards, docs/notes/energy.md)."""
LEAST_POWER = 1e-3
"""Share of the cap that is left for work where idle takes all of it: the time grows, and stays a number."""


def knee(machine: Machine) -> float:
    """Clock [Hz] up to which the least voltage serves.

    A chip that is sold at a higher clock reaches more of it at the least voltage: supply voltages of boards span a
    factor of about sqrt 2, whatever their clock. It goes with the clock of the machine's file, not with one set since.
    """
    return max(KNEE, KNEE_SHARE * machine.stated.clock)


def squared_voltage(turn: float) -> sp.Expr:
    """The square of the voltage at machine.clock over that at a knee [Hz]: 1 below it, (clock / knee)^2 above."""
    return Largest(1, symbol("machine.clock") / turn) ** 2


def capped_seconds(flop_time: sp.Expr, flop: sp.Expr, machine: Machine) -> sp.Expr:
    """Seconds of arithmetic that takes `flop_time` without a cap, as the power cap allows it; 0 where that is unknown.

    Below the knee of the voltage, energy of a flop is constant and time is energy over power; above it, energy grows
    with the square of the clock and the clock falls with the cube root of the power that is missing.

    `flop`: as many as cost the same energy in float32 on vector engines.
    """
    power = machine.power
    if power.cap is None or power.per_flop is None or flop == 0:
        return sp.Integer(0)
    cap = symbol("machine.power.cap")
    allowed = Largest(cap - symbol("machine.power.idle"), LEAST_POWER * cap) if power.idle else cap
    at_knee = flop * symbol("machine.power.per_flop") / allowed
    squeezed = flop_time ** sp.Rational(2, 3) * (at_knee * squared_voltage(knee(machine))) ** sp.Rational(1, 3)
    # Squeezing matters only while the clock stays above the knee, that is while it is the longer of the two.
    return Largest(at_knee, squeezed)


def dynamic_share(clock: npt.ArrayLike, knee: npt.ArrayLike) -> FloatArray:
    """Dynamic power f V^2 at a clock over that at the rated one; clock and knee in Hz over the rated clock."""
    share, turn = np.asarray(clock, dtype=np.float64), np.asarray(knee, dtype=np.float64)
    return np.asarray(share * (np.maximum(share, turn) / np.maximum(1.0, turn)) ** 2)


def clock_share(ratio: npt.ArrayLike, knee: npt.ArrayLike) -> FloatArray:
    """The clock, over the rated one, whose dynamic power is so many times that of it: inverse of `dynamic_share`."""
    turn = np.asarray(knee, dtype=np.float64)
    dynamic = np.asarray(ratio, dtype=np.float64) * np.maximum(1.0, turn) ** 2
    return np.asarray(np.where(dynamic <= turn**3, dynamic / turn**2, np.cbrt(dynamic)))
