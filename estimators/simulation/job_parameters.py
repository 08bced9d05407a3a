"""Numbers of a job by name: what each means, its bounds, and the same job with some of them changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from slipstick.common.readers import unknown_name
from slipstick.estimators.simulation.job import Job
from slipstick.estimators.simulation.stage import LEAST_VARIATION, MOST, Stage
from slipstick.estimators.symbolic.formula import Parameter, parameters, with_parameters


@dataclass(frozen=True)
class JobNumber:
    """One number of a job.

    `value`: as it stands, in the unit of `note`.
    `note`: its unit, meaning and bounds.
    `step`: the least difference of it that runs with the same random numbers show: a share of slow outputs moves whole
        outputs, a time everything.
    `whole`: whether it counts something.
    """

    value: float
    note: Parameter
    step: float = 0.0
    whole: bool = False


SECONDS = 1e9
STAGE = {
    "service": (Parameter("s", "mean time of an output, slow ones apart", 1e-12, SECONDS), 0.0),
    "start_up": (Parameter("s", "before the first output", 0.0, SECONDS), 1e-6),
    "variation": (Parameter("1", "coefficient of variation of an output's time", 0.0, 10.0), 0.02),
    "slow_share": (Parameter("1", "share of slow outputs", 0.0, 1.0), 0.005),
    "slow_factor": (Parameter("1", "times as long as a slow output takes", 0.0, MOST["slow_factor"]), 0.1),
    "uneven": (Parameter("1", "coefficient of variation between copies", 0.0, 10.0), 0.01),
}
COUNTS = {
    "workers": "side by side",
    "buffer": "places behind the stage",
}
MOST_COUNTED = 100_000.0


def job_numbers(job: Job) -> dict[str, JobNumber]:
    """Every number of a job that measurements can fix, by its name without ``job.``: ``decode.service``.

    What the job leaves open (an unlimited buffer, no failures) has none; neither has the variation of an exponential
    service, which is 1.
    """
    result: dict[str, JobNumber] = {}
    for stage in job.pipeline.stages:
        for name, (note, step) in STAGE.items():
            if name == "variation" and stage.distribution == "exponential":
                continue
            value = sum(stage.times) / len(stage.times) if name == "service" else float(getattr(stage, name))
            result[f"{stage.name}.{name}"] = JobNumber(value, note, step)
        for name, meaning in COUNTS.items():
            if getattr(stage, name) is not None:
                result[f"{stage.name}.{name}"] = _count(getattr(stage, name), meaning)
        for name, (value, note) in parameters(stage.process).items():
            result[f"{stage.name}.{name}"] = JobNumber(value, note, 1.0 if note.whole else 1e-6, note.whole)
    for name, capacity in job.pipeline.resources.items():
        result[f"resources.{name}"] = _count(capacity, "units that stages share")
    result["copies"] = _count(job.copies, "rows of the same stages")
    if job.population is not None:
        result["population"] = _count(job.population, "customers that go round the stages")
    if job.checkpoint is not None:
        note = Parameter("s", "of a checkpoint", 0.0, SECONDS)
        result["checkpoint.time"] = JobNumber(job.checkpoint.seconds, note, 1e-6)
    if job.failures is not None:
        note = Parameter("s", "between two failures of a copy", 1e-9, 1e12)
        result["failures.between"] = JobNumber(job.failures.between, note)
        note = Parameter("s", "of a restart", 0.0, SECONDS)
        result["failures.restart"] = JobNumber(job.failures.restart, note, 1e-6)
    return result


def with_numbers(job: Job, values: Mapping[str, float]) -> Job:
    """The same job with these numbers, each in its unit; the mean of a stage whose service is given is certain.

    Raises InputError where the job has no such number, or a value is out of its bounds.
    """
    known = job_numbers(job)
    changes: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if name not in known:
            raise unknown_name(f"number of job {job.name!r}", f"job.{name}", [f"job.{one}" for one in known])
        known[name].note.check(f"job.{name}", value)
        head, _, field = name.partition(".") if "." in name else ("", "", name)
        changes.setdefault(head, {})[field] = round(value) if known[name].whole else float(value)
    stages = tuple(_stage(stage, changes.get(stage.name, {})) for stage in job.pipeline.stages)
    resources = {**job.pipeline.resources, **changes.get("resources", {})}
    made = replace(job, pipeline=replace(job.pipeline, stages=stages, resources=resources), **changes.get("", {}))
    if made.checkpoint is not None and "checkpoint" in changes:
        made = replace(made, checkpoint=replace(made.checkpoint, seconds=changes["checkpoint"]["time"]))
    if made.failures is not None and "failures" in changes:
        made = replace(made, failures=replace(made.failures, **changes["failures"]))
    return made


def _count(value: int, meaning: str) -> JobNumber:
    return JobNumber(float(value), Parameter("1", meaning, 1.0, MOST_COUNTED), 1.0, True)


def _stage(stage: Stage, changes: Mapping[str, Any]) -> Stage:
    if not changes:
        return stage
    of_process = {name: value for name, value in changes.items() if name in parameters(stage.process)}
    changed = {name: value for name, value in changes.items() if name not in of_process}
    if of_process:
        changed["process"] = with_parameters(stage.process, of_process)
    if "service" in changed:
        mean = sum(stage.times) / len(stage.times)
        factor = changed["service"] / mean if mean > 0 else math.inf
        times = (changed["service"],) if math.isinf(factor) else tuple(time * factor for time in stage.times)
        changed |= {"service": times, "scatter": 0.0}
    if "variation" in changed and changed["variation"] < LEAST_VARIATION:
        changed["variation"] = 0.0
    return replace(stage, **changed)
