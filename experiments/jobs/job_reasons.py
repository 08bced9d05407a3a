"""What the time of a job hangs on: how busy each stage is, and what half and twice of each of its numbers would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.schedules.max_plus import Floats
from slipstick.estimators.simulation.job import Job
from slipstick.estimators.simulation.job_parameters import JobNumber, job_numbers, with_numbers
from slipstick.experiments.jobs.job_file import JobQuestion
from slipstick.experiments.jobs.simulate_job import require_services, services_limit

RUNS = 10
FACTORS = {"at_half": 0.5, "at_twice": 2.0}
Progress = Callable[[int, int], None]


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


def _times(job: Job, runs: int) -> Floats:
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
