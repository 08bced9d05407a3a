"""What a cache still holds of data that come round again: the one rule of every model with levels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import sympy as sp

from estimators.extrema import Largest, Smallest


def share_beyond(volume: sp.Expr, capacity: sp.Expr) -> sp.Expr:
    """Share of a cyclic stream that misses a cache: from none at 0.7 of the capacity to all at 1.4, linear in the log.

    Parameters
    ----------
    volume, capacity
        Bytes touched between two uses, and held.
    """
    return Smallest(1, Largest(0, sp.Rational(1, 2) + sp.log(volume / capacity) / sp.log(2)))


def shares_beyond(volumes: npt.NDArray[np.float64], capacity: float) -> npt.NDArray[np.float64]:
    """The same on arrays.

    >>> shares_beyond(np.array([0.5, 1.0, 2.0]), 1.0).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.asarray(np.clip(0.5 + np.log2(volumes / capacity), 0.0, 1.0))
