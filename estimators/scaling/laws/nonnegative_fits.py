"""Non-negative least squares on every prefix of many series at once.

Few terms: all subsets of them are solved in closed form from running sums, and the best one without a negative
coefficient is the answer (the optimum of a non-negative problem is the unconstrained optimum of its support). Many
terms (change points): the active set of `learning.terms`.
"""

from __future__ import annotations

import itertools

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.nonnegative_terms import nonnegative
from slipstick.estimators.scaling.laws.band_constants import KNOT_SUPPORT
from slipstick.estimators.scaling.laws.terms import Family

RIDGE = 1e-13


def fit_prefixes(
    family: Family, x: FloatArray, y: FloatArray, knots: FloatArray, lengths: tuple[int, ...]
) -> FloatArray:
    """Coefficients of a family fitted to the first `m` points for every m in `lengths`.

    `x`, `y`: shape (series, points), sorted by x; residuals are fit / y - 1.
    `knots`: shape (series, k), from `Family.knots`.

    Returns
    -------
    Shape (series, lengths, terms + k).
    """
    matrix = family.matrix(x, knots)
    scale = np.abs(matrix).max(axis=1)
    scale[scale == 0] = 1.0
    weighted = matrix / scale[:, None, :] / y[..., None]
    if family.bends == "none":
        coefficients = _by_subsets(weighted, lengths)
    else:
        coefficients = np.zeros((len(x), len(lengths), matrix.shape[-1]))
        for i, m in itertools.product(range(len(x)), range(len(lengths))):
            coefficients[i, m] = _with_bends(family, weighted[i, : lengths[m]])
    coefficients /= scale[:, None, :]
    if family.through_last:
        ends = np.asarray(lengths) - 1
        last = np.einsum("sok,sok->so", matrix[:, ends], coefficients)
        coefficients *= np.where(last > 0, y[:, ends] / np.where(last > 0, last, 1.0), 1.0)[..., None]
    return coefficients


def _with_bends(family: Family, weighted: FloatArray) -> FloatArray:
    fixed = len(family.terms)
    bends = weighted[:, fixed:]
    usable = np.count_nonzero(bends, axis=0) >= KNOT_SUPPORT - 1
    used = np.concatenate([np.ones(fixed, dtype=bool), usable])
    height, width = len(weighted), int(used.sum())
    system = np.zeros((height + 1, width))
    system[:height] = weighted[:, used]
    system[height, fixed:] = family.penalty * bends[-1, usable]
    coefficients = np.zeros(len(used))
    coefficients[used] = nonnegative(system, np.append(np.ones(height), 0.0))
    return coefficients


def _by_subsets(weighted: FloatArray, lengths: tuple[int, ...]) -> FloatArray:
    ends = np.asarray(lengths) - 1
    gram = np.cumsum(weighted[..., :, None] * weighted[..., None, :], axis=1)[:, ends]
    moment = np.cumsum(weighted, axis=1)[:, ends]
    terms = weighted.shape[-1]
    norms = np.sqrt(np.einsum("sokk->sok", gram))
    norms = np.where(norms > 0, norms, 1.0)
    gram = gram / (norms[..., :, None] * norms[..., None, :])
    moment = moment / norms
    masks = np.array([mask for mask in itertools.product((0.0, 1.0), repeat=terms) if any(mask)])
    # terms outside the subset get an identity row, so that all subsets are solved in one call; the ridge is for
    # subsets that the points do not fix
    pair = masks[:, :, None] * masks[:, None, :]
    diagonal = np.eye(terms) * (1.0 - masks[:, :, None] + RIDGE)
    solutions = np.linalg.solve(gram[:, :, None] * pair + diagonal, (moment[:, :, None] * masks)[..., None])[..., 0]
    gain = np.einsum("soak,sok->soa", solutions, moment)
    gain = np.where(np.all(solutions >= 0, axis=-1), gain, -np.inf)
    best = np.argmax(gain, axis=-1)
    return np.take_along_axis(solutions, best[..., None, None], axis=2)[:, :, 0] / norms
