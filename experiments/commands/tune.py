"""slipstick tune [JOB]"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstick.experiments.commands.vocabulary import Format, option
from slipstick.hwmodels.files.own_names import OwnName

if TYPE_CHECKING:
    from slipstick.experiments.subjects.tuning.trigger import Start

WATCHED_STEPS = 10
"""Steps that must pass, so that the first one alone does not decide."""

LEAST_TRIALS = 16
"""Of a user's own pipeline, however few combinations it has."""


SIMULATED = OwnName("simulated")


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def tune(
        job: Annotated[
            OwnName,
            typer.Argument(
                parser=OwnName,
                help="your own input pipeline, MODULE:FUNCTION (it is imported and run); simulated (all ten), "
                "simulated-1 .. simulated-10, or loader (real, needs torch)",
            ),
        ] = SIMULATED,
        budget: Annotated[float, option("budget", min=0.0)] = 0.2,
        policy: Annotated[str, option("policy", "patient | published")] = "patient",
        start: Annotated[
            str, option("start", "critical (the published trigger: hot operations, or a phase of half the time) | now")
        ] = "critical",
        steps: Annotated[int, option("steps", "of your own pipeline", min=4)] = 40,
        step_time: Annotated[str, option("step_time", "waited, 10ms")] = "0s",
        finish: Annotated[int, option("finish", min=0)] = 0,
        exhaustive: Annotated[bool, option("exhaustive")] = False,
        format: Format = "table",
    ) -> None:
        """Find the fastest input settings of a job by hill climbing; beside them the model's own optimum."""
        from slipstick.experiments.pages.output import emit

        if ":" in job:
            emit([_own(job, steps, step_time, finish, budget, policy, start, exhaustive=exhaustive)], format)
            return
        emit([_tuned(name, each, budget, policy, start, exhaustive=exhaustive) for name, each in _jobs(job)], format)


def _own(
    target: OwnName, steps: int, step_time: str, finish: int, share: float, rules: str, start: str, *, exhaustive: bool
) -> dict[str, Any]:
    """A user's pipeline tuned, the gain confirmed in turns with the defaults, and the run gone on with the best."""
    from slipstick.experiments.subjects.tuning.program_job import load_program
    from slipstick.experiments.subjects.tuning.tuner import paired_interval
    from slipstick.hwmodels.files.units import parse_quantity

    job = load_program(target, steps, parse_quantity(step_time, "s"))
    row = _tuned(target, job, share, rules, start, exhaustive=exhaustive)
    defaults, best = row.pop("_defaults"), row.pop("_best")
    if best != defaults:
        plain, tuned = job.repeat([defaults, best])
        row["low_speedup"], row["high_speedup"] = paired_interval(plain, tuned)
    if finish:
        row["went_on_from_step"], row["went_on_steps"] = steps, finish
        row["went_on_s"], _ = job.go_on(best, finish)
    return row


def _jobs(name: str) -> list[tuple[str, Any]]:
    from slipstick.experiments.subjects.tuning.tuning_jobs import LoaderJob, simulated_jobs
    from slipstick.hwmodels.files.readers import unknown_name

    simulated = {f"simulated-{i + 1}": each for i, each in enumerate(simulated_jobs())}
    if name == "simulated":
        return list(simulated.items())
    if name == "loader":
        return [("loader", LoaderJob())]
    if name not in simulated:
        raise unknown_name("job", name, ["simulated", *simulated, "loader"])
    return [(name, simulated[name])]


def _tuned(name: str, job: Any, share: float, rules: str, start: str, *, exhaustive: bool) -> dict[str, Any]:
    import math

    from slipstick.experiments.subjects.tuning import tuner
    from slipstick.hwmodels.files.readers import unknown_name

    if rules not in ("patient", "published"):
        raise unknown_name("rules", rules, ["patient", "published"])
    if start not in ("critical", "now"):
        raise unknown_name("start", start, ["critical", "now"])
    knobs = job.knobs()
    combinations = math.prod(len(knob.values) for knob in knobs)
    gain = 0.002 if name.startswith("simulated") else getattr(job, "gain", tuner.GAIN)
    began = _watched(job) if start == "critical" else None
    least = LEAST_TRIALS if ":" in name else 1
    budget = max(least, int(share * combinations)) if began is None or began.reason else 1  # 1: the defaults alone
    result = tuner.tune(knobs, job.stretch, budget, gain, "published" if rules == "published" else "patient")
    row: dict[str, Any] = {
        "job": name,
        "default_s": result.default.time,
        "tuned_s": result.best.time,
        "speedup": result.speedup,
        "trials": len(result.trials),
        "combinations": combinations,
        "started": "at once" if began is None else began.reason or "not started: no critical phase",
        "watched_steps": 0 if began is None else began.steps,
        "settings": {key: str(value) for key, value in result.best.settings.items()},
    }
    if ":" in name:
        row |= {"fixed": dict(result.fixed), "output": result.best.output}
        row |= {"_defaults": result.default.settings, "_best": result.best.settings}
    if hasattr(job, "predict"):
        row["by_formula_s"] = job.stretch(tuner.by_formula(knobs, job.predict)).time
    if exhaustive:
        row["exhaustive_s"] = tuner.exhaustive(knobs, job.stretch)[0].time
        row["behind_exhaustive"] = result.best.time / row["exhaustive_s"] - 1
    return row


def _watched(job: Any) -> Start:
    """The job under its defaults until the published trigger fires."""
    from slipstick.estimators.run.phases import DurationScan
    from slipstick.experiments.subjects.tuning.trigger import Trigger, watch

    return watch(Trigger(DurationScan(), enough_steps=WATCHED_STEPS), job.steps_under_defaults())
