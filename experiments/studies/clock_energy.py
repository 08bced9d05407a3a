"""Energy of the points of a sweep whose clock lies below the machine's stated one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.estimators.base.protocols import TimeFunction
from slipstick.estimators.composition.energy_and_cost import ENERGY, Consumption
from slipstick.estimators.composition.power_capped import CAP, CLOCK, distinct_values, slower_joules
from slipstick.estimators.power.power_cap import at_rated_cap, at_stated_clock
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.question.objectives import consumptions
from slipstick.experiments.question.question import Question
from slipstick.experiments.question.space import Space
from slipstick.hwmodels.machine import Machine


@dataclass(frozen=True)
class SlowerClock:
    """Joules of points whose clock lies below the stated one: as `slower_joules`.

    Parameters
    ----------
    function
        Seconds at the stated clock under the board's cap, of the other names that vary.
    consumed
        Joules there.
    machine
        At its stated clock.
    clock
        That of the question [Hz], where the clock does not vary.
    """

    function: TimeFunction
    consumed: Consumption
    machine: Machine
    clock: float

    @classmethod
    def of(cls, question: Question, consumed: Sequence[Consumption]) -> SlowerClock | None:
        """None where no point has a lower clock, or the energy is unknown."""
        names, machine = question.vary.names, question.machine
        stated = at_stated_clock(at_rated_cap(machine))
        drawn = CLOCK in names and CLOCK not in question.vary.axes
        lowest = 0.0 if drawn else min(question.vary.axes.get(CLOCK, (machine.clock,)))
        known = any(one.name == ENERGY for one in consumed) and question.estimator.model.runs_at() == "held"
        if not known or lowest >= stated.clock:
            return None
        others = tuple(name for name in names if name not in (CAP, CLOCK))
        there = replace(question, machine=stated, vary=Space())
        (joules,) = (one for one in consumptions(there)[0] if one.name == ENERGY)
        function = question.estimator.compile(question.workload, stated, others, question.run)
        return cls(function, joules, stated, machine.clock)

    def joules(self, free: Mapping[str, FloatArray], times: FloatArray, energy: FloatArray) -> FloatArray:
        """The smaller of both, of each point."""
        others = {name: values for name, values in free.items() if name not in (CAP, CLOCK)}
        full = np.broadcast_to(self._full(others), times.shape)
        clock = np.broadcast_to(free.get(CLOCK, np.asarray(self.clock)), times.shape)
        lower = slower_joules(self.consumed, self.machine, others, full, clock, times)
        return np.where(clock < self.machine.clock, np.minimum(energy, lower), energy)

    def _full(self, others: Mapping[str, FloatArray]) -> FloatArray:
        """Seconds at the stated clock: of points that differ in the clock alone once, where no size varies."""
        if not others or not all(name.startswith("machine.") and values.ndim == 1 for name, values in others.items()):
            return np.asarray(self.function(others), dtype=np.float64)
        place = np.zeros(len(next(iter(others.values()))), dtype=np.intp)
        for values in others.values():
            known, which = distinct_values(values)
            place = np.unique(place * len(known) + which, return_inverse=True)[1] if place.any() else which
        firsts = np.empty(int(place.max()) + 1, dtype=np.intp)
        firsts[place[::-1]] = np.arange(len(place))[::-1]
        some = np.resize(firsts, max(2, len(firsts)))  # arrays as before, not one number, for the last digit's sake
        return np.asarray(self.function({name: values[some] for name, values in others.items()}))[place]
