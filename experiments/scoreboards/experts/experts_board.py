"""Layers of experts and latent attention of serving stacks on a generation of GPUs that was left out.

One set of parameters a kernel library and data type, fitted to the other machines, mixed with the nearest of them
(`expert_transfer.py`). Baselines: the plain roofline, and the same call on that of nearest bandwidth scaled by it.

Layers of experts and latent attention on a machine that nobody timed: the formula and the nearest machine, mixed.

The nearest machine is of the same memory technology where one is, then of the nearest bandwidth. What it took over the
formula at the nearest shapes goes along in several ways; the weights are those that generations left out have earned
(`ensemble_weights.py` beside it): of all cases, then of those of the kind, then of the case itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.gpu.programs.program_priors import SHAPES, SHAPES_REACH
from slipstick.estimators.gpu.transfer.kernel_class import technology
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.experts.ensemble_weights import Split, mixture
from slipstick.experiments.scoreboards.experts.expert_data import ExpertCase, FittedLayers, fitted, frames, standing_in
from slipstick.experiments.scoreboards.experts.expert_layers import LayerParameters
from slipstick.experiments.scoring.score import Board, Data, MissingError, Part, Scored, relative
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
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
FEWEST_SHAPES, SAMPLE = 100, 600
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
                    if min(len(part), len(self.others(case, generation, left))) < FEWEST_SHAPES:
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
        name = _nearest_shapes(target, others)
        near, part = machine(name), others[others["machine"] == name]
        formula = np.log(case.predicted(frame, target, has))
        if len(part) < FEWEST_SHAPES:
            return dict.fromkeys(NEAREST, np.full(len(frame), np.nan)) | {"formula": formula}
        over = np.log(part["time"].to_numpy() / case.predicted(part, near, has))
        over = at_nearest_shapes(case, frame, part, over)
        there = np.log(case.predicted(frame, near, has)) + over
        bandwidth = np.log(near.bandwidth(near.main_memory) / target.bandwidth(target.main_memory))
        return {"formula": formula} | dict(zip(NEAREST, (formula + over, there + bandwidth, there), strict=True))


def _generation(name: str) -> str:
    return generation_of(machine(name).family)


def _nearest_shapes(target: Machine, others: pd.DataFrame) -> str:
    """The name of a machine with enough rows."""
    counts = others["machine"].value_counts()
    enough = [str(name) for name, count in counts.items() if count >= FEWEST_SHAPES]
    known = enough or [str(name) for name in counts.index]

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


DATASET = "experts and latent attention"
GOALS = {"experts": (0.22, 0.60), "prefill": (0.20, 0.45), "decode": (0.20, 0.45)}
METRICS = (relative(0.5, "median |relative error|"), relative(0.9, "90th percentile |relative error|"))
FEWEST, SCORED = 30, 4000
"""Rows of a machine and case: below the one nothing is scored, above the other a sample is."""
KEYS = {case: [*sizes, WORD[case]] for case, sizes in SIZES.items()}


def _generations(data: Data, *, stands_in: bool) -> Iterator[Scored | ValidationRow]:
    """Each generation left out in turn; `stands_in`: a case that no other ran is answered by the nearest one."""
    training = frames(data.folder)
    moved = MovedCases(training)
    tested = frames(data.judged_folder)
    if not tested:
        raise MissingError(f"no layers of experts or latent attention in {data.judged_folder}")
    for case, frame in sorted(tested.items(), key=lambda pair: repr(pair[0])):
        for name in sorted(set(frame["machine"])):
            if not name:
                yield skipped(DATASET, f"the catalogue lacks a machine of {case.library}'s tables")
                continue
            measured = frame[frame["machine"] == name]
            enough = len(measured) >= FEWEST
            measured = measured.sample(min(SCORED, len(measured)), random_state=2)
            others = moved.others(case, generation_of(machine(name).family)) if case in training else None
            if others is not None and len(others):
                if enough:
                    yield _scored(case, name, measured, moved)
                continue
            yield skipped(DATASET, f"{_title(case)}: no other generation ran it")
            if stands_in and enough and (stand := _stand_in(case, name, measured, moved)):
                yield stand


def _stand_in(case: ExpertCase, name: str, frame: pd.DataFrame, moved: MovedCases) -> Scored | None:
    """A library or data type that no other generation ran, by the parameters of the nearest one that some did."""
    target = machine(name)
    generation = generation_of(target.family)
    elsewhere = {other: len(moved.others(other, generation)) for other in moved.training if other != case}
    other = standing_in(case, {one: count for one, count in elsewhere.items() if count})
    if other is None:
        return None
    seconds = case.predicted(frame, target, moved.fitted(other, generation).parameters)
    return _row(case, name, f"parameters of {other.library}, {other.dtype}", frame, seconds)


def _scored(case: ExpertCase, name: str, frame: pd.DataFrame, moved: MovedCases) -> Scored:
    target = machine(name)
    generation = generation_of(target.family)
    logs, half = moved.predicted(case, frame, target)
    near = _nearest(case, frame, moved.others(case, generation), target)
    copied = {"nearest machine by bandwidth, where it ran the same": near}
    return _row(case, name, " ".join(generation.split("-")), frame, np.exp(logs), copied, half)


def _row(
    case: ExpertCase,
    name: str,
    held: str,
    frame: pd.DataFrame,
    seconds: FloatArray,
    bases: Mapping[str, FloatArray] = MappingProxyType({}),
    half: FloatArray | None = None,
) -> Scored:
    plain = case.predicted(frame, machine(name), LayerParameters(1e-7, 1.0, 1.0, 1.0, 1e-3, 1e-3))
    title, bases = f"{_title(case)}, {name}", {"roofline": plain, **bases}
    measured = frame["time"].to_numpy()
    return Scored(title, held, measured, seconds, METRICS, GOALS[case.kind], bases, half, groups=name)


def _nearest(case: ExpertCase, frame: pd.DataFrame, others: pd.DataFrame, target: Machine) -> FloatArray:
    """Seconds of the same call on the machine of the nearest bandwidth, scaled by it; nan where it did not run it."""
    rates: Mapping[str, float] = {m: machine(m).bandwidth(machine(m).main_memory) for m in set(others["machine"]) if m}
    here = target.bandwidth(target.main_memory)
    near = min(rates, key=lambda m: abs(np.log(rates[m] / here)))
    keys: Sequence[str] = KEYS[case.kind]
    there = others[others["machine"] == near].groupby(list(keys))["time"].median().rename("there")
    joined = frame.join(there, on=list(keys))["there"].to_numpy(float)
    return np.asarray(joined * rates[near] / here)


def _title(case: ExpertCase) -> str:
    words = {
        "experts": "layers of experts",
        "prefill": "latent attention, prompts",
        "decode": "latent attention, decode",
    }
    return f"{words[case.kind]}, {case.library}, {case.dtype}"


BOARD = Board(
    "How long do layers of experts and latent attention take on a generation of GPUs that nobody measured?",
    {DATASET: Part(partial(_generations, stands_in=False), partial(_generations, stands_in=True))},
)
