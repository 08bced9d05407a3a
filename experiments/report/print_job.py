"""What the command line prints of a simulated job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.formatting import shown
from slipstick.estimators.simulation.job_calibration import load_job_calibration
from slipstick.estimators.simulation.job_parameters import job_numbers
from slipstick.experiments.methods.jobs.job_file import JobQuestion, job_question
from slipstick.experiments.methods.jobs.job_fit import FittedJob, fit_job
from slipstick.experiments.methods.jobs.job_sweep import axis_of, formula_sweep, sweep
from slipstick.experiments.methods.jobs.simulate_job import PERCENTILES, Simulated, simulate
from slipstick.experiments.report.output import emit, show
from slipstick.experiments.report.progress import progress_bar


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

    def question(self) -> JobQuestion:
        """The job that the options describe, calibrated where they say so.

        Raises InputError where an option cannot be used, or two of them are against each other.
        """
        if bool(self.measured) != bool(self.fit):
            raise InputError("give --known FILE and --fit NAME together: times, and what is fitted to them")
        if self.calibration and self.measured:
            raise InputError("give --calibration FILE, or --known FILE and --fit NAMES, not both")
        query = job_question(self.name, self.machine, self.estimator, self.settings, self.dtype)
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
    notes = [*assumed, f"{job.name}: {shown(seconds, 's')} {note}"]
    emit(
        [{"job": job.name, "time_s": seconds, "step_s": seconds / job.steps, "steps": job.steps}],
        request.form,
        notes=notes,
    )


def print_fit(request: JobRequest, level: float, out: str | None, plot: str | None) -> None:
    """The fitted numbers of a job: value, band, start, and what the closed form alone gives; and its file.

    Raises InputError where nothing is fitted, or an option cannot be used.
    """
    if not (request.measured and request.fit):
        raise InputError("of a job, give --known FILE.csv and --fit job.NAME,...: times, and what is fitted to them")
    if not 0 < level < 1:
        raise InputError(f"--level {level:g}: want a probability between 0 and 1")
    question = job_question(request.name, request.machine, request.estimator, request.settings, request.dtype)
    made = replace(fitted(question, request.measured, request.fit), level=level)
    heads = []
    if out:
        made.calibration.save(out)
        heads.append(f"calibration: {out} (estimate or whatif {request.name} --simulate --calibration {out})")
    if plot:
        from slipstick.experiments.report.job_fit_chart import draw_job_fit

        heads.append(f"picture: {draw_job_fit(question, made, request.measured, plot)}")
    show(made, request.form, heads)


def print_simulated(request: JobRequest) -> None:
    """A job's distribution: one row a quantity; with a trace of its first run, and a page."""
    question = request.question()
    with progress_bar(request.name, 1) as progress:
        simulated = simulate(question, runs=request.runs, seed=request.seed, progress=progress)
    heads = _bands(simulated)
    if request.trace:
        heads.append(f"trace of the first run: {simulated.write_trace(request.trace)}")
    if request.report:
        heads.append(f"report: {_page(request, question, simulated)}")
    show(simulated, request.form, heads)


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
        from slipstick.experiments.report.job_page import write_job_page

        simulated = simulate(question, runs=request.runs, seed=request.seed)
        notes.append(f"report: {write_job_page(simulated, question.file, request.report, frame)[0].resolve()}")
    emit(rows, request.form, notes=notes)


def print_formula_sweep(request: JobRequest, vary: Sequence[str]) -> None:
    """Ratios to the job as it stands by its formula, which knows no waiting.

    Raises InputError where nothing varies.
    """
    axes = _axes(vary)
    question = request.question()
    source = question.formula(question.job()[0])[1]
    rows = formula_sweep(question, axes).to_dict("records")
    notes = [f"ratios to the job as it stands, by formula: {source}; --simulate shows what it misses"]
    emit([{str(name): value for name, value in row.items()} for row in rows], request.form, notes=notes)


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
    from slipstick.experiments.report.job_page import write_job_page

    frame = None
    if question.file.vary:
        runs = None if request.runs is None else min(request.runs, 20)
        with progress_bar(f"{request.name}: page", 1) as progress:
            frame = sweep(question, [axis_of(text) for text in question.file.vary], runs, request.seed, progress)
    return write_job_page(simulated, question.file, request.report or "", frame)[0].resolve()
