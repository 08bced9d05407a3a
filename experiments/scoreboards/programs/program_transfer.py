"""Programs on a device that nobody timed: the formula, what others took over it, and the nearest device, mixed.

The weights are those that devices left out have earned (`estimators/fitting/ensemble_weights.py`): each known device is
predicted from the others, relatives closer than the target's closest taken away. It counts where a device of its
generation is left exactly if one of the target's is known: what a twin took says more than what a stranger did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.fitting.ensemble_weights import Split, mixture
from slipstick.estimators.fitting.similarity_weights import fitted_similarity, unseen_group
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.programs.program_rows import Timed, fitted
from slipstick.hwmodels.catalog import machine

GENERATION = 2
"""Words of the family that machines of one generation share."""
WAYS = ("formula", "others over the formula", "nearest by roofline")


@dataclass(frozen=True, eq=False)
class LeftOutProgramTimes:
    """Log seconds by program, and half-widths of their 80 % band, each of shape (programs,)."""

    logs: FloatArray
    half: FloatArray


def shared_traits(one: Timed, other: Timed) -> int:
    """Words of the family that two devices share."""
    return shared_words(machine(one.device).family, machine(other.device).family)


def predicted_from_others(one: Timed, others: Sequence[Timed], names: Sequence[str]) -> LeftOutProgramTimes:
    """A device's programs by the other devices alone."""
    closest = max(shared_traits(one, other) for other in others)
    splits = []
    for left in others:
        rest = [o for o in others if o.device != left.device and shared_traits(o, left) <= closest]
        if rest and (max(shared_traits(o, left) for o in rest) >= GENERATION) == (closest >= GENERATION):
            ways, half = predictions(left, rest, names)
            known = left.index
            group = generation_of(machine(left.device).family)
            splits.append(Split({name: logs[known] for name, logs in ways.items()}, left.logs, group, half[known]))
    mixed = mixture(WAYS, splits)
    ways, half = predictions(one, others, names)
    return LeftOutProgramTimes(mixed.median(ways, half), mixed.half_width(ways, half))


def predictions(
    one: Timed, others: Sequence[Timed], names: Sequence[str]
) -> tuple[Mapping[str, FloatArray], FloatArray]:
    """Log seconds of every program in each way, nan where it was not measured on the others, and the formula's band."""
    every = np.ones(one.rows.programs, bool)
    law = fitted(others, every, names)
    formula = law.logs(one)
    left = np.stack([o.every() - law.logs(o) for o in others])
    families = [machine(other.device).family for other in others]
    counts = fitted_similarity(unseen_group([machine(one.device).family], families)).weights
    weight = np.array([counts[shared_traits(one, other)] for other in others])[:, None] * np.isfinite(left)
    seen = weight.sum(axis=0)
    over = np.where(seen > 0, np.nansum(weight * np.nan_to_num(left), axis=0) / np.where(seen > 0, seen, 1), np.nan)
    near = nearest(one, others)
    by_roofline = near.every() + np.log(one.rows.roofline() / near.rows.roofline())
    return dict(zip(WAYS, (formula, formula + over, by_roofline), strict=True)), law.half_width(one)


def nearest(one: Timed, others: Sequence[Timed]) -> Timed:
    """The closest relative; among equals the one of nearest bandwidth."""
    return max(others, key=lambda o: (shared_traits(o, one), -abs(np.log(bandwidth(o) / bandwidth(one)))))


def bandwidth(one: Timed) -> float:
    """Of a device's main memory [B/s]."""
    target = machine(one.device)
    return target.bandwidth(target.main_memory)
