"""Published training runs as layouts on machines: MLPerf training, Megatron-Bridge, llm-foundry, other trainers.

Left out, and why: rows marked suspicious; LoRA and fine-tuning; models whose configuration does not ship (Nemotron,
DeepSeek V4); MLPerf rows without a layout of their own folder ("folder and size"); the same submitter's step time
repeated in a later round; layouts that do not divide; of MaxText rows without a batch, and those that `abroad` asks;
the others of MaxText state no layout, so that they are scored and not fitted.
"""

from __future__ import annotations

import math
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
    **dict.fromkeys(("internevo", "bigscience", "automodel"), "training_at_scale/community.csv"),
}
"""Those that are fitted."""
UNPLACED, ONE_GPU = "tpu-recipes", "ml-dataflow"
"""Whose rows state neither sharding nor what is computed again; a trainer that streams from the host: both are scored
and not fitted."""
ONE_GPU_FILE = "training_at_scale/one_gpu_memory_caps.csv.gz"
ONE_GPU_MACHINES = {
    "A100 80 GB": "a100_80gb", "H100 SXM 80 GB": "h100", "GeForce RTX 3090": "rtx-3090", "GeForce RTX 5090": "rtx-5090",
}  # fmt: skip
COMMUNITY = (*(name for name, file in FILES.items() if file.endswith("community.csv")), UNPLACED)
"""Sources of one table: the last word of its column `source`, in small letters."""
SOFTWARE = {
    "mlperf": "megatron", "megatron-bridge": "megatron", "llm-foundry": "fsdp", "internevo": "internevo",
    "bigscience": "megatron-deepspeed", "automodel": "automodel", UNPLACED: "maxtext",
    ONE_GPU: "ml-dataflow",
}  # fmt: skip
"""What trained, by source."""
MACHINES = {
    "a100_40gb": "a100-sxm-40gb",
    "a100_80gb": "a100-80-dgx",
    "h100": "h100-dgx",
    "h200": "h200-sxm",
    "b200": "b200-sxm",
    "gb200": "gb200",
    "b300": "b300-sxm",
    "gb300": "gb300",
    "tpu-v5p": "tpu-v5p",
    "tpu-v6e": "tpu-v6e",
    "tpu-v7": "tpu-v7",
}
PORTS = {
    "a100_40gb": 25e9, "a100_80gb": 25e9, "h100": 50e9, "h200": 50e9, "b200": 50e9, "gb200": 50e9,
    "b300": 100e9, "gb300": 100e9,
}  # fmt: skip
"""Bytes a second of one device's network port: 1600 Gbit/s a node of eight (llm-foundry's tables), NDR 400 Gbit/s;
B300 and GB300: 800 Gbit/s (NVIDIA ConnectX-8, DGX B300 and GB300 NVL72 data sheets)."""
USUAL_PORT = 50e9
"""Of a device that is not listed: NDR, as most of those are."""
FOUR_PORTS = 50e9 / 8
"""Of one of eight devices that share four ports of 100 Gbit/s: Omni-Path of Jean Zay, and InternEvo's RoCE."""
FAR_LATENCY, MOST_DEVICES = 9.6e-6, 100_000
MODELS = {
    "DeepSeekV3": "deepseek-v3",
    "DeepSeek V3 671B": "deepseek-v3",
    "DeepSeek3-671B-MaxText": "deepseek-v3",
    "GPT-OSS 20B": "gpt-oss-20b",
    "Gemma3-12B-MaxText": "gemma-3-12b",
    "Llama3 70B": "llama-3.1-70b",
    "llama3.1-405b": "llama-3.1-405b",
    "llama3.1-70b": "llama-3.1-70b",
    "qwen3-235b-a22b": "qwen3-235b-a22b",
    "gpt-oss-120b": "gpt-oss-120b",
    "GPT OSS 120B": "gpt-oss-120b",
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "LLAMA3.1_405B": "llama-3.1-405b",
    "LLAMA3_70B": "llama-3.1-70b",
    "llama31_405b": "llama-3.1-405b",
}
GPT3 = LanguageModel("gpt3-175b", 96, 12288, 96, 96, 128, 4 * 12288, 51200, matrices=2, tied=1)
"""The reference of MLPerf training up to v4.1 (Brown et al. 2020, Table 2.1; vocabulary padded)."""
INTERN = LanguageModel("internlm-7b", 32, 4096, 32, 32, 128, 11008, 103168, matrices=3, tied=0)
"""What InternEvo's page trains: 7.3e9 parameters in these layers; width and vocabulary are those of InternLM-7B."""
BLOOM_WIDTH, BLOOM_HEADS, BLOOM_VOCABULARY, BLOOM_SEQUENCE = 14336, 64, 51200, 2048
"""Taken where a row of the 176B runs states parameters alone (the width of BLOOM, Scao et al. 2022)."""
MAXTEXT_SEQUENCES = {"GPT3-175B-MaxText": 2048, "DeepSeek3-671B-MaxText": 4096}
"""Tokens of a sequence that the recipes' configurations state."""
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
    port: float | None = None
    """Bytes a second of one device's network port, where it is not the system's usual one."""
    memory: float | None = None
    """Bytes of the fullest device at its peak, where they are published."""

    @property
    def machine(self) -> Machine:
        """The machine with its network."""
        return machine_of(self.system, self.port)


