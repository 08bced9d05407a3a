"""Amdahl's law by least squares, the baseline of strong scaling."""

from __future__ import annotations

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.scaling.extrapolate import extrapolate
from slipstick.estimators.scaling.series import Series


def amdahl(series: Series, to: FloatArray) -> FloatArray:
    """Times [s] of a / p + c with a, c >= 0, fitted to relative residuals, at numbers of workers, shape (targets,)."""
    return np.asarray(extrapolate(series, to, "strong", family="amdahl", level=None).value)
