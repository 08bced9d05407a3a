"""Layers of experts and latent attention on a machine that nobody timed: the formula and the nearest machine, mixed.

The nearest machine is of the same memory technology where one is, then of the nearest bandwidth. What it took over the
formula at the nearest shapes goes along in several ways; the weights are those that machines left out have earned
(`estimators/learning/mixing.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.across_devices.pooling import technology
from slipstick.estimators.core.kinship import shared_words
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.learning.mixing import MethodWeights, Split, mixture
from slipstick.estimators.tuned.tuned_unseen import (
    ALIKE,
    ALIKE_SPREAD,
    FADES,
    OTHER_CLOSENESS,
    OTHER_MEMORY_SPREAD,
    OTHER_MEMORY_WEIGHTS,
    SHAPES,
    SHAPES_REACH,
)
from slipstick.experiments.evidence.validation.models.expert_data import ExpertCase, fitted
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd

SIZES = {
    "experts": (
        "num_tokens",
        "hidden_size",
        "inter_size",
        "topk",
        "num_experts",
        "moe_tp_size",
        "moe_ep_size",
    ),
    "prefill": ("batch_size", "isl", "num_heads"),
    "decode": ("batch_size", "step", "num_heads"),
}
WORD = {"experts": "distribution", "prefill": "kv_cache_dtype", "decode": "kv_cache_dtype"}
FEWEST, SAMPLE = 100, 600
"""Rows of a machine that can stand for others, and rows of one left out that are looked at."""
GENERATION = 2
NEAREST = ("nearest over the formula", "nearest by bandwidth", "nearest unchanged")
"""Ways that take the nearest machine along; the other is the formula."""


def predicted(
    case: ExpertCase, frame: pd.DataFrame, target: Machine, others: pd.DataFrame
) -> tuple[FloatArray, MethodWeights]:
    """Log seconds of rows on a machine by the rows of others, and the mixture that made them."""
    alike = _alike(target, others)
    splits = []
    for name, part in others.groupby("machine"):
        device = machine(str(name))
        rest = others[[shared_words(machine(str(m)).family, device.family) < GENERATION for m in others["machine"]]]
        if len(part) >= FEWEST and len(rest) >= FEWEST:
            part = part.sample(min(SAMPLE, len(part)), random_state=3)
            weight = 1.0 if _alike(device, rest) == alike else OTHER_CLOSENESS
            splits.append(Split(_ways(case, part, device, rest), np.log(part["time"].to_numpy()), weight))
    mixed = mixture((ALIKE if alike else OTHER_MEMORY_WEIGHTS)[case.kind], splits)
    if not any(split.weight == 1.0 for split in splits):
        mixed = replace(mixed, spread=ALIKE_SPREAD if alike else OTHER_MEMORY_SPREAD)
    return mixed.log(_ways(case, frame, target, others)), mixed


def _alike(target: Machine, others: pd.DataFrame) -> bool:
    """Whether a machine with main memory of the same technology is known."""
    return technology(machine(_nearest(target, others))) == technology(target)


def _nearest(target: Machine, others: pd.DataFrame) -> str:
    """The name of a machine with enough rows."""
    counts = others["machine"].value_counts()
    known = [str(name) for name, count in counts.items() if count >= FEWEST] or [str(name) for name in counts.index]

    def distance(name: str) -> tuple[bool, float]:
        one = machine(name)
        ratio = one.bandwidth(one.main_memory) / target.bandwidth(target.main_memory)
        return technology(one) != technology(target), abs(float(np.log(ratio)))

    return min(known, key=distance)


def _ways(case: ExpertCase, frame: pd.DataFrame, target: Machine, others: pd.DataFrame) -> Mapping[str, FloatArray]:
    has = fitted(case, others)
    name = _nearest(target, others)
    near, part = machine(name), others[others["machine"] == name]
    formula = np.log(case.predicted(frame, target, has))
    if len(part) < FEWEST:
        return dict.fromkeys(NEAREST, np.full(len(frame), np.nan)) | {"formula": formula}
    over = np.log(part["time"].to_numpy() / case.predicted(part, near, has))
    over = at_nearest_shapes(case, frame, part, over)
    there = np.log(case.predicted(frame, near, has)) + over
    bandwidth = np.log(near.bandwidth(near.main_memory) / target.bandwidth(target.main_memory))
    return {"formula": formula} | dict(zip(NEAREST, (formula + over, there + bandwidth, there), strict=True))


def at_nearest_shapes(case: ExpertCase, frame: pd.DataFrame, known: pd.DataFrame, values: FloatArray) -> FloatArray:
    """Mean of values of known rows at the nearest shapes, fading with the octaves between them.

    `values`: of the known rows, shape (rows of `known`,).
    """
    from scipy.spatial import KDTree

    result = np.zeros(len(frame))
    wanted, there = (np.log2(np.maximum(f[list(SIZES[case.kind])].to_numpy(float), 1.0)) for f in (frame, known))
    words, known_words = (f[WORD[case.kind]].to_numpy() for f in (frame, known))
    for word in set(words):
        mine, same = words == word, known_words == word
        same = same if same.any() else np.ones(len(known), bool)
        count = min(SHAPES, int(same.sum()))
        far, place = (np.reshape(v, (-1, count)) for v in KDTree(there[same]).query(wanted[mine], k=count))
        weight = 1 / (SHAPES_REACH + far) ** 2
        mean = (weight * values[same][place]).sum(axis=1) / weight.sum(axis=1)
        result[mine] = mean * np.exp(-far.min(axis=1) / FADES)
    return result
