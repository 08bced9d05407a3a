"""What a run of one's own says of a server's steps, by what ``--measured`` names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.estimators.base.protocols import Fitted
from slipstick.estimators.engine_steps.measured_steps import TimedServerStep
from slipstick.estimators.serving.request_estimator import RequestEstimator
from slipstick.estimators.user_measured.measured_serving import MeasuredTokens
from slipstick.estimators.user_measured.measured_time import MeasuredTime
from slipstick.experiments.calibrate.measured_argument import known_time
from slipstick.experiments.calibrate.measured_files import read_known_answer
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.runs.traffic import Traffic

NUMBERS = ("concurrency", "tp")
"""At which a time of a further token may have been measured."""
SHORTEST, LONGEST = 1e-7, 1e4
"""Seconds of a token that some machine may take, as of measured steps."""
WANTED = (
    "want of a server the mean time of a further token (25ms, or 25ms@concurrency=32,tp=1), a CSV of such times "
    "(concurrency,time_s), a JSON of vllm bench serve, or a CSV of steps (MODEL:TYPE=TOKENS_PER_S is for llama.cpp)"
)


def steps_of_runs(known: str | None, wanted: ServingOptions, load: Traffic) -> tuple[TimedServerStep, ...]:
    """Steps as long as what was measured says: on the machine as it stands, under the question's software.

    `known`: the time of a further token under `load` ("23.4ms"), or under another ("23.4ms@concurrency=64,tp=2"), or
        any file of `read_known_answer` that says something of a server; None: nothing.
    `wanted`: the question; its layout was measured unless `known` names another.
    Raises InputError where it is none of these, no run has the time of a further token, or a model does not fit.
    """
    if known is None:
        return ()
    at, typed = machine(wanted.machine), known_time(known)
    measured: Fitted | None = None
    if typed is None and ("=" not in known or Path(known).exists()):
        measured = read_known_answer(known, at, wanted.named)
    elif typed is not None:
        typed.only(NUMBERS, "of a further token")
        if not SHORTEST <= typed.seconds <= LONGEST:
            raise InputError(f"--measured {known}: a token takes {SHORTEST:g} to {LONGEST:g} s on any machine")
        measured = MeasuredTime(typed.seconds, source=typed.text)
        if "concurrency" in typed.numbers:
            load = replace(load, users=typed.numbers["concurrency"], rate=None, num_requests=None)
        if "tp" in typed.numbers:
            wanted = replace(wanted, tensor=typed.numbers["tp"], devices=None)
    if measured is None or isinstance(measured, MeasuredTokens):
        raise InputError(f"--measured: not used: {known[:60]}: {WANTED}")
    server = wanted.question(load, calibration=measured).estimator
    if not isinstance(server, RequestEstimator):
        raise InputError(f"--measured: not used: {known[:60]}: {WANTED}")
    return server.known
