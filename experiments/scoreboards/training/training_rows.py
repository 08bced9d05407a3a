"""Published training runs as layouts on machines: MLPerf training, Megatron-Bridge, llm-foundry.

Left out, and why: rows marked suspicious; LoRA and fine-tuning; models whose configuration does not ship (Nemotron,
DeepSeek V4); MLPerf rows without a layout of their own folder ("folder and size"); the same submitter's step time
repeated in a later round; layouts that do not divide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.training.layout_step_time import PRECISIONS
from slipstick.hwmodels.catalog import machine, name_of_device
from slipstick.hwmodels.link import Link
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.training_layout import Recompute, TrainingLayout
from slipstick.workloads.language_catalog import language_model, shipped_name

if TYPE_CHECKING:
    import pandas as pd

FILES = {
    "mlperf": "training_at_scale/mlperf_training.csv",
    "megatron-bridge": "training_at_scale/megatron_bridge.csv",
    "llm-foundry": "training_at_scale/llm_foundry.csv",
}
MACHINES = {
    "a100_40gb": "a100-sxm-40gb",
    "a100_80gb": "a100-80-dgx",
    "h100": "h100-dgx",
    "h200": "h200-sxm",
    "b200": "b200-sxm",
    "gb200": "gb200",
    "b300": "b300-sxm",
    "gb300": "gb300",
}
PORTS = {
    "a100_40gb": 25e9, "a100_80gb": 25e9, "h100": 50e9, "h200": 50e9, "b200": 50e9, "gb200": 50e9,
    "b300": 100e9, "gb300": 100e9,
}  # fmt: skip
"""Bytes a second of one device's network port: 1600 Gbit/s a node of eight (llm-foundry's tables), NDR 400 Gbit/s;
B300 and GB300: 800 Gbit/s (NVIDIA ConnectX-8, DGX B300 and GB300 NVL72 data sheets)."""
USUAL_PORT = 50e9
"""Of a device that is not listed: NDR, as most of those are."""
FAR_LATENCY, MOST_DEVICES = 9.6e-6, 100_000
MODELS = {
    "DeepSeekV3": "deepseek-v3",
    "GPT OSS 120B": "gpt-oss-120b",
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "LLAMA3.1_405B": "llama-3.1-405b",
    "LLAMA3_70B": "llama-3.1-70b",
    "llama31_405b": "llama-3.1-405b",
}
GPT3 = LanguageModel("gpt3-175b", 96, 12288, 96, 96, 128, 4 * 12288, 51200, matrices=2, tied=1)
"""The reference of MLPerf training up to v4.1 (Brown et al. 2020, Table 2.1; vocabulary padded)."""
MPT = {
    "mpt-125m": (12, 768, 12),
    "mpt-350m": (24, 1024, 16),
    "mpt-760m": (24, 1536, 12),
    "mpt-1b": (24, 2048, 16),
    "mpt-3b": (32, 2560, 20),
    "mpt-7b": (32, 4096, 32),
    "mpt-13b": (40, 5120, 40),
    "mpt-30b": (48, 7168, 56),
    "mpt-70b": (80, 8192, 64),
}
"""Layers, width and heads (llm-foundry, scripts/train/yamls/pretrain); vocabulary 50368, inner width four times."""
CHUNKS_OF_MLPERF = 8
"""Chunks a stage of the Llama 3.1 405B submissions; the rows do not say it, so it is assumed."""


@dataclass(frozen=True)
class TrainingRun:
    """One published run: what it was and the seconds of a step."""

    source: str
    system: str
    model: LanguageModel
    layout: TrainingLayout
    batch: int
    sequence: int
    precision: str
    devices: int
    seconds: float
    release: str

    @property
    def machine(self) -> Machine:
        """The machine with its network."""
        return machine_of(self.system)


def machine_name(system: str) -> str:
    """The catalogue's name of a system of the tables."""
    return MACHINES.get(system, system)


@cache
def machine_of(system: str) -> Machine:
    """A machine whose last link joins any number of devices."""
    base = machine(machine_name(system))
    nearest = list(base.links.items())[:1]
    port = Link(bandwidth=PORTS.get(system, USUAL_PORT), latency=FAR_LATENCY, width=MOST_DEVICES)
    return base.model_copy(update={"links": FrozenDict({**dict(nearest), "network": port})})


@cache
def mpt(name: str) -> LanguageModel:
    """An MPT model (two matrices a feed-forward, tied embedding)."""
    layers, width, heads = MPT[name]
    return LanguageModel(
        name, layers, width, heads, heads, width // heads, 4 * width, 50368, matrices=2, tied=1
    )  # fmt: skip


def training_runs(source: str, path: Path) -> tuple[list[TrainingRun], Counter[str]]:
    """The runs of a file, and how many of its rows are left out for which reason.

    Raises InputError where the file cannot be read.
    """
    frame = csv_frame(path)
    result: list[TrainingRun] = []
    left = Counter[str]()
    reader = {"mlperf": _mlperf, "megatron-bridge": _bridge, "llm-foundry": _foundry}[source]
    for row in _rows(frame):
        try:
            run = reader(row)
            run.layout.check(run.model, run.batch, run.sequence)
            _rated(run.system, run.precision)
            if run.precision not in PRECISIONS:
                raise unknown_name("precision of training", run.precision, list(PRECISIONS))
        except InputError as error:
            left[str(error)] += 1
        except KeyError as error:
            left[f"no {error.args[0]}"] += 1
        else:
            if any(_same(run, other) for other in result):
                left["published twice"] += 1
            else:
                result.append(run)
    return result, left


