"""One question at many points, answered as ratios to today's machine, in chunks of bounded memory.

Energy of the points of a sweep whose clock lies below the machine's stated one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.conditions import NotUsed
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.base.protocols import CompiledEstimator
from slipstick.estimators.base.ratio_band import MeasuredUncertainty, Today
from slipstick.estimators.composition.energy_and_cost import COST, ENERGY, Consumption, over_cap
from slipstick.estimators.composition.power_capped import CAP, CLOCK, distinct_values, keep_function, slower_joules
from slipstick.estimators.fitting.ratio_uncertainty import shipped
from slipstick.estimators.power.power_cap import at_rated_cap, at_stated_clock
from slipstick.experiments.question.cautions import remarks
from slipstick.experiments.question.objectives import consumptions
from slipstick.experiments.question.question import Question
from slipstick.experiments.question.space import Space
from slipstick.experiments.question.unused_inputs import unused_axes
from slipstick.experiments.studies.quantity_columns import BandedMetrics, QuantityColumns
from slipstick.experiments.studies.size_columns import MemoryColumns, ScatterAtSizes
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload_kind import WorkloadKind, workload_kind

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ClockEnergy:
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

    function: CompiledEstimator
    consumed: Consumption
    machine: Machine
    clock: float

    @classmethod
    def of(cls, question: Question, consumed: Sequence[Consumption]) -> ClockEnergy | None:
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


Bands = Literal["auto", "always", "never"]
Columns: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""A table by column, all of one length: what a frame is made from where one is wanted (pandas imports in 0.3 s)."""
CHUNK_POINTS = 65_536
BOXED_POINTS = 4_096
"""Points from which on a stretch of a grid is answered in boxes."""
SLOW_CHUNK_POINTS = 16
MAX_FRAME_POINTS = 50_000_000
DRAWS = 400
DRAW_POINTS = 512
SHARE_POINTS = 200
"""Up to this many points, shares of the time and the least that physics allows are given: some go point by point."""
BAND_POINTS = 200_000
"""Up to this many points, bands are given by default."""


