"""What a few products measured on a machine say about all others there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.hwmodels.files.readers import InputError


@dataclass(frozen=True)
class Scale:
    """A factor on every predicted time of a machine, and what is left unknown of its logarithm."""

    factor: float = 1.0
    spread: float = 0.0


def anchored(ratios: npt.ArrayLike, machine_spread: float, matrix_spread: float) -> Scale:
    """The scale of a machine from measured / predicted of some products there.

    The factor of least mean relative error on them (a weighted median), drawn towards one by how much machines differ
    against how much one machine's matrices scatter: the mean of a normal law that is known to that extent.

    Parameters
    ----------
    machine_spread, matrix_spread
        Standard deviations of the logarithm, over machines and over the matrices of one machine.

    Raises
    ------
    InputError
        Where a ratio is not positive.
    """
    values = np.sort(np.asarray(ratios, dtype=np.float64))
    if not np.all((values > 0) & np.isfinite(values)):
        raise InputError("measured over predicted times: want numbers > 0")
    if not len(values):
        return Scale(1.0, machine_spread)
    share = np.cumsum(1 / values) / np.sum(1 / values)
    best = float(values[int(np.searchsorted(share, 0.5))])
    between, within = machine_spread**2, matrix_spread**2 / len(values)
    weight = between / (between + within) if between else 0.0
    return Scale(best**weight, float(np.sqrt(between * (1 - weight))))
