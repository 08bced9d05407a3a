"""What the command line prints of a simulated job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slipstick.experiments.pages.output import emit
from slipstick.experiments.pages.progress import shown
from slipstick.experiments.subjects.jobs.job_file import JobQuestion, job_question
from slipstick.experiments.subjects.jobs.simulated import Simulated, axis_of, formula_sweep, simulate, sweep
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.files.shown import format_quantity


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

    def question(self) -> JobQuestion:
        """The job that the options describe."""
        return job_question(self.name, self.machine, self.estimator, self.settings, self.dtype)


def print_formula(request: JobRequest) -> None:
    """A job without `--simulate`: the slowest stage's time, and that it knows no waiting."""
    question = request.question()
    job, assumed = question.job()
    seconds, source = question.formula(job)
    note = f"by formula: {source}; --simulate shows what it misses"
    notes = [*assumed, f"{job.name}: {format_quantity(seconds, 's')} {note}"]
    emit(
        [{"job": job.name, "time_s": seconds, "step_s": seconds / job.steps, "steps": job.steps}],
        request.form,
        notes=notes,
    )


def print_simulated(request: JobRequest) -> None:
    """A job's distribution: one row a quantity; with a trace of its first run, and a page."""
    question = request.question()
    with shown(request.name, 1) as progress:
        simulated = simulate(question, runs=request.runs, seed=request.seed, progress=progress)
    low, high = simulated.band()
    job = simulated.job
    over = float(simulated.numbers["time_s"].mean()) / simulated.formula if simulated.formula else float("nan")
    notes = [
        *simulated.assumptions,
        f"{job.name}: {format_quantity(float(_median(simulated)), 's')} (80 %: {format_quantity(low, 's')} .. "
        f"{format_quantity(high, 's')}), {job.steps} steps, {simulated.runs} runs from seed {simulated.seed}",
        f"{over:.3g} x the formula's {format_quantity(simulated.formula, 's')} ({simulated.formula_source})",
    ]
    if request.trace:
        notes.append(f"trace of the first run: {simulated.write_trace(request.trace)}")
    if request.report:
        notes.append(f"report: {_page(request, question, simulated)}")
    rows = simulated.rows()
    if request.form == "table":
        rows = [row for row in rows if "." not in row["quantity"] or row["quantity"].endswith(".busy")]
    emit(rows, request.form, notes=notes)


def print_sweep(request: JobRequest, vary: Sequence[str]) -> None:
    """Ratios to the job as it stands.

    Raises
    ------
    InputError
        Where nothing varies.
    """
    if not vary:
        raise InputError("nothing varies: name at least one, such as --vary job.copies=1,4,16")
    question = request.question()
    with shown(request.name, 1) as progress:
        frame = sweep(question, [axis_of(text) for text in vary], request.runs, request.seed, progress)
    rows = [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False, name=None)]
    notes = ["ratios to the job as it stands, with the same seeds: median over runs, 80 %; formula_s: without waiting"]
    if request.report:
        from slipstick.experiments.pages.job_page import write_job_page

        simulated = simulate(question, runs=request.runs, seed=request.seed)
        notes.append(f"report: {write_job_page(simulated, question.file, request.report, frame)[0].resolve()}")
    emit(rows, request.form, notes=notes)


def print_formula_sweep(request: JobRequest, vary: Sequence[str]) -> None:
    """Ratios to the job as it stands by its formula, which knows no waiting.

    Raises
    ------
    InputError
        Where nothing varies, or a page is wanted: it shows simulated runs.
    """
    if not vary:
        raise InputError("nothing varies: name at least one, such as --vary job.copies=1,4,16")
    if request.report:
        raise InputError(f"--report {request.report}: a job's page shows simulated runs: add --simulate")
    question = request.question()
    source = question.formula(question.job()[0])[1]
    rows = formula_sweep(question, [axis_of(text) for text in vary]).to_dict("records")
    notes = [f"ratios to the job as it stands, by formula: {source}; --simulate shows what it misses"]
    emit([{str(name): value for name, value in row.items()} for row in rows], request.form, notes=notes)


def _page(request: JobRequest, question: JobQuestion, simulated: Simulated) -> Any:
    from slipstick.experiments.pages.job_page import write_job_page

    frame = None
    if question.file.vary:
        runs = None if request.runs is None else min(request.runs, 20)
        with shown(f"{request.name}: page", 1) as progress:
            frame = sweep(question, [axis_of(text) for text in question.file.vary], runs, request.seed, progress)
    return write_job_page(simulated, question.file, request.report or "", frame)[0].resolve()


def _median(simulated: Simulated) -> float:
    import numpy as np

    return float(np.median(simulated.numbers["time_s"]))
