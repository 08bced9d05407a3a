"""Layers of experts and latent attention of serving stacks on a generation of GPUs that was left out.

What is scored is the default answer to a question, as kernels that run alone in a recorded graph, from fits without the
machine's generation. Baselines: the rule of thumb, and the same call on the machine of another generation whose
bandwidth is nearest, scaled by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.experiments.scoreboards.experts.expert_data import RECORDED, ExpertCase, frames
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.score import Board, Data, MissingError, Scored, relative
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.unseen_answers import Fits, answers, unseen
from slipstick.hwmodels.catalog import machine

if TYPE_CHECKING:
    import pandas as pd

DATASET = "experts and latent attention"
GOALS = {"experts": (0.22, 0.60), "prefill": (0.20, 0.45), "decode": (0.20, 0.45)}
METRICS = (relative(0.5, "median |relative error|"), relative(0.9, "90th percentile |relative error|"))
FEWEST, SCORED = 30, 200
"""Rows of a machine and case: below the one nothing is scored, above the other a sample is."""
KEYS = {
    "experts": [
        "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution",
    ],
    "prefill": ["batch_size", "isl", "num_heads", "kv_cache_dtype"],
    "decode": ["batch_size", "step", "num_heads", "kv_cache_dtype"],
}  # fmt: skip
"""What makes two calls the same."""
WORDS = {
    "experts": "layers of experts",
    "prefill": "latent attention, prompts",
    "decode": "latent attention, decode",
}


def _layers(data: Data) -> Iterator[Scored | ValidationRow]:
    """Each machine from fits without its generation."""
    public, tested = frames(data.folder), frames(data.judged_folder)
    if not tested:
        raise MissingError(f"no layers of experts or latent attention in {data.judged_folder}")
    for case, frame in sorted(tested.items(), key=lambda pair: repr(pair[0])):
        for name, mine in frame.groupby("machine"):
            if not name:
                yield skipped(DATASET, f"the catalogue lacks a machine of {case.library}'s tables")
            elif len(mine) >= FEWEST:
                sample = mine.sample(min(SCORED, len(mine)), random_state=2)
                yield _scored(case, str(name), sample, public.get(case))


def _scored(case: ExpertCase, name: str, frame: pd.DataFrame, public: pd.DataFrame | None) -> Scored | ValidationRow:
    target = machine(name)
    as_timed = target.using({**RECORDED, "runtime.library": str(frame["ran"].iloc[0])})
    predicted = answers([(one, as_timed) for one in case.questions(frame)], Fits(unseen([target], [])))
    bases = {RULE: predicted.rule}
    if public is not None:
        bases["nearest machine by bandwidth, where it ran the same"] = _nearest(case, frame, public, name)
    title, held = f"{WORDS[case.kind]}, {case.library}, {case.dtype}, {name}", " ".join(target.family.split("-")[:2])
    answered, measured = np.isfinite(predicted.seconds), frame["time"].to_numpy()
    if not answered.any():
        return skipped(DATASET, f"{title}: no question was answered")
    return Scored(
        title, held, measured[answered], predicted.seconds[answered], METRICS, GOALS[case.kind],
        {base: values[answered] for base, values in bases.items()},
        low=predicted.low[answered], high=predicted.high[answered], groups=name,
        reason=f"bias in log time {np.median(np.log(predicted.seconds / measured)[answered]):+.2f}",
    )  # fmt: skip


def _nearest(case: ExpertCase, frame: pd.DataFrame, public: pd.DataFrame, name: str) -> FloatArray:
    """Seconds of the same call on the machine of another generation whose bandwidth is nearest, scaled by it; nan where
    it did not run it."""
    here, generation = machine(name), generation_of(machine(name).family)
    others = [machine(str(other)) for other in public["machine"].unique() if other]
    rates = {one.name: one.bandwidth(one.main_memory) for one in others if generation_of(one.family) != generation}
    if not rates:
        return np.full(len(frame), np.nan)
    rate = here.bandwidth(here.main_memory)
    near = min(rates, key=lambda other: abs(np.log(rates[other] / rate)))
    names = {str(other): machine(str(other)).name for other in public["machine"].unique() if other}
    ran = public[public["machine"].map(names) == near]
    there = ran.groupby(KEYS[case.kind])["time"].median().rename("there")
    return np.asarray(frame.join(there, on=KEYS[case.kind])["there"].to_numpy(float) * rates[near] / rate)


BOARD = Board(
    "How long do layers of experts and latent attention take on a generation of GPUs that nobody measured?",
    {DATASET: _layers},
)
