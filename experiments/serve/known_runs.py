"""What a run of one's own says of a server's steps: a benchmark's file, or one time in words, for ``--known``.

A benchmark measures means over a run, the fitted law speaks of single steps. The run is simulated as it was made; by
how much its time per output token is longer than simulated, by so much is the run's mean decode step taken to be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from slipstick.estimators.named.serving.deployment import Deployment
from slipstick.estimators.named.serving.served_run import mean_batch, serve
from slipstick.estimators.operation.serving.measured_steps import ServerStep, TimedServerStep
from slipstick.experiments.question.settings import number_of
from slipstick.experiments.serve.measured_runs import MOST_SIMULATED, traffic_of
from slipstick.experiments.serve.serving_question import Wanted
from slipstick.hwmodels.files.readers import InputError
from slipstick.workloads.importers.serving.vllm_bench import ServedRun, read_vllm_bench
from slipstick.workloads.language_catalog import shipped_name
from slipstick.workloads.runs.traffic import Traffic

_TIME = re.compile(r"[\d.]+\s*[a-zµ]+", re.IGNORECASE)
FEWEST_TOKENS = 2
"""Of an output whose further tokens have a time."""


def is_run(known: str) -> bool:
    """Whether ``--known`` means a benchmark's file or a time in words, and not a table of steps.

    >>> is_run("23.4ms"), is_run("vllm.json"), is_run("steps.csv")
    (True, True, False)
    """
    return known.endswith((".json", ".jsonl")) or (_TIME.fullmatch(known) is not None and not Path(known).exists())


def steps_of_runs(known: str, wanted: Wanted, load: Traffic) -> tuple[TimedServerStep, ...]:
    """Steps as long as runs of one's own say.

    Parameters
    ----------
    known
        The JSON of `vllm bench serve` or SGLang's bench_serving, or "23.4ms": the time of a further token under `load`.
    wanted
        The question, whose machine and layout the runs had.

    Raises
    ------
    InputError
        Where the file is none, a run lacks the time of a further token, or it ran another model than it is asked.
    """
    plain = replace(wanted, known=None)
    deployment = plain.deployment()
    if _TIME.fullmatch(known):
        return (_step(deployment, load, number_of("--known", known, "s")),)
    return tuple(_of_run(run, plain, deployment, known) for run in _usable(read_vllm_bench(Path(known)), known))


def _usable(runs: Sequence[ServedRun], path: str) -> list[ServedRun]:
    """Runs that have a time of a further token, the first of them."""
    made = [run for run in runs if run.output_tokens >= FEWEST_TOKENS and _tpot(run) is not None]
    if not made:
        raise InputError(f"{path}: no run has a mean_tpot_ms or median_tpot_ms: nothing says how long a step took")
    return made[:MOST_SIMULATED]


def _of_run(run: ServedRun, wanted: Wanted, deployment: Deployment, path: str) -> TimedServerStep:
    ran = shipped_name(run.model) if run.model else None
    if ran is not None and ran != deployment.model.name:
        deployment = replace(wanted, model=ran).deployment()
    seconds = _tpot(run)
    if seconds is None:
        raise InputError(f"{path}: no mean_tpot_ms")
    return _step(deployment, traffic_of(run), seconds)


def _tpot(run: ServedRun) -> float | None:
    return run.times.get("tpot mean", run.times.get("tpot median"))


def _step(deployment: Deployment, load: Traffic, seconds: float) -> TimedServerStep:
    """The mean decode step of a run whose further tokens took so long."""
    answer = serve(deployment, load)
    simulated = answer.band("tpot", "mean")[0]
    batch = mean_batch(answer.deployment, answer.served)
    step = ServerStep(
        deployment.model, deployment.stored, deployment.machine, deployment.runs_under, batch, deployment.layout
    )
    return TimedServerStep(step, deployment.step.seconds(batch) * seconds / simulated)
