"""What the command line prints of a simulated job.

A job's fit as a picture: what was measured, what its file said, and what the fitted simulation gives.

The page of a simulated job: how its time is distributed, what varies with it, where stages wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.columns import SHARE, Column
from slipstick.common.errors import InputError
from slipstick.common.formatting import ends_shown, ratio_shown, shown
from slipstick.estimators.base.conditions import NotUsed
from slipstick.estimators.simulation.job import Job, job_numbers
from slipstick.estimators.simulation.job_calibration import load_job_calibration
from slipstick.estimators.simulation.run_quantities import TIME, series
from slipstick.experiments.jobs.job_file import JobQuestion, job_question
from slipstick.experiments.jobs.job_fit import FittedJob, fit_job
from slipstick.experiments.jobs.job_measurements import MeasuredRun, read_job_measurements
from slipstick.experiments.jobs.job_records import JobFile
from slipstick.experiments.jobs.job_sweep import axis_of, formula_sweep, sweep
from slipstick.experiments.jobs.simulate_job import LOST, LOST_TEXT, PERCENTILES, Simulated, simulate
from slipstick.experiments.question.settings import Value, name_and_value
from slipstick.experiments.question.unused_inputs import NOT_READ, AnswerNumbers, unused_of
from slipstick.experiments.report.output import emit, show
from slipstick.experiments.report.page import (
    Card,
    Section,
    assumptions,
    folded,
    picture_html,
    table_html,
    timeline_sections,
    write_with_charts,
)
from slipstick.experiments.report.plots import Chart, PlotLine, draw_charts, scale_of
from slipstick.experiments.report.progress import progress_bar
from slipstick.hwmodels.catalog import machine as machine_by_name

if TYPE_CHECKING:
    import pandas as pd


RUNS = 40
SEED = 3_000_000


def draw_job_fit(question: JobQuestion, fitted: FittedJob, measured: str, path: str) -> Path:
    """Write two charts: the share of values that are no longer than a time, and how far the run is over time.

    `measured`: the file that was fitted; its first run with the most values is shown.
    `path`: FILE.png or FILE.svg.
    """
    runs = read_job_measurements(measured, [stage.name for stage in fitted.job.pipeline.stages])
    run = max(runs, key=lambda one: max(len(values) for values, _ in one.series.values()))
    name = max(run.series, key=lambda one: len(run.series[one][0]))
    before, _ = question.using(run.settings).uncalibrated()
    calibrated = replace(question.using(run.settings), calibration=fitted.calibration)
    steps = run.steps or before.steps
    drawn = [_sized(job, steps) for job in calibrated.drawn(RUNS)]
    simulated = [series(job.simulate(SEED + number), name) for number, job in enumerate(drawn)]
    start = [series(_sized(before, steps).simulate(SEED + number), name) for number in range(RUNS)]
    values, places = run.series[name]
    later = places[1:] if len(places) > 3 and places[0] == 0 else places
    charts = [_shares(name, values[-len(later) :], [one[later] for one in start], [one[later] for one in simulated])]
    if name != TIME and len(places) == places[-1] + 1:
        charts.append(_progress(name, run, start, simulated, _sized(before, steps)))
    draw_charts(charts, path)
    return Path(path)


def _sized(job: Job, steps: int) -> Job:
    return replace(job, steps=steps)


def _shares(name: str, values: FloatArray, before: list[FloatArray], after: list[FloatArray]) -> Chart:
    last = float(max(np.quantile(np.concatenate(after), 0.995), values.max()))
    ends = np.geomspace(max(float(np.min(values[values > 0])) / 1.5, last / 1e6), last, 200)
    shares = np.array([np.searchsorted(np.sort(one), ends, side="right") / len(one) for one in after])
    bounds = np.percentile(shares, [10, 50, 90], axis=0)
    first = np.searchsorted(np.sort(np.concatenate(before)), ends, side="right") / sum(map(len, before))
    seen = np.searchsorted(np.sort(values), ends, side="right") / len(values)
    lines = (
        PlotLine(f"measured, {len(values)} values", ends, seen),
        PlotLine("fitted through the simulation, 80 %", ends, bounds[1], bounds[0], bounds[2]),
        PlotLine("as the file said", ends, first),
    )
    return Chart(
        f"{name.removesuffix('_s')}: share that took no longer (after the first)",
        "time [s]",
        "share",
        lines,
        x_scale="log",
    )


def _progress(name: str, run: MeasuredRun, before: list[FloatArray], after: list[FloatArray], job: Job) -> Chart:
    values = run.series[name][0]
    number = np.arange(1, len(values) + 1, dtype=np.float64)
    low, middle, high = np.percentile(np.array([np.cumsum(one) for one in after]), [10, 50, 90], axis=0)
    first = np.median(np.array([np.cumsum(one) for one in before]), axis=0)
    lines = (
        PlotLine("measured", number, np.cumsum(values)),
        PlotLine("fitted through the simulation, 80 %", number, middle, low, high),
        PlotLine("as the file said", number, first),
        PlotLine("formula of the file, no waiting", number, number * job.ideal() / job.steps),
    )
    return Chart("Seconds until an iteration is done", "iteration", "time since the start [s]", lines)


MOST_LINES = 5
SHARES = tuple(Column(name, name, SHARE) for name in ("busy", "starved", "blocked"))


def write_job_page(
    simulated: Simulated, file: JobFile, path: str | Path, swept: pd.DataFrame | None = None
) -> tuple[Path, Path]:
    """Write the page to `path` and its charts beside it as PNG; returns both paths."""
    charts = {"run": distribution_chart(simulated, "time_s"), "step": distribution_chart(simulated, "step_s")}
    sections = []
    if swept is not None and len(swept):
        charts = {"sweep": sweep_chart(swept, float(np.median(simulated.numbers["time_s"]))), **charts}
        rows = [dict(zip(swept.columns, row, strict=True)) for row in swept.itertuples(index=False, name=None)]
        sections.append(Section("Every point, with the same seeds as today", table_html(rows, "points")))
    pictures = [Section(chart.title, picture_html(chart, name)) for name, chart in charts.items()]
    numbers = [row for row in simulated.rows() if "." not in row["quantity"]]
    sections = [
        *pictures,
        Section("Percentiles", table_html(numbers, "percentiles", simulated.declared)),
        Section(
            "What each stage does, shares of its workers' time", table_html(share_rows(simulated), "shares", SHARES)
        ),
        *sections,
        *timeline_sections(simulated),
        folded("The stages", table_html(stage_rows(simulated), "stages")),
        *assumptions(simulated.assumptions),
    ]
    lead = file.about or "A simulated job."
    return write_with_charts(path, [*charts.values()], file.name, lead, cards(simulated), sections)


def cards(simulated: Simulated) -> list[Card]:
    """Time and its band, what a formula misses, the device's idle share."""
    low, high = simulated.band()
    ideal, mean = simulated.formula, float(np.mean(simulated.numbers["time_s"]))
    idle = float(np.mean(simulated.numbers["idle"]))
    return [
        Card(
            shown(float(np.median(simulated.numbers["time_s"])), "s"),
            f"median of {simulated.runs} runs, 80 %: {ends_shown(low, high)}",
        ),
        Card(f"{ratio_shown(mean / ideal)} x", f"of the formula's {shown(ideal, 's')}: {simulated.formula_source}"),
        Card(f"{idle:.1%}", f"of the time {simulated.job.pipeline.device} is idle"),
    ]