def machine_name(system: str) -> str:
    """The catalogue's name of a system of the tables."""
    return MACHINES.get(system, system)


@cache
def machine_of(system: str, port: float | None = None) -> Machine:
    """A machine whose last link joins any number of devices; a TPU's own links do."""
    base = machine(machine_name(system))
    if base.family == "google-tpu":
        return base
    nearest = list(base.links.items())[:1]
    far = Link(bandwidth=port or PORTS.get(system, USUAL_PORT), latency=FAR_LATENCY, width=MOST_DEVICES)
    return base.model_copy(update={"links": FrozenDict({**dict(nearest), "network": far})})


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
    reader = READERS[source]
    for row in _rows(frame):
        if source in COMMUNITY and str(row["source"]).lower().rpartition("/")[2] != source:
            continue
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


def _pretraining(row: dict[str, Any]) -> None:
    _undoubted(row)
    if row["task"] != "pretraining" or "adapter" in row:
        raise InputError("no pre-training")


def _internevo(row: dict[str, Any]) -> TrainingRun:
    _pretraining(row)
    devices, tensor, sequence = int(row["devices"]), int(row["tensor_parallel"]), int(row["sequence_length"])
    batch, recompute = int(row["global_batch"]), _recompute(row)
    at = TrainingLayout(tensor, data=devices // tensor, micro=int(row["micro_batch"]), recompute=recompute)
    seconds = batch * sequence / (row["tokens_per_s_per_device"] * devices)
    return TrainingRun(
        "internevo", "a100_80gb", INTERN, at, batch, sequence, "bf16", devices, seconds, "", FOUR_PORTS
    )  # fmt: skip


def _recompute(row: dict[str, Any]) -> Recompute:
    """Whole layers where the row says so; else the attention's core, as flash attention does."""
    return "full" if row.get("recomputation") == "full" else "selective"


def _bigscience(row: dict[str, Any]) -> TrainingRun:
    _pretraining(row)
    devices, t, p = (int(row[name]) for name in ("devices", "tensor_parallel", "pipeline_parallel"))
    data, micro = int(row.get("data_parallel", devices // (t * p))), int(row["micro_batch"])
    whole = int(row["global_batch"])
    batch = whole - whole % (data * micro)
    at = TrainingLayout(t, p, data, micro=micro, recompute="full")
    return TrainingRun(
        "bigscience", "a100_80gb", _gpt(row, p), at, batch, BLOOM_SEQUENCE, "bf16", devices,
        row["step_s"] * batch / whole, "", FOUR_PORTS, row.get("peak_memory_bytes"),
    )  # fmt: skip


def _gpt(row: dict[str, Any], stages: int) -> LanguageModel:
    """A GPT of a row's parameters (12 x layers x width^2), in as many layers as its stages share alike."""
    weights, width = row["parameters"], row.get("hidden", BLOOM_WIDTH)
    layers = int(row.get("layers", max(1, round(weights / (12 * width**2) / stages)) * stages))
    heads = int(row.get("heads", BLOOM_HEADS))
    head = round(row.get("hidden", (weights / (12 * layers)) ** 0.5) / heads)
    return LanguageModel(
        "bloom", layers, head * heads, heads, heads, head, 4 * head * heads, BLOOM_VOCABULARY,
        matrices=2, tied=1,
    )  # fmt: skip


def _automodel(row: dict[str, Any]) -> TrainingRun:
    _pretraining(row)
    model, devices = _model(row["model"]), int(row["devices"])
    t, p, c = (int(row[f"{name}_parallel"]) for name in ("tensor", "pipeline", "context"))
    ranks = str(row["sharding"]).rpartition(" ")[2]
    experts, micro = int(ranks) if ranks.isdigit() else 1, int(row["micro_batch"])
    at = TrainingLayout(t, p, devices // (t * p * c), c, experts, micro=micro, shard=3)
    return TrainingRun(
        "automodel", "h100", model, at, int(row["global_batch"]), int(row["sequence_length"]), row["precision"],
        devices, row["step_s"], "",
    )  # fmt: skip


def _maxtext(row: dict[str, Any]) -> TrainingRun:
    _pretraining(row)
    if row["device"] != "TPU v7 (Ironwood)" and row["model"] not in ("Gemma3-12B-MaxText", *MAXTEXT_SEQUENCES):
        raise InputError("asked by the board `abroad`")
    model = GPT3 if row["model"].startswith("GPT3") else _model(row["model"])
    devices, sequence = int(row["devices"]), int(row.get("sequence_length", MAXTEXT_SEQUENCES.get(row["model"], 0)))
    batch = int(row.get("global_batch", round(row["tokens_per_s_per_device"] * devices * row["step_s"] / sequence)))
    context = max(1, devices // batch)  # sequences that one device each would be too few for
    at = TrainingLayout(
        data=devices // context, context=context, micro=max(1, batch // devices), shard=3, recompute=_recompute(row)
    )
    precision = {"fp8_full": "fp8"}.get(row["precision"], row["precision"])
    return TrainingRun(
        UNPLACED, f"tpu-{row['device'].split()[1]}", model, at, batch, sequence, precision, devices,
        row["step_s"], "",
    )  # fmt: skip


def one_gpu_runs(path: Path) -> list[TrainingRun]:
    """Llama-like 8B on one GPU, a row a GPU and length: the median over caps of memory, which hardly change it.

    Left out: rows marked suspicious, and sizes whose shapes are not published. Raises InputError as `training_runs`.
    """
    frame = csv_frame(path)
    frame = frame[frame["suspicious"].isna() & (frame["model"] == "Llama-like 8B")]
    made = []
    for _, rows in frame.groupby(["device", "sequence_length"]):
        first = rows.iloc[0]
        sequence = int(first["sequence_length"])
        batch = int(first["sequences_per_step"])
        seconds = float((rows["step_s"] / rows["sequences_per_step"]).median()) * batch
        at = TrainingLayout(micro=math.gcd(batch, max(1, int(first["chunk_tokens"]) // sequence)))
        system = ONE_GPU_MACHINES[str(first["device"])]
        made.append(
            TrainingRun(ONE_GPU, system, language_model("llama-3.1-8b"), at, batch, sequence, "bf16", 1, seconds, "")
        )
    return made


READERS = {
    "mlperf": _mlperf,
    "megatron-bridge": _bridge,
    "llm-foundry": _foundry,
    "internevo": _internevo,
    "bigscience": _bigscience,
    "automodel": _automodel,
    UNPLACED: _maxtext,
}
"""What makes a run of a row, by source."""


def software_of(run: TrainingRun) -> str:
    """What trained."""
    return SOFTWARE[run.source]
