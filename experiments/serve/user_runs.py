"""What a run of one's own says of a server's steps: a benchmark's file, or one time in words, for ``--measured``."""

from __future__ import annotations

from dataclasses import replace

from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.measured_steps import TimedServerStep
from slipstick.estimators.user_measured.measured_serving import TimedServerRun
from slipstick.experiments.calibrate.measured_argument import known_time
from slipstick.experiments.calibrate.measured_files import runs_of
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.workloads.runs.traffic import Traffic

NUMBERS = ("concurrency", "tp")
"""At which a time of a further token may have been measured."""
SHORTEST, LONGEST = 1e-7, 1e4
"""Seconds of a token that some machine may take, as of measured steps."""


def is_run(known: str) -> bool:
    """Whether ``--measured`` means a benchmark's file or a time in words, and not a table of steps.

    >>> is_run("23.4ms"), is_run("vllm.json"), is_run("steps.csv")
    (True, True, False)
    """
    return known.endswith((".json", ".jsonl")) or known_time(known) is not None


def measured_runs(known: str, load: Traffic) -> tuple[TimedServerRun, ...]:
    """The runs that a benchmark's file holds, or the one of a time in words.

    `known`: the JSON of `vllm bench serve` or SGLang's bench_serving, or the time of a further token under `load`
        ("23.4ms", "23.4ms@concurrency=64,tp=2").
    Raises InputError where the file is none, or no run has the time of a further token.
    """
    typed = known_time(known)
    if typed is None:
        return runs_of(known)
    typed.only(NUMBERS, "of a further token")
    if not SHORTEST <= typed.seconds <= LONGEST:
        raise InputError(f"--measured {known}: a token takes {SHORTEST:g} to {LONGEST:g} s on any machine")
    users = typed.numbers.get("concurrency")
    at = load if users is None else replace(load, users=users, rate=None, num_requests=None)
    return (TimedServerRun(typed.seconds, at, None, typed.numbers.get("tp")),)


def steps_of_runs(known: str, wanted: ServingOptions, load: Traffic) -> tuple[TimedServerStep, ...]:
    """Steps as long as runs of one's own say.

    `wanted`: the question, whose machine and layout the runs had.
    Raises InputError as `measured_runs`, and where the model of a run does not fit.
    """
    deployment = replace(wanted, known=None).deployment()
    return tuple(one.step(deployment, load) for one in measured_runs(known, load))
