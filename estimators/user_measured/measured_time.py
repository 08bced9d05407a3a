"""An answer that is held to a measured time of the same question: every other point is that time times a ratio.

A ratio of two answers of one model is surer than either (`core.ratio_band`): what the model misses alike in both
cancels. So a measured run moves all answers of its question by one factor. The band of another point is that of its
ratio to the measured one, at most that of the model alone; the measured point keeps what differs between two runs.
On whole networks that no calibration has seen, known at one batch and asked at another, the factor takes the error from
4.9 to 2.3 % (`python -m slipstick.experiments.scoreboards.whatif.known_time`).

Times at several sizes: see `size_law`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.formatting import ratio_shown, shown
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.conditions import UNMEASURED
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, REPEAT, Estimate, Spread, quantile
from slipstick.estimators.base.estimator_base import AsInner
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.base.protocols import CompiledEstimator, Estimator, Fitted
from slipstick.estimators.base.ratio_band import DISAGREES, MeasuredUncertainty, disagreement
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.energy_and_cost import energy
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.estimators.fitting.ratio_uncertainty import shipped
from slipstick.estimators.fitting.user_rows import agree, lone_rows, slips_of_repeats
from slipstick.estimators.power.power_limit_run import PowerLimitRun
from slipstick.estimators.roofline.physical_bound import TOLERANCE, PhysicalBound
from slipstick.estimators.schedules.host_issue import DEVICE
from slipstick.estimators.serving.request_estimator import RequestEstimator
from slipstick.estimators.symbolic.formula_steps import FormulaSteps
from slipstick.estimators.training.own_steps import UpdatedStep
from slipstick.estimators.training.training_estimator import MeasuredTraining, TrainingEstimator
from slipstick.estimators.user_measured.measured_serving import MeasuredRuns, MeasuredSteps, TimedServerRun
from slipstick.estimators.user_measured.size_law import OverSizes, SizeLaw
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_fields import named_shown
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import workload_kind

LONGEST = 1e9
"""Seconds: thirty years."""
MOST_SIZES, MOST_NAMED = 50, 3
"""Sizes of a table, and rows of it that are named where they are far off their repeats."""
MEDIAN = 1.2533
"""Standard error of a median over that of a mean, of normal values: sqrt(pi / 2)."""
SCATTER = 0.3
"""Standard deviation of what a model misses where it says nothing of it, in log time."""


@dataclass(frozen=True)
class TimedRow:
    """A time [s] with the numbers that stood beside it, by name, and its line in the file; 0 where it has none."""

    numbers: FrozenDict[float]
    seconds: float
    line: int = 0


@dataclass(frozen=True)
class AnsweredRow:
    """A measured row, asked as a question: its sizes by name, and what answers."""

    sizes: Mapping[str, float]
    workload: Workload
    machine: Machine
    run: Mapping[str, float]
    estimator: Estimator

    def at(self) -> str:
        """Its sizes in words."""
        return ", ".join(f"{name} = {value:g}" for name, value in self.sizes.items())


@dataclass(frozen=True)
class MeasuredTime:
    """A time of a question as it was put, measured on the machine as it stands; see `Fitted`.

    `seconds`: of one execution of the workload: the median, where several were measured.
    `deviation`: standard deviation of its log within the run; 0 where one time is given.
    `source`: in words: "23.4 ms", "run.log (200 steps)".
    `steps`: the same as steps of training whose layout is known; empty where that of the question is meant.
    `rows`: times with the numbers that stood beside each, by name; sizes that do not vary must be the question's.
    `slips`: rows far off all others, in words.
    """

    seconds: float
    deviation: float = 0.0
    source: str = ""
    steps: tuple[UpdatedStep, ...] = ()
    rows: tuple[TimedRow, ...] = ()
    slips: tuple[str, ...] = ()

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What of the file cannot hold together."""
        return self.slips

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
        self._require_sizes({**workload.defaults, **instead_of.run_defaults(machine), **run})
        return self._held(workload, machine, run, instead_of)

    def over_sizes(
        self,
        known: Mapping[str, str],
        sized: Collection[str],
        here: Mapping[str, float],
        answer: Callable[[Mapping[str, float]], AnsweredRow],
    ) -> MeasuredTime:
        """The same as times over sizes, where more than one stood beside them: each row is asked as it was measured.

        `known`: names of sizes as columns have them -> their dotted names; others are no sizes.
        `sized`: those at which rows are asked although one alone stood beside them.
        `here`: sizes of the question, by name.
        `answer`: a row by the dotted names of its sizes, as a question.
        Raises InputError where a size is refused, or there are too many.
        """
        values = {name: {row.numbers[name] for row in self.rows if name in row.numbers} for name in known}
        varied = sorted(name for name, each in values.items() if len(each) > 1 or (each and name in sized))
        whole = [row for row in self.rows if all(name in row.numbers for name in varied)]
        if not whole:
            return self
        fixed = {name: each for name, each in values.items() if len(each) == 1 and name not in varied}
        sizes_of = [tuple(row.numbers[name] for name in varied) for row in whole]
        if (count := len(set(sizes_of))) > MOST_SIZES:
            raise InputError(
                f"--measured {self.source}: {count:,} sizes ({', '.join(varied)}): want at most {MOST_SIZES}"
            )
        slips = slips_of_repeats(sizes_of, np.log([row.seconds for row in whole]))
        name, by_size = self.source.partition(",")[0], dict[tuple[float, ...], list[TimedRow]]()
        for place, (row, sizes) in enumerate(zip(whole, sizes_of, strict=True)):
            if place not in slips:
                by_size.setdefault(sizes, []).append(row)
        notes = tuple(f"{DISAGREES}{name}, {_timed(whole[place])}) is {words}" for place, words in slips.items())
        if len(notes) > MOST_NAMED:
            notes = (
                *notes[:MOST_NAMED],
                f"{DISAGREES}{name}) has {len(notes) - MOST_NAMED:,} more as far off: none counts",
            )
        if not varied:
            return (
                replace(self, **of_repeats(name, [row.seconds for row in by_size[()]]), slips=notes) if notes else self
            )
        answered = tuple(
            (answer({known[name]: size for name, size in zip(varied, sizes, strict=True)}), tuple(times))
            for sizes, times in sorted(by_size.items())
        )
        kept = tuple(
            replace(row, numbers=FrozenDict({name: each for name, each in row.numbers.items() if name in fixed}))
            for row in self.rows
        )
        source = f"{name}, {len(whole)} time{'s' * (len(whole) > 1)}" if whole[0].line else self.source
        return MeasuredSizes(self.seconds, self.deviation, source, self.steps, kept, notes, answered, FrozenDict(here))

    def _held(self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator) -> Estimator:
        """See `for_question`."""
        if isinstance(instead_of, TrainingEstimator):
            steps = self.steps or (self._step(workload, machine, run, instead_of),)
            return MeasuredTraining(steps).for_question(workload, machine, run, instead_of)
        if isinstance(instead_of, RequestEstimator):
            ran = TimedServerRun(self.seconds, doubt="; ".join(self.slips), where=self.source)
            return MeasuredRuns((ran,), self.source).for_question(workload, machine, run, instead_of)
        held = MatchedToTime(instead_of, self, workload, machine, FrozenDict({k: float(v) for k, v in run.items()}))
        self._require_possible(self.seconds, held.plain.least, workload, machine, run, instead_of)
        return held

    def _require_possible(
        self,
        seconds: float,
        least: float,
        workload: Workload,
        machine: Machine,
        run: Mapping[str, float],
        by: Estimator,
    ) -> None:
        least = max(least, _arithmetic(by.model.graph(workload, machine), machine, run))
        if seconds < least * (1 - TOLERANCE):
            raise InputError(
                f"--measured {self.source}: {workload.name} on {machine.name} needs at least {shown(least, 's')} by "
                "its data sheet: was it another data type (--dtype), size or machine, or several executions?"
            )

    def _require_sizes(self, numbers: Mapping[str, float]) -> None:
        for name in {name for row in self.rows for name in row.numbers if name.split(".")[-1] in numbers}:
            sizes = {row.numbers[name] for row in self.rows if name in row.numbers}
            wanted = numbers[name.split(".")[-1]]
            if sizes != {wanted}:
                raise InputError(
                    f"--measured {self.source}: was measured at {name} = {', '.join(f'{one:g}' for one in sizes)}, and "
                    f"the question asks {name} = {wanted:g}: want rows of that alone, or of several sizes "
                    "(a column that counts steps is called step)"
                )

    def _step(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], law: TrainingEstimator
    ) -> UpdatedStep:
        """A step of training under the layout of the question."""
        made, layout = law.of_run(workload, machine, run)
        return UpdatedStep(layout, made.batch, made.sequence, made.precision, self.seconds, machine)


