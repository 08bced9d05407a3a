"""What may explain a surface: products of the usual shapes, short laws found by search, and one product of powers.

Short laws by search: sums of at most three products that explain all points, widened term by term.

The best `WIDTH` laws of each length, by the Bayesian information criterion of relative residuals, are carried on to the
next; a term whose coefficient would be negative is not added. As in Extra-P (Calotoiu et al. 2016) the terms of each
parameter were screened before; unlike there, several laws survive, and points left out choose among them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.scaling.laws.terms import PowerTerm
from slipstick.estimators.scaling.surfaces.surface_constants import POWERS_BAR, SEARCH_BAR
from slipstick.estimators.scaling.surfaces.surface_law import Product, products_of, values_of
from slipstick.estimators.scaling.surfaces.term_families import SCREENED, Shape, screened, shapes

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


SHORT_LAWS = 6
SEARCH, POWERS = "search", "powers"
MOST_SHAPES = 48
"""Combinations of shapes; beyond, at most two parameters depart from the first shape of each, one with four of them."""
PAIRS_UP_TO = 3
BENDS = {1: 8, 2: 8, 3: 6, 4: 0}
SEARCHED_TERMS = {1: SCREENED, 2: SCREENED, 3: SCREENED, 4: 2}


@dataclass(frozen=True)
class SurfaceTerm:
    """Products that may stand in the sum; see `Shape` for the bar."""

    name: str
    products: tuple[Product, ...]
    bar: float


def usual_candidates(x: FloatArray, y: FloatArray, kinds: Sequence[str], units: Sequence[float]) -> list[SurfaceTerm]:
    """Products of the usual shapes for times y at points x (points, parameters); those that always share come first."""
    slopes = powers(x, y)
    sets = [shapes(kind, x[:, i], slopes[i], units[i], BENDS[len(kinds)]) for i, kind in enumerate(kinds)]
    return [
        SurfaceTerm(" x ".join(s.name for s in some), products_of([s.terms for s in some]), min(s.bar for s in some))
        for some in _combinations(sets)
    ]


def searched_candidates(
    x: FloatArray, y: FloatArray, kinds: Sequence[str], units: Sequence[float]
) -> list[SurfaceTerm]:
    """What the points themselves suggest: short laws by search, best first, and one product of powers.

    `x`, `y`: points, shape (points, parameters), and times in seconds, shape (points,).
    """
    count = len(kinds)
    bends = BENDS[count] // 2 if count > 2 else BENDS[count]
    terms = [screened(x, y, i, kind, units[i], SEARCHED_TERMS[count], bends) for i, kind in enumerate(kinds)]
    products = products_of(terms)
    laws = short_laws(values_of(products, x), y, SHORT_LAWS)
    result = [SurfaceTerm(SEARCH, tuple(products[k] for k in law), SEARCH_BAR) for law in laws]
    return [*result, SurfaceTerm(POWERS, (tuple(PowerTerm(float(s)) for s in powers(x, y)),), POWERS_BAR)]


def powers(x: FloatArray, y: FloatArray) -> FloatArray:
    """Exponents of one product of powers, least squares in logarithms; 0 for what does not vary."""
    logs = np.log(x) - np.log(x).mean(axis=0)
    exponents, *_ = np.linalg.lstsq(logs, np.log(y) - np.log(y).mean(), rcond=1e-9)
    return np.asarray(np.round(exponents, 6))


def _combinations(sets: Sequence[Sequence[Shape]]) -> list[tuple[Shape, ...]]:
    if np.prod([len(some) for some in sets]) <= MOST_SHAPES:
        return list(itertools.product(*sets))
    first = tuple(some[0] for some in sets)
    result = [first]
    if len(sets) > PAIRS_UP_TO:
        for i, some in enumerate(sets):
            result += [tuple(one if k == i else shape for k, shape in enumerate(first)) for one in some[1:]]
        return result
    for i, j in itertools.combinations(range(len(sets)), 2):
        for one, other in itertools.product(sets[i], sets[j]):
            result.append(tuple(one if k == i else other if k == j else s for k, s in enumerate(first)))
    return list(dict.fromkeys(result))
