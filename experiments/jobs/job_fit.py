"""A job fitted to what was measured of it, through its event simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.answer import Answer, Provenance
from slipstick.common.array_types import FloatArray
from slipstick.common.columns import Column
from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import content_digest
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.fitting.identifiability import correlation_lines
from slipstick.estimators.simulation.calibrate_simulation import (
    RUNS,
    RUNS_A_FIGURE,
    Progress,
    fit_simulated,
)
from slipstick.estimators.simulation.job import Job, JobNumber, job_numbers, with_numbers
from slipstick.estimators.simulation.job_calibration import JobCalibration, from_fit
from slipstick.estimators.simulation.run_quantities import (
    LATENCY,
    MOST_FIGURES,
    SERVICE,
    STEP,
    TIME,
    figures,
    figures_spread,
    series,
)
from slipstick.estimators.simulation.simulated_quantities import Adjustable, MeasuredFigures, SimulatedFit
from slipstick.experiments.jobs.job_file import JobQuestion, job_question
from slipstick.experiments.jobs.job_measurements import MeasuredRun, read_job_measurements

MOST_SERVICES = 1_500_000
"""Services of one simulated point of a fit: about five seconds, and a fit takes some dozens of points."""
FEWEST_RUNS = 12
STRANGE = 4.0
"""Chi-square over degrees of freedom and one from which what was measured is said to be no run of this job."""
EXPECTED = 3.0
"""Standard deviation of a number around its start, over the start, before anything is measured."""
HARDLY = 1.0
"""Relative standard error from which a number is said to be hardly known."""


@dataclass(frozen=True)
class FittedJob(Answer):
    """A job with what was fitted.

    `job`: as it was measured first.
    `starts`: where the fit began, by the number's name.
    `level`: probability of the bands.
    """

    job: Job
    calibration: JobCalibration
    starts: Mapping[str, float]
    level: float = 0.8

    @property
    def provenance(self) -> Provenance:
        """Stages fitted to measurements."""
        return "calibrated"

    @property
    def declared(self) -> tuple[Column, ...]:
        """Each row states the unit of its numbers."""
        return (
            *(Column(name, unit_in="unit") for name in ("value", "start")),
            Column("low", high="high", unit_in="unit"),
            Column("formula", "by formula", unit_in="unit"),
        )

    @property
    def shown(self) -> tuple[str, ...]:
        """The value with its band, where it began, and what the closed form alone gives."""
        return ("parameter", "value", "low", "high", "interval_level", "start", "formula", "meaning")

    @property
    def heads(self) -> tuple[str, ...]:
        """To what was fitted, and how well."""
        known = self.calibration
        square = sum(one**2 for one in known.residuals)
        return (
            f"{self.job.name}: {len(known.residuals)} figures of {known.source} through the event simulation, "
            f"chi-square {square:.3g} of {known.degrees_of_freedom}",
            *(f"warning: {line}" for line in known.warnings),
        )

    def rows(self) -> list[dict[str, Any]]:
        """One row a number, in its unit: value, band, where it began, and what the closed form alone gives."""
        known, bands = job_numbers(self.job), self.calibration.percentiles(self.job, self.level)
        errors = self.calibration.standard_errors()
        return [
            {
                "parameter": f"job.{name}",
                "value": value,
                "unit": known[name].note.unit,
                "low": bands[name][0] if errors[name] > 0 else None,
                "high": bands[name][1] if errors[name] > 0 else None,
                "interval_level": self.level,
                "standard_error": errors[name],
                "start": self.starts[name],
                "formula": self.calibration.formula.get(name),
                "meaning": known[name].note.meaning,
            }
            for name, value in zip(self.calibration.names, self.calibration.values, strict=True)
        ]


@checked
def fit_job(
    job: str | JobQuestion,
    measured: str,
    fit: Sequence[str],
    machine: str | None = None,
    *,
    settings: Sequence[str] = (),
    runs: int | None = None,
    progress: Progress | None = None,
) -> FittedJob:
    """Fit numbers of a job to a CSV of what was measured of it (`read_job_measurements`), through its simulation.

    Parameters
    ----------
    job
        A YAML file, a job that ships, or a workload (a job of one stage, `step`).
    measured
        Columns ``step_s`` (seconds of each iteration), ``time_s`` (of a run), ``latency_s``, ``STAGE.service_s``,
        ``run``, ``step``, and ``job.NAME`` for what was set.
    fit
        Names as in settings: ``job.decode.service``, ``job.decode.variation``, ``job.resources.cores``.
    machine
        That of stages that are workloads and name none.
    runs
        Simulated runs of each measured configuration at each point; None: as many as their figures need.

    Raises
    ------
    InputError
        Where the file or a name cannot be used, or the measurements do not fix the numbers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     times = pathlib.Path(folder, "times.csv")
    ...     _ = times.write_text("time_s\\n1.4\\n1.41\\n1.42\\n")
    ...     fitted = fit_job("phi-memory", str(times), ["job.memory.service"], settings=["job.steps=2000"], runs=12)
    >>> list(fitted.calibration.names)
    ['memory.service']
    """
    question = job if isinstance(job, JobQuestion) else job_question(job, machine, None, settings)
    base, _ = question.uncalibrated()
    measurements = read_job_measurements(measured, [stage.name for stage in base.pipeline.stages])
    numbers, names = job_numbers(base), _names(fit)
    for name in names:
        if name not in numbers:
            raise unknown_name(f"number of job {base.name!r}", f"job.{name}", [f"job.{one}" for one in numbers])
    for run in measurements:
        for text in run.settings:
            if text.partition("=")[0].removeprefix("job.") in names:
                raise InputError(f"{measured}: {text}: is set in a row, so it cannot be fitted (--fit)")
    bases = {name: numbers[name].value for name in names if _of_workload(question, name)}
    groups = _alike(measurements)
    jobs = [_job_of(question, measured, group[0]) for group in groups]
    runs = _affordable(measured, jobs, groups, runs)
    configurations = [
        _configuration(job, measured, group, bases, base) for job, group in zip(jobs, groups, strict=True)
    ]
    adjustable = [_adjustable(name, numbers[name], jobs[0]) for name in names]
    result = fit_simulated(adjustable, configurations, runs, progress)
    source = f"{measured} ({len(measurements)} run{'s' if len(measurements) > 1 else ''})"
    digest = content_digest(
        [[run.settings, {n: v.tolist() for n, (v, _) in run.series.items()}] for run in measurements]
    )
    made = from_fit(base.name, result, bases, source, digest, _warnings(result, numbers))
    return FittedJob(base, made, {name: numbers[name].value for name in names})


def _names(fit: Sequence[str]) -> list[str]:
    names = [part.strip() for text in fit for part in text.split(",") if part.strip()]
    if not names or len(set(names)) < len(names):
        raise InputError("name at least one number to fit, each once, such as --fit job.decode.service")
    for name in names:
        if not name.startswith("job."):
            raise InputError(
                f"--fit {name}: numbers of a simulated job are job.STAGE.FIELD, such as job.decode.service"
            )
    return [name.removeprefix("job.") for name in names]


def _of_workload(question: JobQuestion, name: str) -> bool:
    """Whether a number is the service of a stage that a workload's estimate gave."""
    stage, _, number = name.rpartition(".")
    return number == "service" and any(one.name == stage and one.workload for one in question.file.stages)


