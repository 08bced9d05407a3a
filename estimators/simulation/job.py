"""A job: rows of stages that share resources, copied, checkpointed, and now and then thrown back by a failure.

Numbers of a job by name: what each means, its bounds, and the same job with some of them changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.simulation.input_pipeline import Attempt, Checkpoint, JobRun, Pipeline, PipelineRun
from slipstick.estimators.simulation.queueing import seconds_with_failures
from slipstick.estimators.simulation.stage import LEAST_VARIATION, MOST, Stage, log_normal
from slipstick.estimators.symbolic.formula import Parameter, parameters, with_parameters

MOST_SERVICES = 20_000_000
"""Services of one simulated run: about a minute."""
MOST_ATTEMPTS = 2_000
TOGETHER = 4
"""A service that the copies of a job start together, or that is a user's process, costs so many others."""
INPUTS = 10
"""Inputs that the first stage gathers at once are kept in the memory of one service."""
COPY, STAGE = 60, 40
"""Services that a further copy and each of its stages count for at least: what sets them up costs half as many."""


@dataclass(frozen=True)
class Failures:
    """Failures at random, `between` seconds apart on average in each copy; each costs `restart` and the lost work."""

    between: float
    restart: float = 0.0

    def __post_init__(self) -> None:
        if not (self.between > 0 and self.restart >= 0):
            raise InputError(
                f"failures {self.between} s apart, restart {self.restart} s: want more than 0, and 0 or more"
            )


