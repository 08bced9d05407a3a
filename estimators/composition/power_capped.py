"""Times of a composite under a power cap that was set: the clock falls until the mean power is at the cap.

The law is that of `operation.power.power_cap`. What the work draws at the board's rated cap is that of `consumption`,
what the time does at a lower clock is the composite's own answer; the longer of that and of its answer under the cap
holds, since some formulas hold single kernels back. A cap above the rated one is the rated one, but where the idle
power, which no limit moves, is another than the board's: that is a board of another rating.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.operation_model import Clock
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.energy_and_cost import EXCESS, HELD, Consumption, energy, mean_watts, moved_bytes
from slipstick.estimators.power.power_cap import (
    LAW,
    BusyPower,
    at_rated_cap,
    at_stated_clock,
    beyond_rated,
    cap_watts,
    rated_watts,
    rating,
    refuse_idle_cap,
    slower_watts,
)
from slipstick.estimators.power.voltage import dynamic_share, knee
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

CAP, CLOCK, IDLE = "machine.power.cap", "machine.clock", "machine.power.idle"


def cap_was_set(machine: Machine, clock: Clock) -> bool:
    """Whether the machine has another cap than its board's, and the times are those that a cap leaves."""
    rated = machine.stated.power.cap
    return clock == "held" and rated is not None and machine.power.cap not in (None, rated)


def clock_left(
    consumed: Consumption,
    machine: Machine,
    free: Mapping[str, npt.ArrayLike],
    times: npt.ArrayLike,
    clock: npt.ArrayLike,
) -> FloatArray:
    """The clock under the cap [Hz], at most the one that is held without it.

    Parameters
    ----------
    consumed
        Joules of the work on the machine under its rated cap, at its stated clock.
    machine
        With the cap that was set; `free` may hold others.
    times
        Seconds under the rated cap at the stated clock.
    clock
        The one without the cap, the stated one or more [Hz].
    """
    seconds = np.asarray(times, dtype=np.float64)
    (rated, _), (_, idle) = rated_watts(machine), rating(machine, free)
    at_rated = {**free, CAP: rated}
    watts = mean_watts(consumed, at_rated, seconds)
    read = moved_bytes(consumed, at_rated) / (seconds * _bandwidth(machine, free))
    power = BusyPower.of(watts, np.minimum(idle, watts), rated, read)
    highest, stated = np.asarray(clock, dtype=np.float64), machine.stated.clock
    more = dynamic_share(highest / stated, knee(machine) / stated)
    cap = np.asarray(free.get(CAP, machine.power.cap), dtype=np.float64)
    left = BusyPower(power.static, power.dynamic * more).clock(cap, knee(machine) / highest)
    return np.asarray(left * highest)


def _bandwidth(machine: Machine, free: Mapping[str, npt.ArrayLike]) -> FloatArray:
    """Of main memory [bytes/s] at each point."""
    names = [name for name in free if name.startswith("machine.memory.") or name == "machine.cores"]
    if not names:
        return np.asarray(machine.bandwidth(machine.main_memory))
    arrays = np.broadcast_arrays(*(np.asarray(free[name], dtype=np.float64) for name in names))
    if len(arrays) == 1:
        alone, which = distinct_values(arrays[0])
        points = alone[:, None]
    else:
        points, which = np.unique(np.stack([array.ravel() for array in arrays], axis=1), axis=0, return_inverse=True)
    known = []
    for point in points:
        paths = {name[8:]: value for name, value in zip(names, point.tolist(), strict=True)}
        changed = machine.using({path: _whole(machine, path, value) for path, value in paths.items()})
        known.append(changed.bandwidth(changed.main_memory))
    return np.asarray(known)[which.reshape(arrays[0].shape)]


FIRST = 256
"""Values of a column among which a few are looked for."""


def distinct_values(values: FloatArray) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """`np.unique` with the place of each value among the distinct ones, in the shape of values.

    A column of a grid repeats a few: those of its first values are then all, and nothing is sorted.
    """
    first = np.unique(values.flat[:FIRST])
    place = np.asarray(np.searchsorted(first[:-1], values))
    if len(first) < FIRST and np.array_equal(first[place], values):
        return first, place
    known, place = np.unique(values, return_inverse=True)
    return known, place.reshape(values.shape)


