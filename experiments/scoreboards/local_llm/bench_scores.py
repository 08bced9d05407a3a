"""LLM-Inference-Bench: whole batches that start together; devices, makers and models unseen.

A batch of equal sequences is a lock-step: its prompts, then all its tokens; sequences whose cache does not fit run one
wave after the other. Each row is a sum of steps under the law of a server's step, fitted to the rows of other devices,
or of other models. llama.cpp runs one sequence, whatever "batch size" says, and deals out whole layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.engine_steps.engines import step_groups
from slipstick.estimators.engine_steps.step_amounts import Batch, Shares
from slipstick.estimators.engine_steps.step_device import Device
from slipstick.estimators.engine_steps.step_law import StepLaw, StepSum, columns_of, least_seconds
from slipstick.estimators.engine_steps.step_time import LayerCounts
from slipstick.estimators.fitting.fitted_model import LawRows
from slipstick.estimators.fitting.prediction_bands import left_out
from slipstick.estimators.serving.deployment import CONTEXT_BYTES, MEMORY_SHARE
from slipstick.experiments.scoreboards.serving.serving_refit import MAKER
from slipstick.experiments.scoring.score import PERCENT, Data, Rows, Scored
from slipstick.experiments.scoring.scored_cases import readable
from slipstick.hwmodels.catalog import machine, machine_names, name_of_device
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import weight_type
from slipstick.workloads.language_catalog import language_model, shipped_name

FILE = "local_llm/llm_inference_bench.csv.gz"
DEVICES = {
    "Nvidia A100 GPU": "a100-sxm-40gb", "Nvidia H100 GPU": "h100-sxm", "Habana Gaudi2": "gaudi2",
    "Nvidia GH200": "gh200", "Nvidia GH200 GPU": "gh200", "AMD MI300X GPU": "mi300x", "AMD MI300X": "mi300x",
    "AMD MI250 GPU": "mi250-gcd",
}  # fmt: skip
UNCLEAR = ("Intel PVC GPU", "Intel Max 1550")
DIES = {"mi250-gcd": 2}
"""Of a published device: the repository's scripts for the MI250 (llama.cpp/MI250, vLLM/MI250) run one device on dies 0
and 1 and the others on four and eight, and a half of 64 GB could not hold Mixtral's 93 GB, which ran on one."""
MODELS = {
    "meta-llama/Llama-2-7b-hf": "llama-2-7b", "meta-llama/Llama-2-70b-hf": "llama-2-70b",
    "meta-llama/Meta-Llama-3-8B": "llama-3-8b", "meta-llama/Meta-Llama-3-70B": "llama-3.1-70b",
    "mistralai/Mistral-7B-v0.1": "mistral-7b", "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b",
    "Qwen/Qwen2-7B": "qwen2.5-7b",
}  # fmt: skip
"""Llama 3 and 3.1 share shapes, so do Qwen 2 and 2.5."""
ENGINES = {"vLLM": "vllm", "TensorRT-LLM": "trtllm"}
"""Names of the law; others are groups of their own."""
GOALS = {"device unseen": (25.0, 60.0), MAKER: (25.0, 60.0), "model unseen": (20.0, 50.0)}
NOISE, ENOUGH = 0.4, 20


