"""A simulated job's answer: many runs from seeds, their percentiles, and what a formula without waiting says.

What the time of a job hangs on: how busy each stage is, and what half and twice of each of its numbers would do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from slipstick.common.answer import Answer, AnswerTable, Event, Provenance
from slipstick.common.array_types import FloatArray
from slipstick.common.columns import PART, Column
from slipstick.common.errors import InputError
from slipstick.common.formatting import ends_shown, ratio_shown, shown
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.simulation.input_pipeline import JobRun
from slipstick.estimators.simulation.job import Job, JobNumber, job_numbers, with_numbers
from slipstick.estimators.simulation.job_calibration import JobCalibration
from slipstick.experiments.jobs.job_file import JobQuestion, job_question

if TYPE_CHECKING:
    import pandas as pd


Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many runs or points are done, of how many."""
SERVICES = 1_000_000
"""Services after which no more runs are added by themselves: a few seconds."""
FEWEST, MOST = 10, 200
MOST_SERVICES, MOST_SERVICES_SHIPPED = 8_000_000, 40_000_000
"""Services of all runs and points together: twenty seconds of a file of anybody's; two minutes of a job that ships."""
PERCENTILES = (50, 90, 99)
ENOUGH = 200
"""Values of one draw from which its own percentiles are taken."""
DRAWS, RUNS_OF_A_DRAW = 20, 5
"""Draws of fitted numbers, and runs of each: percentiles are those of all runs, their bands those over draws."""


