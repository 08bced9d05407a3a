"""An accelerator behind its input pipeline: storage, host workers, batching, prefetch buffer, infeed link, device
step, outfeed.

Stages in a row with finite buffers. Service times are drawn once from a seed, so the exact recurrence
(`Pipeline.run`) and the event simulation (`Pipeline.simulate`) answer the same question on the same numbers and
agree; the simulation alone knows resources that several stages share (host cores, a storage link) and workers that keep
no order, for which there is no recurrence.

One simulated run of a job: when it ended, what each stage did meanwhile, and its trace.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slipstick.common.answer import Event
from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.schedules.max_plus import TandemTimes, tandem
from slipstick.estimators.simulation.stage import Stage


@dataclass(frozen=True)
class Pipeline:
    """Stages in a row. `resources` are shared capacities (`{"host cores": 16}`); `device` names the stage whose
    idle time is evaluated.
    """

    stages: tuple[Stage, ...]
    device: str
    resources: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise InputError(f"stage names {names} are not unique")
        if self.device not in names:
            raise InputError(f"device {self.device!r} is no stage; stages: {', '.join(names)}")
        for name, capacity in self.resources.items():
            if capacity < 1:
                raise InputError(f"resource {name!r}: capacity is {capacity}; it must be at least 1")
        for stage in self.stages:
            if stage.resource is not None and stage.resource not in self.resources:
                raise InputError(
                    f"stage {stage.name!r}: unknown resource {stage.resource!r} "
                    f"(known: {', '.join(self.resources) or 'none'})"
                )

    def using(self, **changes: Mapping[str, Any]) -> Pipeline:
        """A new pipeline with some stages changed: `pipeline.using(decode={"workers": 8})`.

        Raises InputError where a stage is unknown.
        """
        unknown = set(changes) - {stage.name for stage in self.stages}
        if unknown:
            raise InputError(
                f"unknown stages {sorted(unknown)}; known: {', '.join(stage.name for stage in self.stages)}"
            )
        stages = tuple(dataclasses.replace(stage, **changes.get(stage.name, {})) for stage in self.stages)
        return dataclasses.replace(self, stages=stages)

    def items_for(self, steps: int) -> list[int]:
        """Outputs of each stage that make `steps` outputs of the last one."""
        outputs = [steps]
        for stage in reversed(self.stages[1:]):
            outputs.append(outputs[-1] * stage.gather)
        return outputs[::-1]

    def step_time(self) -> float:
        """Time per step [s] in the steady state without variation: the slowest stage sets it, `service / workers`
        per step.
        """
        outputs = self.items_for(1)
        return max(stage.mean * count / stage.workers for stage, count in zip(self.stages, outputs, strict=True))

    def draws(self, steps: int, seed: int) -> list[FloatArray]:
        """The service times [s] of every stage's outputs, from one seed; a stage's numbers do not depend on the
        other stages.
        """
        generators = np.random.default_rng(seed).spawn(len(self.stages))
        counts = self.items_for(steps)
        return [
            stage.draw(count, generator)
            for stage, count, generator in zip(self.stages, counts, generators, strict=True)
        ]

    def run(self, steps: int, seed: int = 0) -> PipelineRun:
        """Times (seconds) of `steps` steps by the exact max-plus recurrence.

        Raises InputError where stages share a limited resource or keep no order.
        """
        shared = [stage.name for stage in self.stages if stage.resource is not None]
        if shared:
            raise InputError(
                f"stages {', '.join(shared)} share a resource: there is no recurrence for contention, use simulate()"
            )
        processes = [stage.name for stage in self.stages if stage.process is not None]
        if processes:
            raise InputError(f"stages {', '.join(processes)} are processes: there is no recurrence, use simulate()")
        free = [stage.name for stage in self.stages if stage.order == "free" and stage.workers > 1]
        if free:
            raise InputError(f"stages {', '.join(free)} keep no order: there is no recurrence, use simulate()")
        service = self.draws(steps, seed)
        stages = self.stages
        times = tandem(
            service,
            [stage.workers for stage in stages],
            [stage.buffer or len(seconds) for stage, seconds in zip(stages[:-1], service, strict=False)],
            [stage.gather for stage in stages],
            [stage.start_up for stage in stages],
        )
        return PipelineRun(self, steps, times)

    def simulate(self, steps: int, seed: int = 0) -> PipelineRun:
        """Times of `steps` steps by event simulation (SimPy); shared resources are granted first come, first served."""
        from slipstick.estimators.simulation.stage_network import Network

        network = Network([self.stages], [self.draws(steps, seed)], self.resources, seed=(seed,))
        return PipelineRun(self, steps, network.run()[0])


@dataclass(frozen=True, eq=False)
class PipelineRun:
    """A run of a pipeline: all times of all stages, and what follows from them."""

    pipeline: Pipeline
    steps: int
    times: TandemTimes

    @property
    def time(self) -> float:
        """End of the last step [s]."""
        return float(self.times.departed[-1][-1])

    def step_time(self, skip: int = 0) -> float:
        """Mean time per step [s] after the first `skip` steps.

        Raises InputError where the run has no more than `skip` steps.
        """
        departed = self.times.departed[-1]
        if not 0 <= skip < len(departed):
            raise InputError(f"skip {skip}: the run has {len(departed)} steps")
        return (
            float((departed[-1] - departed[skip - 1]) / (len(departed) - skip))
            if skip
            else float(departed[-1] / len(departed))
        )

    def shares(self) -> dict[str, dict[str, float]]:
        """Shares of the workers' time per stage: busy, starved (waiting for input), blocked (waiting for room or
        its turn to leave).

        Time after a worker's last output and before its start-up is over counts as starved. They add up to 1.
        """
        result = {}
        for position, stage in enumerate(self.pipeline.stages):
            total = self.time * stage.workers
            started, finished, departed = (
                kind[position] for kind in (self.times.started, self.times.finished, self.times.departed)
            )
            busy = float(np.sum(finished - started)) / total if total else 0.0
            blocked = float(np.sum(departed - finished)) / total if total else 0.0
            result[stage.name] = {"busy": busy, "starved": 1 - busy - blocked, "blocked": blocked}
        return result

    def idle(self) -> float:
        """Share of the run in which the device does not work."""
        return 1 - self.shares()[self.pipeline.device]["busy"]

    def bottleneck(self) -> str:
        """The stage whose workers are busiest."""
        shares = self.shares()
        return max(shares, key=lambda name: shares[name]["busy"])

    def events(self, until: float = math.inf) -> Iterator[Event]:
        """The run as a timeline of what began before `until` seconds: a process a stage, a thread a worker."""
        for position, stage in enumerate(self.pipeline.stages):
            started, finished, departed = (
                kind[position] for kind in (self.times.started, self.times.finished, self.times.departed)
            )
            workers = _workers(started, departed, stage.workers)
            for output in np.flatnonzero(np.isfinite(finished) & (started <= until)).tolist():
                lane, facts = f"{stage.name}/worker {workers[output]}", FrozenDict[float](output=output)
                begin, end, left = float(started[output]), float(finished[output]), float(departed[output])
                yield Event(stage.name, lane, begin, end, "service", facts)
                if end < left and end <= until:
                    yield Event("blocked", lane, end, left, "wait", facts)


def _workers(started: FloatArray, departed: FloatArray, count: int) -> list[int]:
    """Which of a stage's workers made each output: the one that has been free for longest."""
    free = [(0.0, worker) for worker in range(count)]
    workers = []
    for begin, end in zip(started.tolist(), departed.tolist(), strict=True):
        ready = [entry for entry in free if entry[0] <= begin + 1e-12]
        chosen = min(ready or free)
        free.remove(chosen)
        free.append((end if np.isfinite(end) else begin, chosen[1]))
        workers.append(chosen[1])
    return workers


