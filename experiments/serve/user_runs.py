"""What a run of one's own says of a server's steps, by what ``--measured`` names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.protocols import Fitted
from slipstick.estimators.engine_steps.measured_steps import TimedServerStep
from slipstick.estimators.serving.request_estimator import RequestEstimator
from slipstick.estimators.user_measured.measured_serving import MeasuredTokens
from slipstick.estimators.user_measured.measured_time import MeasuredTime, TimedRow
from slipstick.experiments.calibrate.measured_argument import known_time
from slipstick.experiments.calibrate.measured_files import read_known_answer
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.runs.traffic import Traffic

NUMBERS = {"concurrency": "concurrency", "tp": "tensor_parallel"}
"""At which a time of a further token may have been measured, and their names in the run."""
LOAD = {f"{space}{name}" for space in ("", "run.") for name in ("concurrency", "rate")}
"""Columns that say how requests came."""
SHORTEST, LONGEST = 1e-7, 1e4
"""Seconds of a token that some machine may take, as of measured steps."""
WANTED = (
    "want of a server the mean time of a further token (25ms, or 25ms@concurrency=32,tp=1), a CSV of such times "
    "(concurrency,time_s), a JSON of vllm bench serve, or a CSV of steps (MODEL:TYPE=TOKENS_PER_S is for llama.cpp)"
)


def steps_of_runs(
    known: str | None, wanted: ServingOptions, load: Traffic, *, many: bool = False
) -> tuple[TimedServerStep, ...]:
    """Steps as long as what was measured says: on the machine as it stands, under the question's software.

    `known`: the time of a further token under `load` ("23.4ms"), or under another ("23.4ms@concurrency=64,tp=2"), or
        any file of `read_known_answer` that says something of a server; None: nothing.
    `wanted`: the question; its layout was measured unless `known` names another.
    `many`: whether `load` is none that was put, so that `known` must name its own.
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
        numbers = FrozenDict({NUMBERS[name]: float(value) for name, value in typed.numbers.items()})
        rows = (TimedRow(numbers, typed.seconds),) if numbers else ()
        measured = MeasuredTime(typed.seconds, source=typed.text, rows=rows)
    if measured is None or isinstance(measured, MeasuredTokens):
        raise InputError(f"--measured: not used: {known[:60]}: {WANTED}")
    if isinstance(measured, MeasuredTime) and any(LOAD & row.numbers.keys() for row in measured.rows):
        requests = None if typed else load.num_requests
        load = replace(load, users=1, rate=None, num_requests=requests)  # rows say the users
    elif isinstance(measured, MeasuredTime) and many:
        text = typed.text if typed else "25ms"
        raise InputError(
            f"--measured {known}: a plan has many loads and layouts: say at which it was measured, "
            f"{text}@concurrency=16,tp=1, or a column concurrency"
        )
    server = wanted.question(load, calibration=measured).estimator
    if not isinstance(server, RequestEstimator):
        raise InputError(f"--measured: not used: {known[:60]}: {WANTED}")
    return server.known