def _whole(machine: Machine, path: str, value: float) -> float:
    return round(value) if isinstance(machine.get(path), int) else value


@dataclass(frozen=True)
class PowerCappedTimes:
    """A compiled composite under caps: seconds as a function of arrays (see `CompiledEstimator`).

    Parameters
    ----------
    inner
        The composite compiled with cap and clock among its free names.
    consumed
        Joules of the work under the rated cap.
    """

    inner: Compiled
    consumed: Consumption
    machine: Machine
    free: tuple[str, ...]

    vectorised = True
    alone = False

    @property
    def plain(self) -> Compiled:
        """The formula alone, with its gradient: times that the law of the cap leaves out."""
        return replace(self.inner, free=self.free, base=self.base)

    @property
    def read(self) -> frozenset[str]:
        """What the composite reads, and the cap."""
        return self.inner.read | {CAP}

    @property
    def base(self) -> Mapping[str, float]:
        """What is not free."""
        here = {name: float(self.machine.get(name[8:])) for name in (CAP, CLOCK) if name not in self.free}
        return {**self.inner.base, **here}

    def __call__(self, values: Mapping[str, npt.ArrayLike]) -> FloatArray:
        """Seconds, in the shape to which the arrays broadcast.

        Raises
        ------
        InputError
            As of the compiled composite, and where a cap is not above idle power.
        """
        rated, _ = rated_watts(self.machine)
        here = {name: self.machine.get(name[8:]) for name in (CAP, CLOCK, IDLE) if name in self.inner.free}
        given: dict[str, Any] = {**here, **values}
        refuse_idle_cap(self.machine, given[CAP], values)
        given[CAP] = np.minimum(np.asarray(given[CAP], dtype=np.float64), rating(self.machine, values)[0])
        clock = np.asarray(given[CLOCK], dtype=np.float64)
        # what the work draws is known at the stated clock: the cap's clock is that of the work there
        stated = self.machine.stated.clock
        full = {**given, CAP: np.full(given[CAP].shape, rated), CLOCK: np.full(clock.shape, stated)}
        known = {name: given[name] for name in (*self.free, CAP)} | {CLOCK: full[CLOCK]}
        highest = np.maximum(clock, stated)
        left = clock_left(self.consumed, self.machine, known, self.inner(full), highest)
        left = np.where(given[CAP] < rated, left, np.inf)  # at the board's rating its formulas hold, as without a cap
        if np.all(left >= clock):
            return self.inner(given)
        slow = self.inner({**full, CLOCK: np.minimum(left, clock)})
        return np.maximum(self.inner(given), np.where(left < clock, slow, 0.0))


def keep_function(function: object) -> None:
    """Keep from run to run what a compiled composite is made of, as far as it was read; of others nothing."""
    inner = function.inner if isinstance(function, PowerCappedTimes) else function
    if isinstance(inner, Compiled):
        inner.keep()


def slower_joules(
    consumed: Consumption,
    machine: Machine,
    free: Mapping[str, npt.ArrayLike],
    full: npt.ArrayLike,
    clock: npt.ArrayLike,
    times: npt.ArrayLike,
) -> FloatArray:
    """Joules of all devices at a clock below the stated one, by what the work draws at that (`Consumption.falls`).

    A board's cap holds back the stated clock as well, so that the work draws no more below it.

    Parameters
    ----------
    consumed
        Joules of the work at the stated clock.
    machine
        At its stated clock.
    full, times
        Seconds at the stated clock and at the lower one.
    clock
        The lower one [Hz].
    """
    seconds, slow = np.asarray(full, dtype=np.float64), np.asarray(times, dtype=np.float64)
    (rated, _), (_, idle) = rated_watts(machine), rating(machine, free)
    watts = mean_watts(consumed, free, seconds)
    read = moved_bytes(consumed, free) / (seconds * _bandwidth(machine, free))
    share, turn = np.asarray(clock, dtype=np.float64) / machine.clock, knee(machine) / machine.clock
    if consumed.falls == "watts":
        drawn = BusyPower.of(watts, np.minimum(idle, watts), rated, read).watts(share, turn)
    else:
        drawn = slower_watts(watts, idle, rated, read, share, turn, slow / seconds)
    return np.asarray(consumed(free, seconds) * drawn / watts * slow / seconds)


