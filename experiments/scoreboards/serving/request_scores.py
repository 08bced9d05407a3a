"""Request by request against public vLLM runs: one with the device's own profile, the others from data sheets alone.

The runs serve 300 requests of ShareGPT lengths that come at 10 a second; what each served, on what and under which
options stands in a file beside them. The one on an RTX 4090 is overloaded on purpose. Errors are
|simulated / measured - 1| of each request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows, read_json, require_mapping
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.batching.server import simulate
from slipstick.estimators.serving.deployment import Deployment
from slipstick.experiments.scoreboards.serving.profiled_step import ProfiledStep
from slipstick.experiments.scoreboards.serving.serving_rows import model_named
from slipstick.experiments.scoring.score import PERCENT, Data, Scored, relative
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine, machine_names
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.runs.requests import Request

FloatArray = npt.NDArray[np.float64]
FILE, CASES, DATASET = "serving/requests.csv.gz", "serving/request_cases.json", "serving/requests"
OWN, OTHER = "RTX4090/Llama-3.1-8B", "RTXPRO6000/Llama-3.1-8B"
"""The run whose device's profile is there too, and one from data sheets that has a goal."""
MACHINES = {"RTX4090": "rtx-4090", "RTXPRO6000": "rtx-pro-6000-server"}
STORED = {"bfloat16": "bf16", "float16": "fp16", "auto": "bf16"}
BLOCK, CACHE_TOKENS = 16, 41_408
GOALS = {(OWN, "tpot"): (2, 5), (OWN, "ttft"): (3, 10), (OTHER, "tpot"): (18, 35)}

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
    """Errors of every run."""
    path = data.judged(CASES)
    options = require_mapping(read_json(path), path, "the document")
    for case, run in recorded_runs(data.judged(FILE)).items():
        try:
            yield from _of_case(data, case, run, options)
        except InputError as error:
            yield skipped(DATASET, f"{case}: {error}")


def _of_case(data: Data, case: str, run: Run, known: Mapping[str, Any]) -> Iterator[Scored]:
    if case not in known:
        raise InputError(f"no options of this run in {CASES}")
    engine = f"vllm {known[case]['vllm']['vllm_version']}"
    options = known[case]["vllm"]["engine_kwargs"]
    model, ranks = model_named(options["model"]), int(options["data_parallel_size"])
    budget, most = options["max_num_batched_tokens"], options["max_num_seqs"]  # of each data-parallel rank
    if case == OWN:
        step = ProfiledStep(data.known("serving/profile_dense.csv.gz").parent, model.layers).seconds
        rules = Scheduler(budget, most, BLOCK, CACHE_TOKENS)
        return _scored(case, run, "its own profile, nothing fitted", *_simulated(run, step, rules))
    device = case.partition("/")[0]
    name = MACHINES.get(device, device.lower())
    if name not in machine_names():
        raise InputError(f"no machine {name} here (validate --machines DIR adds one)")
    tensor = int(options["tensor_parallel_size"])
    expert = tensor * ranks if options["enable_expert_parallel"] and model.experts else 1
    layout, rules = Layout(tensor, data=ranks, expert=expert), Scheduler(budget, most, BLOCK)
    one = Deployment(model, machine(name), layout, STORED[options["dtype"]], engine=engine, rules=rules)
    return _scored(case, run, "data sheet, no profile", *_simulated(run, one.step.seconds, one.scheduler, ranks))


def _simulated(run: Run, step: object, rules: Scheduler, groups: int = 1) -> tuple[FloatArray, FloatArray]:
    served = simulate(run.requests, step, rules, groups=groups)  # type: ignore[arg-type]
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
        goals = GOALS.get((case, name), (None, None))
        yield Scored(f"{case}, {name}", held, measured, ours, METRICS, goals, baselines, groups=case)
