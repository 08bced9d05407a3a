"""Amdahl's law by least squares, the baseline of strong scaling."""

from __future__ import annotations

import numpy as np

from slipstick.estimators.scaling.extrapolate import extrapolate
from slipstick.estimators.scaling.series import Series
from slipstick.estimators.symbolic.lambdified import FloatArray


def amdahl(series: Series, to: FloatArray) -> FloatArray:
    """Times [s] of a / p + c with a, c >= 0, fitted to relative residuals, at numbers of workers, shape (targets,)."""
    return np.asarray(extrapolate(series, to, "strong", family="amdahl", level=None).value)
