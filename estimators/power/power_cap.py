"""One law of the power cap, for estimates, serving, training and measured runs under a limit.

A board at work draws S + D: S follows no clock (idle power, and that of memory by the share of its bandwidth that is
used), D goes with f V^2 (`voltage`: V is at its least below the knee, and follows the clock above it). A cap L below
S + D lowers the clock until S + D(f) = L; a cap above what is drawn changes nothing, and one above the board's rated
power raises no clock. Of the time, what follows the clock grows as its inverse, the rest stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.power.power_constants import MEMORY
from slipstick.estimators.power.voltage import clock_share, dynamic_share
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.power import IDLE_SHARE

RATED_CLOCK = "rated.clock"
"""The clock in Hz that the machine's file states, whatever clock was set instead."""
LAW = "dynamic power as f V^2, fitted to training on three GPUs under limits; docs/notes/energy.md"
ROUNDING = 1e-9
"""Share of the power above a cap that is rounding."""
SLOWEST = 0.15
"""Share of its clock below which no board goes (data sheets: 210 MHz of 1.4 to 2 GHz)."""


@dataclass(frozen=True)
class BusyPower:
    """Watts of a board at work: those that no clock lowers, and those that follow it; arrays of one shape."""

    static: FloatArray
    dynamic: FloatArray

    @classmethod
    def of(cls, watts: npt.ArrayLike, idle: npt.ArrayLike, rated: npt.ArrayLike, read: npt.ArrayLike) -> BusyPower:
        """The two parts of what a board draws.

        `watts`: of the board while it works [W].
        `idle`, `rated`: idle and rated power of the board [W].
        `read`: share of the memory's bandwidth that is used.
        """
        drawn, still = np.asarray(watts, dtype=np.float64), np.asarray(idle, dtype=np.float64)
        above = np.maximum(drawn - still, 0.0)
        memory = np.minimum(above, MEMORY * np.asarray(rated) * np.clip(read, 0.0, 1.0))
        return cls(np.asarray(still + memory), np.asarray(above - memory))

    def clock(self, cap: npt.ArrayLike, knee: npt.ArrayLike) -> FloatArray:
        """The clock under a cap [W] over that at which all is drawn: at most 1, at least `SLOWEST`.

        `knee`: clock up to which the least voltage serves, over the same.
        """
        left = np.maximum(np.asarray(cap, dtype=np.float64) - self.static, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.dynamic > left * (1 + ROUNDING), left / np.maximum(self.dynamic, 1e-300), 1.0)
        return np.clip(clock_share(ratio, knee), SLOWEST, 1.0)

    def watts(self, clock: npt.ArrayLike, knee: npt.ArrayLike) -> FloatArray:
        """What is drawn at another clock, over that of the two parts; `knee` as in `clock`."""
        return np.asarray(self.static + self.dynamic * dynamic_share(clock, knee))


def slower_watts(
    watts: npt.ArrayLike,
    idle: npt.ArrayLike,
    rated: npt.ArrayLike,
    read: npt.ArrayLike,
    share: npt.ArrayLike,
    knee: npt.ArrayLike,
    stretch: npt.ArrayLike,
) -> FloatArray:
    """Mean watts of the same work at a share of its clock: never more than at the whole clock.

    The board idles for longer, the joules of memory stay, and those that follow the clock fall with the square of the
    voltage.

    `watts`, `idle`, `rated`, `read`: at the whole clock, as `BusyPower.of`.
    `share`, `knee`: the lower clock over the whole one, and the clock up to which the least voltage serves over the
        same.
    `stretch`: how many times longer the work takes.
    """
    still = np.minimum(idle, watts)
    power = BusyPower.of(watts, still, rated, read)
    lower = np.asarray(share, dtype=np.float64)
    working = power.static - still + power.dynamic * dynamic_share(lower, knee) / lower
    return np.asarray(still + working / np.maximum(stretch, 1.0))


def stretched(clock: npt.ArrayLike, follows: npt.ArrayLike) -> FloatArray:
    """How many times longer a run takes at a share of its clock, of whose time the share `follows` goes with it."""
    return np.asarray(1.0 + np.asarray(follows, dtype=np.float64) * (1.0 / np.asarray(clock, dtype=np.float64) - 1.0))


def rated_watts(machine: Machine) -> tuple[float, float]:
    """Rated power of the board, whatever cap was set instead, and idle power [W].

    Raises InputError where the machine states no power cap.
    """
    cap = machine.stated.power.cap or machine.power.cap
    if cap is None:
        raise InputError(f"machine {machine.name!r} states no power.cap: its power under load is unknown")
    return cap, machine.power.idle or IDLE_SHARE * cap


def cap_watts(machine: Machine) -> float:
    """The cap that holds [W]: the machine's, and never more than the board's rated power.

    Raises InputError where the machine states no power cap.
    """
    rated, _ = rated_watts(machine)
    return min(machine.power.cap or rated, rated)


def beyond_rated(machine: Machine) -> str:
    """That a cap was set above the board's rated power; "" where it was not."""
    rated = machine.stated.power.cap
    above = rated is not None and (machine.power.cap or 0.0) > rated
    return f"a cap above the board's rated {rated:g} W raises no clock" if above else ""


def rating(machine: Machine, free: Mapping[str, npt.ArrayLike]) -> tuple[FloatArray, FloatArray]:
    """The most that raises a clock, and idle power [W], at each point of `free` (see `rated_watts`).

    The most is infinite where the idle power is another than the board's, since no limit moves that: it is a board of
    another rating, as in `Machine.using`.
    Raises InputError where the machine states no power cap.
    """
    (rated, _), idle = rated_watts(machine), free.get("machine.power.idle", machine.power.idle)
    same = np.isin(idle, (0.0, machine.stated.power.idle or IDLE_SHARE * rated))
    return np.where(same, rated, np.inf), np.where(idle, idle, IDLE_SHARE * rated)


def refuse_idle_cap(machine: Machine, caps: npt.ArrayLike, free: Mapping[str, npt.ArrayLike]) -> None:
    """Check that caps [W] that were set lie above idle power, which no clock lowers, at each point of `free`.

    Raises InputError where one does not.
    """
    cap, idle = np.broadcast_arrays(np.asarray(caps, dtype=np.float64), rating(machine, free)[1])
    least = np.argmin(cap - idle)
    if cap.flat[least] <= idle.flat[least]:
        raise InputError(
            f"machine {machine.name!r}: power.cap = {cap.flat[least]:g} W: want more than {idle.flat[least]:g} W, "
            f"which it draws idle at any clock"
        )


def share_of_board(machine: Machine, on_board: float, here: float, seconds: float) -> float:
    """Share of a rate of the board, of as many dies, at which a step works: a byte and a flop cost their joules at any.

    `on_board`, `here`: seconds of the step's bytes, or of its flop, at the board's rates and at the machine's.
    `seconds`: of the step.
    """
    return on_board / max(here, seconds) * machine.stated.dies.count / machine.dies.count


def at_rated_cap(machine: Machine) -> Machine:
    """The machine under its board's rated power; itself where no other cap was set."""
    rated = machine.stated.power.cap
    return machine if rated is None or machine.power.cap == rated else machine.using({"power.cap": rated})


def at_stated_clock(machine: Machine) -> Machine:
    """The machine at the clock of its file; itself where that was not changed."""
    clock = machine.stated.clock
    return machine if machine.clock == clock else machine.using({"clock": clock})
