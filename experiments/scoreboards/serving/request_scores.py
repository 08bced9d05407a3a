"""Request by request against public vLLM runs: one with the device's own profile, the others from data sheets alone.

The runs serve 300 requests of ShareGPT lengths that come at 10 a second; what each served, on what and under which
options stands in a file beside them. The one on an RTX 4090 is overloaded on purpose. Errors are
|simulated / measured - 1| of each request.

A step's time from operators profiled on the very device (LLMServingSim's tables): interpolated, nothing fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows, read_json, require_mapping
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.batching.server import simulate
from slipstick.estimators.serving.deployment import Deployment
from slipstick.experiments.scoreboards.serving.serving_rows import model_named
from slipstick.experiments.scoring.score import PERCENT, Data, Scored, relative
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine, machine_names
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.runs.requests import Request

_TWICE = ("layernorm",)
_ONCE = ("embedding", "final_layernorm")
_AXES = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")


class ProfiledStep:
    """Seconds of a step of one model on the profiled device.

    `folder`: of the three tables profile_dense, profile_attention and profile_per_sequence.
    `layers`: of the model.
    """

    def __init__(self, folder: Path, layers: int) -> None:
        self.layers = layers
        dense = _curves(folder / "profile_dense.csv.gz", "tokens")
        self.sequence = _curves(folder / "profile_per_sequence.csv.gz", "sequences")
        tokens = next(iter(dense.values()))[0]
        self.tokens = tokens
        self.each_layer = np.zeros(len(tokens))
        self.whole = np.zeros(len(tokens))
        for name, (at, seconds) in dense.items():
            values = np.interp(tokens, at, seconds)
            if name in _ONCE:
                self.whole += values
            else:
                self.each_layer += values * (2 if name in _TWICE else 1)
        self.attention = _Grid(folder / "profile_attention.csv.gz")

    def seconds(self, batch: Batch) -> float:
        """Seconds of a step."""
        layer = float(np.interp(batch.tokens, self.tokens, self.each_layer))
        whole = float(np.interp(batch.tokens, self.tokens, self.whole))
        scored = batch.decodes + batch.finished
        head = sum(float(np.interp(scored, at, seconds)) for at, seconds in self.sequence.values()) if scored else 0.0
        attention = self.attention.at((batch.prompt, batch.past, batch.decodes, batch.context))
        return self.layers * (layer + attention) + whole + head


def _curves(path: Path, axis: str) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Layer -> sizes and seconds."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for _, row in read_csv_rows(path, ("layer", axis, "time_s")):
        rows.setdefault(row["layer"], []).append((float(row[axis]), float(row["time_s"])))
    return {name: (np.array(sorted(pairs))[:, 0], np.array(sorted(pairs))[:, 1]) for name, pairs in rows.items()}


class _Grid:
    """Attention of a step by chunk and past of its prompts, and by number and context of its decodes.

    Multilinear between points of the profile, in log time over log sizes; where a corner was not profiled, the sum of
    its two halves times what mixing costs at the median.
    """

    def __init__(self, path: Path) -> None:
        rows = [
            tuple(float(row[name]) for name in (*_AXES, "time_s")) for _, row in read_csv_rows(path, (*_AXES, "time_s"))
        ]
        table = np.array(rows)
        self.axes = [np.unique(table[:, i]) for i in range(4)]
        self.values = np.full([len(axis) for axis in self.axes], np.nan)
        self.values[tuple(np.searchsorted(axis, table[:, i]) for i, axis in enumerate(self.axes))] = table[:, 4]
        self._fill()

    def _fill(self) -> None:
        """Points that were not profiled."""
        alone = {0: self.values[0, 0], 1: self.values[:, :, 0, 0]}  # decodes alone, prompts alone
        decodes, prompts = _filled(alone[0]), _filled(alone[1])
        both = prompts[:, :, None, None] + decodes[None, None, :, :]
        ratio = float(np.nanmedian((self.values / both)[1:, :, 1:, :]))
        self.values = np.where(np.isnan(self.values), both * ratio, self.values)
        self.values[0, :, :, :] = decodes[None]
        self.values[:, :, 0, :] = prompts[:, :, None]
        self.logs = np.log(np.maximum(self.values, 1e-9))

    def at(self, point: Sequence[float]) -> float:
        corners: list[list[tuple[int, float]]] = []
        for axis, value in zip(self.axes, point, strict=True):
            place = int(np.clip(np.searchsorted(axis, value) - 1, 0, len(axis) - 2))
            low, high = axis[place], axis[place + 1]
            share = (np.log1p(value) - np.log1p(low)) / (np.log1p(high) - np.log1p(low))
            if low == 0 and value > 0:  # no work and a little work are apart: stay with the least profiled
                share = 1.0
            share = float(np.clip(share, 0.0, 1.2))
            corners.append([(place, 1 - share), (place + 1, share)])
        total = 0.0
        for a, wa in corners[0]:
            for b, wb in corners[1]:
                for c, wc in corners[2]:
                    for d, wd in corners[3]:
                        weight = wa * wb * wc * wd
                        if weight:
                            total += weight * self.logs[a, b, c, d]
        return float(np.exp(total)) if point[0] or point[2] else 0.0


def _filled(table: FloatArray) -> FloatArray:
    """Missing points of a plane from the largest known one before them along its second axis."""
    filled = table.copy()
    for row in filled:
        known = np.flatnonzero(~np.isnan(row))
        row[:] = np.interp(np.arange(len(row)), known, row[known]) if len(known) else 0.0
    return np.asarray(filled, dtype=float)


FILE, CASES, DATASET = "serving/requests.csv.gz", "serving/request_cases.json", "serving/requests"
OWN, OTHER = "RTX4090/Llama-3.1-8B", "RTXPRO6000/Llama-3.1-8B"
"""The run whose device's profile is there too, and one from data sheets that has a goal."""
MACHINES = {"RTX4090": "rtx-4090", "RTXPRO6000": "rtx-pro-6000-server"}
STORED = {"bfloat16": "bf16", "float16": "fp16", "auto": "bf16"}
BLOCK, CACHE_TOKENS = 16, 41_408
GOALS = {(OWN, "tpot"): (2, 5), (OWN, "ttft"): (3, 10), (OTHER, "tpot"): (18, 35)}

