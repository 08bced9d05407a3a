"""The verb `tune` as a function: an input pipeline by name, tuned.

When tuning of a running job starts (TPUPoint, Section VII-B).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from slipstick.common.readers import unknown_name
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.sampling.phases import DurationScan, Scan
from slipstick.experiments.methods.tuning import tuner
from slipstick.experiments.methods.tuning.program_job import load_program
from slipstick.experiments.methods.tuning.tuning_jobs import LoaderJob, simulated_jobs
from slipstick.workloads.runs.step_profiles import StepProfile

HOT_OPERATIONS = ("reshape", "infeed", "outfeed", "fusion", "transferbuffer", "dataloader")
"""Words in the names of the operations that the paper starts on; torch's loader stands for the infeed."""


@dataclass
class Trigger:
    """When to start: one phase has taken more than half of the time, or the hot operations are those of moving data.

    `enough` [s] and `enough_steps` must have passed, so that the first step alone does not decide.
    """

    scan: Scan
    hot: tuple[str, ...] = HOT_OPERATIONS
    top: int = 5
    enough: float = 0.0
    enough_steps: int = 0
    reason: str = ""
    _settled: int = 0
    _waiting: list[StepProfile] = field(default_factory=list)
    _spent: dict[int, float] = field(default_factory=dict)
    _operations: dict[int, dict[str, float]] = field(default_factory=dict)

    def observe(self, step: StepProfile) -> bool:
        """Take the next step; True once the run has entered its critical phase (`reason` says why)."""
        self._waiting.append(step)
        for label in self.scan.observe(step):
            settled = self._waiting.pop(0)
            self._settled += 1
            self._spent[label] = self._spent.get(label, 0.0) + settled.duration
            times = self._operations.setdefault(label, {})
            for name, operation in settled.operations.items():
                times[name] = times.get(name, 0.0) + operation.time
        total = sum(self._spent.values())
        if self.reason or not self._spent or total < self.enough or self._settled < self.enough_steps:
            return bool(self.reason)
        longest = max(self._spent, key=self._spent.__getitem__)
        times = self._operations[longest]
        first = sorted(times, key=times.__getitem__, reverse=True)[: self.top]
        hot = [name for name in first if times[name] > 0 and any(word in name.lower() for word in self.hot)]
        if hot:
            self.reason = f"hot operation {hot[0]!r} in the longest phase"
        elif self._spent[longest] > total / 2:
            self.reason = f"phase {longest} has taken {self._spent[longest] / total:.0%} of the time"
        return bool(self.reason)


@dataclass(frozen=True)
class Start:
    """Whether a job was found worth tuning: after how many steps, and why; no reason where it never was."""

    steps: int
    reason: str


def watch(trigger: Trigger, steps: Iterable[StepProfile]) -> Start:
    """Watch a job under its defaults until the trigger fires, or it ends."""
    seen = 0
    for step in steps:
        seen += 1
        if trigger.observe(step):
            break
    return Start(seen, trigger.reason)


WATCHED_STEPS = 10
"""Steps that must pass, so that the first one alone does not decide."""
LEAST_TRIALS = 16
"""Of a user's own pipeline, however few combinations it has."""
POLICIES, STARTS = ("patient", "published"), ("critical", "now")


@checked
def tune(
    job: str,
    *,
    budget: float = 0.2,
    policy: str = "patient",
    tune_from: str = "critical",
    steps: int = 40,
    step_time: float = 0.0,
) -> tuner.Tuning:
    """The fastest settings of an input pipeline, by hill climbing.

    Parameters
    ----------
    job
        Your own pipeline, a `TrustedName` of MODULE:FUNCTION (it is imported and run); simulated-1 .. simulated-10, or
        loader (needs torch).
    budget
        Share of all combinations that may be tried.
    policy
        "patient", or "published" as in the paper.
    tune_from
        "critical" (the published trigger: hot operations, or a phase of half the time) or "now".
    steps, step_time
        Of your own pipeline: steps of a stretch, and the time [s] that an accelerator works on a batch.

    Raises
    ------
    InputError
        Where the job, the policy or the start is unknown, or the job cannot run under its defaults.

    Examples
    --------
    >>> import slipstick as ss
    >>> ss.tune("simulated-4", tune_from="now").speedup >= 1
    True
    """
    made = load_program(job, steps, step_time) if ":" in job else jobs(job)[job]
    return tuned(job, made, budget, policy, tune_from)[0]


def jobs(name: str) -> dict[str, Any]:
    """The jobs that ship: one, or all simulated ones by the name "simulated".

    Raises InputError where there is none of that name.
    """
    simulated: dict[str, Any] = {f"simulated-{i + 1}": each for i, each in enumerate(simulated_jobs())}
    known = {**simulated, "loader": None}
    if name == "simulated":
        return simulated
    if name not in known:
        raise unknown_name("job", name, ["simulated", *known])
    return {name: simulated[name] if name in simulated else LoaderJob()}


def tuned(name: str, job: Any, budget: float, policy: str, start: str) -> tuple[tuner.Tuning, Start | None]:
    """How the tuning of a job went, and what made it begin; None where nothing was waited for.

    `budget`: share of all combinations that may be tried.
    Raises InputError as `tune`.
    """
    if policy not in POLICIES:
        raise unknown_name("policy", policy, POLICIES)
    if start not in STARTS:
        raise unknown_name("start", start, STARTS)
    knobs = job.knobs()
    combinations = math.prod(len(knob.values) for knob in knobs)
    gain = 0.002 if name.startswith("simulated") else getattr(job, "gain", tuner.GAIN)
    began = None
    if start == "critical":
        began = watch(Trigger(DurationScan(), enough_steps=WATCHED_STEPS), job.steps_under_defaults())
    least = LEAST_TRIALS if ":" in name else 1
    trials = max(least, int(budget * combinations)) if began is None or began.reason else 1  # 1: the defaults alone
    rules = cast(Literal["published", "patient"], policy)
    return tuner.tune(knobs, job.stretch, trials, gain, rules), began
