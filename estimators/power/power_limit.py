"""What a power limit does to a run whose time and mean power are known without one: its time, its power, its energy.

A run keeps the device busy for a share u of its time, at the power B, and idles at I for the rest, so that its mean
power is P = u B + (1 - u) I. A limit L below B lowers the clock until the busy power is L: B - I goes with f V^2
(`power_cap`). Of the busy time a share c grows with the slower
clock, the rest (memory, latency) stays. u is not measured; it grows with the mean power,
u = 1 / (1 + exp(-(b + m (P - I)))), all powers as shares of the board's rated power.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import Columns, FormulaLaw, Grouping, LawFit, ParameterPrior
from slipstick.estimators.power.power_cap import BusyPower, stretched
from slipstick.estimators.symbolic.formula import CheckedParameters, Parameter

LEAST_DUTY, MOST_BUSY = 0.02, 1.3


@dataclass(frozen=True)
class PowerLimit(CheckedParameters):
    """The law of the module's first lines with its five parameters; the spreads are those of devices left out.

    `fitted_limit` gives those of 991 epochs of training under limits on P100, V100 and Quadro RTX 6000 (Zeus, You et
    al., NSDI 2023).

    `time_spread`, `power_spread`: standard deviation of the logarithm of the time and of the power under a limit that
        holds the run back, and of a run that it leaves alone (noise of an epoch).
    """

    idle: Annotated[float, Parameter("1", "idle power over rated power", 0.02, 0.25)] = 0.1
    knee: Annotated[float, Parameter("1", "clock where the least voltage ends, over the free one", 0.05, 1.0)] = 0.7
    clock_share: Annotated[float, Parameter("1", "share of the busy time that follows the clock", 0.1, 1.3)] = 0.7
    duty_slope: Annotated[float, Parameter("1", "how fast the duty cycle grows with mean power", 0.0, 30.0)] = 5.0
    duty_start: Annotated[float, Parameter("1", "log odds of the duty cycle at idle power", -6.0, 8.0)] = -1.0
    time_spread: tuple[float, float] = (0.1, 0.05)
    power_spread: tuple[float, float] = (0.1, 0.05)

    def ratios(self, power: npt.ArrayLike, limit: npt.ArrayLike, rated: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Time and mean power under a limit, both over those without one; shapes broadcast.

        `power`: mean power of the run without a limit [W].
        `limit`: the power limit [W].
        `rated`: the board's rated power [W].
        Raises InputError where a power is not above 0, or the mean power exceeds 1.3 times the rated one.
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
        numbers = (self.idle, self.knee, self.clock_share, self.duty_slope, math.exp(self.duty_start))
        return _ratios(p, bound, *np.array(numbers, dtype=np.float64))

    def spreads(self, power: npt.ArrayLike, limit: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Standard deviation of log time and of log power: wider where the limit lies below the mean power."""
        held = np.asarray(limit, dtype=np.float64) < np.asarray(power, dtype=np.float64)
        return np.where(held, *self.time_spread), np.where(held, *self.power_spread)


def _ratios(
    p: FloatArray,
    bound: FloatArray,
    idle: FloatArray,
    knee: FloatArray,
    clock_share: FloatArray,
    slope: FloatArray,
    odds: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Time and mean power over those without a limit, all powers as shares of the rated one; `odds` at idle power."""
    duty = np.clip(1 / (1 + np.exp(-slope * (p - idle)) / odds), LEAST_DUTY, 1.0)
    idle = np.minimum(idle, 0.95 * p)
    busy = np.clip(idle + (p - idle) / duty, p, MOST_BUSY)
    duty = np.where(busy > idle, (p - idle) / np.maximum(busy - idle, 1e-12), 1.0)
    held = busy > bound
    clock = np.where(held, BusyPower(idle, busy - idle).clock(bound, knee), 1.0)
    working = duty * stretched(clock, clock_share)
    time = (1 - duty) + working
    drawn = (working * np.where(held, np.minimum(bound, busy), busy) + (1 - duty) * idle) / time
    return time, drawn / p


def _of_rows(values: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    time, power = _ratios(columns["mean"], columns["limit"], *values.values())
    return np.where(columns["of_power"] > 0, power, time)


NAME = "power-limit"
LAW = FormulaLaw(
    NAME,
    (
        ParameterPrior("idle", "1", "idle power over rated power", 0.1, 0.5, 0.02, 0.25, "share"),
        ParameterPrior(
            "knee", "1", "clock where the least voltage ends, over the free one", 0.7, 0.3, 0.05, 1.0, "clock"
        ),
        ParameterPrior(
            "clock_share", "1", "share of the busy time that follows the clock", 0.7, 0.3, 0.1, 1.3, "clock", ("board",)
        ),
        ParameterPrior("slope", "1", "how fast the duty cycle grows with mean power", 5.0, 1.0, 0.1, 30.0, "duty"),
        ParameterPrior("odds", "1", "of the duty cycle at idle power", 0.4, 1.0, 0.0025, 3000.0, "duty", ("board",)),
    ),
    _of_rows,
    (Grouping("board", 0.2),),
)
"""Time and mean power of a run under a limit over those without, by the board that ran it."""


def of_fit(fit: LawFit, spreads: Mapping[str, Sequence[float]] | None = None) -> PowerLimit:
    """The law of a board that was not measured, with the spreads of `time` and `power` (as in `PowerLimit`)."""
    idle, knee, share, slope, odds = (float(one[0]) for one in fit.values(LAW, {"board": [""]}).values())
    known = spreads or {"time": (0.0, 0.0), "power": (0.0, 0.0)}
    time, power = ((float(known[name][0]), float(known[name][1])) for name in ("time", "power"))
    return PowerLimit(idle, knee, share, slope, math.log(odds), time, power)


@cache
def fitted_limit() -> PowerLimit:
    """The law that ships (``slipstick validate --refit power-limit``)."""
    shipped = load_fitted(NAME)
    return of_fit(shipped.fit(NAME), shipped.facts["spreads"])