class ClockedEstimator(Protocol):
    """A composite: its answer at the machine's clock, and the operations whose energy is counted."""

    def as_clocked(self, workload: Workload, machine: Machine, run: FrozenDict[float]) -> Estimate:
        """Seconds whatever another cap than the rated one does to the clock."""
        ...

    def graph(self, workload: Workload, machine: Machine) -> Workload:
        """The operations whose times are combined."""
        ...

    def lowered_graph(self, workload: Workload, machine: Machine) -> Workload:
        """The same as the machine's runtime gets them."""
        ...


def estimate_under_cap(
    estimator: ClockedEstimator, workload: Workload, machine: Machine, run: FrozenDict[float]
) -> Estimate:
    """The estimate on a machine with another cap than its board's rated one.

    Raises
    ------
    InputError
        Where the cap is not above idle power.
    """
    refuse_idle_cap(machine, cap_watts(machine), {})
    if note := beyond_rated(machine):
        answer = estimator.as_clocked(workload, at_rated_cap(machine), run)
        return replace(answer, assumptions=(*answer.assumptions, note))
    # what the work draws is known at the stated clock: the cap's clock is that of the work there
    full = at_stated_clock(machine)
    board = at_rated_cap(full)
    answer, free = (estimator.as_clocked(workload, each, run) for each in (machine, board))
    consumed = energy_on_board(estimator, workload, full, run)
    if consumed is None:
        return answer
    holds = float(clock_left(consumed, full, {}, free.time, max(machine.clock, full.clock)))
    if holds >= machine.clock:
        return replace(answer, assumptions=_without_excess(answer))
    slow = estimator.as_clocked(workload, board.using({"clock": holds}), run)
    if slow.time > answer.time:
        answer = replace(slow, energy=float(consumed({CAP: cap_watts(machine)}, slow.time)))
    answer = replace(answer, least=max(answer.least, slow.least))  # no band is faster than the peak at that clock
    left, clock = (format_quantity(value, "Hz") for value in (holds, machine.clock))
    note = f"the power cap of {cap_watts(machine):g} W holds the clock at about {left} of {clock} ({LAW})"
    return replace(answer, assumptions=(*_without_excess(answer), note))


def estimate_power_capped(
    estimator: ClockedEstimator, workload: Workload, machine: Machine, run: FrozenDict[float], clock: Clock
) -> Estimate:
    """The estimate (seconds) at the clock that the cap leaves, where times are those of a held clock."""
    if clock != "held":
        return estimator.as_clocked(workload, machine, run)
    made = (
        estimate_under_cap(estimator, workload, machine, run)
        if cap_was_set(machine, clock)
        else estimator.as_clocked(workload, machine, run)
    )
    return held_to_lower_clock(made, estimator, workload, machine, run)


def held_to_lower_clock(
    answer: Estimate, estimator: ClockedEstimator, workload: Workload, machine: Machine, run: FrozenDict[float]
) -> Estimate:
    """The answer at a clock below the stated one, with no more joules than the work leaves there (`slower_joules`)."""
    board = at_stated_clock(at_rated_cap(machine))
    if answer.energy is None or not machine.clock < board.clock:
        return answer
    consumed = energy_on_board(estimator, workload, board, run)
    if consumed is None:
        return answer
    full = estimator.as_clocked(workload, board, run).time
    joules = float(slower_joules(consumed, board, {}, full, machine.clock, answer.time))
    if joules >= answer.energy:
        return answer
    return replace(answer, energy=joules, assumptions=_without_excess(answer))


def _without_excess(answer: Estimate) -> tuple[str, ...]:
    """The assumptions without what says that the work would draw more than the cap."""
    return tuple(text for text in answer.assumptions if not text.startswith((EXCESS, HELD)))


def energy_on_board(
    estimator: ClockedEstimator, workload: Workload, machine: Machine, run: Mapping[str, float]
) -> Consumption | None:
    """Joules of held times under the board's rated cap; None where they are unknown."""
    board = at_rated_cap(machine)
    try:
        graph = estimator.lowered_graph(estimator.graph(workload, board), board)
        return energy(graph, board, {**workload.defaults, **run})
    except InputError:
        return None
