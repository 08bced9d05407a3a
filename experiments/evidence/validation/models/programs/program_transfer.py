"""Programs on a device that nobody timed: the formula, what others took over it, and the nearest device, mixed.

The weights are those that devices left out have earned (`estimators/learning/mixing.py`): each known device is
predicted from the others, relatives closer than the target's closest taken away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.estimators.core.kinship import shared_words
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.learning.mixing import MethodWeights, Split, mixture
from slipstick.estimators.tuned.tuned_kinship import RELATIVES
from slipstick.estimators.tuned.tuned_unseen import OTHER_CLOSENESS, PROGRAMS_RELATIVE, PROGRAMS_STRANGER
from slipstick.experiments.evidence.validation.models.programs.program_rows import Timed, fitted
from slipstick.hwmodels.catalog import machine

GENERATION = 2
"""Words of the family that machines of one generation share."""


@dataclass(frozen=True, eq=False)
class LeftOutProgramTimes:
    """Log seconds by program, and the mixture that made them."""

    logs: FloatArray
    mixed: MethodWeights


def kin(one: Timed, other: Timed) -> int:
    """Words of the family that two devices share."""
    return shared_words(machine(one.device).family, machine(other.device).family)


def predicted_from_others(one: Timed, others: Sequence[Timed], names: Sequence[str]) -> LeftOutProgramTimes:
    """A device's programs by the other devices alone."""
    closest = max(kin(one, other) for other in others)
    splits = []
    for left in others:
        rest = [o for o in others if o.device != left.device and kin(o, left) <= closest]
        if rest:
            near = max(kin(o, left) for o in rest) >= GENERATION
            weight = 1.0 if near == (closest >= GENERATION) else OTHER_CLOSENESS
            known = left.index
            ways = {name: logs[known] for name, logs in predictions(left, rest, names).items()}
            splits.append(Split(ways, left.logs, weight))
    expected = PROGRAMS_RELATIVE if closest >= GENERATION else PROGRAMS_STRANGER
    mixed = mixture(expected, splits)
    return LeftOutProgramTimes(mixed.log(predictions(one, others, names)), mixed)


def predictions(one: Timed, others: Sequence[Timed], names: Sequence[str]) -> Mapping[str, FloatArray]:
    """Log seconds of every program in each way; nan where a program was not measured on the others."""
    every = np.ones(one.rows.programs, bool)
    law = fitted(others, every, names)
    formula = law.logs(one)
    left = np.stack([o.every() - law.logs(o) for o in others])
    weight = np.array([RELATIVES[kin(one, other)] for other in others])[:, None] * np.isfinite(left)
    seen = weight.sum(axis=0)
    over = np.where(seen > 0, np.nansum(weight * np.nan_to_num(left), axis=0) / np.where(seen > 0, seen, 1), np.nan)
    near = nearest(one, others)
    by_roofline = near.every() + np.log(one.rows.roofline() / near.rows.roofline())
    return {"formula": formula, "others over the formula": formula + over, "nearest by roofline": by_roofline}


def nearest(one: Timed, others: Sequence[Timed]) -> Timed:
    """The closest relative; among equals the one of nearest bandwidth."""
    return max(others, key=lambda o: (kin(o, one), -abs(np.log(bandwidth(o) / bandwidth(one)))))


def bandwidth(one: Timed) -> float:
    """Of a device's main memory [B/s]."""
    target = machine(one.device)
    return target.bandwidth(target.main_memory)
