"""Layers of experts and latent attention of serving stacks on a generation of GPUs that was left out.

One set of parameters a kernel library and data type, fitted to the other machines, mixed with the nearest of them
(`expert_transfer.py`). Baselines: the plain roofline, and the same call on that of nearest bandwidth scaled by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.gpu.kernels.expert_layers import LayerParameters
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.experts.expert_data import ExpertCase, frames, standing_in
from slipstick.experiments.scoreboards.experts.expert_transfer import SIZES, WORD, MovedCases
from slipstick.experiments.scoring.score import Board, Data, MissingError, Scored, relative
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd

DATASET = "experts and latent attention"
GOALS = {"experts": (0.22, 0.60), "prefill": (0.20, 0.45), "decode": (0.20, 0.45)}
METRICS = (relative(0.5, "median |relative error|"), relative(0.9, "90th percentile |relative error|"))
FEWEST, SCORED = 30, 4000
"""Rows of a machine and case: below the one nothing is scored, above the other a sample is."""
KEYS = {case: [*sizes, WORD[case]] for case, sizes in SIZES.items()}


def _generations(data: Data) -> Iterator[Scored | ValidationRow]:
    """Each generation left out in turn; with `--data`, the rows below that folder, from all public ones of others."""
    training = frames(data.folder)
    moved = MovedCases(training)
    tested = training if data.scored is None else frames(data.scored)
    if not tested:
        raise MissingError(f"no layers of experts or latent attention in {data.scored or data.folder}")
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
            if data.scored is not None and enough and (stand := _stand_in(case, name, measured, moved)):
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
    {DATASET: _generations},
)