@dataclass(frozen=True, eq=False, repr=False)
class Simulated(Answer):
    """Runs of a job.

    `numbers`: of every run, by name: time_s, step_s, idle, STAGE.busy ..., shape (runs,).
    `steps`: seconds between the ends of successive steps, of all runs, without each run's first tenth.
    `first`: the run of the first seed, for its trace.
    `assumptions`: of the estimates in it.
    `formula`, `formula_source`: seconds that a formula gives the job, and which one.
    `calibration`: what was fitted; each run then has one of `draws` draws of it, in turn, and percentiles have bands.
    """

    job: Job
    seed: int
    numbers: dict[str, FloatArray]
    steps: FloatArray
    first: JobRun
    formula: float
    formula_source: str
    assumptions: tuple[str, ...] = ()
    calibration: JobCalibration | None = None
    draws: int = 1

    @property
    def provenance(self) -> Provenance:
        """Fitted numbers are calibrated, others estimated."""
        return "estimated" if self.calibration is None else "calibrated"

    @property
    def runs(self) -> int:
        """Number of simulated runs."""
        return len(self.numbers["time_s"])

    def rows(self) -> list[dict[str, Any]]:
        """One row a quantity: mean, percentiles, and the formula's number where there is one."""
        formulas = {"time_s": self.formula, "step_s": self.formula / self.job.steps}
        result = []
        for name, values in {**self.numbers, "step_s": self.steps}.items():
            formula, mean = formulas.get(name), float(np.mean(values))
            row: dict[str, Any] = {"quantity": name, "unit": "s" if name in formulas else PART, "mean": mean}
            row |= {f"p{level}": float(np.percentile(values, level)) for level in PERCENTILES}
            row |= {"formula": formula, "over_formula": mean / formula if formula else None}
            result.append(row | self._bands(values))
        return result + self._fitted_rows()

    def _bands(self, values: FloatArray, level: float = 0.8) -> dict[str, float]:
        """Between what each percentile lies with probability `level`, for what is not known of the fitted numbers."""
        if self.calibration is None or self.draws < 2:
            return {}
        # runs, and the steps of each, follow one another; run i has draw i modulo draws
        runs = values.reshape(self.runs, -1)
        each = [runs[draw :: self.draws].ravel() for draw in range(self.draws)]
        means = np.array([part.mean() for part in each])
        whole = runs.mean(axis=1)
        several = [whole[draw :: self.draws] for draw in range(self.draws)]
        noise = float(np.mean([part.var(ddof=1) / len(part) if len(part) > 1 else 0.0 for part in several]))
        spread = float(means.var(ddof=1))
        if min(map(len, each)) >= ENOUGH:
            result = np.array([np.percentile(part, PERCENTILES) for part in each])
        else:  # a percentile of few runs says little: all runs around their means, and the means less their noise
            left = np.concatenate([part - mean for part, mean in zip(each, means, strict=True)])
            shrunk = np.sqrt(max(0.0, 1 - noise / spread)) if spread > 0 else 0.0
            middle = float(values.mean()) + (means - means.mean()) * shrunk
            result = middle[:, None] + np.percentile(left, PERCENTILES)
        low, high = np.percentile(result, [50 * (1 - level), 50 * (1 + level)], axis=0)
        ends = zip(PERCENTILES, low.tolist(), high.tolist(), strict=True)
        return {
            f"p{name}_{end}": value for name, *pair in ends for end, value in zip(("low", "high"), pair, strict=True)
        }

    def _fitted_rows(self) -> list[dict[str, Any]]:
        """The fitted numbers: percentiles of what is known of them; the formula is the closed form's fit."""
        if self.calibration is None:
            return []
        draws, known = self.calibration.parameter_draws(self.job, MOST), job_numbers(self.job)
        rows = []
        for place, (name, value) in enumerate(zip(self.calibration.names, self.calibration.values, strict=True)):
            row: dict[str, Any] = {"quantity": f"job.{name}", "unit": known[name].note.unit, "mean": value}
            row |= {f"p{level}": float(np.percentile(draws[:, place], level)) for level in PERCENTILES}
            formula = self.calibration.formula.get(name)
            row |= {"formula": formula, "over_formula": value / formula if formula else None}
            if self.draws > 1:
                row |= {f"p{level}_{end}": None for level in PERCENTILES for end in ("low", "high")}
            rows.append(row)
        return rows

    def band(self, level: float = 0.8) -> tuple[float, float]:
        """Seconds between which the time of a run lies with probability `level`."""
        ends = np.percentile(self.numbers["time_s"], [50 * (1 - level), 50 * (1 + level)])
        return float(ends[0]), float(ends[1])

    def to_frame(self) -> pd.DataFrame:
        """One row a run."""
        import pandas as pd

        return pd.DataFrame({"seed": np.arange(self.seed, self.seed + self.runs), **self.numbers})

    @property
    def heads(self) -> tuple[str, ...]:
        """The median time with the band of single runs, beside the formula's."""
        times, formula = self.numbers["time_s"], shown(self.formula, "s")
        over = float(times.mean()) / self.formula if self.formula else float("nan")
        return (
            f"{self.job.name}: {shown(float(np.median(times)), 's')} (80 %: {ends_shown(*self.band())}), "
            f"{self.job.steps} steps, {self.runs} runs from seed {self.seed}",
            f"the mean is {ratio_shown(over)} x the formula's {formula} ({self.formula_source})",
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed, and what failures cost."""
        return (*self.assumptions, *([LOST_TEXT] if LOST in self.numbers else []))

    @property
    def declared(self) -> tuple[Column, ...]:
        """Each row states the unit of its numbers."""
        names = ("mean", *(f"p{level}" for level in PERCENTILES), "formula")
        return (*(Column(name, unit_in="unit") for name in names), Column("over_formula", "over formula"))

    def tables(self) -> tuple[AnswerTable, ...]:
        """The whole and how busy each stage is; bands of percentiles and other numbers of stages stand in `rows`."""
        keys = ("quantity", "unit", "mean", *(f"p{level}" for level in PERCENTILES), "formula", "over_formula")
        kept = [row for row in self.rows() if "." not in row["quantity"] or row["quantity"].endswith(".busy")]
        return (AnswerTable([{key: row[key] for key in keys} for row in kept], self.declared),)

    def events(self) -> Iterator[Event]:
        """The first run: a copy's stage a process, a worker a thread, and failures where there were any."""
        return self.first.events()


LOST = "lost"
LOST_TEXT = (
    "lost: share of the run that failures cost: restarts, and steps done again since the last checkpoint; step: from "
    "the end of one to the end of the next, without each run's first tenth and all that was lost before it"
)
"""The number of a run that says so, and what it means."""


def quiet(done: int, total: int) -> None:
    """No progress is shown."""


@checked
def simulate(
    job: str | JobQuestion,
    machine: str | None = None,
    *,
    settings: Sequence[str] = (),
    estimator: str | None = None,
    runs: int | None = None,
    seed: int = 0,
    calibration: JobCalibration | None = None,
    allow_code: Sequence[str] = (),
    progress: Progress = quiet,
) -> Simulated:
    """Run a job many times by event simulation, from seeds `seed`, `seed` + 1, ...

    Parameters
    ----------
    job
        A YAML file, a job that ships, or a workload (a job of one stage, `step`).
    machine
        That of stages that are workloads and name none.
    settings
        Texts such as ``job.decode.workers=8``, ``job.copies=64``, ``workload.batch=128``.
    runs
        How many; where None, as the file says, or as many as take a few seconds.
    calibration
        What was fitted to measurements of the job (`fit_job`, `read_job_calibration`).
    allow_code
        Names MODULE:ATTRIBUTE of processes of stages that the file may name.

    Raises
    ------
    InputError
        Where the job or a setting cannot be used.

    Examples
    --------
    >>> result = simulate("phi-memory", settings=["job.steps=2000"], runs=5)
    >>> result.runs, bool(result.numbers["time_s"].max() < result.formula)
    (5, True)
    """
    question = (
        job if isinstance(job, JobQuestion) else job_question(job, machine, estimator, settings, allow_code=allow_code)
    )
    if calibration is not None:
        question = replace(question, calibration=calibration)
    return _runs_of(question, runs, seed, progress)


def _runs_of(question: JobQuestion, runs: int | None, seed: int, progress: Progress) -> Simulated:
    job, notes = question.job()
    most = services_limit(question)
    wanted = runs or question.file.runs
    runs = wanted or runs_of(job, FEWEST if question.calibration is None else DRAWS * RUNS_OF_A_DRAW)
    require_services([job], runs, most)
    jobs = question.drawn(min(DRAWS, runs))
    every, between, first = [], [], None
    for number in range(runs):
        one = jobs[number % len(jobs)].simulate(seed + number)
        first = first or one
        if not one.time > 0:
            raise InputError(f"job {job.name!r}: all its stages take 0 s; give one of them a time")
        every.append(one.numbers())
        progress(number + 1, runs)
        ends = one.step_ends()
        between.append(np.diff(ends[len(ends) // 10 :]) if len(ends) > 1 else ends)
    if first is None:
        raise InputError(f"{runs} runs: want at least 1")
    names = dict.fromkeys(name for numbers in every for name in numbers)
    table = {name: np.array([numbers.get(name, 0.0) for numbers in every]) for name in names}
    steps, (formula, source) = np.concatenate(between), question.formula(job)
    return Simulated(job, seed, table, steps, first, formula, source, notes, question.calibration, len(jobs))


def runs_of(job: Job, fewest: int = FEWEST) -> int:
    """How many runs take a few seconds."""
    services = max(1, job.services())
    return max(1, min(int(np.clip(SERVICES // services, fewest, MOST)), MOST_SERVICES // services))


def services_limit(question: JobQuestion) -> int:
    """Services that may be simulated: what a file of anybody's multiplies must end soon."""
    return MOST_SERVICES_SHIPPED if question.ships else MOST_SERVICES


def require_services(jobs: Sequence[Job], runs: int, most: int) -> None:
    """Refuse what would take minutes before it begins.

    Raises InputError where the services of all runs are more than `most`.
    """
    services = sum(job.services() for job in jobs)
    if services * runs > most:
        raise InputError(
            f"job {jobs[0].name!r}: {services:,} services x {runs:,} runs = {services * runs:,}, more than "
            f"{most:,}: take fewer steps, copies, inputs that gather, runs (--runs) or points"
        )


RUNS = 10
FACTORS = {"at_half": 0.5, "at_twice": 2.0}


@dataclass(frozen=True)
class JobReasons:
    """The answer.

    `seconds`: median time of the simulated runs [s].
    `stages`: one row a stage, busiest first: its share of busy time, seconds of an output, workers.
    `changes`: one row a number of the job, what moves most first: its value, and the ratio of the time to today's at
        half and at twice of it (None where the number cannot be that), with the same random numbers.
    """

    job: Job
    seconds: float
    stages: tuple[dict[str, Any], ...]
    changes: tuple[dict[str, Any], ...]
    assumptions: tuple[str, ...] = ()


def job_reasons(question: JobQuestion, progress: Progress | None = None) -> JobReasons:
    """Simulate a job as it stands, and with each of its numbers (seconds, counts, shares) halved and doubled.

    Raises InputError where the job cannot be used, or so many runs would take minutes.
    """
    job, assumed = question.job()
    known = {name: number for name, number in job_numbers(job).items() if number.value > 0}
    changed = [(name, key, made) for name, number in known.items() for key, made in _changed(job, name, number).items()]
    jobs, most = [job, *(made for _, _, made in changed)], services_limit(question)
    count = max(1, min(RUNS, most // max(1, sum(one.services() for one in jobs))))
    require_services(jobs, count, most)
    runs = [job.simulate(seed) for seed in range(count)]
    today = np.array([run.time for run in runs])
    ratios: dict[str, dict[str, float]] = {}
    for number, (name, key, made) in enumerate(changed, 1):
        ratios.setdefault(name, {})[key] = float(np.median(_times(made, count) / today))
        if progress:
            progress(number, len(changed))
    busy = {
        stage.name: float(np.mean([run.numbers().get(f"{stage.name}.busy", 0.0) for run in runs]))
        for stage in job.pipeline.stages
    }
    stages: list[dict[str, Any]] = [
        {
            "stage": stage.name,
            "busy": busy[stage.name],
            "service_s": stage.mean,
            "workers": stage.workers,
            "resource": stage.resource,
        }
        for stage in sorted(job.pipeline.stages, key=lambda stage: -busy[stage.name])
    ]
    ordered = sorted(ratios, key=lambda name: -max(abs(np.log(value)) for value in ratios[name].values()))
    rows: list[dict[str, Any]] = [
        {
            "quantity": f"job.{name}",
            "value": known[name].value,
            "unit": known[name].note.unit,
            **{key: ratios[name].get(key) for key in FACTORS},
        }
        for name in ordered
    ]
    return JobReasons(job, float(np.median(today)), tuple(stages), tuple(rows), assumed)


def _times(job: Job, runs: int) -> FloatArray:
    return np.array([job.simulate(seed).time for seed in range(runs)])


def _changed(job: Job, name: str, number: JobNumber) -> dict[str, Job]:
    """The job with a number halved and doubled, as far as the number can be that."""
    made = {}
    for key, factor in FACTORS.items():
        value = number.value * factor
        value = float(max(1, round(value))) if number.whole else value
        if value == number.value:
            continue
        try:
            made[key] = with_numbers(job, {name: value})
        except InputError:
            continue
    return made