@dataclass(frozen=True)
class Whole:
    """One batch: what ran on what, measured seconds, and the steps that it is the sum of."""

    device: str
    machine: str
    devices: int
    engine: str
    model: str
    seconds: float
    steps: StepSum
    groups: Mapping[str, str]

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two rows one measurement."""
        return self.machine, self.devices, self.engine, self.groups["model"], self.steps


def bench_scores(data: Data) -> Iterator[Scored]:
    """Devices, makers and models unseen."""
    public, (targets, refused) = read_batches(data.known(FILE))[0], read_batches(data.judged(FILE))
    note = "left out: " + "; ".join(f"{reason}: {count}" for reason, count in sorted(refused.items()))
    batches = data.rows(public, targets, lambda one: one.key)
    for held, level in (("device unseen", "chip"), (MAKER, "vendor"), ("model unseen", "model")):
        yield _scored(held, level, batches, note)


def _scored(held: str, level: str, batches: Rows[Whole], note: str) -> Scored:
    """Each group of a level from the other groups."""
    rows = law_rows(batches.rows)
    outer = batches.folds(rows.groups[level])
    made, least = left_out(StepLaw(), rows, outer, rows.groups["model"]), least_seconds(rows.columns)
    roof = np.full(len(rows), np.nan)
    for fold in outer:
        share = np.median(np.log(rows.seconds[fold.known] / least[fold.known]))
        roof[fold.scored] = least[fold.scored] * np.exp(share)
    there = np.flatnonzero(np.isfinite(made.seconds))
    some = [batches.rows[at] for at in there.tolist()]
    return Scored(
        "time of a whole batch", held, rows.seconds[there], made.seconds[there], PERCENT, GOALS[held],
        {"one efficiency": roof[there]}, half=made.half[there], enough=ENOUGH, noise=NOISE, reason=note,
        groups=[made.groups[at] for at in there.tolist()],
        inputs=[{"machine": row.machine, "devices": row.devices, "engine": row.engine} for row in some],
    )  # fmt: skip


def law_rows(batches: Sequence[Whole]) -> LawRows:
    """Batches as rows of the law of a step."""
    return LawRows(
        columns_of([row.steps for row in batches]),
        {name: [row.groups[name] for row in batches] for name in batches[0].groups},
        [f"{row.model} {row.engine} {row.device} {row.devices}" for row in batches],
        np.array([row.seconds for row in batches]),
        ["batches"] * len(batches),
    )


def read_batches(path: Path) -> tuple[list[Whole], dict[str, int]]:
    """Batches of a file that can be evaluated, and those left out by reason."""
    needed = ("device", "devices", "engine", "model", "input_tokens", "output_tokens", "latency_s", "sequences")
    return readable((row for _, row in read_csv_rows(path, needed)), _whole)


def _whole(row: dict[str, str]) -> Whole:
    device, engine, model = row["device"], row["engine"], row["model"]
    if row.get("suspicious"):
        raise InputError(row["suspicious"])
    name = "" if device in UNCLEAR else DEVICES.get(device) or name_of_device(device)
    if name not in machine_names():
        raise InputError(f"{device}: no machine here, or it is unclear which")
    ran = MODELS.get(model) or shipped_name(model)
    if ran is None:
        raise InputError("a model without a configuration here")
    if not row["latency_s"]:
        raise InputError("no latency")
    sequences = 1 if engine == "llama.cpp" else int(float(row["sequences"]))
    devices = int(row["devices"]) * DIES.get(name, 1)
    shares, at = _shares(name, ran, devices, engine == "llama.cpp")
    prompt, made = float(row["input_tokens"]), float(row["output_tokens"])
    groups = step_groups(machine(name), name, ENGINES.get(engine, engine), "", ran, "fp16")
    steps = _lock_step(shares, at, prompt, made, sequences)
    return Whole(device, name, devices, engine, model, float(row["latency_s"]), steps, groups)


@cache
def _shares(name: str, model: str, devices: int, layers: int) -> tuple[Shares, Device]:
    """A model over several devices, which llama.cpp gives whole layers, and their rates."""
    layout = Layout(1, devices) if layers else Layout(devices)
    at = machine(name)
    if devices > 1 and not layers and not at.links:
        raise InputError(f"{name} states no link between devices")
    layout.check(language_model(model))
    shares = Shares(language_model(model), layout, weight_type("fp16"))
    return shares, Device.of(at, shares.kind.compute, layout.group)


def _lock_step(shares: Shares, device: Device, prompt: float, made: float, sequences: int) -> StepSum:
    """The steps of a whole batch: as many sequences at a time as the cache holds at their mean length."""
    context = prompt + made / 2
    left = MEMORY_SHARE * device.capacity - shares.held_bytes - CONTEXT_BYTES
    together = min(float(sequences), max(1.0, left / (shares.token_cache_bytes * context)))
    waves = sequences / together
    first = Batch(prompt=prompt * together, chunk=prompt, finished=together)
    return StepSum(
        shares.amounts(Batch(together, context)), shares.amounts(first), device, LayerCounts.of(shares, device),
        together, plains=(made - 1) * waves, mixeds=waves, stages=float(shares.layout.pipeline),
    )  # fmt: skip
