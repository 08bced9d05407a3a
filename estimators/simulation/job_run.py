"""One simulated run of a job: when it ended, what each stage did meanwhile, and its trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.answer import Event
from slipstick.common.errors import InputError
from slipstick.estimators.schedules.max_plus import Floats
from slipstick.estimators.simulation.input_pipeline import PipelineRun


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

    def step_ends(self) -> Floats:
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
