"""Sums of terms with coefficients of at least zero, nearest to measurements in relative error: the one such solver.

Lawson and Hanson's active set (Solving Least Squares Problems, 1974).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray

COMPILED = "1.17."
"""Releases of scipy in which `scipy.optimize.nnls` calls `_slsqplib.nnls` so."""
TOO_MANY_ROUNDS = 3
ROUNDS, SMALLEST_ERROR = 40, 0.02
"""Rounds after which the mean error is least; relative errors below this weigh alike in it."""


def nonnegative(matrix: FloatArray, target: FloatArray) -> FloatArray:
    """Coefficients of at least zero with the least squares of ``matrix @ coefficients - target``, shape (terms,).

    `matrix`, `target`: of shapes (rows, terms) and (rows,); columns may differ in scale by any factor.
    """
    scale = np.abs(matrix).max(axis=0)
    scale[scale == 0] = 1.0
    scaled = matrix / scale
    if len(target) > 2 * scaled.shape[1]:
        # many rows: the triangle of the QR decomposition has the same least squares with fewer of them
        orthogonal, scaled = np.linalg.qr(scaled)
        target = target @ orthogonal
    return np.asarray(_active_set()(scaled, target, 100 * scaled.shape[1]) / scale)


@cache
def _active_set() -> Callable[[FloatArray, FloatArray, int], FloatArray]:
    """scipy's solver: of a matrix, a target and the most rounds.

    Its compiled part alone, where this release is known to have it so: `scipy.optimize` imports sixty modules for its
    other solvers, which takes four times as long as numpy.
    """
    import scipy

    places = [str(Path(one) / "optimize") for one in scipy.__path__] if scipy.__version__.startswith(COMPILED) else []
    spec = PathFinder.find_spec("_slsqplib", places) if places else None
    if spec is None or spec.loader is None:
        from scipy.optimize import nnls

        return lambda matrix, target, most: np.asarray(nnls(matrix, target, maxiter=most)[0])
    module = module_from_spec(spec)
    spec.loader.exec_module(module)

    def solved(matrix: FloatArray, target: FloatArray, most: int) -> FloatArray:
        plain = np.asarray_chkfinite(matrix, dtype=np.float64, order="C")
        coefficients, _, state = module.nnls(plain, np.asarray_chkfinite(target, dtype=np.float64), most)
        if state == TOO_MANY_ROUNDS:
            raise RuntimeError("Maximum number of iterations reached.")
        return np.asarray(coefficients)

    return solved


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
