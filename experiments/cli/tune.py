"""slipstick tune [JOB]"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.vocabulary import Format, option

if TYPE_CHECKING:
    from slipstick.experiments.methods.tuning.tuner import Tuning

SIMULATED = TrustedName("simulated")


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def tune(
        job: Annotated[
            TrustedName,
            typer.Argument(
                parser=TrustedName,
                help="your own input pipeline, MODULE:FUNCTION (it is imported and run); simulated (all ten), "
                "simulated-1 .. simulated-10, or loader (real, needs torch)",
            ),
        ] = SIMULATED,
        budget: Annotated[float, option("budget", min=0.0)] = 0.2,
        policy: Annotated[str, option("policy", "patient | published")] = "patient",
        tune_from: Annotated[
            str,
            option("tune_from", "critical (the published trigger: hot operations, or a phase of half the time) | now"),
        ] = "critical",
        steps: Annotated[int, option("steps", "of your own pipeline", min=4)] = 40,
        step_time: Annotated[str, option("step_time", "waited, 10ms")] = "0s",
        resume_steps: Annotated[int, option("resume_steps", min=0)] = 0,
        exhaustive: Annotated[bool, option("exhaustive")] = False,
        format: Format = "table",
    ) -> None:
        """Find the fastest input settings of a job by hill climbing; beside them the model's own optimum."""
        from slipstick.experiments.methods.tuning.tune import jobs
        from slipstick.experiments.report.output import emit

        if ":" in job:
            rows = [_own(job, steps, step_time, resume_steps, budget, policy, tune_from, exhaustive=exhaustive)]
        else:
            rows = [
                _tuned(name, each, budget, policy, tune_from, exhaustive=exhaustive)[0]
                for name, each in jobs(job).items()
            ]
        emit(rows, format)


def _own(
    target: TrustedName,
    steps: int,
    step_time: str,
    finish: int,
    share: float,
    policy: str,
    start: str,
    *,
    exhaustive: bool,
) -> dict[str, Any]:
    """A user's pipeline tuned, the gain confirmed in turns with the defaults, and the run gone on with the best."""
    from slipstick.common.units import parse_quantity
    from slipstick.experiments.methods.tuning.program_job import load_program
    from slipstick.experiments.methods.tuning.tuner import in_turns, paired_interval

    job = load_program(target, steps, parse_quantity(step_time, "s"))
    row, result = _tuned(target, job, share, policy, start, exhaustive=exhaustive)
    row |= {"fixed": dict(result.fixed), "output": result.best.output}
    defaults, best = result.default.settings, result.best.settings
    if best != defaults:
        plain, tuned = in_turns(job.stretch, [defaults, best])
        row["low_speedup"], row["high_speedup"] = paired_interval(plain, tuned)
    if finish:
        row["went_on_from_step"], row["went_on_steps"] = steps, finish
        row["went_on_s"], _ = job.go_on(best, finish)
    return row


def _tuned(
    name: str, job: Any, share: float, policy: str, start: str, *, exhaustive: bool
) -> tuple[dict[str, Any], Tuning]:
    import math

    from slipstick.experiments.methods.tuning import tuner
    from slipstick.experiments.methods.tuning.tune import tuned

    result, began = tuned(name, job, share, policy, start)
    knobs = job.knobs()
    row: dict[str, Any] = {
        "job": name,
        "default_s": result.default.time,
        "tuned_s": result.best.time,
        "speedup": result.speedup,
        "trials": len(result.trials),
        "combinations": math.prod(len(knob.values) for knob in knobs),
        "started": "at once" if began is None else began.reason or "not started: no critical phase",
        "watched_steps": 0 if began is None else began.steps,
        "settings": {key: str(value) for key, value in result.best.settings.items()},
    }
    if hasattr(job, "predict"):
        row["by_formula_s"] = job.stretch(tuner.by_formula(knobs, job.predict)).time
    if exhaustive:
        row["exhaustive_s"] = tuner.exhaustive(knobs, job.stretch)[0].time
        row["behind_exhaustive"] = result.best.time / row["exhaustive_s"] - 1
    return row, result
