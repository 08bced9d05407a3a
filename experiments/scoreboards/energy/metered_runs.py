"""Metered serving runs (`energy/llm_inference.csv.gz`, `leaderboard_v2.csv.gz`): what each ran, and what its steps do.

Input lengths are not published: those of `INPUT_TOKENS` are assumed by task. Models whose configuration does not ship
are outlined from their number of parameters.
"""

from __future__ import annotations

import re
from collections import Counter
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame
from slipstick.estimators.engine_steps.fitted_steps import serving_fit
from slipstick.estimators.engine_steps.step_amounts import Batch, Shares
from slipstick.estimators.engine_steps.step_device import Device
from slipstick.estimators.engine_steps.step_time import StepTime
from slipstick.hwmodels.catalog import machine_of_device
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import Experts, LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import weight_type
from slipstick.workloads.language_catalog import language_model, language_model_names

if TYPE_CHECKING:
    import pandas as pd

FILES = ("energy/llm_inference.csv.gz", "energy/leaderboard_v2.csv.gz")
INPUT_TOKENS = {
    "chat": 200, "code": 150, "lm-arena-chat": 150, "gpqa": 300, "sourcegraph-fim": 600, "image-chat": 1000,
    "video-chat": 4000,
}  # fmt: skip
"""Assumed tokens of a prompt by task; `OTHER_INPUT` for other tasks."""
OTHER_INPUT = 300
DROPPED = (
    "-instruct", "-thinking", "-it", "-fp8", "-2507", "-hf", "meta-", "-v0.1", "-v0.3", "-vl", "-omni", "codellama-",
)  # fmt: skip
"""Parts of a published name that change no shape; what is left names a family that is held out together."""
SAME = {"llama-3.3": "llama-3.1"}
STORED = {"bfloat16": "bf16", "fp8": "fp8", "mxfp4": "mxfp4"}
SIZES = {
    "phi-3-mini": 3.8e9, "phi-3-small": 7.4e9, "phi-3-medium": 14e9, "phi-3-vision": 4.2e9, "mistral-nemo": 12.2e9,
    "mistral-large": 123e9,
}  # fmt: skip
"""Parameters of models whose name does not say them (their publishers' model cards)."""
COLUMNS = (
    "model", "task", "gpu", "tensor_parallel", "max_num_seqs", "mean_batch_size", "mean_output_tokens", "mean_power_w",
    "output_tokens_per_s",
)  # fmt: skip
NEWER = (
    "gpus", "expert_parallel", "data_parallel", "itl_p50_s", "weight_precision", "total_parameters",
    "active_parameters", "suspicious",
)  # fmt: skip
OLDER = ("family", "pipeline_parallel", "mean_tpot_s")
NEEDED = (
    "gpus", "pipeline_parallel", "data_parallel", "expert_parallel", "mean_batch_size", "mean_output_tokens",
    "mean_power_w", "step_s", "output_tokens_per_s", "total_parameters", "active_parameters",
)  # fmt: skip
"""Numbers that a run must state."""
_SIZE = re.compile(r"(?:(\d+)x)?(\d+(?:\.\d+)?)b", re.IGNORECASE)
CHUNK = 8192.0


def metered_runs(folder_files: list[Path]) -> tuple[pd.DataFrame, dict[str, int]]:
    """Runs of several files with what their steps do, and how many rows are left out, by reason."""
    import pandas as pd

    tables, refused = [], Counter[str]()
    for path in folder_files:
        try:
            table = _same_columns(csv_frame(path))
        except InputError as error:
            refused[str(error)[:80]] += 1
            continue
        marked = table.suspicious.notna() & (table.suspicious != "")
        refused["marked as doubtful"] += int(marked.sum())
        rows: list[dict[str, Any]] = []
        for _, row in table[~marked].iterrows():
            try:
                rows.append({str(name): value for name, value in row.items()} | amounts_of(row))
            except InputError as error:
                refused[str(error)[:80]] += 1
        tables.append(pd.DataFrame(rows))
    runs = pd.concat(tables, ignore_index=True) if any(len(table) for table in tables) else pd.DataFrame()
    return runs, {reason: n for reason, n in refused.items() if n}