def _alike(runs: Sequence[MeasuredRun]) -> list[list[MeasuredRun]]:
    """Runs of one configuration and the same measured places: repeats."""
    groups: dict[object, list[MeasuredRun]] = {}
    for run in runs:
        key = run.settings, tuple((name, places.tobytes()) for name, (_, places) in sorted(run.series.items()))
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def _job_of(question: JobQuestion, path: str, run: MeasuredRun) -> Job:
    """The job as it was set in a measured run, of as many iterations."""
    try:
        job, _ = question.using(run.settings).uncalibrated()
        return job if run.steps is None else replace(job, steps=run.steps)
    except InputError as error:
        raise InputError(f"{path}: {', '.join(run.settings)}{': ' if run.settings else ''}{error}") from None


def _configuration(
    job: Job, path: str, runs: Sequence[MeasuredRun], bases: Mapping[str, float], first: Job
) -> MeasuredFigures:
    names = list(runs[0].series)
    places = {name: runs[0].series[name][1] for name in names}
    scales = {name: float(np.mean([np.mean(run.series[name][0]) for run in runs])) for name in names}

    def of(values: Mapping[str, FloatArray]) -> FloatArray:
        return np.concatenate([figures(values[name], scales[name], places[name]) for name in names])

    each = [of({name: _shifted(run.series[name][0], places[name]) for name in names}) for run in runs]
    here, start = job_numbers(job), job_numbers(first)
    scaled = {name: here[name].value / start[name].value for name in bases if name in here and start[name].value > 0}

    def changed(point: Mapping[str, float]) -> Job:
        return with_numbers(job, {name: value * scaled.get(name, 1.0) for name, value in point.items()})

    def simulate(point: Mapping[str, float], seed: int) -> FloatArray:
        run = changed(point).simulate(seed)
        return of({name: series(run, name) for name in names})

    try:
        shape = simulate({}, 0).shape
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if shape != each[0].shape:
        raise InputError(f"{path}: what was measured has more values than the job has outputs")
    mean, sizes = (
        np.mean(each, axis=0),
        [len(figures(_shifted(runs[0].series[n][0], places[n]), scales[n], places[n])) for n in names],
    )
    spread, at = np.zeros((len(mean), len(mean))), 0
    for name, size in zip(names, sizes, strict=True):
        tables = [
            figures_spread(_shifted(run.series[name][0], places[name]), scales[name], places[name]) for run in runs
        ]
        spread[at : at + size, at : at + size] = np.mean(tables, axis=0)
        at += size
    return MeasuredFigures(mean, spread, simulate, len(runs), _formula(changed, scales))


