"""The verb `tune` as a function: an input pipeline by name, tuned."""

from __future__ import annotations

import math
from typing import Any, Literal, cast

from slipstick.common.readers import unknown_name
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.sampling.phases import DurationScan
from slipstick.experiments.methods.tuning import tuner
from slipstick.experiments.methods.tuning.program_job import load_program
from slipstick.experiments.methods.tuning.trigger import Start, Trigger, watch
from slipstick.experiments.methods.tuning.tuning_jobs import LoaderJob, simulated_jobs

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
    start: str = "critical",
    steps: int = 40,
    step_time: float = 0.0,
) -> tuner.Tuning:
    """The fastest settings of an input pipeline, by hill climbing.

    Parameters
    ----------
    job
        Your own pipeline, an `OwnName` of MODULE:FUNCTION (it is imported and run); simulated-1 .. simulated-10, or
        loader (needs torch).
    budget
        Share of all combinations that may be tried.
    policy
        "patient", or "published" as in the paper.
    start
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
    >>> ss.tune("simulated-4", start="now").speedup >= 1
    True
    """
    made = load_program(job, steps, step_time) if ":" in job else jobs(job)[job]
    return tuned(job, made, budget, policy, start)[0]


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