def _model(name: str) -> LanguageModel:
    """The model of a published name.

    Raises InputError where no configuration of it is here.
    """
    known = MODELS.get(name) or shipped_name(name)
    if known is None:
        raise InputError(f"model {name}: no configuration here")
    return language_model(known)


def unplaced_runs(path: Path) -> list[TrainingRun]:
    """MLPerf rows of whole models on NVIDIA systems; the layout stands for none: one device a data rank."""
    result: list[TrainingRun] = []
    for row in _rows(csv_frame(path)):
        name = row["benchmark"]
        if "suspicious" in row or "step_s" not in row or row.get("division") != "closed":
            continue
        try:
            system = _rated(_system(row["accelerator"]), _precision(row))
            model = GPT3 if name == "gpt3" else language_model(MODELS[name]) if name in MODELS else None
        except InputError:
            continue
        if model is None or not machine_of(system).family.startswith("nvidia"):
            continue
        devices, batch = int(row["accelerators"]), int(row["global_batch_size"])
        run = TrainingRun(
            "mlperf", system, model, TrainingLayout(data=devices), batch, int(row["sequence_length"]),
            _precision(row), devices, row["step_s"], row["round"],
        )  # fmt: skip
        if not any(_same(run, other) for other in result):
            result.append(run)
    return result


def _rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for record in frame.to_dict("records"):
        yield {str(name): value for name, value in record.items() if value == value}  # not-a-number is left out


def _same(one: TrainingRun, other: TrainingRun) -> bool:
    """The same measurement, published twice (MLPerf repeats rows between rounds)."""
    return one.source == "mlperf" and (one.system, one.devices, one.seconds) == (
        other.system, other.devices, other.seconds,
    )  # fmt: skip


def _system(text: str) -> str:
    words = text.lower()
    for name in ("gb300", "gb200", "b300", "b200", "h200", "h100"):
        if name in words:
            return name
    if (known := name_of_device(text)) is None:
        raise InputError(f"the catalogue lacks {text}")
    return known


def _rated(system: str, precision: str) -> str:
    """The system, whose machine states a rate of products in this precision.

    Raises InputError where it states none.
    """
    machine_of(system).stated_peak("matrix", PRECISIONS[precision])
    return system


def _undoubted(row: dict[str, Any]) -> None:
    if "suspicious" in row:
        raise InputError(f"marked: {row['suspicious']}")


def _mlperf(row: dict[str, Any]) -> TrainingRun:
    _undoubted(row)
    model = _model(row["benchmark"])
    if row.get("layout_matched") != "folder and size" or row.get("division") != "closed":
        raise InputError("its layout is not known, or not of the closed division")
    system = _system(row["accelerator"])
    t, p, c = (int(row[f"{name}_parallel"]) for name in ("tensor", "pipeline", "context"))
    devices, batch = int(row["accelerators"]), int(row["global_batch_size"])
    data = devices // (t * p * c)
    micro = max(1, batch // (data * int(row["minibatch"])))
    at = TrainingLayout(t, p, data, c, 1, CHUNKS_OF_MLPERF if p > 1 else 1, micro, 1)
    return TrainingRun(
        "mlperf", system, model, at, batch, int(row["sequence_length"]), _precision(row), devices, row["step_s"],
        row["round"],
    )  # fmt: skip


def _precision(row: dict[str, Any]) -> str:
    """What a submission's products ran in: its configuration's name ends in fp4, or the reference's FP8 holds."""
    return "nvfp4" if "fp4" in str(row.get("config", "")).lower() else "fp8"


def _bridge(row: dict[str, Any]) -> TrainingRun:
    _undoubted(row)
    model = _model(row["model"])
    if row["phase"] != "Pre-Training Performance":
        raise InputError("no pre-training")
    t, p, c = (int(row[f"{name}_parallel"]) for name in ("tensor", "pipeline", "context"))
    expert, chunks = int(row.get("expert_parallel", 1)), int(row.get("virtual_pipeline", 1))
    devices = int(row["gpus"])
    shard = 3 if row.get("fsdp", 0.0) > 0 else 1
    micro = int(row["micro_batch_size"])
    at = TrainingLayout(t, p, devices // (t * p * c), c, expert, chunks if p > 1 else 1, micro, shard)
    return TrainingRun(
        "megatron-bridge", _system(row["system"]), model, at,
        int(row["global_batch_size"]), int(row["sequence_length"]), str(row["precision"]).lower(), devices,
        row["step_s"], row["release"],
    )  # fmt: skip


def _foundry(row: dict[str, Any]) -> TrainingRun:
    if row["model"] not in MPT:
        raise InputError(f"model {row['model']}: no configuration here")
    if row.get("cpu_offload"):
        raise InputError("states that lie in the host's memory")
    system = str(row["gpu"]) if row["gpu"] in MACHINES else _system(str(row["gpu"]))
    shard = 3 if row["sharding"] == "FULL_SHARD" else 2
    recompute: Recompute = "full" if row["activation_checkpointing"] else "selective"
    at = TrainingLayout(data=int(row["gpus"]), micro=int(row["micro_batch_size"]), shard=shard, recompute=recompute)
    precision = "fp8" if "fp8" in str(row["precision"]) else "bf16"
    return TrainingRun(
        "llm-foundry", system, mpt(row["model"]), at, int(row["global_batch_size"]), int(row["sequence_length"]),
        precision, int(row["gpus"]), row["step_s"], str(row["table"]),
    )  # fmt: skip