def distribution_chart(simulated: Simulated, name: str) -> Chart:
    """Share of runs (or steps) that are over by then, and the formula's time."""
    values, per = (simulated.numbers[name], 1) if name == "time_s" else (simulated.steps, simulated.job.steps)
    what = "runs" if name == "time_s" else "steps"
    levels, times = _cumulative(values)
    line = PlotLine(f"{len(values):,} {what}", times, levels)
    title = f"Time of a {what[:-1]}, as a share of {what} that took no longer"
    formula = simulated.formula / per
    return Chart(title, "time [s]", f"share of {what}", (line,), border=formula, border_label="formula")


def sweep_chart(swept: pd.DataFrame, today: float) -> Chart:
    """Ratio to today over the axis with the most values: simulated with its band, and the formula's."""
    varied = [name for name in swept.columns if str(name).partition(".")[2]]
    x_name = max(varied, key=lambda name: swept[name].nunique())
    others = [name for name in varied if name != x_name]
    groups: list[tuple[Any, pd.DataFrame]] = list(swept.groupby(others)) if others else [((), swept)]
    lines, formulas = [], []
    for key, part in groups[:MOST_LINES]:
        label = ", ".join(f"{name} = {_short(value)}" for name, value in zip(others, key, strict=True))
        x = part[x_name].to_numpy(dtype=float)
        band = (part.low_ratio.to_numpy(), part.high_ratio.to_numpy())
        lines.append(PlotLine(f"simulated {label}".strip(), x, part.time_ratio.to_numpy(), *band))
        formulas.append(PlotLine(f"formula {label}".strip(), x, part.formula_s.to_numpy() / today))
    if len({line.y.tobytes() for line in formulas if isinstance(line.y, np.ndarray)}) == 1:
        formulas = [PlotLine("formula", formulas[0].x, formulas[0].y)]
    return Chart(
        "What varies (below 1: faster than today)",
        str(x_name),
        "time / today's simulated time",
        (*lines, *formulas),
        x_scale=scale_of(swept[x_name]),
    )


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def share_rows(simulated: Simulated) -> list[dict[str, Any]]:
    """Busy, starved and blocked, by stage."""
    return [
        {"stage": stage.name}
        | {kind: float(np.mean(simulated.numbers[f"{stage.name}.{kind}"])) for kind in ("busy", "starved", "blocked")}
        for stage in simulated.job.pipeline.stages
    ]


