"""What runs together and what runs alone: blocks of G layers against the sum of single layers, and the whole model.

A framework that fuses layers (torch.compile, a library's convolution with its activation) does less in a block than in
its layers one by one; so a sum of single layers is too long, and longer the more a block holds. DLBricks (Li et al.
2020, Section 4) composes models of blocks for that reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.records import FrozenDict
from slipstick.experiments.measure.bricks.brick_store import BrickStore, Composition, MeasuredBricks

SINGLE = 1


@dataclass(frozen=True)
class FusionError:
    """All models that were measured at one granularity, on one machine with one software.

    `single_over_blocks`: by model: the sum of its single layers over that of its blocks; empty where G = 1 was not
        measured.
    `blocks_over_whole`: by model: the sum of its blocks over the whole model.
    """

    machine: str
    software: str
    granularity: int
    single_over_blocks: FrozenDict[float]
    blocks_over_whole: FrozenDict[float]

    def row(self) -> dict[str, object]:
        """As a table shows it: geometric means, and the model that is farthest from 1."""
        single, whole = dict(self.single_over_blocks), dict(self.blocks_over_whole)
        return {
            "machine": self.machine,
            "granularity": self.granularity,
            "models": len(whole),
            "single_over_blocks": _mean(single),
            "blocks_over_whole": _mean(whole),
            "worst": _farthest(single or whole),
            "worst_ratio": (single or whole).get(_farthest(single or whole) or ""),
            "software": self.software,
        }


def fusion_errors(measured: MeasuredBricks, models: Mapping[int, Sequence[Composition]]) -> list[FusionError]:
    """By granularity, of the models of which every brick and the whole are measured (warm times)."""
    sums = {
        granularity: {
            one.name: sum(measured.warm[brick] * count for brick, count in one.bricks.items())
            for one in known
            if one.whole in measured.warm and all(brick in measured.warm for brick in one.bricks)
        }
        for granularity, known in models.items()
    }
    wholes = {one.name: measured.warm.get(one.whole) for known in models.values() for one in known}
    single = sums.get(SINGLE, {})
    errors = []
    for granularity in sorted(sums):
        blocks = sums[granularity]
        alone = {name: single[name] / time for name, time in blocks.items() if name in single}
        together = {name: time / whole for name, time in blocks.items() if (whole := wholes[name])}
        if together:
            name = measured.machine.name
            errors.append(FusionError(name, measured.software, granularity, FrozenDict(alone), FrozenDict(together)))
    return errors


def fusion_rows(stores: Sequence[BrickStore]) -> list[dict[str, object]]:
    """The errors of everything that some stores hold, as rows of a table."""
    rows = []
    for store in stores:
        models = {granularity: store.models(granularity) for granularity in store.granularities()}
        rows += [error.row() for measured in store.measured() for error in fusion_errors(measured, models)]
    return rows


def _mean(ratios: Mapping[str, float]) -> float | None:
    return float(np.exp(np.mean(np.log(list(ratios.values()))))) if ratios else None


def _farthest(ratios: Mapping[str, float]) -> str | None:
    return max(ratios, key=lambda name: abs(np.log(ratios[name])), default=None)
