"""What a few products measured on a machine say about all others there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.scores import weighted_quantile

COUNTS = (1, 2, 4, 8)
"""Numbers of anchors for which devices that were left out say how far to believe them."""
WIDENINGS = (1.0, 1.5, 2.0, 3.0, 5.0, 100.0)
"""Factors on a matrix's scatter that are tried; with the last, anchors hardly count."""
DRAWS = 40


@dataclass(frozen=True)
class Scale:
    """A factor on every predicted time of a machine, and what is left unknown of its logarithm."""

    factor: float = 1.0
    spread: float = 0.0


def anchored(ratios: npt.ArrayLike, machine_spread: float, matrix_spread: float, doubt: float = 1.0) -> Scale:
    """The scale of a machine from measured / predicted of some products there.

    The factor of least mean relative error on them (a weighted median), drawn towards one by how much machines differ
    against how much one machine's matrices scatter: the mean of a normal law that is known to that extent.

    `machine_spread`, `matrix_spread`: standard deviations of the logarithm, over machines and over the matrices of one
        machine.
    `doubt`: factor on the second (`widenings`).
    Raises InputError where a ratio is not positive.
    """
    values = np.sort(np.asarray(ratios, dtype=np.float64))
    if not np.all((values > 0) & np.isfinite(values)):
        raise InputError("measured over predicted times: want numbers > 0")
    if not len(values):
        return Scale(1.0, machine_spread)
    best = weighted_quantile(values, 1 / values)
    between, within = machine_spread**2, (doubt * matrix_spread) ** 2 / len(values)
    weight = between / (between + within) if between else 0.0
    return Scale(best**weight, float(np.sqrt(between * (1 - weight))))


def widenings(
    ratios: Sequence[npt.NDArray[np.float64]], machine_spread: float, matrix_spread: float
) -> dict[int, float]:
    """By number of anchors, the factor on a matrix's scatter with which they helped devices left out the most.

    Few anchors are believed less than a normal law would have it, since one matrix may be far off: the geometric mean
    over devices of the mean relative error with anchors over that without decides.

    `ratios`: of each device, measured over predicted by the others, shape (products,).
    """
    result = {}
    for count in COUNTS:
        judged = [one for one in ratios if len(one) > count]
        if not judged:
            continue
        gains = [
            np.mean([_gain(one, count, machine_spread, matrix_spread, doubt) for one in judged]) for doubt in WIDENINGS
        ]
        result[count] = WIDENINGS[int(np.argmin(gains))]
    return result


def _gain(
    ratio: npt.NDArray[np.float64], count: int, machine_spread: float, matrix_spread: float, doubt: float
) -> float:
    """Log of the mean relative error on the other products with so many anchors drawn, over that without any."""
    random, errors = np.random.default_rng(0), []
    for _ in range(DRAWS):
        order = random.permutation(len(ratio))
        factor = anchored(ratio[order[:count]], machine_spread, matrix_spread, doubt).factor
        errors.append(np.mean(np.abs(factor / ratio[order[count:]] - 1)))
    return float(np.log(np.mean(errors) / np.mean(np.abs(1 / ratio - 1))))
