"""Short laws by search: sums of at most three products that explain all points, widened term by term.

The best `WIDTH` laws of each length, by the Bayesian information criterion of relative residuals, are carried on to the
next; a term whose coefficient would be negative is not added. As in Extra-P (Calotoiu et al. 2016) the terms of each
parameter were screened before; unlike there, several laws survive, and points left out choose among them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slipstick.estimators.symbolic.lambdified import FloatArray

Mask = npt.NDArray[np.bool_]
LONGEST = 3
WIDTH = 24
RIDGE = 1e-12
EXACT = 1e-7
"""Relative residuals below this are rounding: laws that are that good count as equally good."""


def short_laws(matrix: FloatArray, y: FloatArray, most: int) -> list[tuple[int, ...]]:
    """Columns of the best laws, best first.

    `matrix`: products as columns, shape (points, products).
    `y`: times, shape (points,).
    `most`: laws to return.
    """
    weighted = matrix / y[:, None]
    norms = np.sqrt((weighted**2).sum(axis=0))
    usable = norms > 0
    unit = weighted / np.where(usable, norms, 1.0)
    errors: dict[tuple[int, ...], float] = {}
    current: list[tuple[int, ...]] = [()]
    for length in range(1, min(LONGEST, len(y) - 2) + 1):
        laws: dict[tuple[int, ...], float] = {}
        for base in current:
            residual, possible = _widened(unit, base, usable)
            criterion = len(y) * np.log(np.maximum(residual, 0.0) / len(y) + EXACT**2) + length * np.log(len(y))
            criterion[~possible] = np.inf
            for column in np.argsort(criterion, kind="stable")[:WIDTH]:
                if np.isfinite(criterion[column]):
                    laws[tuple(sorted((*base, int(column))))] = float(criterion[column])
        current = sorted(laws, key=lambda law: laws[law])[:WIDTH]
        if not current:
            break
        errors |= {law: laws[law] for law in current}
    return sorted(errors, key=lambda law: errors[law])[:most]


def _widened(unit: FloatArray, base: tuple[int, ...], usable: Mask) -> tuple[FloatArray, Mask]:
    """Squared residual of `base` with each column added, and whether all coefficients stay positive."""
    points, columns = unit.shape
    size = len(base)
    known = list(base)
    moment = unit.sum(axis=0)
    cross = unit[:, known].T @ unit
    gram = np.empty((columns, size + 1, size + 1))
    gram[:, :size, :size] = cross[:, known]
    gram[:, :size, size] = gram[:, size, :size] = cross.T
    gram[:, size, size] = 1.0
    gram += RIDGE * np.eye(size + 1)
    free = usable.copy()
    free[known] = False
    gram[~free] = np.eye(size + 1)
    sums = np.column_stack([np.broadcast_to(moment[known], (columns, size)), moment])
    coefficients = np.linalg.solve(gram, sums[..., None])[..., 0]
    explained = 2 * np.einsum("ck,ck->c", coefficients, sums) - np.einsum(
        "ck,ckl,cl->c", coefficients, gram, coefficients
    )
    return np.asarray(points - explained), free & (coefficients > 0).all(axis=1)
