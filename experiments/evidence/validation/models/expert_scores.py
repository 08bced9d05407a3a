"""Layers of experts and latent attention of serving stacks on a generation of GPUs that was left out.

One set of parameters a kernel library and data type, fitted to the other machines. Baselines: the plain roofline, and
the same call on the nearest other machine scaled by bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import least_squares

from slipstick.estimators.core.kinship import shared_words
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.parameters import declared
from slipstick.estimators.operation.gpu.expert_layers import (
    ExpertLayers,
    LatentAttentions,
    LayerParameters,
    expert_times,
    latent_decode_times,
    latent_prefill_times,
)
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.validation.gpu.gpu_data import machine_of
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.frames import parquet_frame
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd

DATASET = "experts and latent attention"
GOALS = {"experts": (0.22, 0.60), "prefill": (0.20, 0.45), "decode": (0.20, 0.45)}
WEIGHTS = {"bfloat16": 2.0, "float16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int4_wo": 0.55}
"""Bytes of a weight, scales of groups included."""
ARITHMETIC = {
    "bfloat16": "bfloat16",
    "float16": "float16",
    "fp8": "float8",
    "fp8_block": "float8",
    "int4_wo": "bfloat16",
}
ROUTINGS = {"balanced": "balanced", "uniform": "balanced", "power_law_1.01": "skewed", "power_law_1.2": "busiest"}
SPREADS = {
    "launch": 0.8,
    "compute_efficiency": 0.4,
    "memory_efficiency": 0.3,
    "block": 0.5,
    "overlap": 0.7,
    "resident": 0.7,
}
"""Of the logarithms, before any machine was measured."""
REPEATS = {"experts": 0.8, "prefill": 0.0, "decode": 0.0}
"""Of what a call took on other machines over the model, what is taken along; libraries of latent attention differ too
much between generations (tried: 0.8 makes prompts on an L40S 0.35 -> 0.50)."""
SAMPLE, SCORED, SOFT, STRENGTH = 1200, 4000, 0.15, 0.05
KEYS = {
    "experts": [
        "num_tokens",
        "hidden_size",
        "inter_size",
        "topk",
        "num_experts",
        "moe_tp_size",
        "moe_ep_size",
        "distribution",
    ],
    "prefill": ["batch_size", "isl", "num_heads", "kv_cache_dtype"],
    "decode": ["batch_size", "step", "num_heads", "kv_cache_dtype"],
}


@dataclass(frozen=True)
class Case:
    """Calls of one kind by one library in one data type."""

    kind: str
    library: str
    dtype: str

    def predicted(self, frame: pd.DataFrame, machine: Machine, has: LayerParameters) -> FloatArray:
        """Seconds of each row."""
        if self.kind == "experts":
            return expert_times(_layers(frame), machine, ARITHMETIC[self.dtype], has)
        calls = LatentAttentions(
            frame["batch_size"].to_numpy(float),
            frame["num_heads"].to_numpy(float),
            (frame["isl"] + frame["step"]).to_numpy(float),
            np.where(frame["kv_cache_dtype"] == "fp8", 1.0, 2.0),
        )
        times: Callable[..., FloatArray] = latent_prefill_times if self.kind == "prefill" else latent_decode_times
        return times(calls, machine, has)


def _layers(frame: pd.DataFrame) -> ExpertLayers:
    def of(name: str) -> FloatArray:
        return frame[name].to_numpy(float)

    routing: Any = frame["distribution"].map(ROUTINGS).tolist()
    inner = np.asarray(frame["inter_size"] / frame["moe_tp_size"], dtype=np.float64)
    weight = np.asarray(frame["moe_dtype"].map(WEIGHTS), dtype=np.float64)
    ranks = of("moe_ep_size")
    return ExpertLayers(
        of("num_tokens"), of("hidden_size"), inner, of("topk"), of("num_experts"), ranks, weight, routing
    )


def rows(scored: Path | None = None) -> list[ValidationRow]:
    """Each generation left out in turn; with `scored`, the rows below that folder, from all public ones of others."""
    folder = data_folder()
    if folder is None:
        return [skipped(DATASET, "no public measurements here (set SLIPSTICK_DATA; docs/validation.md says where)")]
    training = frames(folder)
    tested = training if scored is None else frames(scored)
    if not tested:
        return [skipped(DATASET, f"no layers of experts or latent attention in {scored or folder}")]
    scores = []
    for case, frame in sorted(tested.items(), key=lambda pair: repr(pair[0])):
        known = training.get(case)
        for name in sorted(set(frame["machine"])):
            if not name:
                scores.append(skipped(DATASET, f"the catalogue lacks a machine of {case.library}'s tables"))
                continue
            measured = frame[frame["machine"] == name]
            family = machine(name).family
            others = (
                known[[shared_words(machine(m).family, family) < 2 for m in known["machine"]]]
                if known is not None
                else None
            )
            if others is None or others.empty:
                scores.append(skipped(DATASET, f"{_title(case)}: no other generation ran it"))
            elif len(measured) >= 30:
                scores += _scores(case, name, measured, others)
    return scores


def frames(folder: Path) -> dict[Case, pd.DataFrame]:
    """Rows by case, with `machine` (the catalogue's name, "" where it is not there) and `time` [s]."""
    import pandas as pd

    result: dict[Case, list[pd.DataFrame]] = {}
    for path in sorted((folder / "gpu/aiconfigurator").glob("*/m[ol][ea]/*/*/*.parquet")):
        kind = {"moe_perf": "experts", "context_mla_perf": "prefill", "generation_mla_perf": "decode"}.get(path.stem)
        if kind is None:
            continue
        frame = parquet_frame(path)
        frame = frame[frame["latency"] > 0].assign(machine=machine_of(path.parts[-5]), stack=path.parts[-3])
        frame["time"] = frame["latency"] * 1e-3
        library, dtype = ("kernel_source", "moe_dtype") if kind == "experts" else ("stack", "mla_dtype")
        if kind == "experts":
            frame = frame[frame["moe_dtype"].isin(list(WEIGHTS)) & frame["distribution"].isin(list(ROUTINGS))]
        for (source, width), part in frame.groupby([library, dtype]):
            result.setdefault(Case(kind, str(source), str(width)), []).append(part)
    return {case: pd.concat(parts, ignore_index=True) for case, parts in result.items()}


def fitted(case: Case, frame: pd.DataFrame) -> LayerParameters:
    """One set of parameters for all machines of a frame."""
    parts = [
        (machine(str(name)), part.sample(min(SAMPLE, len(part)), random_state=1))
        for name, part in frame.groupby("machine")
        if name
    ]
    before = LayerParameters(block=64.0) if case.kind != "experts" else LayerParameters()
    start = np.log([getattr(before, name) for name in SPREADS])
    spread = np.array(list(SPREADS.values()))
    count = sum(len(part) for _, part in parts)

    def put(point: FloatArray) -> LayerParameters:
        return LayerParameters(**dict(zip(SPREADS, map(float, np.exp(point)), strict=True)))

    def residuals(point: FloatArray) -> FloatArray:
        has = put(point)
        errors = [np.log(case.predicted(part, machine, has) / part["time"].to_numpy()) for machine, part in parts]
        return np.concatenate([*errors, (point - start) / spread * np.sqrt(count) * STRENGTH])

    known = declared(LayerParameters)
    low, high = (np.log([getattr(known[name], end) for name in SPREADS]) for end in ("low", "high"))
    limits = np.maximum(low, start - 3 * spread), np.minimum(high, start + 3 * spread)
    return put(least_squares(residuals, start, bounds=limits, loss="soft_l1", f_scale=SOFT, max_nfev=40).x)


def _scores(case: Case, name: str, frame: pd.DataFrame, others: pd.DataFrame) -> list[ValidationRow]:
    frame = frame.sample(min(SCORED, len(frame)), random_state=2)
    target, measured = machine(name), frame["time"].to_numpy()
    has = fitted(case, others)
    ours = case.predicted(frame, target, has) * np.exp(_repeated(case, frame, others, has))
    plain = case.predicted(frame, target, LayerParameters(1e-7, 1.0, 1.0, 1.0, 1e-3, 1e-3))
    bases: dict[str, FloatArray] = {"roofline": plain / measured}
    copied = _nearest(case, frame, others, target)
    if np.isfinite(copied).any():
        bases["nearest machine by bandwidth, where it ran the same"] = (copied / measured)[np.isfinite(copied)]
    errors = {"ours": np.abs(ours / measured - 1), **{key: np.abs(ratio - 1) for key, ratio in bases.items()}}
    rows = []
    for place, (share, metric) in enumerate(
        ((0.5, "median |relative error|"), (0.9, "90th percentile |relative error|"))
    ):
        value = {key: float(np.quantile(error, share)) for key, error in errors.items()}
        mine, goal = value.pop("ours"), GOALS[case.kind][place]
        title = f"{_title(case)}, {name}"
        held = " ".join(machine(name).family.split("-")[:2])
        rows.append(ValidationRow(DATASET, title, held, len(frame), metric, "1", mine, value, goal, mine <= goal))
    return rows


def _repeated(case: Case, frame: pd.DataFrame, others: pd.DataFrame, has: LayerParameters) -> FloatArray:
    """What the same calls took on other machines over the model, in log time, as far as it repeats; else 0."""
    left = others.assign(left=0.0)
    for name, part in others.groupby("machine"):
        predicted = case.predicted(part, machine(str(name)), has)
        left.loc[part.index, "left"] = np.log(part["time"].to_numpy() / predicted)
    keys = list(KEYS[case.kind])
    mean = left.groupby(keys)["left"].mean()
    return np.asarray(REPEATS[case.kind] * frame.join(mean, on=keys)["left"].fillna(0.0).to_numpy(float))


def _nearest(case: Case, frame: pd.DataFrame, others: pd.DataFrame, target: Machine) -> FloatArray:
    """Seconds of the same call on the machine of the nearest bandwidth, scaled by it; nan where it did not run it."""
    rates: Mapping[str, float] = {m: machine(m).bandwidth(machine(m).main_memory) for m in set(others["machine"]) if m}
    here = target.bandwidth(target.main_memory)
    near = min(rates, key=lambda m: abs(np.log(rates[m] / here)))
    keys: Sequence[str] = KEYS[case.kind]
    there = others[others["machine"] == near].groupby(list(keys))["time"].median().rename("there")
    joined = frame.join(there, on=list(keys))["there"].to_numpy(float)
    return np.asarray(joined * rates[near] / here)


def _title(case: Case) -> str:
    words = {
        "experts": "layers of experts",
        "prefill": "latent attention, prompts",
        "decode": "latent attention, decode",
    }
    return f"{words[case.kind]}, {case.library}, {case.dtype}"
