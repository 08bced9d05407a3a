"""What others than the dashboards measured of servers, as sums of steps: whole batches, and users who are alone.

LLM-Inference-Bench: a batch of equal sequences is a lock-step: its prompts, then all its tokens; sequences whose cache
does not fit run one wave after the other. llama.cpp runs one sequence, whatever "batch size" says, and deals out whole
layers. Qwen's pages: one sequence of 2,048 tokens after a prompt. ML.ENERGY: the median time between tokens of a batch
of so many requests at the mean. Users' own servers (`serving/community`): one user
in a closed loop, the time of a further token where it is stated, else that of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.engine_steps.engines import ENGINES as SERVERS
from slipstick.estimators.engine_steps.engines import step_groups
from slipstick.estimators.engine_steps.step_amounts import Batch, Shares
from slipstick.estimators.engine_steps.step_device import Device
from slipstick.estimators.engine_steps.step_law import StepSum, columns_of, least_seconds
from slipstick.estimators.engine_steps.step_time import LayerCounts
from slipstick.estimators.fitting.fitted_model import UNGROUPED, LawRows
from slipstick.estimators.serving.deployment import CONTEXT_BYTES, MEMORY_SHARE
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.energy.metered_runs import INPUT_TOKENS, OTHER_INPUT, plain_name
from slipstick.experiments.scoreboards.energy.metered_runs import STORED as METERED_TYPES
from slipstick.experiments.scoreboards.serving.serving_rows import UNRECORDED, model_named
from slipstick.experiments.scoring.scored_cases import readable
from slipstick.hwmodels.catalog import machine, machine_names, name_of_device
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import weight_type
from slipstick.workloads.language_catalog import language_model, shipped_name

FILE, STREAMS, USERS, METERED = (
    "local_llm/llm_inference_bench.csv.gz",
    "memory/qwen_single_stream.csv",
    "serving/community.csv.gz",
    "energy/llm_inference.csv.gz",
)
BENCH = "LLM-Inference-Bench"
DEVICES = {
    "Nvidia A100 GPU": "a100-sxm-40gb", "Nvidia H100 GPU": "h100-sxm", "Habana Gaudi2": "gaudi2",
    "Nvidia GH200": "gh200", "Nvidia GH200 GPU": "gh200", "AMD MI300X GPU": "mi300x", "AMD MI300X": "mi300x",
    "AMD MI250 GPU": "mi250-gcd", "A100 80 GB": "a100-sxm-80gb", "H20 96 GB": "h20-sxm",
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
STORED = {
    "BF16": "bf16", "GPTQ-Int8": "int8", "GPTQ-Int4": "int4", "AWQ": "int4", "AWQ-INT4": "int4", "FP8": "fp8_block",
    "bf16": "bf16", "awq-int4": "int4", "autoround-int4": "int4", "fp8-static": "fp8", "fp8-dynamic": "fp8",
    "fp8": "fp8", "nvfp4": "nvfp4", "mxfp4": "mxfp4", "int8-w8a8": "int8",
}  # fmt: skip
"""Types of weights as Qwen's pages and users name them."""
EVERY = 4
"""Of LLM-Inference-Bench's batches, so many apart are fitted: neighbours are alike."""
LONGEST = 1024.0
"""Tokens of a user's prompt up to which a request's time holds it: longer ones were kept in the cache."""


@dataclass(frozen=True)
class Whole:
    """What ran on what, measured seconds, and the steps that they are the sum of. `source`: who measured."""

    source: str
    device: str
    machine: str
    devices: int
    engine: str
    model: str
    seconds: float
    steps: StepSum
    groups: dict[str, str]

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two rows one measurement."""
        return self.machine, self.devices, self.engine, self.groups["model"], self.steps


def law_rows(batches: Sequence[Whole]) -> LawRows:
    """Batches as rows of the law of a step."""
    return LawRows(
        columns_of([row.steps for row in batches]),
        {name: [row.groups[name] for row in batches] for name in batches[0].groups},
        [f"{row.model} {row.engine} {row.device} {row.devices} {row.groups['weights']}" for row in batches],
        np.array([row.seconds for row in batches]),
        [row.source for row in batches],
    )


def other_servers() -> list[Whole]:
    """All public rows of others under an engine of the law, none faster than the data sheet; without files none."""
    made: list[Whole] = []
    tables = (
        (FILE, read_batches, EVERY),
        (STREAMS, read_streams, 1),
        (USERS, read_users, 1),
        (METERED, read_metered, 1),
    )
    for name, read, apart in tables:
        path = training_file(name)
        rows = read(path)[0] if path is not None else []
        made += [row for row in rows if row.groups["engine"] in SERVERS][::apart]
    least = least_seconds(columns_of([row.steps for row in made])) if made else np.zeros(0)
    return [row for row, floor in zip(made, least, strict=True) if row.seconds >= floor]


def read_batches(path: Path) -> tuple[list[Whole], dict[str, int]]:
    """Batches of LLM-Inference-Bench that can be evaluated, and those left out by reason."""
    needed = ("device", "devices", "engine", "model", "input_tokens", "output_tokens", "latency_s", "sequences")
    return _read(path, needed, _whole)


def read_streams(path: Path) -> tuple[list[Whole], dict[str, int]]:
    """Single sequences of Qwen's pages under a server's engine; Transformers' host-bound loops are none."""
    needed = (
        "source", "device", "devices", "engine", "engine_version", "model", "quantisation", "input_tokens",
        "output_tokens", "time_s",
    )  # fmt: skip
    return _read(path, needed, _stream)