@dataclass(frozen=True)
class Task:
    """Answers any stretch of a space; picklable, so that it runs in threads, processes or on a cluster.

    Parameters
    ----------
    function
        Of the space's names; `Compiled` or `PointByPoint`.
    today
        Seconds of the question as it stands: what ratios are relative to.
    drawn
        The same function with the fitted parameters left open, beside draws of them; None without bands.
    residual, residual_seconds, degrees_of_freedom, residual_freedom, common, work
        Scatter of measurements around the fit, in log time; the part of it that is constant in seconds; see `Spread`;
        of which kind of work the question is.
    shares
        The estimator, evaluated point by point for the metrics whose scatter it knows; None to leave them out.
    consumed, unknown
        What is given for each point beside its time (joules, dollars), and a line for each thing that cannot be.
    unused
        What varies and is not read.
    notes
        Where the answer is less sure than usual.
    memory
        Bytes that each point needs, and whether they fit.
    scatter
        That of the default answer at each point, in place of `residual`, where sizes vary.
    fields
        The machine's fields that vary and that the time reads, as they are today.
    least
        Whose physics no band of a time undercuts; None where the estimator knows none, or the points are many.
    quantities
        Of answers that hold more than a time: they give all columns.
    held, since
        Where a measured time holds the answers: how sure they are of it; and the fields that vary, as they were there.
    slower
        Joules of points below the machine's stated clock; None where there are none.
    """

    function: CompiledEstimator
    space: Space
    today: float
    level: float
    drawn: tuple[CompiledEstimator, tuple[str, ...], FloatArray] | None = None
    residual: float | None = None
    degrees_of_freedom: float | None = None
    residual_seconds: float = 0.0
    residual_freedom: float | None = None
    common: float = 0.0
    work: WorkloadKind = "kernel"
    shares: BandedMetrics | None = None
    consumed: tuple[Consumption, ...] = ()
    unknown: tuple[str, ...] = ()
    unused: tuple[NotUsed, ...] = ()
    notes: tuple[str, ...] = ()
    memory: MemoryColumns | None = None
    scatter: ScatterAtSizes | None = None
    fields: Today = Today()
    least: Question | None = None
    quantities: QuantityColumns | None = None
    held: MeasuredUncertainty | None = None
    since: Today = Today()
    slower: ClockEnergy | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """What is not read, then the other notes."""
        return (*(one.text() for one in self.unused), *self.notes)

    def keep(self) -> None:
        """Keep for the next run what the functions are made of, as far as it was read."""
        for function in (self.function, self.slower.function if self.slower else None):
            keep_function(function)

    def rows(self, start: int, stop: int) -> pd.DataFrame:
        """The table of `columns` as a frame."""
        import pandas as pd

        return pd.DataFrame(self.columns(start, stop))

    def columns(self, start: int, stop: int) -> Columns:
        """The points start..stop: their values, time_ratio, time_s, the band of both, energy_J and cost_usd.

        What is not known of the machine is not a number.
        """
        points = self.space.points(start, stop)
        free = {name: values for name, values in points.items() if name != "point"}
        if self.quantities is not None:
            return self._answered(points)
        return self._answered(points, self._times(free, start, start + len(points["point"])))

    def at(self, values: Mapping[str, float]) -> dict[str, Any]:
        """One point, of the space or beside it: the columns of one row.

        Raises InputError where a value is missing, unknown or out of its range.
        """
        free = {name: np.array([float(value)]) for name, value in values.items()}
        made = self._answered({"point": np.zeros(1), **free}, np.asarray(self.function(free), dtype=np.float64))
        return {name: column[0].item() for name, column in made.items()}

    def _answered(self, points: Mapping[str, FloatArray], times: FloatArray | None = None) -> Columns:
        free = {name: values for name, values in points.items() if name != "point"}
        if self.quantities is not None:
            made = self.quantities.columns(free, self.fields, len(points["point"]))
            return {name: np.asarray(values) for name, values in {**points, **made}.items()}
        times = np.empty(0) if times is None else times
        _require_times(times, points)
        # the last digit may differ from the single estimate's: what equals today's time is today's time
        ratios = np.where(np.isclose(times, self.today, rtol=1e-12, atol=0), 1.0, times / self.today)
        columns: dict[str, Any] = {**points, "time_ratio": ratios, "time_s": times}
        known = {one.name: one(free, times) for one in self.consumed}
        if self.slower is not None:
            known[ENERGY] = self.slower.joules(free, times, known[ENERGY])
        columns |= {name: known.get(name, np.full(len(times), np.nan)) for name in (ENERGY, COST)}
        if self.drawn is not None or self.residual is not None:
            columns |= self._bands(free, times, ratios)
        if self.shares is not None:
            columns |= self.shares.columns(free, len(times))
        if self.memory is not None:
            columns |= self.memory.columns(free, len(times))
        return {name: np.asarray(values) for name, values in columns.items()}

    def _times(self, free: Mapping[str, FloatArray], start: int, stop: int) -> FloatArray:
        """Seconds of the points: in boxes of the grid where only machines differ."""
        if start == stop:
            return np.empty(0)
        machines = self.function.vectorised and all(name.startswith("machine.") for name in free)
        boxes = self.space.boxes(start, stop) if machines and stop - start >= BOXED_POINTS else None
        if boxes is None:
            return np.asarray(self.function(free), dtype=np.float64)
        return np.concatenate([np.ravel(self.function(box))[some] for box, some in boxes])

    def _bands(self, free: Mapping[str, FloatArray], times: FloatArray, ratios: FloatArray) -> dict[str, FloatArray]:
        """The ends of the bands of ratio and time."""
        columns: dict[str, FloatArray] = {}
        parameter, relative = self._parameter_spread(free, len(times))
        there = self.scatter.at(free, len(times)) if self.scatter is not None else None
        alike = np.hypot(self.residual or 0.0, self.residual_seconds / np.maximum(times, 1e-300))
        residual, common = (alike, self.common) if there is None else there
        residual_today = np.hypot(self.residual or 0.0, self.residual_seconds / self.today)
        width = quantile(self.level, self.degrees_of_freedom)
        tail = quantile(self.level, self.residual_freedom or self.degrees_of_freedom)
        freedoms = self.degrees_of_freedom, self.residual_freedom
        law = shipped().band(self.space.names, self.work, self.level, *freedoms)
        logs, change = np.log(np.maximum(ratios, 1e-300)), self.fields.change(free, len(times))
        whole = alone = np.hypot(width * parameter, tail * residual)
        if all(name.startswith("machine.") for name in self.space.names):  # the law was fitted to today's scatter
            residual, common = residual_today, self.common
        ratio = law.half(logs, change, relative, residual, residual_today, common, self.common)
        if (held := self.held) is not None:  # a time is as sure as its ratio to the measured one
            changed = self.since.change(free, len(times))
            over, known = (held.repeats, False) if held.at_sizes is None else held.at_sizes(free)
            of_size = (changed == 0) & known
            off = np.where(of_size, 0.0, np.log(times / held.seconds))
            off = law.half(off, changed, relative, residual, residual_today, common, self.common)
            whole = np.hypot(np.minimum(off, alone), tail * over)
            ratio = np.where(of_size, np.minimum(ratio, tail * np.hypot(over, held.repeats)), ratio)
        for unit, value, spread in (("ratio", ratios, ratio), ("s", times, whole)):
            factor = np.exp(spread)
            columns |= {f"low_{unit}": value / factor, f"high_{unit}": value * factor}
        least, most = self.fields.one_way(free, self.space.names, ratios)
        columns["low_ratio"] = np.maximum(columns["low_ratio"], least)
        columns["high_ratio"] = np.minimum(columns["high_ratio"], most)
        if self.least is not None:
            q = self.least
            least_s = q.estimator.least_at(q.workload, q.machine, q.run, free)
            columns["low_s"] = np.maximum(columns["low_s"], np.minimum(least_s, times))
        return columns

    def over_cap(self, machine: Machine, table: Columns) -> tuple[str, ...]:
        """A line where points of a table of `columns` would draw more than a cap that their time does not know."""
        lines: list[str] = []
        for one in self.consumed:
            if one.name != ENERGY:
                continue
            times = table["time_s"]
            caps = table[CAP] if CAP in table else np.full(len(times), machine.power.cap or math.inf)
            plain = np.isinf(one.rated) | (caps == one.rated)  # the time is that under other caps
            free = {name: table[name][plain] for name in self.space.names}
            lines += over_cap(one, machine, free, times[plain]) if np.any(plain) else ()
        return tuple(lines)

    def _parameter_spread(self, free: Mapping[str, FloatArray], count: int) -> tuple[FloatArray, FloatArray]:
        """Standard deviation of log time, and of the log ratio to today, over draws of the fitted parameters."""
        if self.drawn is None or not count:
            return np.zeros(count), np.zeros(count)
        function, names, draws = self.drawn
        today = np.log(draws[:, -1])
        parameter, relative = np.empty(count), np.empty(count)
        for begin in range(0, count, DRAW_POINTS):
            window = slice(begin, begin + DRAW_POINTS)
            values = {name: array[window, None] for name, array in free.items()}
            values |= {name: draws[None, :, i] for i, name in enumerate(names)}
            logs = np.log(np.broadcast_to(function(values), (len(parameter[window]), len(draws))))
            parameter[window] = np.std(logs, axis=1, ddof=1)
            relative[window] = np.std(logs - today, axis=1, ddof=1)
        return parameter, np.where(relative < 1e-12, 0.0, relative)

    def __dask_tokenize__(self) -> str:
        """A name for each time it is handed out: dask would read all rows of the work to find whether it knows it."""
        return uuid4().hex

    @property
    def chunk(self) -> int:
        """Points a chunk: the same whatever runs them, so that results are equal bit for bit."""
        return SLOW_CHUNK_POINTS if not self.function.vectorised else CHUNK_POINTS