@dataclass(frozen=True)
class Checkpoint:
    """The last stage pauses `seconds` after each `every` outputs, and what it did is kept."""

    every: int
    seconds: float

    def __post_init__(self) -> None:
        if self.every < 1 or not self.seconds >= 0:
            raise InputError(
                f"checkpoint every {self.every} steps of {self.seconds} s: want at least 1, and 0 s or more"
            )


@dataclass(frozen=True, eq=False)
class Attempt:
    """From a start to the end, or to a failure.

    `began`, `lasted`: seconds from the start of the job, and until the end or the failure.
    `done`, `kept`: steps that were done before, and those of this attempt that count.
    `runs`: one a copy.
    """

    began: float
    lasted: float
    done: int
    kept: int
    runs: tuple[PipelineRun, ...]


@dataclass(frozen=True, eq=False)
class JobRun:
    """One run, by its attempts."""

    name: str
    device: str
    steps: int
    attempts: tuple[Attempt, ...]
    checkpoint: Checkpoint | None = None

    @property
    def time(self) -> float:
        """Seconds from the start to the last step of the slowest copy."""
        return self.attempts[-1].began + self.attempts[-1].lasted

    def step_ends(self) -> FloatArray:
        """Seconds at which each step was done, in the slowest copy."""
        parts = []
        for attempt in self.attempts:
            ends = [np.sort(run.times.departed[-1])[: attempt.kept] for run in attempt.runs]
            parts.append(attempt.began + np.max(ends, axis=0))
        return np.concatenate(parts)

    def shares(self) -> dict[str, dict[str, float]]:
        """Shares of the run by stage: busy, starved (waiting for input) and blocked, mean over workers and copies.

        What a failure threw away counts as busy; restarts, and the time after a copy's last output, as starved.
        """
        result: dict[str, dict[str, float]] = {}
        copies = len(self.attempts[0].runs)
        for place, stage in enumerate(self.attempts[0].runs[0].pipeline.stages):
            busy = blocked = 0.0
            for attempt in self.attempts:
                for run in attempt.runs:
                    worked, held = _seconds(run, place, attempt.lasted)
                    busy, blocked = busy + worked, blocked + held
            whole = self.time * stage.workers * copies
            shares = {"busy": busy / whole if whole else 0.0, "blocked": blocked / whole if whole else 0.0}
            result[stage.name] = {**shares, "starved": max(0.0, 1 - shares["busy"] - shares["blocked"])}
        return result

    @property
    def lost(self) -> float:
        """Seconds that failures cost: work done again, and restarts."""
        kept = 0.0
        for attempt in self.attempts:
            if attempt.kept:
                ends = [np.sort(run.times.departed[-1])[attempt.kept - 1] for run in attempt.runs]
                kept += float(max(ends))
        return max(0.0, self.time - kept)

    def numbers(self) -> dict[str, float]:
        """What a distribution over runs is made of: seconds of the run and a step, shares by name."""
        ends = self.step_ends()
        skip = len(ends) // 10
        steady = (ends[-1] - ends[skip]) / (len(ends) - 1 - skip) if len(ends) > skip + 1 else self.time / self.steps
        shares = self.shares()
        result = {"time_s": self.time, "step_s": float(steady), "idle": max(0.0, 1 - shares[self.device]["busy"])}
        for name, parts in shares.items():
            result |= {f"{name}.{kind}": share for kind, share in parts.items()}
        if len(self.attempts) > 1 or self.lost > 0:
            result["lost"] = self.lost / self.time
        return result

    def events(self) -> Iterator[Event]:
        """The run as a timeline: a copy's stage a process, a worker a thread, and failures where there were any."""
        for number, attempt in enumerate(self.attempts):
            for copy, run in enumerate(attempt.runs):
                for one in run.events(attempt.lasted):
                    stage, _, worker = one.lane.rpartition("/")
                    lane = f"{stage}, copy {copy}/{worker}" if len(attempt.runs) > 1 else one.lane
                    yield replace(one, lane=lane, start=one.start + attempt.began, end=one.end + attempt.began)
            if number < len(self.attempts) - 1:
                at = attempt.began + attempt.lasted
                yield Event("failure", "failures", at, at, "failure")


def _seconds(run: PipelineRun, place: int, until: float) -> tuple[float, float]:
    """Busy and blocked seconds of a stage's workers before `until`."""
    started = run.times.started[place]
    finished = np.minimum(run.times.finished[place], until)
    departed = np.minimum(run.times.departed[place], until)
    finished = np.where(np.isnan(finished), until, finished)
    departed = np.where(np.isnan(departed), until, departed)
    return float(np.sum(np.maximum(finished - started, 0))), float(np.sum(np.maximum(departed - finished, 0)))