def stage_rows(simulated: Simulated) -> list[dict[str, Any]]:
    """The stages as they were simulated."""
    rows = []
    for stage in simulated.job.pipeline.stages:
        row: dict[str, Any] = {"stage": stage.name, "mean_s": stage.mean, "variation": stage.variation}
        row |= {
            "workers": stage.workers,
            "gather": stage.gather,
            "buffer": "unlimited" if stage.buffer is None else stage.buffer,
        }
        rows.append(row | {"resource": stage.resource or "", "scatter": stage.scatter, "uneven": stage.uneven})
    return rows


def _cumulative(values: FloatArray, points: int = 400) -> tuple[FloatArray, FloatArray]:
    levels = np.linspace(0, 1, min(points, max(len(values), 2)))
    return levels, np.quantile(values, levels)


@dataclass(frozen=True)
class JobRequest:
    """The options of a verb that a simulation reads."""

    name: str
    machine: str | None = None
    estimator: str | None = None
    settings: tuple[str, ...] = ()
    dtype: str | None = None
    runs: int | None = None
    seed: int = 0
    trace: str | None = None
    report: str | None = None
    form: str = "table"
    calibration: str | None = None
    measured: str | None = None
    fit: tuple[str, ...] = ()
    allow_code: tuple[str, ...] = ()

    def question(self) -> JobQuestion:
        """The job that the options describe, calibrated where they say so.

        Raises InputError where an option cannot be used, or two of them are against each other.
        """
        if bool(self.measured) != bool(self.fit):
            raise InputError("give --measured FILE and --fit NAME together: times, and what is fitted to them")
        if self.calibration and self.measured:
            raise InputError("give --calibration FILE, or --measured FILE and --fit NAMES, not both")
        query = job_question(self.name, self.machine, self.estimator, self.settings, self.dtype, self.allow_code)
        if self.calibration:
            return replace(query, calibration=load_job_calibration(self.calibration))
        if self.measured:
            return replace(query, calibration=fitted(query, self.measured, self.fit).calibration)
        return query