def task(question: Question, level: float = DEFAULT_LEVEL, bands: Bands = "auto") -> Task:
    """A task from a question; bands need a calibration, and "auto" gives them for at most `BAND_POINTS` points.

    Parameters
    ----------
    level
        Probability of the bands.

    Raises
    ------
    InputError
        Where a name cannot vary.
    """
    space, answer = question.vary, question.answer()
    today = answer.time
    if today <= 0:
        raise InputError(f"today's time of {question.workload.name!r} is 0 s: there is no ratio to it")
    function = question.estimator.compile(question.workload, question.machine, space.names, question.run)
    consumed, unknown = consumptions(question)
    unused = unused_axes(question, function, consumed)
    notes = remarks(question)
    memory = None if question.estimator.alone or answer.others else MemoryColumns(question)
    read = space.names if function.read is None else [name for name in space.names if name in function.read]
    fields = {name: question.machine.get(name.removeprefix("machine.")) for name in read if name.startswith("machine.")}
    values = FrozenDict({name: float(value) for name, value in fields.items() if isinstance(value, (int, float))})
    rated = question.machine.stated.power.cap if question.estimator.runs_at() == "held" else None
    known = Today(values, rated or math.inf)
    least = question if answer.least and space.size <= SHARE_POINTS else None
    if answer.others:
        several = QuantityColumns(question, level)
        return Task(function, space, today, level, unused=unused, notes=notes, fields=known, quantities=several)
    plain = Task(
        function, space, today, level, consumed=consumed, unknown=unknown, unused=unused, notes=notes, memory=memory,
        fields=known, least=least, slower=ClockEnergy.of(question, consumed), work=workload_kind(question.workload),
    )  # fmt: skip
    shares = BandedMetrics(question, level) if answer.metric_intervals and space.size <= SHARE_POINTS else None
    at_points = ScatterAtSizes(question, read)
    wanted = bands == "always" or (bands == "auto" and space.size <= BAND_POINTS)
    calibration = question.estimator.uncertainty
    if not wanted:
        return plain
    if held := question.estimator.measured_uncertainty(question.machine):
        known_there = replace(plain, shares=shares, residual=held.scatter, common=held.common, held=held)
        return replace(known_there, since=_since(known, question.machine, held.machine)) if held.scatter else plain
    plain = replace(plain, scatter=at_points, notes=(*notes, *at_points.note()))
    if calibration is None:  # the estimator's own bands are of the usual level
        scatter = answer.spread.total
        kept = shares if level == DEFAULT_LEVEL else None
        return replace(plain, shares=kept, residual=scatter or None, common=answer.spread.common)
    sample = calibration.parameter_draws(DRAWS) if function.vectorised else None
    drawn = None
    fitted = tuple(f"estimator.{name}" for name in calibration.names)
    if sample is not None and not set(fitted) & set(space.names):
        once = question.estimator.compile(question.workload, question.machine, fitted, question.run)
        bases = np.asarray(once({name: sample[:, i] for i, name in enumerate(fitted)}))
        open_ = question.estimator.compile(question.workload, question.machine, (*space.names, *fitted), question.run)
        drawn = (open_, fitted, np.column_stack([sample, bases]))
    return replace(
        plain,
        drawn=drawn,
        residual=calibration.residual_std,
        degrees_of_freedom=calibration.degrees_of_freedom,
        residual_seconds=calibration.residual_seconds or 0.0,
        residual_freedom=calibration.residual_freedom,
        common=calibration.common_std,
        shares=shares,
        scatter=at_points if drawn is None else replace(at_points, part="residual"),
    )