def read_users(path: Path) -> tuple[list[Whole], dict[str, int]]:
    """Users who are alone on a server of their own, without speculation and doubts."""
    needed = (
        "source", "device", "engine", "engine_version", "model", "precision", "cache_dtype", "loop", "input_tokens",
        "output_tokens", "concurrency", "tensor_parallel", "speculative", "output_tokens_per_s", "tpot_mean_s",
        "suspicious",
    )  # fmt: skip
    return _read(path, needed, _user)


def read_metered(path: Path) -> tuple[list[Whole], dict[str, int]]:
    """ML.ENERGY's steps of models that ship, under vLLM."""
    needed = (
        "model", "task", "gpu", "gpus", "tensor_parallel", "expert_parallel", "data_parallel", "weight_precision",
        "mean_batch_size", "mean_output_tokens", "itl_p50_s", "suspicious",
    )  # fmt: skip
    return _read(path, needed, _metered)


def _read(
    path: Path, needed: Sequence[str], read: Callable[[dict[str, str]], Whole]
) -> tuple[list[Whole], dict[str, int]]:
    return readable((row for _, row in read_csv_rows(path, needed)), read)


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
    shares, at = _shares(name, ran, devices, "fp16", layers=engine == "llama.cpp")
    prompt, made = float(row["input_tokens"]), float(row["output_tokens"])
    version = f"{UNRECORDED} by {BENCH}"
    groups = step_groups(machine(name), name, ENGINES.get(engine, engine), version, ran, "fp16", UNGROUPED)
    steps = _lock_step(shares, at, prompt, made, sequences)
    return Whole(BENCH, device, name, devices, engine, model, float(row["latency_s"]), steps, groups)


def _stream(row: dict[str, str]) -> Whole:
    if row["engine"] not in SERVERS:
        raise InputError(f"{row['engine']}: no engine of servers")
    return _alone(row, DEVICES[row["device"]], STORED[row["quantisation"]], int(row["devices"]), float(row["time_s"]))


def _user(row: dict[str, str]) -> Whole:
    stated = (row[name] for name in ("input_tokens", "output_tokens", "tensor_parallel", "output_tokens_per_s"))
    if row["loop"] != "closed" or float(row["concurrency"] or 0) != 1 or row["speculative"] != "0":
        raise InputError("several users, or speculation")
    if row["engine"] not in SERVERS or row["suspicious"] or not all(stated) or row["precision"] not in STORED:
        raise InputError("another engine, a doubt, or an unknown length, layout or type of weights")
    name, further = name_of_device(row["device"]), float(row["tpot_mean_s"] or 0)
    if name is None or (not further and float(row["input_tokens"]) > LONGEST):
        raise InputError("a device that the catalogue lacks, or a prompt that may have been cached")
    seconds = further or float(row["output_tokens"]) / float(row["output_tokens_per_s"])
    return _alone(row, name, STORED[row["precision"]], int(float(row["tensor_parallel"])), seconds)


def _metered(row: dict[str, str]) -> Whole:
    name, tensor, devices = name_of_device(row["gpu"]), int(row["tensor_parallel"]), int(row["gpus"])
    if name is None or row["suspicious"] or tensor != devices or int(row["expert_parallel"]) > 1:
        raise InputError("a device that the catalogue lacks, a doubt, or ranks of experts or data")
    model, stored = model_named(plain_name(row["model"])), METERED_TYPES[row["weight_precision"]]
    shares, at = _shares(name, model.name, devices, stored)
    context = INPUT_TOKENS.get(row["task"], OTHER_INPUT) + float(row["mean_output_tokens"]) / 2
    decodes = float(row["mean_batch_size"])
    step = shares.amounts(Batch(decodes, context))
    steps = StepSum(step, step, at, LayerCounts.of(shares, at), decodes)
    groups = step_groups(machine(name), name, "vllm", f"{UNRECORDED} by {METERED}", model.name, stored, UNGROUPED)
    return Whole(METERED, row["gpu"], name, devices, "vllm", row["model"], float(row["itl_p50_s"]), steps, groups)


def _alone(row: dict[str, str], name: str, stored: str, devices: int, seconds: float) -> Whole:
    """One sequence: one further token where its time is stated, else all tokens with the prompt."""
    model, engine = model_named(row["model"]).name, row["engine"]
    cache_bytes = 1.0 if row.get("cache_dtype", "").startswith("fp8") else 2.0
    shares, at = _shares(name, model, devices, stored, cache_bytes)
    steps = _lock_step(shares, at, float(row["input_tokens"]), float(row["output_tokens"]), 1)
    if row.get("tpot_mean_s"):
        steps = StepSum(steps.plain, steps.plain, at, steps.layers, 1.0)
    groups = step_groups(machine(name), name, engine, row["engine_version"], model, stored, UNGROUPED)
    return Whole(row["source"], row["device"], name, devices, engine, model, seconds, steps, groups)


@cache
def _shares(
    name: str, model: str, devices: int, stored: str, cache_bytes: float = 2.0, *, layers: bool = False
) -> tuple[Shares, Device]:
    """A model over several devices, which llama.cpp gives whole `layers`, and their rates."""
    layout = Layout(1, devices) if layers else Layout(devices)
    at = machine(name)
    if devices > 1 and not layers and not at.links:
        raise InputError(f"{name} states no link between devices")
    layout.check(language_model(model))
    shares = Shares(language_model(model), layout, weight_type(stored), cache_bytes)
    return shares, Device.of(at, shares.kind.compute, layout)


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