def _shifted(values: FloatArray, places: npt.NDArray[np.intp]) -> FloatArray:
    """Values at their places of a series that begins with the run; what was not measured is never read."""
    result = np.zeros(int(places[-1]) + 1)
    result[places] = values
    return result


def _formula(
    changed: Callable[[Mapping[str, float]], Job], scales: Mapping[str, float]
) -> Callable[[Mapping[str, float]], float] | None:
    """The log of the closed form's mean over the measured one: of the run, an iteration, or a service."""
    if TIME in scales or STEP in scales:

        def whole(point: Mapping[str, float]) -> float:
            job = changed(point)
            seconds = job.ideal() / (1 if TIME in scales else job.steps)
            return math.log(max(seconds, 1e-300) / scales[TIME if TIME in scales else STEP])

        return whole
    names = [name for name in scales if name.endswith(SERVICE) and name != LATENCY]
    if not names:
        return None
    stage = names[0].removesuffix(SERVICE)

    def one(point: Mapping[str, float]) -> float:
        job = changed(point)
        mean = next(each.mean for each in job.pipeline.stages if each.name == stage)
        return math.log(max(mean, 1e-300) / scales[names[0]])

    return one


def _affordable(path: str, jobs: Sequence[Job], groups: Sequence[Sequence[MeasuredRun]], runs: int | None) -> int:
    """Simulated runs of each configuration, as many as their figures need, or as take a few seconds."""
    services = sum(job.services() for job in jobs)
    if runs is None:
        most = max(len(group[0].series) for group in groups) * MOST_FIGURES
        runs = max(FEWEST_RUNS, min(max(RUNS, RUNS_A_FIGURE * most), MOST_SERVICES // max(services, 1)))
    if services * runs > MOST_SERVICES:
        raise InputError(
            f"{path}: job {jobs[0].name!r}: {services:,} services a run of what was measured x {runs} runs are more "
            f"than {MOST_SERVICES:,}: take fewer iterations, configurations or copies"
        )
    return runs


def _adjustable(name: str, number: JobNumber, job: Job) -> Adjustable:
    """Expected within a few times its start; what begins at nothing, within the whole run, or about one."""
    width = EXPECTED * number.value or (job.ideal() if number.note.unit == "s" else 1.0)
    return Adjustable(name, number.value, number.note.low, number.note.high, width, number.step, number.whole)


def _warnings(fit: SimulatedFit, known: Mapping[str, JobNumber]) -> tuple[str, ...]:
    """What keeps the numbers from being known, one line each."""
    lines = []
    for name, value, row, place in zip(fit.names, fit.values, fit.covariance, range(len(fit.names)), strict=True):
        error = math.sqrt(row[place]) if row[place] >= 0 else math.nan
        if name in fit.held:
            low = abs(value - known[name].note.low) < abs(value - known[name].note.high)
            lines.append(
                f"job.{name} = {value:.4g} is held: {'its bound' if low else 'nothing measured depends on it'}"
            )
        elif not error <= HARDLY * abs(value):
            lines.append(f"job.{name} = {value:.4g} is hardly known (standard error {error:.3g})")
    lines += correlation_lines([f"job.{name}" for name in fit.names], fit.covariance)
    if fit.chi_square > STRANGE * (fit.degrees_of_freedom + 1):
        lines.append(
            f"simulated runs differ from the measured ones by more than chance (chi-square {fit.chi_square:.0f} of "
            f"{fit.degrees_of_freedom}): the job lacks something that was there; its errors are widened"
        )
    return tuple(lines)