METRICS = (relative(0.5, "median error of a request", "%"), PERCENT[1])


@dataclass(frozen=True)
class RunParameters:
    """One recorded run."""

    requests: tuple[Request, ...]
    ttft: FloatArray
    tpot: FloatArray
    theirs_ttft: FloatArray
    theirs_tpot: FloatArray


def request_scores(data: Data) -> Iterator[Scored | ValidationRow]:
    """Errors of every run."""
    known = _options(data)
    for case, run in recorded_runs(data.judged(FILE)).items():
        try:
            yield from _of_case(data, case, run, known)
        except InputError as error:
            yield skipped(DATASET, f"{case}: {error}")


def _options(data: Data) -> Mapping[str, Any]:
    path = data.judged(CASES)
    return require_mapping(read_json(path), path, "the document")


def of_data_sheets(data: Data, source: str) -> Iterator[tuple[str, RunParameters, Deployment]]:
    """Runs on devices without a profile: names, runs and deployments. `source`: who measured (`Deployment`)."""
    known = _options(data)
    for case, run in recorded_runs(data.judged(FILE)).items():
        if case != OWN:
            yield case, run, _deployed(case, known, source)


def _of_case(data: Data, case: str, run: RunParameters, known: Mapping[str, Any]) -> Iterator[Scored]:
    if case not in known:
        raise InputError(f"no options of this run in {CASES}")
    if case == OWN:
        options = known[case]["vllm"]["engine_kwargs"]
        layers = model_named(options["model"]).layers
        step = ProfiledStep(data.known("serving/profile_dense.csv.gz").parent, layers).seconds
        rules = Scheduler(options["max_num_batched_tokens"], options["max_num_seqs"], BLOCK, CACHE_TOKENS)
        return _scored(case, run, "its own profile, nothing fitted", *simulated(run, step, rules))
    one = _deployed(case, known)
    served = simulated(run, one.step.seconds, one.scheduler, one.layout.data)
    return _scored(case, run, "data sheet, no profile", *served, np.full(len(run.tpot), one.half_width()))


def _deployed(case: str, known: Mapping[str, Any], source: str | None = None) -> Deployment:
    engine = f"vllm {known[case]['vllm']['vllm_version']}"
    options = known[case]["vllm"]["engine_kwargs"]
    model, ranks = model_named(options["model"]), int(options["data_parallel_size"])
    device = case.partition("/")[0]
    name = MACHINES.get(device, device.lower())
    if name not in machine_names():
        raise InputError(f"no machine {name} here (validate --machines DIR adds one)")
    tensor = int(options["tensor_parallel_size"])
    expert = tensor * ranks if options["enable_expert_parallel"] and model.experts else 1
    layout = Layout(tensor, data=ranks, expert=expert)
    rules = Scheduler(options["max_num_batched_tokens"], options["max_num_seqs"], BLOCK)  # of each data-parallel rank
    return Deployment(model, machine(name), layout, STORED[options["dtype"]], engine=engine, rules=rules, source=source)


def simulated(run: RunParameters, step: object, rules: Scheduler, groups: int = 1) -> tuple[FloatArray, FloatArray]:
    """Seconds to the first token and of a further one of each request of a run."""
    served = simulate(run.requests, step, rules, groups=groups)  # type: ignore[arg-type]
    return served.ttft, served.tpot


def recorded_runs(path: Path) -> dict[str, RunParameters]:
    """The runs of a file; arrivals on the clock of the first."""
    rows: dict[str, list[dict[str, str]]] = {}
    names = ("case", "input_tokens", "output_tokens", "arrival_s", "first_token_s", "last_token_s")
    for _, row in read_csv_rows(path, names):
        rows.setdefault(row["case"], []).append(row)
    return {case: _run(runs) for case, runs in rows.items()}


def _run(rows: list[dict[str, str]]) -> RunParameters:
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
    return RunParameters(requests, ttft, further, column("sim_ttft_s")[order], column("sim_tpot_s")[order])


def _scored(
    case: str, run: RunParameters, held: str, ttft: FloatArray, tpot: FloatArray, half: FloatArray | None = None
) -> Iterator[Scored]:
    """`half`: of the 80 % band of log time of further tokens, where it is known."""
    for name, ours, measured, theirs, width in (
        ("tpot", tpot, run.tpot, run.theirs_tpot, half),
        ("ttft", ttft, run.ttft, run.theirs_ttft, None),
    ):
        baselines = {"LLMServingSim with its profile": theirs}
        goals = GOALS.get((case, name), (None, None))
        yield Scored(f"{case}, {name}", held, measured, ours, METRICS, goals, baselines, half=width, groups=case)
