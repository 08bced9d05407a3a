"""LLM-Inference-Bench: whole batches that start together, devices and models unseen.

A batch of equal sequences is a lock-step: its prompts, then all its tokens. Each row is that time at the calibrated
pace times one factor: the median over the engine's other rows of as many devices (all devices but the scored one, or
all models but the scored one, of the same device). llama.cpp runs one sequence, whatever "batch size" says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.estimators.operation.serving.known_steps import serving_fit
from slipstick.estimators.operation.serving.step_amounts import Batch, Shares
from slipstick.estimators.operation.serving.step_time import StepTime
from slipstick.experiments.evidence.score import PERCENT, Data, Scored
from slipstick.hwmodels.catalog import machine, machine_names
from slipstick.hwmodels.files.readers import InputError, read_csv_rows
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import weight_type
from slipstick.workloads.language_catalog import language_model

FloatArray = npt.NDArray[np.float64]
FILE = "local_llm/llm_inference_bench.csv.gz"
DEVICES = {
    "Nvidia A100 GPU": "a100-sxm-40gb", "Nvidia H100 GPU": "h100-sxm", "Habana Gaudi2": "gaudi2",
    "Nvidia GH200": "gh200", "Nvidia GH200 GPU": "gh200", "AMD MI300X GPU": "mi300x", "AMD MI300X": "mi300x",
    "AMD MI250 GPU": "mi250-gcd",
}  # fmt: skip
MODELS = {
    "meta-llama/Llama-2-7b-hf": "llama-2-7b", "meta-llama/Llama-2-70b-hf": "llama-2-70b",
    "meta-llama/Meta-Llama-3-8B": "llama-3-8b", "meta-llama/Meta-Llama-3-70B": "llama-3.1-70b",
    "mistralai/Mistral-7B-v0.1": "mistral-7b", "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b",
    "Qwen/Qwen2-7B": "qwen2.5-7b",
}  # fmt: skip
"""Llama 3 and 3.1 share shapes, so do Qwen 2 and 2.5."""
GOALS = {"device unseen": (25.0, 60.0), "model unseen": (20.0, 50.0)}
NOISE, ENOUGH = 0.4, 20


@dataclass(frozen=True)
class Whole:
    """One batch: what ran on what, measured and predicted seconds before any factor."""

    device: str
    devices: int
    engine: str
    model: str
    seconds: float
    ours: float
    roof: float


def bench_scores(data: Data) -> Iterator[Scored]:
    """Devices unseen and models unseen."""
    public, (targets, refused) = read_batches(data.known(FILE))[0], read_batches(data.judged(FILE))
    note = "left out: " + "; ".join(f"{reason}: {count}" for reason, count in sorted(refused.items()))
    yield _scored("device unseen", targets, public, lambda a, b: a.device != b.device, note)
    yield _scored("model unseen", targets, public, lambda a, b: a.device == b.device and a.model != b.model, note)


def _scored(
    held: str, scored: Sequence[Whole], known: Sequence[Whole], other: Callable[[Whole, Whole], bool], note: str
) -> Scored:
    keys = [(row.engine, row.devices, row.device, row.model) for row in scored]
    factors = {key: _factors(row, known, other) for key, row in dict(zip(keys, scored, strict=True)).items()}
    some = [(row, *both) for key, row in zip(keys, scored, strict=True) if (both := factors[key]) is not None]
    measured, ours, roofs = np.array([(row.seconds, row.ours * a, row.roof * b) for row, a, b in some]).reshape(-1, 3).T
    by_model = "" if held == "device unseen" else ", {0.model}"
    groups = [row.device + by_model.format(row) for row, *_ in some]
    return Scored(
        "time of a whole batch", held, measured, ours, PERCENT, GOALS[held], {"one efficiency": roofs},
        enough=ENOUGH, noise=NOISE, reason=note, groups=groups,
        inputs=[{"machine": DEVICES[row.device], "devices": row.devices, "engine": row.engine} for row, *_ in some],
    )  # fmt: skip


def _factors(row: Whole, known: Sequence[Whole], other: Callable[[Whole, Whole], bool]) -> tuple[float, float] | None:
    """Medians over devices and models of measured over predicted and over roofline; the same engine where it ran."""
    rest = [k for k in known if other(row, k)]
    engine = [k for k in rest if k.engine == row.engine] or rest
    same = [k for k in engine if k.devices == row.devices] or engine
    if not same:
        return None
    groups: dict[tuple[str, str, int], list[Whole]] = {}
    for k in same:
        groups.setdefault((k.device, k.model, k.devices), []).append(k)
    ours = [float(np.median([math.log(k.seconds / k.ours) for k in group])) for group in groups.values()]
    roofs = [float(np.median([math.log(k.seconds / k.roof) for k in group])) for group in groups.values()]
    return math.exp(float(np.median(ours))), math.exp(float(np.median(roofs)))


def read_batches(path: Path) -> tuple[list[Whole], dict[str, int]]:
    """Batches of a file that can be evaluated, and those left out by reason."""
    batches, refused = [], dict[str, int]()
    needed = ("device", "devices", "engine", "model", "input_tokens", "output_tokens", "latency_s", "sequences")
    for _, row in read_csv_rows(path, needed):
        try:
            batches.append(_whole(row))
        except InputError as error:
            refused[str(error)] = refused.get(str(error), 0) + 1
    return batches, refused


def _whole(row: dict[str, str]) -> Whole:
    device, engine, model = row["device"], row["engine"], row["model"]
    if row.get("suspicious"):
        raise InputError(row["suspicious"])
    if DEVICES.get(device) not in machine_names():
        raise InputError(f"{device}: no machine here, or it is unclear which")
    if model not in MODELS:
        raise InputError("a model without a configuration here")
    if not row["latency_s"]:
        raise InputError("no latency")
    sequences = 1 if engine == "llama.cpp" else int(float(row["sequences"]))
    devices = int(row["devices"])
    step = _step(DEVICES[device], MODELS[model], devices, engine == "llama.cpp")
    prompt, made = float(row["input_tokens"]), float(row["output_tokens"])
    ours, roof = _lock_step(step, prompt, made, sequences)
    return Whole(device, devices, engine, model, float(row["latency_s"]), ours, roof)


@cache
def _step(name: str, model: str, devices: int, layers: int) -> StepTime:
    """The step of a model over several devices; llama.cpp deals out whole layers."""
    layout = Layout(1, devices) if layers else Layout(devices)
    at = machine(name)
    if devices > 1 and not layers and not at.links:
        raise InputError(f"{name} states no link between devices")
    shares = Shares(language_model(model), layout, weight_type("fp16"))
    return StepTime.for_machine(at, shares, serving_fit().parameters({}))


def _lock_step(step: StepTime, prompt: float, made: float, sequences: int) -> tuple[float, float]:
    """Seconds of a whole batch, and the least that the data sheet allows."""
    first = Batch(prompt=prompt * sequences, chunk=prompt, finished=sequences)
    middle = Batch(sequences, prompt + made / 2)
    further = made - 1
    return (
        step.seconds(first) + further * step.seconds(middle),
        step.floor(first) + further * step.floor(middle),
    )