def fitted(question: JobQuestion, measured: str, fit: Sequence[str]) -> FittedJob:
    """The job fitted to a file of measurements, with its progress on the terminal."""
    with progress_bar(f"{question.where}: fit, simulated points", 1) as progress:
        return fit_job(question, measured, fit, progress=progress)


def print_formula(request: JobRequest) -> None:
    """A job without `--simulate`: the slowest stage's time, and that it knows no waiting."""
    question = request.question()
    job, assumed = question.job()
    seconds, source = question.formula(job)
    note = f"by formula: {source}; --simulate shows what it misses"
    unused = _unused(request, lambda one: AnswerNumbers({"time": one.formula(one.job()[0])[0]}))
    notes = [*(one.text() for one in unused), *assumed, f"{job.name}: {shown(seconds, 's')} {note}"]
    emit(
        [{"job": job.name, "time_s": seconds, "step_s": seconds / job.steps, "steps": job.steps}],
        request.form,
        notes=notes,
        depends={"not_used": [one.row() for one in unused]},
    )


def _unused(request: JobRequest, numbers: Callable[[JobQuestion], AnswerNumbers]) -> tuple[NotUsed, ...]:
    """What the question sets and a job's answer does not read."""

    def answered(given: Mapping[str, Value]) -> AnswerNumbers:
        return numbers(replace(request, settings=tuple(f"{name}={value}" for name, value in given.items())).question())

    given = dict(map(name_and_value, request.settings))
    at = machine_by_name(request.machine) if request.machine else None
    return unused_of(given, answered, at)[0] if given else ()


def _unused_axes(frame: pd.DataFrame, axes: Sequence[tuple[str, tuple[str, ...]]]) -> list[NotUsed]:
    """What varies while no time of the table moves with it."""
    made = []
    for name, values in axes:
        others = [other for other, _ in axes if other != name]
        groups = [part for _, part in frame.groupby(others)] if others else [frame]
        if len(values) > 1 and all(part.time_s.nunique() == 1 for part in groups):
            made.append(NotUsed(name, ", ".join(values), NOT_READ))
    return made


def print_fit(request: JobRequest, level: float, out: str | None, plot: str | None) -> None:
    """The fitted numbers of a job: value, band, start, and what the closed form alone gives; and its file.

    Raises InputError where nothing is fitted, or an option cannot be used.
    """
    if not (request.measured and request.fit):
        raise InputError("of a job, give --measured FILE.csv and --fit job.NAME,...: times, and what is fitted to them")
    if not 0 < level < 1:
        raise InputError(f"--level {level:g}: want a probability between 0 and 1")
    question = replace(request, measured=None, fit=()).question()
    made = replace(fitted(question, request.measured, request.fit), level=level)
    heads = []
    if out:
        made.calibration.save(out)
        heads.append(f"calibration: {out} (estimate or whatif {request.name} --simulate --calibration {out})")
    if plot:
        heads.append(f"picture: {draw_job_fit(question, made, request.measured, plot)}")
    show(made, request.form, heads)


def print_simulated(request: JobRequest) -> None:
    """A job's distribution: one row a quantity; with a trace of its first run, and a page."""
    question = request.question()
    with progress_bar(request.name, 1) as progress:
        simulated = simulate(question, runs=request.runs, seed=request.seed, progress=progress)
    unused = _unused(request, lambda one: _numbers(simulate(one, runs=request.runs, seed=request.seed)))
    heads = [*(one.text() for one in unused), *_bands(simulated)]
    if request.trace:
        simulated.write_trace(request.trace)
        heads.append(f"trace of the first run: {request.trace}")
    if request.report:
        heads.append(f"report: {_page(request, question, simulated)}")
    show(simulated, request.form, heads, {"not_used": [one.row() for one in unused]})