@dataclass(frozen=True)
class Job:
    """A pipeline that runs `steps` outputs, as one of `copies` that share its resources.

    `population`: customers that go round the stages (a closed network; nothing gathers, every buffer is unlimited);
        None where the first stage never lacks input.
    """

    name: str
    pipeline: Pipeline
    steps: int
    copies: int = 1
    population: int | None = None
    checkpoint: Checkpoint | None = None
    failures: Failures | None = None

    def __post_init__(self) -> None:
        for what, count in (("steps", self.steps), ("copies", self.copies), ("population", self.population or 1)):
            if count < 1:
                raise InputError(f"job {self.name!r}: {what} = {count}: want at least 1")
        if self.population is not None:
            for stage in self.pipeline.stages:
                if stage.gather != 1 or stage.buffer is not None:
                    raise InputError(
                        f"job {self.name!r}, stage {stage.name!r}: customers that go round need gather 1 and no limit "
                        "to the buffer (buffer: null)"
                    )
        for stage in self.pipeline.stages:
            if self.copies > 1 and stage.together and stage.resource is not None:
                raise InputError(
                    f"job {self.name!r}, stage {stage.name!r}: {self.copies} copies that start together cannot take "
                    f"turns at the resource {stage.resource!r}: give one of the two"
                )
        services = self.services()
        if services > MOST_SERVICES:
            raise InputError(
                f"job {self.name!r}: {services:,} services in a run are more than {MOST_SERVICES:,}; "
                "take fewer steps, copies or inputs that gather"
            )

    def services(self, steps: int | None = None) -> int:
        """What a run of so many steps (all if None) costs: services, and all else as what it costs in services."""
        stages, counts = self.pipeline.stages, self.outputs(steps)
        weights = [
            TOGETHER if stage.process is not None or (stage.together and self.copies > 1) else 1 for stage in stages
        ]
        once = sum(count * weight for count, weight in zip(counts, weights, strict=True))
        once += counts[0] * (stages[0].gather - 1) // INPUTS  # what other stages gather are outputs of those before
        return once + (self.copies - 1) * max(once, COPY + STAGE * len(stages))

    def outputs(self, steps: int | None = None) -> list[int]:
        """Outputs of each stage until so many steps are done; all of them where none are given."""
        steps = self.steps if steps is None else steps
        if self.population is not None:
            return [steps + self.population] * (len(self.pipeline.stages) - 1) + [steps]
        return self.pipeline.items_for(steps)

    def ideal(self) -> float:
        """Seconds by formula: nothing waits but for the slowest stage or resource, and copies for the slowest of them.

        Copies that wait for each other take the expected longest of their times (`Stage.longest`): of the stage that
        starts together, and of every stage where one step goes round at a time. Else nothing varies. Steps at the
        slowest stage's or resource's pace (for a population: at least a round of all stages over its customers), the
        first step's way through the stages, checkpoints, and the mean cost of failures (Daly 2006).
        """
        stages, outputs = self.pipeline.stages, self.pipeline.items_for(1)
        meet = self.copies > 1 and self.population == 1 and any(stage.together for stage in stages)
        mean = [stage.longest(self.copies) if meet or stage.together else stage.mean for stage in stages]
        busy = [seconds * count for seconds, count in zip(mean, outputs, strict=True)]
        paces = [work / stage.workers for work, stage in zip(busy, stages, strict=True)]
        for name, capacity in self.pipeline.resources.items():
            used = sum(work for work, stage in zip(busy, stages, strict=True) if stage.resource == name)
            paces.append(self.copies * used / capacity)
        if self.population is not None:
            paces.append(sum(busy) / self.population)
        pace = max(paces)
        filled = 0.0 if self.population is not None else max(stage.start_up for stage in stages)
        if self.population is None:
            filled += max(
                0.0,
                sum(work / min(stage.workers, count) for work, stage, count in zip(busy, stages, outputs, strict=True))
                - pace,
            )
        work = self.steps * pace + filled
        if self.failures is not None:
            every, pause = (self.checkpoint.every, self.checkpoint.seconds) if self.checkpoint else (self.steps, 0.0)
            between = self.failures.between / self.copies
            return seconds_with_failures(work, every * pace, pause, between, self.failures.restart)
        return work + (self.steps // self.checkpoint.every * self.checkpoint.seconds if self.checkpoint else 0.0)

    def simulate(self, seed: int = 0) -> JobRun:
        """One run, every random number from `seed`.

        Raises InputError where failures come so often that the run hardly moves.
        """
        from slipstick.estimators.simulation.stage_network import Network  # SimPy, which no other answer needs

        once = np.random.default_rng([seed, 0])
        rows = self._rows(once)
        attempts: list[Attempt] = []
        began, done, drawn = 0.0, 0, 0
        while True:
            if len(attempts) == MOST_ATTEMPTS:
                raise InputError(
                    f"job {self.name!r}: after {MOST_ATTEMPTS} failures {done} of {self.steps} steps are done; "
                    f"one failure in {self.failures.between if self.failures else 0:g} s of each copy is too many"
                )
            drawn += self.services(self.steps - done)
            if drawn > MOST_SERVICES and attempts:
                raise InputError(
                    f"job {self.name!r}: after {len(attempts)} failures {done} of {self.steps} steps are done, and "
                    f"{drawn:,} services were begun, more than {MOST_SERVICES:,}: take fewer steps, or rarer failures"
                )
            generator = np.random.default_rng([seed, 1 + len(attempts)])
            service = self._service(rows, self.steps - done, done, generator)
            until = float(generator.exponential(self.failures.between / self.copies)) if self.failures else None
            network = Network(rows, service, self.pipeline.resources, self.population, (seed, len(attempts)))
            runs = tuple(
                PipelineRun(replace(self.pipeline, stages=tuple(row)), self.steps - done, times)
                for row, times in zip(rows, network.run(until), strict=True)
            )
            left = min(int(np.sum(np.isfinite(run.times.departed[-1]))) for run in runs)
            if left == self.steps - done:
                ended = max(float(np.max(run.times.departed[-1])) for run in runs)
                attempts.append(Attempt(began, ended, done, left, runs))
                return JobRun(self.name, self.pipeline.device, self.steps, tuple(attempts), self.checkpoint)
            every = self.checkpoint.every if self.checkpoint else self.steps
            kept = (done + left) // every * every - done
            attempts.append(Attempt(began, until or 0.0, done, max(kept, 0), runs))
            began += (until or 0.0) + (self.failures.restart if self.failures else 0.0)
            done += max(kept, 0)

    def _rows(self, generator: np.random.Generator) -> list[list[Stage]]:
        """The stages of every copy, with what is drawn once a run in their service times."""
        common = [float(np.exp(stage.scatter * generator.standard_normal())) for stage in self.pipeline.stages]
        rows = []
        for _ in range(self.copies):
            row = []
            for stage, factor in zip(self.pipeline.stages, common, strict=True):
                scale = float(log_normal(stage.uneven, 1, generator)[0]) if stage.uneven else 1.0
                scaled = tuple(time * factor * scale for time in stage.times)
                row.append(replace(stage, service=scaled) if factor * scale != 1 else stage)
            rows.append(row)
        return rows

    def _service(
        self, rows: Sequence[Sequence[Stage]], steps: int, done: int, generator: np.random.Generator
    ) -> list[list[FloatArray]]:
        counts = self.outputs(steps)
        service = []
        for row in rows:
            children = generator.spawn(len(row))
            seconds = [stage.draw(count, child) for stage, count, child in zip(row, counts, children, strict=True)]
            if self.checkpoint is not None:
                seconds[-1] = seconds[-1].copy()
                seconds[-1][self.checkpoint.every - 1 - done % self.checkpoint.every :: self.checkpoint.every] += (
                    self.checkpoint.seconds
                )
            service.append(seconds)
        return service


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
OF_STAGE = {
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
        for name, (note, step) in OF_STAGE.items():
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
