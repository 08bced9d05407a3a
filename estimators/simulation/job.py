"""A job: rows of stages that share resources, copied, checkpointed, and now and then thrown back by a failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.schedules.max_plus import Floats
from slipstick.estimators.simulation.input_pipeline import Pipeline, PipelineRun
from slipstick.estimators.simulation.job_run import Attempt, Checkpoint, JobRun
from slipstick.estimators.simulation.queueing import seconds_with_failures
from slipstick.estimators.simulation.stage import Stage, log_normal

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
    ) -> list[list[Floats]]:
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
