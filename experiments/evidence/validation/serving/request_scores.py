"""Request by request against two public vLLM runs: one with the device's own profile, one from data sheets alone.

Both runs serve Llama-3.1-8B in bfloat16 to 300 requests of ShareGPT lengths that come at 10 a second; the one on an RTX
4090 is overloaded on purpose. Errors are |simulated / measured - 1| of each request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.estimators.schedule.serving.requests import Request
from slipstick.estimators.schedule.serving.scheduler import Scheduler
from slipstick.estimators.schedule.serving.server import simulate
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.score import PERCENT, Data, Scored, relative
from slipstick.experiments.evidence.validation.serving.profiled_step import ProfiledStep
from slipstick.experiments.serve.oracle import Deployment
from slipstick.hwmodels.catalog import machine, machine_names
from slipstick.hwmodels.files.readers import read_csv_rows
from slipstick.workloads.language.language_catalog import language_model
from slipstick.workloads.language.layout import Layout

FloatArray = npt.NDArray[np.float64]
FILE, DATASET = "serving/requests.csv.gz", "serving/requests"
OWN, OTHER = "RTX4090/Llama-3.1-8B", "RTXPRO6000/Llama-3.1-8B"
OTHER_MACHINE = "rtx-pro-6000-server"
MODEL = "llama-3.1-8b"
BUDGET, BLOCK, CACHE_TOKENS = 2048, 16, 41_408
SEQUENCES = {OWN: 256, OTHER: 128}
"""vLLM's options of the runs (request_cases.json)."""
GOALS = {(OWN, "tpot"): (2, 5), (OWN, "ttft"): (3, 10), (OTHER, "tpot"): (18, 35), (OTHER, "ttft"): (None, None)}

METRICS = (relative(0.5, "median error of a request", "%"), PERCENT[1])


@dataclass(frozen=True)
class Run:
    """One recorded run."""

    requests: tuple[Request, ...]
    ttft: FloatArray
    tpot: FloatArray
    theirs_ttft: FloatArray
    theirs_tpot: FloatArray


def request_scores(data: Data) -> Iterator[Scored | ValidationRow]:
    """Errors of both runs."""
    for case, run in recorded_runs(data.judged(FILE)).items():
        if case == OWN:
            profile = data.known("serving/profile_dense.csv.gz")
            step = ProfiledStep(profile.parent, language_model(MODEL).layers).seconds
            rules = Scheduler(BUDGET, SEQUENCES[case], BLOCK, CACHE_TOKENS)
            yield from _scored(case, run, "its own profile, nothing fitted", *_simulated(run, step, rules))
        elif case == OTHER and OTHER_MACHINE in machine_names():
            rules = Scheduler(BUDGET, SEQUENCES[case], BLOCK)
            one = Deployment(language_model(MODEL), machine(OTHER_MACHINE), Layout(), "bf16", rules=rules)
            yield from _scored(case, run, "data sheet, no profile", *_simulated(run, one.step.seconds, one.scheduler))
        else:
            yield skipped(DATASET, f"{case}: no machine here (validate --machines DIR adds one)")


def _simulated(run: Run, step: object, rules: Scheduler) -> tuple[FloatArray, FloatArray]:
    served = simulate(run.requests, step, rules)  # type: ignore[arg-type]
    return served.ttft, served.tpot


def recorded_runs(path: Path) -> dict[str, Run]:
    """The runs of a file; arrivals on the clock of the first."""
    rows: dict[str, list[dict[str, str]]] = {}
    names = ("case", "input_tokens", "output_tokens", "arrival_s", "first_token_s", "last_token_s")
    for _, row in read_csv_rows(path, names):
        rows.setdefault(row["case"], []).append(row)
    return {case: _run(runs) for case, runs in rows.items()}


def _run(rows: list[dict[str, str]]) -> Run:
    def column(name: str) -> FloatArray:
        return np.array([float(row[name] or "nan") for row in rows])

    arrival = column("arrival_s")
    order = np.argsort(arrival, kind="stable")
    first, last = column("first_token_s")[order], column("last_token_s")[order]
    outputs, inputs = column("output_tokens")[order], column("input_tokens")[order]
    came = arrival[order]
    requests = tuple(Request(int(a), int(b), float(t)) for a, b, t in zip(inputs, outputs, came, strict=True))
    # The arrivals' clock is early by the offset, on the clock of first and last tokens.
    ttft = first - (came - column("arrival_offset_s")[order])
    further = (last - first) / np.maximum(outputs - 1, 1)
    return Run(requests, ttft, further, column("sim_ttft_s")[order], column("sim_tpot_s")[order])


def _scored(case: str, run: Run, held: str, ttft: FloatArray, tpot: FloatArray) -> Iterator[Scored]:
    for name, ours, measured, theirs in (
        ("tpot", tpot, run.tpot, run.theirs_tpot),
        ("ttft", ttft, run.ttft, run.theirs_ttft),
    ):
        baselines = {"LLMServingSim with its profile": theirs}
        yield Scored(f"{case}, {name}", held, measured, ours, METRICS, GOALS[case, name], baselines)
