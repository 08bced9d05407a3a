"""What a power limit does to a run whose time and mean power are known without one: its time, its power, its energy.

A run keeps the device busy for a share u of its time, at the power B, and idles at I for the rest, so that its mean
power is P = u B + (1 - u) I. A limit L below B lowers the clock until the busy power is L: with S the part of it that
does not follow the clock, B - S goes with f V^2 (`power_cap`). Of the busy time a share c grows with the slower
clock, the rest (memory, latency) stays. u is not measured; it grows with the mean power,
u = 1 / (1 + exp(-(b + m (P - I)))), all powers as shares of the board's rated power.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.parameters import Parameter, check_parameters
from slipstick.estimators.operation.power.power_cap import BusyPower, stretched
from slipstick.estimators.tuned.tuned_power import (
    CLOCK_SHARE,
    DUTY_SLOPE,
    DUTY_START,
    IDLE,
    KNEE_SHARE,
    POWER_SPREAD,
    STATIC,
    TIME_SPREAD,
)
from slipstick.hwmodels.files.errors import InputError

LEAST_DUTY, MOST_BUSY = 0.02, 1.3


@dataclass(frozen=True)
class PowerLimit:
    """The law of the module's first lines with its six parameters; the spreads are those of devices left out.

    Fitted to 991 epochs of training under limits on P100, V100 and Quadro RTX 6000 (Zeus, You et al., NSDI 2023); the
    command that fits it anew and scores each device left out is ``slipstick validate energy``.

    Parameters
    ----------
    time_spread, power_spread
        Standard deviation of the logarithm of the time and of the power under a limit that holds the run back, and of
        a run that it leaves alone (noise of an epoch).
    """

    idle: Annotated[float, Parameter("1", "idle power over rated power", 0.02, 0.25)] = IDLE
    knee: Annotated[float, Parameter("1", "clock where the least voltage ends, over the free one", 0.05, 1.0)] = (
        KNEE_SHARE
    )
    clock_share: Annotated[float, Parameter("1", "share of the busy time that follows the clock", 0.1, 1.3)] = (
        CLOCK_SHARE
    )
    static: Annotated[float, Parameter("1", "busy power beyond idle that no clock lowers", 0.0, 0.3)] = STATIC
    duty_slope: Annotated[float, Parameter("1", "how fast the duty cycle grows with mean power", 0.0, 30.0)] = (
        DUTY_SLOPE
    )
    duty_start: Annotated[float, Parameter("1", "log odds of the duty cycle at idle power", -6.0, 8.0)] = DUTY_START
    time_spread: tuple[float, float] = TIME_SPREAD
    power_spread: tuple[float, float] = POWER_SPREAD

    def __post_init__(self) -> None:
        check_parameters(self)

    def ratios(self, power: npt.ArrayLike, limit: npt.ArrayLike, rated: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Time and mean power under a limit, both over those without one; shapes broadcast.

        Parameters
        ----------
        power
            Mean power of the run without a limit [W].
        limit
            The power limit [W].
        rated
            The board's rated power [W].

        Raises
        ------
        InputError
            Where a power is not above 0, or the mean power exceeds 1.3 times the rated one.
        """
        mean, cap, board = np.broadcast_arrays(
            *(np.asarray(value, dtype=np.float64) for value in (power, limit, rated))
        )
        for name, values in (("mean power", mean), ("power limit", cap), ("rated power", board)):
            if not np.all(np.isfinite(values) & (values > 0)):
                raise InputError(f"{name} = {float(np.min(values)):g} W: want a finite power > 0")
        p, bound = mean / board, cap / board
        if np.any(p > MOST_BUSY):
            raise InputError(f"mean power = {float(np.max(mean)):g} W: want at most {MOST_BUSY:g} x the rated power")
        duty = np.clip(1 / (1 + np.exp(-(self.duty_start + self.duty_slope * (p - self.idle)))), LEAST_DUTY, 1.0)
        idle = np.minimum(self.idle, 0.95 * p)
        busy = np.clip(idle + (p - idle) / duty, p, MOST_BUSY)
        duty = np.where(busy > idle, (p - idle) / np.maximum(busy - idle, 1e-12), 1.0)
        static = np.minimum(idle + self.static, busy)
        held = busy > bound
        clock = np.where(held, BusyPower(static, busy - static).clock(bound, self.knee), 1.0)
        working = duty * stretched(clock, self.clock_share)
        time = (1 - duty) + working
        drawn = (working * np.where(held, np.minimum(bound, busy), busy) + (1 - duty) * idle) / time
        return time, drawn / p

    def spreads(self, power: npt.ArrayLike, limit: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Standard deviation of log time and of log power: wider where the limit lies below the mean power."""
        held = np.asarray(limit, dtype=np.float64) < np.asarray(power, dtype=np.float64)
        return np.where(held, *self.time_spread), np.where(held, *self.power_spread)