def _same_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Both leaderboards in the columns of the newer one; `older` is 1 for version 2."""
    table = table.copy()
    needed = COLUMNS + (NEWER if "itl_p50_s" in table else OLDER)
    missing = [name for name in needed if name not in table]
    if missing:
        raise InputError(f"no column {missing[0]}")
    if "itl_p50_s" in table:
        table["older"], table["pipeline_parallel"], table["step_s"] = 0, 1, table.itl_p50_s
        table["media"] = table.task.isin(["image-chat", "video-chat"]).astype(int)
    else:
        table = table[table.family != "diffusion"].copy()
        table["older"], table["step_s"], table["suspicious"] = 1, table.mean_tpot_s, ""
        table["gpus"] = table.tensor_parallel * table.pipeline_parallel
        table["weight_precision"], table["expert_parallel"], table["data_parallel"] = "bfloat16", 1, 1
        table["total_parameters"] = [_stated(str(name)) for name in table.model]
        experts = table.model.str.contains("8x", case=False)
        table["active_parameters"] = table.total_parameters * np.where(experts, 0.28, 1.0)
        table["media"] = (table.family == "mllm_text_generation").astype(int)
    table["mean_step_s"] = table.mean_batch_size / table.output_tokens_per_s
    table["family_name"] = [plain_name(name) for name in table.model]
    return table


def _stated(name: str) -> float:
    try:
        return parameters_of(name)
    except InputError:
        return float("nan")


def plain_name(name: str) -> str:
    """A published name without maker, tuning and precision."""
    plain = name.rpartition("/")[2].lower()
    for word in DROPPED:
        plain = plain.replace(word, "llama-2-" if word == "codellama-" else "")
    for word, same in SAME.items():
        plain = plain.replace(word, same)
    return plain


def parameters_of(name: str) -> float:
    """Parameters that a model's name states ("8x7b" counts shared weights once).

    Raises InputError where the name states none and is none of those known.
    """
    lower = name.lower()
    known = next((size for word, size in SIZES.items() if word in lower), None)
    found = _SIZE.search(lower)
    if known is None and found is None:
        raise InputError(f"model {name[:60]}: its name states no number of parameters")
    if known is not None or found is None:
        return float(known or 0)
    return float(found[2]) * 1e9 * (0.93 * int(found[1]) if found[1] else 1)


def outlined(name: str, total: float, active: float) -> LanguageModel:
    """A decoder of so many parameters in the proportions of common ones, where no configuration ships."""
    mixed = active < 0.6 * total
    layers = max(8, round((active / (13 * (43 if mixed else 128) ** 2)) ** (1 / 3)))
    width = max(512, round((43 if mixed else 128) * layers / 512) * 512)
    heads, words = max(8, round(width / 128 / 8) * 8), 128_000
    attention = layers * (2 * width * heads * 128 + 2 * width * 8 * 128)
    tied = int(total <= 4e9)
    ends = width * words * (1 if tied else 2)
    if not mixed:
        inner = max(width, int((total - ends - attention) / (layers * 3 * width)))
        return LanguageModel(name, layers, width, heads, 8, 128, inner, words, tied=tied)
    count = max(4, min(256, int(2 ** round(np.log2(8 * total / active)))))
    inner = max(64, int((total - ends - attention) / (layers * count * 3 * width)))
    visited = max(1, min(count, round((active - ends - attention) / (layers * 3 * width * inner))))
    return LanguageModel(name, layers, width, heads, 8, 128, 0, words, experts=Experts(count, visited, inner, 0, 0, 0))


def amounts_of(row: Any) -> dict[str, Any]:
    """What a step of a run does on one device: seconds at the data sheet and under the shipped serving calibration."""
    _check(row)
    at = metered_machine(str(row.gpu))
    name = plain_name(str(row.model))
    stages, gpus = int(row.pipeline_parallel), int(row.gpus)
    model = language_model(name) if name in language_model_names() else None
    expert_ranks = int(row.expert_parallel)
    layout = _layout(row, gpus, stages, expert_ranks if model is None or model.experts else 1)
    if model is None or not _fits(layout, model):
        model = outlined(name, float(row.total_parameters), float(row.active_parameters))
        layout = _layout(row, gpus, stages, expert_ranks if model.experts else 1)
        layout.check(model)
    shares = Shares(model, layout, weight_type(STORED[str(row.weight_precision)]), 2.0)
    device = Device.of(at, shares.kind.compute, layout)
    step = StepTime(shares, device, serving_fit().parameters({}))
    length, output = float(INPUT_TOKENS.get(str(row.task), OTHER_INPUT)), float(row.mean_output_tokens)
    decodes = float(row.mean_batch_size) / layout.data
    decode = Batch(max(decodes, 1.0), length + output / 2)
    chunk = min(length, CHUNK)
    prompts = Batch(prompt=CHUNK, chunk=chunk, finished=CHUNK / length)
    plain, full = step.parts(decode), step.parts(prompts)
    reads, multiplied = step.demands(decode)
    arrivals = decodes / output
    return {
        "cap": float(at.power.cap or 0.0), "decodes": decodes, "arrivals": arrivals,
        "kernels_s": plain.weights + plain.experts + plain.links, "attention_s": plain.attention,
        "fixed_s": plain.fixed, "prompts_s": (full.seconds - full.fixed) / CHUNK * length * arrivals,
        "read_s": reads, "flop_s": multiplied + step.demands(prompts)[1] / CHUNK * length * arrivals,
        "roofline_s": step.floor(decode), "tensor": float(layout.tensor * layout.data), "stages": float(stages),
        "narrow": float(shares.narrow_experts), "grouped": float(layout.data > 1),
        "parameters": float(model.parameters),
    }  # fmt: skip


def _check(row: Any) -> None:
    """InputError where a number is missing or a word is not known."""
    for name in NEEDED:
        value = row[name]
        if not isinstance(value, Real) or not 0 < float(value) < float("inf"):
            raise InputError(f"{name}: missing or no number above 0")
    if str(row.weight_precision) not in STORED:
        raise InputError(f"weights {str(row.weight_precision)[:40]}: want one of {', '.join(STORED)}")


def _layout(row: Any, gpus: int, stages: int, ranks: int) -> Layout:
    grouped = int(row.data_parallel) > 1
    tensor, data = (1, gpus) if grouped else (gpus // stages, 1)
    return Layout(tensor, stages, data, ranks)


def _fits(layout: Layout, model: LanguageModel) -> bool:
    try:
        layout.check(model)
    except InputError:
        return False
    return True


def metered_machine(gpu: str) -> Machine:
    """The machine of a published name.

    Raises InputError where the catalogue has none that states a power cap.
    """
    found = machine_of_device({"A100-40": "A100-40GB"}.get(gpu, gpu))
    if found is None or found.power.cap is None:
        raise InputError(f"GPU {gpu[:40]}: no machine here that states a power cap")
    return found
