"""What a schedule is: how operations share the machine's time."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from slipstick.common.answer import Event
from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.common.units import check_count
from slipstick.estimators.base.operation_model import machine_values
from slipstick.estimators.symbolic.formula import Formula, parameters
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable
from slipstick.estimators.symbolic.lambdified.formula_cache import formulas_of, promises
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload


@dataclass(frozen=True)
class Outcome:
    """What a schedule makes of the operations' times.

    `elapsed`: seconds that each adds to the whole, where it is known; `alone`: whether those are also what each takes,
    where the schedule deals out the time of the whole; `fixed`: seconds that none of them takes; `least`: seconds below
    which no band may reach; `sides`: see `Estimate.sides`.
    """

    time: float
    rule: str
    metrics: FrozenDict[float] = FrozenDict()
    trace: tuple[Event, ...] = ()
    assumptions: tuple[str, ...] = ()
    elapsed: tuple[float, ...] | None = None
    fixed: float = 0.0
    least: float = 0.0
    alone: bool = False
    sides: FrozenDict[float] = FrozenDict()


@runtime_checkable
class Schedule(Protocol):
    """Combines the times of operations into the time of the workload."""

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """`times`: seconds of one execution of each operation, shape (operations,), in the workload's order."""
        ...

    def run_defaults(self, machine: Machine) -> Mapping[str, float]:
        """Numbers of the run that hold where none are given."""
        return {}

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """Numbers of the run that the schedule reads."""
        return frozenset(self.run_defaults(machine))

    def keeps_open(self) -> frozenset[str]:
        """Sizes by name that it reads as well as the operations; none."""
        return frozenset()

    def steps_of(self, run: Mapping[str, float]) -> float:
        """How often a run with these numbers does the operations: once, where none of them counts its steps."""
        return 1.0

    def metric_at(self, name: str, metrics: Mapping[str, float], factor: float) -> float:
        """A metric if what it is measured by were `factor` times as large: by default the share itself."""
        return min(1.0, metrics[name] * factor)


@runtime_checkable
class FormulaSchedule(Schedule, Protocol):
    """A schedule that is a formula of the total times of a few lanes.

    Classes inherit `combine` from here and give `lane` and `formula`; symbols are ``time.LANE`` (seconds of all its
    operations, each as often as it is done), ``count.LANE``, ``machine.PATH``, ``run.NAME`` and ``parameter.NAME``.
    """

    def lane(self, op: Op) -> str:
        """The lane an operation runs on."""
        ...

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """Seconds of the whole workload."""
        ...

    def form(self, workload: Workload, machine: Machine) -> Hashable:
        """All that decides the formula, where that is less than the schedule, the workload and the machine.

        Two schedules of one class whose forms are equal have equal formulas: they may be kept. None: nothing is
        promised.
        """
        return None

    def steps(self, workload: Workload, machine: Machine) -> Evaluable:
        """The formula, ready to be evaluated."""
        form = self.form(workload, machine) if promises(type(self), "formula") else None
        if form is None:
            return self.formula(workload, machine).lowered
        known = formulas_of(type(self), "schedule")
        made = known.get(repr(form), lambda: self.formula(workload, machine).lowered)
        known.keep()
        return made

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine`; the formula at one point."""
        formula, values = self.at_times(workload, times, machine, run)
        counts, place = workload.executions, workload.distinct.place
        known = [self.lane(op) for op in workload.distinct.operations]
        whole = float(formula.evaluate(values))
        elapsed, none = np.zeros(len(place)), dict[str, float]()
        for lane in sorted(set(known)):
            nothing = {f"time.{lane}": 0.0} | ({} if lane in self.bounding_lanes() else {f"count.{lane}": 0.0})
            none |= nothing
            inside = np.array([of_lane == lane for of_lane in known], dtype=bool)[place]
            work = np.where(inside, times * counts, 0.0)
            if spent := work.sum():
                without = float(formula.evaluate({**values, **nothing}))
                elapsed += (whole - without) * work / spent
        fixed = float(formula.evaluate({**values, **none}))
        return Outcome(whole, f"formula: {formula.source}", elapsed=tuple(map(float, elapsed)), fixed=fixed)

    def at_times(
        self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]
    ) -> tuple[Evaluable, dict[str, Any]]:
        """The formula, and the values of its symbols at `times` (see `Schedule.combine`)."""
        formula = self.steps(workload, machine)
        values: dict[str, Any] = {f"parameter.{name}": value for name, (value, _) in parameters(self).items()}
        values |= machine_values(formula, machine)
        values |= run_values(formula, run)
        counts = workload.executions
        known = [self.lane(op) for op in workload.distinct.operations]
        place = workload.distinct.place
        for name in formula.names:
            quantity, _, lane = name.partition(".")
            if quantity in ("time", "count"):
                inside = np.array([of_lane == lane for of_lane in known], dtype=bool)[place]
                values[name] = np.sum(((times.T * counts).T if quantity == "time" else counts)[inside], axis=0)
        return formula, values

    def seconds(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> FloatArray:
        """The time of `combine` alone, shape (); of times in columns, shape (operations, points), (points,)."""
        formula, values = self.at_times(workload, times, machine, run)
        return formula.evaluate(values)

    def bounding_lanes(self) -> frozenset[str]:
        """Lanes whose count bounds what others gain by sharing: it stays where their own time is left out."""
        return frozenset()

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """Numbers of the run that the formula reads."""
        names = self.steps(workload, machine).names
        return frozenset(name.removeprefix("run.") for name in names if name.startswith("run."))


def run_values(formula: Formula | Evaluable, run: Mapping[str, float]) -> dict[str, float]:
    """The run's numbers that a formula names.

    Raises InputError where the run does not give one, or it is no whole number >= 1: numbers of a run are counts.
    """
    wanted = [name.removeprefix("run.") for name in formula.names if name.startswith("run.")]
    missing = [name for name in wanted if name not in run]
    if missing:
        raise InputError(f"give a value for {', '.join('run.' + name for name in missing)}")
    for name in wanted:
        check_run_number(name, run[name])
    return {f"run.{name}": float(run[name]) for name in wanted}


AMOUNTS = FrozenDict(
    host_seconds="s",
    example_bytes="byte",
    prefetch="1",
    sessions="1",
    evaluations="1",
    evaluation_steps="1",
    checkpoints="1",
    rate="1/s",
    input_rate="1/s",
    ttft_limit="s",
    tpot_limit="s",
    latency_limit="s",
    burstiness="1",
    memory_share="1",
    length_range="1",
    prefix_hit_rate="1",
    draft_tokens="1",
    acceptance="1",
    draft_cost="1",
    prefill_workers="1",
    prefill_tensor_parallel="1",
    link_bandwidth="byte/s",
    seed="1",
)
"""Numbers of a run that are amounts, 0 or more, with their units; all others count, 1 or more."""


def check_run_number(name: str, value: float) -> None:
    """Check a number of the run: finite and not negative, and whole where its name is a count.

    Raises InputError where it is not.
    """
    if name not in AMOUNTS:
        check_count(f"run.{name}", value)
    elif not (math.isfinite(value) and value >= 0):
        raise InputError(f"run.{name} = {value:g}: want a finite number >= 0")
