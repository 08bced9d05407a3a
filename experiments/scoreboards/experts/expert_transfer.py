"""Layers of experts and latent attention on a machine that nobody timed: the formula and the nearest machine, mixed.

The nearest machine is of the same memory technology where one is, then of the nearest bandwidth. What it took over the
formula at the nearest shapes goes along in several ways; the weights are those that generations left out have earned
(`estimators/fitting/ensemble_weights.py`): of all cases, then of those of the kind, then of the case itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.fitting.ensemble_weights import Split, mixture
from slipstick.estimators.gpu.programs.program_priors import SHAPES, SHAPES_REACH
from slipstick.estimators.gpu.transfer.family_pooling import technology
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.experts.expert_data import ExpertCase, FittedLayers, fitted
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
NEAREST = ("nearest over the formula", "nearest by bandwidth", "nearest unchanged")
"""Ways that take the nearest machine along; the other is the formula."""
WAYS = ("formula", *NEAREST)


@dataclass(frozen=True, eq=False)
class MovedCases:
    """Public tables by case, and what is learned from them without some generations: each fit is made once."""

    training: Mapping[ExpertCase, pd.DataFrame]
    fits: dict[tuple[ExpertCase, frozenset[str]], FittedLayers] = field(default_factory=dict)
    turns: dict[str, list[tuple[ExpertCase, Split]]] = field(default_factory=dict)

    def others(self, case: ExpertCase, *generations: str) -> pd.DataFrame:
        """Rows of machines of the catalogue that are of none of some generations."""
        frame = self.training[case]
        strange = [name for name in set(frame["machine"]) if name and _generation(name) not in generations]
        return frame[frame["machine"].isin(strange)]

    def fitted(self, case: ExpertCase, *generations: str) -> FittedLayers:
        """A case's law without some generations."""
        key = case, frozenset(generations)
        if key not in self.fits:
            self.fits[key] = fitted(case, self.others(case, *generations))
        return self.fits[key]

    def predicted(self, case: ExpertCase, frame: pd.DataFrame, target: Machine) -> tuple[FloatArray, FloatArray]:
        """Log seconds of rows on a machine by those of other generations, and half-widths of their 80 % band."""
        generation = generation_of(target.family)
        turns = self.left_out(generation)
        kind = [split for other, split in turns if other.kind == case.kind]
        same = [split for other, split in turns if other == case]
        mixed = mixture(WAYS, [split for _, split in turns], kind, same)
        ways = self._ways(case, frame, target, generation)
        half = self.fitted(case, generation).half_width(frame, target)
        return mixed.median(ways, half), mixed.half_width(ways, half)

    def left_out(self, generation: str) -> Sequence[tuple[ExpertCase, Split]]:
        """Every machine of other generations, predicted by those of still others; a sample of its rows."""
        if generation not in self.turns:
            self.turns[generation] = []
            for case in self.training:
                for name, part in self.others(case, generation).groupby("machine"):
                    device, left = machine(str(name)), _generation(str(name))
                    if min(len(part), len(self.others(case, generation, left))) < FEWEST:
                        continue
                    part = part.sample(min(SAMPLE, len(part)), random_state=3)
                    half = self.fitted(case, generation, left).half_width(part, device)
                    ways = self._ways(case, part, device, generation, left)
                    split = Split(ways, np.log(part["time"].to_numpy()), left, half, repr(case))
                    self.turns[generation].append((case, split))
        return self.turns[generation]

    def _ways(
        self, case: ExpertCase, frame: pd.DataFrame, target: Machine, *generations: str
    ) -> Mapping[str, FloatArray]:
        has, others = self.fitted(case, *generations).parameters, self.others(case, *generations)
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


def _generation(name: str) -> str:
    return generation_of(machine(name).family)


def _nearest(target: Machine, others: pd.DataFrame) -> str:
    """The name of a machine with enough rows."""
    counts = others["machine"].value_counts()
    known = [str(name) for name, count in counts.items() if count >= FEWEST] or [str(name) for name in counts.index]

    def distance(name: str) -> tuple[bool, float]:
        one = machine(name)
        ratio = one.bandwidth(one.main_memory) / target.bandwidth(target.main_memory)
        return technology(one) != technology(target), abs(float(np.log(ratio)))

    return min(known, key=distance)


def at_nearest_shapes(case: ExpertCase, frame: pd.DataFrame, known: pd.DataFrame, values: FloatArray) -> FloatArray:
    """Mean of values of known rows at the nearest shapes, by the inverse squares of the octaves between them (Shepard).

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
        result[mine] = (weight * values[same][place]).sum(axis=1) / weight.sum(axis=1)
    return result