def _numbers(simulated: Simulated) -> AnswerNumbers:
    """All that the runs say, by quantity and statistic."""
    rows = simulated.rows()
    return AnswerNumbers(
        {f"{row['quantity']} {key}": value for row in rows for key, value in row.items() if isinstance(value, float)}
    )


def _axes(vary: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    if not vary:
        raise InputError("nothing varies: name at least one, such as --vary job.copies=1,4,16")
    return [axis_of(text) for text in vary]


def print_sweep(request: JobRequest, vary: Sequence[str]) -> None:
    """Ratios to the job as it stands.

    Raises InputError where nothing varies.
    """
    axes = _axes(vary)
    question = request.question()
    with progress_bar(request.name, 1) as progress:
        frame = sweep(question, axes, request.runs, request.seed, progress)
    rows = [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False, name=None)]
    notes = ["ratios to the job as it stands, with the same seeds: median over runs, 80 %; formula_s: without waiting"]
    if request.report:
        simulated = simulate(question, runs=request.runs, seed=request.seed)
        notes.append(f"report: {write_job_page(simulated, question.file, request.report, frame)[0].resolve()}")
    unused = _unused_axes(frame, axes)
    notes = [*(one.text() for one in unused), *notes, *([LOST_TEXT] if LOST in frame else [])]
    emit(rows, request.form, notes=notes, depends={"not_used": [one.row() for one in unused]})


def print_formula_sweep(request: JobRequest, vary: Sequence[str]) -> None:
    """Ratios to the job as it stands by its formula, which knows no waiting.

    Raises InputError where nothing varies.
    """
    axes = _axes(vary)
    question = request.question()
    source = question.formula(question.job()[0])[1]
    frame = formula_sweep(question, axes)
    rows, unused = frame.to_dict("records"), _unused_axes(frame, axes)
    notes = [*(one.text() for one in unused)]
    notes += [f"ratios to the job as it stands, by formula: {source}; --simulate shows what it misses"]
    depends = {"not_used": [one.row() for one in unused]}
    emit(
        [{str(name): value for name, value in row.items()} for row in rows], request.form, notes=notes, depends=depends
    )


def _bands(simulated: Simulated) -> list[str]:
    """Fitted numbers and bands of percentiles, a line each."""
    if simulated.calibration is None:
        return []
    known, lines = job_numbers(simulated.job), []
    for name, (low, high) in simulated.calibration.percentiles(simulated.job).items():
        value = simulated.calibration.values[simulated.calibration.names.index(name)]
        unit = known[name].note.unit
        what = [shown(one, unit) if unit == "s" else f"{one:.3g}" for one in (value, low, high)]
        lines.append(f"fitted job.{name}: {what[0]} (80 %: {what[1]} .. {what[2]})")
    if simulated.draws > 1:
        for row in simulated.rows():
            if row["quantity"] in ("time_s", "step_s"):
                ends = {key: shown(float(value), "s") for key, value in row.items() if key[:1] == "p"}
                parts = [f"p{level} {ends[f'p{level}_low']} .. {ends[f'p{level}_high']}" for level in PERCENTILES]
                lines.append(
                    f"{row['quantity']} in 80 % of the draws: {', '.join(parts)} (the table's: of all together)"
                )
    return lines


def _page(request: JobRequest, question: JobQuestion, simulated: Simulated) -> Any:

    frame = None
    if question.file.vary:
        runs = None if request.runs is None else min(request.runs, 20)
        with progress_bar(f"{request.name}: page", 1) as progress:
            frame = sweep(question, [axis_of(text) for text in question.file.vary], runs, request.seed, progress)
    return write_job_page(simulated, question.file, request.report or "", frame)[0].resolve()
