"""MLPerf inference v5.1, Offline: tokens/s of whole systems whose accelerator no fit has seen.

The best load of the closed loop, times one factor a benchmark: the median over the other accelerators. The lengths of
prompts are not in the table; those assumed here matter little beside that factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from slipstick.estimators.named.serving.deployment import Deployment
from slipstick.estimators.schedule.serving.closed_loop import Load, steady
from slipstick.estimators.schedule.serving.scheduler import Scheduler
from slipstick.experiments.evidence.score import PERCENT, Data, Scored
from slipstick.hwmodels.catalog import machine, machine_names, name_of_device
from slipstick.hwmodels.files.readers import InputError, read_csv_rows
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language_catalog import language_model

FILE, DATASET = "serving/mlperf_inference_v51.csv", "serving/mlperf_inference_v51"
GOALS = (10.0, 25.0)
BENCHMARKS = {  # model, assumed tokens of a prompt, tokens made where the table has none
    "llama2-70b-99": ("llama-2-70b", 300, 292),
    "llama2-70b-99.9": ("llama-2-70b", 300, 292),
    "llama3.1-405b": ("llama-3.1-405b", 9400, 650),
    "llama3.1-8b": ("llama-3.1-8b", 800, 128),
    "mixtral-8x7b": ("mixtral-8x7b", 150, 145),
}
MACHINES = {  # words of an accelerator's name -> machine
    "GB300": "gb300", "GB200": "gb200", "B300": "b300-sxm", "B200": "b200-sxm", "H200": "h200-sxm",
    "H100-SXM": "h100-sxm", "H100-NVL": "h100-nvl", "H100-PCIE": "h100-pcie", "MI300X": "mi300x",
    "MI325X": "mi325x", "MI355X": "mi355x",
    "L40S": "l40s", "A100-SXM-80": "a100-sxm-80gb", "RTX PRO 6000": "rtx-pro-6000-server",
}  # fmt: skip
ALONE = "no other accelerator ran the benchmark"
LOADS = (64, 256, 1024, 4096)


@dataclass(frozen=True)
class Result:
    """One Offline result that can be evaluated."""

    benchmark: str
    machine: str
    accelerators: float
    stored: str
    rate: float

    @property
    def each(self) -> float:
        """Measured tokens/s an accelerator."""
        return self.rate / self.accelerators


def mlperf_scores(data: Data) -> Iterator[Scored]:
    """Each accelerator from the others."""
    public, (targets, refused) = read_results(data.known(FILE))[0], read_results(data.judged(FILE))
    ours, peaks, measured, names = [], [], [], []
    for result in targets:
        others = [r for r in public if r.benchmark == result.benchmark and r.machine != result.machine]
        factor, scaled = _factor(others, model_rate), _factor(others, peak_rate)
        if factor is None or scaled is None:
            refused[ALONE] = refused.get(ALONE, 0) + 1
            continue
        ours.append(1 / (factor * model_rate(result)))
        peaks.append(1 / (scaled * peak_rate(result)))
        measured.append(1 / result.each)
        names.append(result.machine)
    reason = f"left out: {'; '.join(f'{reason}: {count}' for reason, count in sorted(refused.items()))}"
    baselines = {"others, by peak flop/s": np.array(peaks)}
    yield Scored(
        "Offline, time of a token", "accelerator unseen", np.array(measured), np.array(ours), PERCENT, GOALS, baselines,
        enough=20, noise=0.6, groups=names, reason=reason,
    )  # fmt: skip


def _factor(others: Sequence[Result], rate: Callable[[Result], float]) -> float | None:
    """The median over other accelerators (each counts once) of measured over predicted."""
    each: dict[str, list[float]] = {}
    for result in others:
        each.setdefault(result.machine, []).append(math.log(result.each / rate(result)))
    return math.exp(float(np.median([np.median(v) for v in each.values()]))) if each else None


def peak_rate(result: Result) -> float:
    """Flop/s of the data type that the weights are stored in, as a rate up to a factor."""
    rates = machine(result.machine).engines["matrix"].flop_per_cycle
    names = {"nvfp4": ("float4", "float8"), "nvfp4_experts": ("float4", "float8"), "fp8": ("float8",)}
    at = machine(result.machine)
    for name in (*names.get(result.stored, ()), "bfloat16", "float16"):
        if name in rates:
            return at.peak("matrix", name)
    return at.peak("matrix", next(iter(rates)))


def model_rate(result: Result) -> float:
    """Tokens/s an accelerator at the best load, by the product's own answer."""
    return _model_rate(result.benchmark, result.machine, result.stored)


@cache
def _model_rate(benchmark: str, name: str, stored: str) -> float:
    model, inputs, outputs = BENCHMARKS[benchmark]
    at = machine(name)
    engine = "vllm" if name.startswith("mi") else "trtllm"
    for tensor in (1, 2, 4, 8, 16):
        layout = Layout(min(tensor, 8), max(1, tensor // 8))
        rules = Scheduler(8192, 4096)
        try:
            one = Deployment(language_model(model), at, layout, stored, "fp8", engine, rules=rules)
            states = [steady(one.step.seconds, one.scheduler, Load(inputs, outputs, users)) for users in LOADS]
        except InputError:
            continue
        return max(state.output_rate for state in states) / layout.devices
    raise InputError(f"{model} does not fit 16 x {name}")


def read_results(path: Path) -> tuple[list[Result], dict[str, int]]:
    """Offline results without doubts, and those left out by reason."""
    results, refused = [], dict[str, int]()
    needed = ("benchmark", "scenario", "accelerator", "accelerators", "weight_type", "tokens_per_s", "suspicious")
    for _, row in read_csv_rows(path, needed):
        if row["scenario"] != "Offline":
            continue
        try:
            results.append(_result(row))
        except InputError as error:
            refused[str(error)] = refused.get(str(error), 0) + 1
    return results, refused


def _result(row: dict[str, str]) -> Result:
    if row["suspicious"]:
        raise InputError(row["suspicious"])
    if row["benchmark"] not in BENCHMARKS:
        raise InputError(f"benchmark {row['benchmark']}: not modelled")
    name = next((m for words, m in MACHINES.items() if words in row["accelerator"].upper()), None)
    name = name or name_of_device(row["accelerator"])
    if name is None or name not in machine_names():
        raise InputError(f"accelerator {row['accelerator']}: no machine here")
    if not row["tokens_per_s"] or not row["accelerators"]:
        raise InputError("no rate or no number of accelerators")
    model = language_model(BENCHMARKS[row["benchmark"]][0])
    four = "nvfp4_experts" if model.experts else "nvfp4"
    stored = {"fp8": "fp8", "fp4": four, "mxfp4": four, "bf16": "bf16", "fp16": "fp16"}.get(row["weight_type"], "bf16")
    return Result(row["benchmark"], name, float(row["accelerators"]), stored, float(row["tokens_per_s"]))
