"""What speculative decoding gained, measured and modelled: ``python -m ...scoreboards.serving.speculation_pairs``.

DeepSeek-R1 of InferenceX, one engine, each configuration with and without its head for further tokens (MTP). The rows
say neither how many tokens were guessed nor how many were kept: the model takes one, kept with 85 % (DeepSeek-V3's
report, section 5.4.3, says 85 to 90 %), so this shows how far a published acceptance goes, and fits nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.serving.batching.closed_loop import Load, steady
from slipstick.estimators.serving.server_config import deployment_of
from slipstick.experiments.calibrate.public_data import needed_folder
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.language.weight_types import stored_as
from slipstick.workloads.language_catalog import language_model

GUESSED = {"draft_tokens": 1.0, "acceptance": 0.85}
MACHINES = {"b200": "b200-sxm", "h200": "h200-sxm"}
STORED = {"fp8": "fp8", "fp4": "nvfp4"}
ENGINES = {"trt": "trtllm", "sglang": "sglang"}
SAME = (
    *("system", "engine", "precision", "input_tokens", "output_tokens", "concurrency", "gpus", "moe_ep_size"),
    "attention_dp",
)


def pairs() -> list[tuple[float, float]]:
    """Seconds of a further token without over with speculation, measured and modelled, one a configuration.

    Raises InputError where there are no public measurements.
    """
    folder = needed_folder()
    times: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _, row in read_csv_rows(folder / "serving/inferencex.csv.gz", limit_rows=100_000):
        if row["mode"] == "agg" and row["tpot_s"] and row["system"] in MACHINES:
            times[tuple(row[name] for name in SAME)][row["speculative"]].append(float(row["tpot_s"]))
    made = []
    for key, measured in times.items():
        modelled = _modelled(dict(zip(SAME, key, strict=True))) if len(measured) == len("01") else None
        if modelled is not None:
            made.append((float(np.median(measured["0"]) / np.median(measured["1"])), modelled))
    return made


def _modelled(row: dict[str, str]) -> float | None:
    """The same ratio by the model; None where the engine is none that is known or the model does not fit."""
    name = next((ours for word, ours in ENGINES.items() if word in row["engine"]), None)
    if name is None:
        return None
    model, at, count = language_model("deepseek-r1"), machine(MACHINES[row["system"]]), int(float(row["gpus"]))
    data = count if row["attention_dp"] == "1" else 1
    run = {"tensor_parallel": count / data, "data_parallel": float(data), "expert_parallel": float(row["moe_ep_size"])}
    load = Load(float(row["input_tokens"]), float(row["output_tokens"]), int(row["concurrency"]))
    times = []
    for guesses in ({}, GUESSED):
        try:
            one = deployment_of(model, stored_as(model, STORED[row["precision"]]), at, {**run, **guesses}, engine=name)
            times.append(steady(one.seconds(), one.scheduler, load, 1, data).tpot)
        except InputError:
            return None
    return times[0] / times[1]


def main() -> None:
    """Print how far the modelled gain is from the measured one, beside no gain at all and the tokens a step makes."""
    rows = np.array(pairs())
    kept = 1 + GUESSED["acceptance"]
    print(f"{len(rows)} configurations, measured gain x{np.median(rows[:, 0]):.3g} at the median")
    for name, gain in (("modelled", rows[:, 1]), ("no gain", np.ones(len(rows))), ("tokens a step", kept)):
        missed = np.abs(np.log(gain / rows[:, 0]))
        middle, most = (math.expm1(float(np.quantile(missed, share))) for share in (0.5, 0.9))
        print(f"{name}: x{np.median(gain):.3g}, off by {middle:.0%} at the median, {most:.0%} at the 90th percentile")


if __name__ == "__main__":
    main()