def _since(today: Today, machine: Machine, measured: Machine | None) -> Today:
    """Fields that vary as they were on a measured machine; a change of any other one counts whatever they are."""
    if measured is None:
        return today
    was = {name: measured.get(name.removeprefix("machine.")) for name in today.values}
    varied = {name.removeprefix("machine."): machine.get(name.removeprefix("machine.")) for name in today.values}
    others = measured.using(varied).fingerprint != machine.fingerprint
    return replace(today, values=FrozenDict({name: float(value) for name, value in was.items()}), others=others)


def _require_times(times: FloatArray, points: Mapping[str, FloatArray]) -> None:
    """Raise InputError where a point's time is not finite, or not above 0: no machine takes that."""
    wrong = np.flatnonzero(~(np.isfinite(times) & (times > 0)))
    if len(wrong):
        at = ", ".join(f"{name} = {values[wrong[0]]:g}" for name, values in points.items() if name != "point")
        raise InputError(f"estimated time = {times[wrong[0]]:g} s at {at}: want a finite time > 0")


def chunks(work: Task) -> Iterator[tuple[int, int]]:
    """The stretches of a task, in order."""
    for start in range(0, work.space.size, work.chunk):
        yield start, min(start + work.chunk, work.space.size)


def sweep(work: Task, executor: Executor | None = None, progress: Callable[[int], None] | None = None) -> pd.DataFrame:
    """The table of `swept` as one tidy frame."""
    import pandas as pd

    return pd.DataFrame(swept(work, executor, progress))


def swept(work: Task, executor: Executor | None = None, progress: Callable[[int], None] | None = None) -> Columns:
    """Every point of a task as one table, in order; `progress` hears how many points are done.

    Raises
    ------
    InputError
        Where the space is too large for one frame (write a study instead), or a value is out of its range.
    """
    if work.space.size > MAX_FRAME_POINTS:
        raise InputError(f"{work.space.size} points are more than {MAX_FRAME_POINTS} for one table: make it a study")
    parts: list[Columns] = []
    if executor is None:
        for start, stop in chunks(work):
            parts.append(work.columns(start, stop))
            if progress:
                progress(stop)
    else:
        futures = [executor.submit(work.columns, start, stop) for start, stop in chunks(work)]
        for future in futures:
            parts.append(future.result())
            if progress:
                progress(sum(len(part["time_s"]) for part in parts))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
