"""Layers of experts and latent attention of serving stacks on a generation of GPUs that was left out.

One set of parameters a kernel library and data type, fitted to the other machines, mixed with the nearest of them
(`expert_transfer.py`). Baselines: the plain roofline, and the same call on that of nearest bandwidth scaled by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.core.kinship import shared_words
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.operation.gpu.expert_layers import LayerParameters
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.validation.models.expert_data import Case, fitted, frames, standing_in
from slipstick.experiments.evidence.validation.models.expert_transfer import predicted
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd

DATASET = "experts and latent attention"
GOALS = {"experts": (0.22, 0.60), "prefill": (0.20, 0.45), "decode": (0.20, 0.45)}
SCORED = 4000
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
                if scored is not None and len(measured) >= 30:
                    scores += _stand_in(case, name, measured, training)
            elif len(measured) >= 30:
                scores += _scores(case, name, measured, others)
    return scores


def _stand_in(case: Case, name: str, frame: pd.DataFrame, training: Mapping[Case, pd.DataFrame]) -> list[ValidationRow]:
    """A library or data type that no other generation ran, by the parameters of the nearest one that some did."""
    family = machine(name).family
    other_generations = {
        other: part[[shared_words(machine(m).family, family) < 2 for m in part["machine"]]]
        for other, part in training.items()
        if other != case
    }
    other = standing_in(case, {one: part for one, part in other_generations.items() if len(part)})
    if other is None:
        return []
    frame = frame.sample(min(SCORED, len(frame)), random_state=2)
    logs = np.log(case.predicted(frame, machine(name), fitted(other, other_generations[other])))
    stands = f"parameters of {other.library}, {other.dtype}"
    return _rows(case, name, stands, frame, logs, None, {})


def _scores(case: Case, name: str, frame: pd.DataFrame, others: pd.DataFrame) -> list[ValidationRow]:
    frame = frame.sample(min(SCORED, len(frame)), random_state=2)
    target, measured = machine(name), frame["time"].to_numpy()
    logs, mixed = predicted(case, frame, target, others)
    bases: dict[str, FloatArray] = {}
    copied = _nearest(case, frame, others, target)
    if np.isfinite(copied).any():
        bases["nearest machine by bandwidth, where it ran the same"] = (copied / measured)[np.isfinite(copied)]
    held = " ".join(target.family.split("-")[:2])
    return _rows(case, name, held, frame, logs, mixed.spread, bases)


def _rows(
    case: Case,
    name: str,
    held: str,
    frame: pd.DataFrame,
    logs: FloatArray,
    spread: float | None,
    bases: Mapping[str, FloatArray],
) -> list[ValidationRow]:
    target, measured = machine(name), frame["time"].to_numpy()
    ours = np.exp(logs)
    plain = case.predicted(frame, target, LayerParameters(1e-7, 1.0, 1.0, 1.0, 1e-3, 1e-3))
    bases = {"roofline": plain / measured, **bases}
    errors = {"ours": np.abs(ours / measured - 1), **{key: np.abs(ratio - 1) for key, ratio in bases.items()}}
    rows = []
    for place, (share, metric) in enumerate(
        ((0.5, "median |relative error|"), (0.9, "90th percentile |relative error|"))
    ):
        value = {key: float(np.quantile(error, share)) for key, error in errors.items()}
        mine, goal = value.pop("ours"), GOALS[case.kind][place]
        title = f"{_title(case)}, {name}"
        row = ValidationRow(DATASET, title, held, len(frame), metric, "1", mine, value, goal, mine <= goal)
        if spread is not None:
            half = quantile(DEFAULT_LEVEL, None) * spread
            inside = float(np.mean(np.abs(logs - np.log(measured)) <= half))
            width = float(np.exp(2 * half))
            row = replace(row, interval_level=DEFAULT_LEVEL, interval_coverage=inside, interval_width=width)
        rows.append(row)
    return rows


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
