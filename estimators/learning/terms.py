"""Sums of terms with coefficients of at least zero, nearest to measurements in relative error: the one such solver.

Lawson and Hanson's active set (Solving Least Squares Problems, 1974).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
ROUNDS, SMALLEST_ERROR = 40, 0.02
"""Rounds after which the mean error is least; relative errors below this weigh alike in it."""


def nonnegative(matrix: FloatArray, target: FloatArray) -> FloatArray:
    """Coefficients of at least zero with the least squares of ``matrix @ coefficients - target``, shape (terms,).

    `matrix`, `target`: of shapes (rows, terms) and (rows,); columns may differ in scale by any factor.
    """
    from scipy.optimize import nnls

    scale = np.abs(matrix).max(axis=0)
    scale[scale == 0] = 1.0
    scaled = matrix / scale
    if len(target) > 2 * scaled.shape[1]:
        # many rows: the triangle of the QR decomposition has the same least squares with fewer of them
        orthogonal, scaled = np.linalg.qr(scaled)
        target = target @ orthogonal
    return np.asarray(nnls(scaled, target, maxiter=100 * scaled.shape[1])[0] / scale)


def nearest_terms(matrix: FloatArray, measured: FloatArray, rounds: int = 1) -> FloatArray:
    """Coefficients of at least zero whose sums of terms are nearest to measured values, shape (terms,).

    `matrix`, `measured`: of shapes (rows, terms) and (rows,), every value above 0.
    `rounds`: one makes the mean square of relative errors least; further ones weigh rows anew towards the least mean
        error.
    """
    relative, weights = matrix / measured[:, None], np.ones(len(measured))
    for _ in range(rounds):
        root = np.sqrt(weights)
        coefficients = nonnegative(relative * root[:, None], root)
        weights = 1 / np.maximum(np.abs(relative @ coefficients - 1), SMALLEST_ERROR)
    return coefficients
