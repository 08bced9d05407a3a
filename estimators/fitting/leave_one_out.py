"""Leave one group out: what a calibration is worth on a device, source or workload that it was not fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.fitting.objective import Objective


@dataclass(frozen=True)
class Holdout:
    """The error on one group, fitted to the others.

    `baseline` is the error of one factor for all: the others' uncalibrated estimates times their median ratio.
    """

    group: str
    measurements: int
    median: float
    worst: float
    baseline: float


def leave_one_group_out(objective: Objective, loss: str = "linear", starts: int = 1) -> list[Holdout]:
    """|log(estimated / measured)| of every group, with the parameters fitted to the others.

    Raises InputError where there are fewer than two groups, or too few measurements beside one of them.
    """
    groups = sorted(set(objective.groups))
    if len(groups) < 2:
        raise InputError("leaving one group out needs a column 'group' with at least two values")
    before = objective.residuals(objective.start)
    scores = []
    for group in groups:
        inside = [i for i, name in enumerate(objective.groups) if name == group]
        outside = [i for i, name in enumerate(objective.groups) if name != group]
        fit = objective.some(outside).fit(loss, starts)
        errors: FloatArray = np.abs(objective.some(inside).residuals(np.array(fit.values)))
        factor = float(np.median(before[outside]))
        scores.append(
            Holdout(
                group,
                len(inside),
                float(np.median(errors)),
                float(errors.max()),
                float(np.median(np.abs(before[inside] - factor))),
            )
        )
    return scores