def _sides(best: Estimate, grown: float) -> FrozenDict[float]:
    """Seconds of the device and of its host where the time that they make is so much longer: those that it holds."""
    both = best.time >= sum(best.sides.values()) * (1 - 1e-9)
    longest = "device" if DEVICE in best.rule else max(best.sides, key=lambda side: best.sides[side], default="")
    return FrozenDict({side: value * (grown if both or side == longest else 1) for side, value in best.sides.items()})


@dataclass(frozen=True)
class MeasuredSizes(MeasuredTime):
    """Times of a question at several sizes.

    `answered`: each size as it was asked, with the times of its rows [s].
    `numbers`: sizes of the question, by name.
    """

    answered: tuple[tuple[AnsweredRow, tuple[TimedRow, ...]], ...] = ()
    numbers: FrozenDict[float] = FrozenDict()

    def _held(self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator) -> Estimator:
        """The estimator times a factor that hangs on the sizes; steps of training and of a server move their laws."""
        medians = [(row, _median(times)) for row, times in self.answered]
        if isinstance(instead_of, TrainingEstimator):
            steps = (
                replace(self, seconds=seconds)._step(row.workload, row.machine, row.run, instead_of)
                for row, seconds in medians
            )
            return MeasuredTraining(tuple(steps)).for_question(workload, machine, run, instead_of)
        if isinstance(instead_of, RequestEstimator):
            doubt = "; ".join(self.contradictions)
            ran = (
                TimedServerRun(seconds, doubt=doubt, where=self.source).step(
                    *instead_of.of_run(row.workload, row.machine, row.run)
                )
                for row, seconds in medians
            )
            return replace(instead_of, known=tuple(ran))
        logs, scatters, points = [], [], []
        for row, times in self.answered:
            seconds = _median(times)
            plain = row.estimator.estimate(row.workload, row.machine, row.run)
            replace(self, source=f"{self.source}, {shown(seconds, 's')} at {row.at()}")._require_possible(
                seconds, plain.least, row.workload, row.machine, row.run, row.estimator
            )
            scatters.append(plain.spread.total or 0.0)
            for one in [times] if agree(np.log([each.seconds for each in times])) else [(each,) for each in times]:
                points.append((row, one))
                logs.append(math.log(_median(one) / plain.time))
        scatter = float(np.median(scatters)) or SCATTER
        apart = [place for place, (row, _) in enumerate(points) if sum(row is other for other, _ in points) > 1]
        sorted_rows = len(points[0][0].sizes) == 1
        lone, kept = lone_rows(np.array(logs), scatter, sorted_rows=sorted_rows, repeated=apart)
        law = SizeLaw.fitted([points[at][0].sizes for at in kept], [logs[at] for at in kept], scatter)
        name = self.source.partition(",")[0]
        slips = (
            *self.slips,
            *(
                f"{DISAGREES}{name}, {', '.join(map(_timed, points[at][1]))}) at {points[at][0].at()} is {words}"
                for at, words in lone.items()
            ),
        )
        left = ((row, tuple(one for at in kept if points[at][0] is row for one in points[at][1])) for row, _ in medians)
        answered = tuple((row, times) for row, times in left if times)
        known = {**workload.defaults, **run, **self.numbers}
        here = {name: known[name] for name in law.names if name in known}
        here |= {name: machine.get(name.removeprefix("machine.")) for name in law.names if name.startswith("machine.")}
        if missing := sorted(set(law.names) - here.keys()):
            raise InputError(f"--measured {self.source}: give the question's {', '.join(missing)}")
        return MatchedToTime(
            instead_of, replace(self, slips=slips, answered=answered), workload, machine,
            FrozenDict({name: float(value) for name, value in run.items()}), law, FrozenDict(here),
        )  # fmt: skip

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Rows far off all others, and rows of one size whose times differ by more than runs do."""
        lines = [*self.slips]
        for row, timed in self.answered:
            times = [one.seconds for one in timed]
            if not agree(np.log(times)):
                lines.append(
                    f"{DISAGREES}{self.source}) contradicts itself: rows of {row.at()} differ by "
                    f"x{ratio_shown(max(times) / min(times))}, and their middle counts: was something else not the "
                    "same?"
                )
        return tuple(lines)


def of_repeats(name: str, times: Sequence[float]) -> dict[str, Any]:
    """Fields of a measured time: the median of times [s], the scatter of that, and where they are from."""
    count = len(times)
    deviation = float(np.std(np.log(times), ddof=1)) if count > 1 else 0.0
    steps = f"median of {count:,} steps" if count > 1 else "1 step"
    return {
        "seconds": float(np.median(times)),
        "deviation": MEDIAN * deviation / math.sqrt(count),
        "source": f"{name}, {steps}",
    }


def _median(rows: Sequence[TimedRow]) -> float:
    return float(np.median([row.seconds for row in rows]))


def _timed(row: TimedRow) -> str:
    return f"line {row.line}: {shown(row.seconds, 's')}" if row.line else shown(row.seconds, "s")


def _arithmetic(graph: Workload, machine: Machine, run: Mapping[str, float]) -> float:
    """Seconds of the graph's flop at the data sheet's peaks; 0 where sizes are open or a rate is not stated."""
    bound = as_compiled(graph, machine).bind_known({**graph.defaults, **run})
    try:
        return 0.0 if bound.symbols else PhysicalBound(machine).arithmetic(bound.operations)
    except InputError:
        return 0.0


@dataclass(frozen=True)
class MatchedToTime(AsInner):
    """An estimator times the factor by which a measured time of its question differs; fitted to it, of other questions.

    `measured`: what it is held to.
    `workload`, `machine`, `run`: what was measured, under its software; at several sizes, the question's own.
    `sizes`, `here`: how the factor hangs on sizes, and what they are there; None where one time was measured.
    `by`: what answers for what was measured; None for the inner estimator.
    """

    measured: MeasuredTime
    workload: Workload
    machine: Machine
    run: FrozenDict[float] = FrozenDict()
    sizes: SizeLaw | None = None
    here: FrozenDict[float] = FrozenDict()
    by: Estimator | None = None

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Estimator:
        """A question that was changed since: what was measured stays what it was, whatever answers the change."""
        return replace(self, inner=instead_of, by=self.by or self.inner)

    def at_sizes(self, numbers: Mapping[str, float]) -> MatchedToTime:
        """The same where the question asks other sizes, by name."""
        return replace(self, here=FrozenDict({name: numbers.get(name, was) for name, was in self.here.items()}))

    @cached_property
    def plain(self) -> Estimate:
        """The answer of what was measured, without the measurement."""
        return (self.by or self.inner).estimate(self.workload, self.machine, self.run)

    def factor(self, machine: Machine, run: Mapping[str, float] | None = None) -> float:
        """Measured over estimated."""
        if self.sizes is not None:
            return float(np.exp(self.sizes.at(self._at(machine, run or {}))[0]))
        return self.measured.seconds / self.plain.time

    def _at(self, machine: Machine, run: Mapping[str, float]) -> dict[str, float]:
        """The sizes of a question, by the names that the law has for them."""
        fields = {name: machine.get(name.removeprefix("machine.")) for name in self.here if name.startswith("machine.")}
        return {**self.here, **{name: run[name] for name in self.here if name in run}, **fields}

    @property
    def repeats(self) -> float:
        """Standard deviation of the log of another run's time of the measured question."""
        if self.sizes is not None:
            return float(self.sizes.at(self.here)[1])
        return math.hypot(REPEAT, self.measured.deviation)

    def measured_uncertainty(self, machine: Machine) -> MeasuredUncertainty | None:
        """The scatter of the inner answer [log s] of what was measured, and that of repeats."""
        spread, seconds = self.plain.spread, self.plain.time * self.factor(self.machine)
        over = None if self.sizes is None else OverSizes(self.sizes, FrozenDict(self._at(machine, {}))).deviation
        return MeasuredUncertainty(spread.total, self.repeats, spread.common, seconds, self.machine, over)

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """The inner answer [s] times the factor; its band is that of the ratio to what was measured."""
        best, factor = self.inner.estimate(workload, machine, run), self.factor(machine, run)
        time = max(best.time * factor, min(best.least, best.time))
        grown = time / best.time
        parts = [
            replace(one, time=one.time * grown, elapsed=None if one.elapsed is None else one.elapsed * grown)
            for one in best.parts
        ]
        return replace(
            best, time=time, parts=tuple(parts), fixed=best.fixed * grown, band=None, sides=_sides(best, grown),
            energy=None if best.energy is None else self._joules(workload, machine, run, best.energy * grown, time),
            spread=Spread(residual=self._spread(best, workload, machine, run or {})),
            assumptions=(*best.assumptions, self._said(workload, machine, run or {})),
            doubts=(*best.doubts, *self.measured.contradictions, *self._far(machine)),
            conditions=tuple(replace(one, band_factor=1.0) for one in best.conditions if one.origin != UNMEASURED),
            provenance="measured" if self._measured_itself(workload, machine, run or {}) else "calibrated",
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
        """Whether the workload at its sizes is the one that was measured, but for sizes that the law knows."""
        numbers = {name: float(value) for name, value in run.items() if name not in self.here}
        known = {name: value for name, value in self.run.items() if name not in self.here}
        return workload == self.workload and numbers == known

    def _measured_itself(self, workload: Workload, machine: Machine, run: Mapping[str, float]) -> bool:
        """Whether the question is what was measured."""
        if not (self._same(workload, run) and self._here(machine)):
            return False
        return self.sizes is None or self.sizes.holds(self._at(machine, run))

    def _here(self, machine: Machine) -> bool:
        """Whether the machine is the one of the measurement."""
        return self.machine.fingerprint == machine.fingerprint

    def _spread(self, best: Estimate, workload: Workload, machine: Machine, run: Mapping[str, float]) -> float | None:
        """Standard deviation of log time: of a repeat, and of the ratio to what was measured; None where unknown."""
        plain = self.plain
        same, here = self._same(workload, run), self._here(machine)
        if same and here:
            return self.repeats if self.sizes is None else float(self.sizes.at(self._at(machine, run))[1])
        there, now = plain.spread, best.spread
        if there.total is None or now.total is None:
            return None
        law = shipped().band(() if same else ("workload",), workload_kind(workload))
        change, ratio = 0.0 if here else math.inf, math.log(best.time / plain.time)
        half = float(law.half(ratio, change, 0.0, now.total, there.total, now.common, there.common))
        return math.hypot(self.repeats, min(half / quantile(DEFAULT_LEVEL, None), now.total))

    def _said(self, workload: Workload, machine: Machine, run: Mapping[str, float]) -> str:
        times = ratio_shown(self.factor(machine))
        rows = f" {self.sizes.text()}" if self.sizes is not None else ""
        words = f"held to what was measured ({self.measured.source}{rows}), x{times} of the model's answer"
        before = self.machine.numbers
        other = [path for path, value in machine.numbers.items() if before.get(path, value) != value]
        was = [f"{named_shown(f'machine.{path}', before[path])} {path}" for path in other]
        if (ran := self.machine.runtime.mode) != machine.runtime.mode:
            was.append(f"mode {ran}")
        if was:
            words = f"a what-if of the measured machine, which had {', '.join(was)}; {words}"
        if not self._same(workload, run):
            sizes = "".join(f", {name} = {value:g}" for name, value in {**self.workload.defaults, **self.run}.items())
            words = f"a what-if of what was measured: {self.workload.name}{sizes}; {words}"
        scatter = self.plain.spread.total
        if scatter is None:
            return words
        wide, narrow = (math.exp(quantile(DEFAULT_LEVEL, None) * one) for one in (scatter, self.repeats))
        return f"{words}: the band there goes from x{ratio_shown(wide)} to x{ratio_shown(narrow)}"

    def _far(self, machine: Machine) -> tuple[str, ...]:
        scatter = self.plain.spread.total
        if scatter is None:
            return ()
        half = quantile(DEFAULT_LEVEL, None) * max(scatter, self.repeats)
        return disagreement(self.measured.source, self.factor(machine), half)

    def compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: Mapping[str, float] | None = None
    ) -> CompiledEstimator:
        """The inner function times the factor: seconds as a function of arrays."""
        function, factor = self.inner.compile(workload, machine, free, run), self.factor(machine, run)
        if self.sizes is not None:
            over = OverSizes(self.sizes, FrozenDict(self._at(machine, run or {})))
            if over.named(free):
                return Longer(function, 1.0, over)
        if isinstance(function, Compiled):
            return _longer(function, factor)
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
    """A function of seconds times a factor, and one that hangs on sizes; see `CompiledEstimator`."""

    inner: CompiledEstimator
    factor: float
    sizes: OverSizes | None = None

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
        """As the inner function; it reads the sizes of a law as well."""
        inner = self.inner.read
        return inner if inner is None or self.sizes is None else inner | self.sizes.named(self.free).keys()

    @property
    def base(self) -> Mapping[str, float]:
        """As the inner function."""
        return self.inner.base

    def __call__(self, values: Mapping[str, npt.ArrayLike]) -> FloatArray:
        """Seconds, in the shape to which the arrays broadcast."""
        return self.factor * self.inner(values) * (1.0 if self.sizes is None else self.sizes(values))


def as_put(measured: Fitted, answers: Estimator) -> Fitted:
    """What was measured, with the question that it was measured of: changed questions then answer their ratio to it.

    `answers`: what answers that question.
    """
    if isinstance(answers, MatchedToTime | PowerLimitRun):
        return answers
    if isinstance(answers, TrainingEstimator) and isinstance(measured, MeasuredTime | MeasuredTraining):
        return MeasuredTraining(answers.known)
    if isinstance(answers, RequestEstimator) and isinstance(measured, MeasuredTime | MeasuredRuns):
        return MeasuredSteps(answers.known)
    return measured
