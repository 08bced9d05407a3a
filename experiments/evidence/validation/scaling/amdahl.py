"""Amdahl's law by least squares, the baseline of strong scaling."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray


def amdahl(x: FloatArray, times: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """a / p + c with a, c >= 0, fitted to relative residuals of times [s] at numbers of workers x."""
    from scipy.optimize import nnls

    (a, c), _ = nnls(np.column_stack([1 / x, np.ones_like(x)]) / times[:, None], np.ones(len(x)))
    return lambda p: a / p + c
