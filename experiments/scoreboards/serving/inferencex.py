"""InferenceX's runs of DeepSeek-R1 (`serving/inferencex.csv.gz`): more rows to fit, on another maker's machines too.

Times are medians, whether a run speculated is recorded, and lengths are drawn as on the public dashboard that the rows
of `silicon` come from. Pools of prompts and tokens apart, runs that speculated and marked rows are left out.
"""

from __future__ import annotations

import re
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.serving.batching.closed_loop import Load
from slipstick.experiments.scoreboards.serving.serving_rows import (
    DASHBOARD_SPREAD,
    UNRECORDED,
    SiliconCase,
    machine_of_system,
    model_named,
    stored_in,
)
from slipstick.workloads.language.layout import Layout

FILE = "serving/inferencex.csv.gz"
ENGINES = {"trt": "trtllm", "sglang": "sglang", "vllm": "vllm"}
SYSTEMS = {name: f"{name}_sxm" for name in ("b300", "b200", "h200", "h100", "a100")}
"""As the other table names them."""
COLUMNS = (
    "system", "engine", "engine_version", "model", "precision", "mode", "speculative", "input_tokens", "output_tokens",
    "concurrency", "gpus", "moe_ep_size", "attention_dp", "ttft_s", "tpot_s", "image", "suspicious", "repeat_group",
)  # fmt: skip
VERSION = re.compile(r":v?(\d+(?:\.\d+)+(?:rc\d+)?)")


def read_inferencex(path: Path) -> tuple[list[SiliconCase], dict[str, int]]:
    """The rows of one pool that did not speculate; how many of them cannot be evaluated, by reason.

    Raises InputError where a column is missing, or a line cannot be read; names it.
    """
    cases, refused = [], dict[str, int]()
    for line, row in read_csv_rows(path, COLUMNS):
        if row["mode"] != "agg" or row["speculative"] != "0" or row["suspicious"]:
            continue
        try:
            cases.append(_case(row))
        except InputError as error:
            refused[str(error)] = refused.get(str(error), 0) + 1
        except (ValueError, OverflowError) as error:
            raise InputError(f"{path}: line {line}: {error}") from None
    return cases, refused


def _case(row: dict[str, str]) -> SiliconCase:
    if row["engine"] not in ENGINES:
        raise InputError(f"engine {row['engine']} is not known")
    model, system = model_named(row["model"]), SYSTEMS.get(row["system"], row["system"])
    gpus, expert = int(row["gpus"]), int(float(row["moe_ep_size"] or 1))
    apart = row["attention_dp"] not in ("", "0", "0.0")
    layout = Layout(1, 1, gpus, gpus) if apart else Layout(gpus, 1, 1, expert)
    named, mean = VERSION.search(row["image"]), 1 - DASHBOARD_SPREAD / 2
    load = Load(float(row["input_tokens"]) * mean, float(row["output_tokens"]) * mean, int(float(row["concurrency"])))
    return SiliconCase(
        model, machine_of_system(system), system, layout, stored_in(model, row["precision"]), ENGINES[row["engine"]],
        named.group(1) if named else UNRECORDED, load, DASHBOARD_SPREAD, float(row["ttft_s"]), float(row["tpot_s"]),
        "", row["precision"], False, "InferenceX",
    )  # fmt: skip
