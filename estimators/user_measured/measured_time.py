"""An answer that is held to a measured time of the same question: every other point is that time times a ratio.

A ratio of two answers of one model is surer than either (`core.ratio_band`): what the model misses alike in both
cancels. So a measured run moves all answers of its question by one factor. The band of another point is that of its
ratio to the measured one, at most that of the model alone; the measured point keeps what differs between two runs.
On whole networks that no calibration has seen, known at one batch and asked at another, the factor takes the error from
4.9 to 2.3 % (`python -m slipstick.experiments.scoreboards.whatif.known_time`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.formatting import ratio_shown, shown
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Estimate, Spread, quantile
from slipstick.estimators.base.estimator_base import AsInner
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.base.protocols import CompiledEstimator, Estimator
from slipstick.estimators.base.ratio_band import DISAGREES, MeasuredUncertainty
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.energy_and_cost import energy
from slipstick.estimators.composition.power_capped import PowerCappedTimes
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.estimators.gpu.ratio_uncertainty import shipped
from slipstick.estimators.roofline.physical_bound import TOLERANCE, PhysicalBound
from slipstick.estimators.serving.request_estimator import RequestEstimator
from slipstick.estimators.symbolic.formula_steps import FormulaSteps
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.estimators.training.own_steps import UpdatedStep
from slipstick.estimators.training.training_estimator import TrainingEstimator
from slipstick.estimators.user_measured.measured_serving import MeasuredRuns, TimedServerRun
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import workload_kind

REPEAT = 0.04
"""Standard deviation of the log of a time between two runs of the same program on the same machine: sweeps of training
steps that were measured twice are 0 to 7 % apart (docs/notes/seqpoint.md), a difference of two such runs."""
LONGEST = 1e9
"""Seconds: thirty years."""
FAR = 2.0
"""Bands away from which a measured time is said to disagree: 80 % bands twice as wide hold 99 %."""


@dataclass(frozen=True)
class MeasuredTime:
    """A time of a question as it was put, measured on the machine as it stands; see `Fitted`.

    `seconds`: of one execution of the workload: the median, where several were measured.
    `deviation`: standard deviation of its log within the run; 0 where one time is given.
    `source`: in words: "23.4 ms", "run.log (200 steps)".
    `steps`: the same as steps of training whose layout is known; empty where that of the question is meant.
    `columns`: least and greatest of what stood beside the times, by name: sizes among them must be the question's.
    """

    seconds: float
    deviation: float = 0.0
    source: str = ""
    steps: tuple[UpdatedStep, ...] = ()
    columns: FrozenDict[tuple[float, float]] = FrozenDict()

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= LONGEST:
            raise InputError(f"measured time = {self.seconds:g} s: want a time above 0, at most {LONGEST:g} s")

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Estimator:
        """The estimator of the question, held to the measured time.

        Of requests it is the time of a further token, of the training of a language model that of a step: it moves
        what was fitted to those.
        Raises InputError where the measured time is shorter than physics allows, or was measured at other sizes.
        """
        self._require_sizes({**workload.defaults, **run})
        if isinstance(instead_of, TrainingEstimator):
            return replace(instead_of, known=self.steps or (self._step(workload, machine, run, instead_of),))
        if isinstance(instead_of, RequestEstimator):
            return MeasuredRuns((TimedServerRun(self.seconds),), self.source).for_question(
                workload, machine, run, instead_of
            )
        held = MatchedToTime(instead_of, self, workload, machine, FrozenDict({k: float(v) for k, v in run.items()}))
        least = max(held.plain_at(machine).least, _arithmetic(instead_of.model.graph(workload, machine), machine, run))
        if self.seconds < least * (1 - TOLERANCE):
            raise InputError(
                f"--measured {self.source}: {workload.name} on {machine.name} needs at least {shown(least, 's')} by "
                "its data sheet: was it another data type (--dtype), size or machine, or several executions?"
            )
        return held

    def _require_sizes(self, numbers: Mapping[str, float]) -> None:
        for name, (low, high) in self.columns.items():
            if name in numbers and not low == high == numbers[name]:
                sizes = f"{low:g}" if low == high else f"{low:g} to {high:g}"
                raise InputError(
                    f"--measured {self.source}: was measured at {name} = {sizes}, and the question asks {name} = "
                    f"{numbers[name]:g}: want rows of that alone (a column that counts steps is called step)"
                )

    def _step(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], law: TrainingEstimator
    ) -> UpdatedStep:
        """A step of training under the layout of the question."""
        made, layout = law.of_run(workload, machine, run)
        return UpdatedStep(layout, made.batch, made.sequence, made.precision, self.seconds)


def _arithmetic(graph: Workload, machine: Machine, run: Mapping[str, float]) -> float:
    """Seconds of the graph's flop at the data sheet's peaks; 0 where sizes are open or a rate is not stated."""
    bound = as_compiled(graph, machine).bind_known({**graph.defaults, **run})
    try:
        return 0.0 if bound.symbols else PhysicalBound(machine).arithmetic(bound.operations)
    except InputError:
        return 0.0


@dataclass(frozen=True)
class MatchedToTime(AsInner):
    """An estimator times the factor by which a measured time of its question differs.

    `measured`: what it is held to.
    `workload`, `machine`, `run`: what was measured.
    """

    measured: MeasuredTime
    workload: Workload
    machine: Machine
    run: FrozenDict[float] = FrozenDict()

    @cached_property
    def _known(self) -> dict[tuple[str, str], Estimate]:
        return {}

    def plain_at(self, machine: Machine) -> Estimate:
        """The inner answer of what was measured, under the software that a machine's runtime names.

        Default answers choose the library and the mode after the measured machine was named: it ran under those.
        """
        runtime = machine.runtime
        key = runtime.library, runtime.mode
        if key not in self._known:
            there = self.machine.using({"runtime.library": key[0], "runtime.mode": key[1]})
            self._known[key] = self.inner.estimate(self.workload, there, self.run)
        return self._known[key]

    def factor(self, machine: Machine) -> float:
        """Measured over estimated."""
        return self.measured.seconds / self.plain_at(machine).time

    @property
    def repeats(self) -> float:
        """Standard deviation of the log of another run's time of the measured question."""
        return math.hypot(REPEAT, self.measured.deviation)

    def measured_uncertainty(self, machine: Machine) -> MeasuredUncertainty | None:
        """The scatter of the inner answer [log s] of what was measured, and that of repeats."""
        spread = self.plain_at(machine).spread
        return MeasuredUncertainty(spread.total, self.repeats, spread.common)

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """The inner answer [s] times the factor; its band is that of the ratio to what was measured."""
        best, factor = self.inner.estimate(workload, machine, run), self.factor(machine)
        time = max(best.time * factor, min(best.least, best.time))
        grown = time / best.time
        parts = [
            replace(one, time=one.time * grown, elapsed=None if one.elapsed is None else one.elapsed * grown)
            for one in best.parts
        ]
        return replace(
            best, time=time, parts=tuple(parts), fixed=best.fixed * grown, band=None,
            energy=None if best.energy is None else self._joules(workload, machine, run, best.energy * grown, time),
            spread=Spread(residual=self._spread(best, workload, machine, run or {})),
            assumptions=(*best.assumptions, self._said(machine)), doubts=(*best.doubts, *self._far(machine)),
            provenance="measured" if self._same(workload, run or {}) and self._here(machine) else "calibrated",
        )  # fmt: skip

    def _joules(
        self, workload: Workload, machine: Machine, run: Mapping[str, float] | None, grown: float, seconds: float
    ) -> float:
        """Joules: what idles draws longer; all of it in proportion where the work says no energy."""
        try:
            return float(energy(as_compiled(workload, machine), machine, run or {}, clock=self.runs_at())({}, seconds))
        except InputError:
            return grown

    def _same(self, workload: Workload, run: Mapping[str, float]) -> bool:
        """Whether the workload at its sizes is the one that was measured."""
        return workload == self.workload and FrozenDict({k: float(v) for k, v in run.items()}) == self.run

    def _here(self, machine: Machine) -> bool:
        """Whether the machine is the one of the measurement; the runtime may have been chosen since."""
        named = {"runtime.library": machine.runtime.library, "runtime.mode": machine.runtime.mode}
        return self.machine.using(named).fingerprint == machine.fingerprint

    def _spread(self, best: Estimate, workload: Workload, machine: Machine, run: Mapping[str, float]) -> float | None:
        """Standard deviation of log time: of a repeat, and of the ratio to what was measured; None where unknown."""
        plain = self.plain_at(machine)
        same, here = self._same(workload, run), self._here(machine)
        if same and here:
            return self.repeats
        there, now = plain.spread, best.spread
        if there.total is None or now.total is None:
            return None
        law = shipped().band(() if same else ("workload",), workload_kind(workload))
        change, ratio = 0.0 if here else math.inf, math.log(best.time / plain.time)
        half = float(law.half(ratio, change, 0.0, now.total, there.total, now.common, there.common))
        return math.hypot(self.repeats, min(half / quantile(DEFAULT_LEVEL, None), now.total))

    def _said(self, machine: Machine) -> str:
        times = ratio_shown(self.factor(machine))
        words = f"held to what was measured ({self.measured.source}), x{times} of the model's answer"
        scatter = self.plain_at(machine).spread.total
        if scatter is None:
            return words
        before, after = (math.exp(quantile(DEFAULT_LEVEL, None) * one) for one in (scatter, self.repeats))
        return f"{words}: the band there goes from x{ratio_shown(before)} to x{ratio_shown(after)}"

    def _far(self, machine: Machine) -> tuple[str, ...]:
        scatter = self.plain_at(machine).spread.total
        if scatter is None:
            return ()
        away = abs(math.log(self.factor(machine))) / (quantile(DEFAULT_LEVEL, None) * max(scatter, self.repeats))
        if away < FAR:
            return ()
        return (
            f"{DISAGREES}{self.measured.source}) is x{ratio_shown(self.factor(machine))} of the model's answer, "
            f"{away:.2g} of its bands away: was it one execution at this size, data type and machine?",
        )

    def compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: Mapping[str, float] | None = None
    ) -> CompiledEstimator:
        """The inner function times the factor: seconds as a function of arrays."""
        function, factor = self.inner.compile(workload, machine, free, run), self.factor(machine)
        if isinstance(function, Compiled):
            return _longer(function, factor)
        if isinstance(function, PowerCappedTimes):
            return replace(function, inner=_longer(function.inner, factor))
        return Longer(function, factor)

    @property
    def model(self) -> Estimator:
        """That of the inner estimator."""
        return self.inner.model

    @property
    def operation_formulas(self) -> FormulaModel | None:
        """As the inner estimator: times of single operations, which the factor does not move."""
        return self.inner.operation_formulas


def _longer(function: Compiled, factor: float) -> Compiled:
    """A formula times a factor, still a formula."""
    whole = function.schedule.formula
    return replace(function, schedule=FormulaSteps.of(replace(whole, expression=factor * whole.expression)))


@dataclass(frozen=True)
class Longer:
    """A function of seconds times a factor; see `CompiledEstimator`."""

    inner: CompiledEstimator
    factor: float

    @property
    def free(self) -> tuple[str, ...]:
        """As the inner function's."""
        return self.inner.free

    @property
    def vectorised(self) -> bool:
        """As the inner function; a formula of its own it is none."""
        return self.inner.vectorised

    @property
    def alone(self) -> bool:
        """As the inner function."""
        return self.inner.alone

    @property
    def read(self) -> frozenset[str] | None:
        """As the inner function."""
        return self.inner.read

    @property
    def base(self) -> Mapping[str, float]:
        """As the inner function."""
        return self.inner.base

    def __call__(self, values: Mapping[str, npt.ArrayLike]) -> FloatArray:
        """Seconds, in the shape to which the arrays broadcast."""
        return self.factor * self.inner(values)
