"""Which law holds: families weighed by how well they predicted the later points from the earlier ones.

Rolling origin: each family is fitted to the first m points and evaluated at the rest, for the last few m. The answer is
the average of the families with weights that fall with that error; an average of sums of terms is a sum of terms
again, so the answer stays one formula.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.scaling.laws.band_constants import (
    CLEAN,
    CLEANEST,
    ERROR_CAP,
    FIRST_ORIGIN,
    FLOOR,
    ORIGINS,
    SHARPNESS,
)
from slipstick.estimators.scaling.laws.nonnegative_fits import fit_prefixes
from slipstick.estimators.scaling.laws.terms import FAMILIES, NEGLIGIBLE, SIZE_BENDS, STEEPER, Family, Law, Term

EXACT = 1e-9
"""Errors nearer to each other are equal: what is left of them is rounding."""


@dataclass(frozen=True)
class Pool:
    """The families that one kind of scaling is averaged over.

    `families`: all of them share in the answer.
    `sharpness`, `floor`: weights are (error^2 + floor^2)^(-sharpness / 2): below the floor families count as equally
        good. Where one of them is very good the floor is `CLEAN` times its error: clean data separate laws that noisy
        data cannot.
    `challengers`: families that replace the others only where their error is below their `bar` times that of each of
        them.
    `witnesses`: challengers that are heard even where they lose: what they say apart from the answer widens the band.
    """

    families: tuple[Family, ...]
    sharpness: float = SHARPNESS
    floor: float = FLOOR
    challengers: tuple[Family, ...] = ()
    witnesses: tuple[Family, ...] = ()


def counted_in(pool: Pool, unit: float) -> Pool:
    """The pool with logarithms of x / unit."""
    families, challengers, witnesses = (
        tuple(family.counted_in(unit) for family in some) for some in (pool.families, pool.challengers, pool.witnesses)
    )
    return replace(pool, families=families, challengers=challengers, witnesses=witnesses)


_MILDEST = STEEPER[:1]
SIZES = Pool((SIZE_BENDS,), challengers=STEEPER, witnesses=_MILDEST)
"""What is averaged where a size grows."""


@dataclass(frozen=True)
class FittedFamily:
    """A family with the change points and coefficients that one series gave it."""

    family: Family
    knots: FloatArray
    coefficients: FloatArray

    def __call__(self, x: FloatArray) -> FloatArray:
        """Times at `x`."""
        return np.asarray(self.family.matrix(x, self.knots) @ self.coefficients)

    def held(self, x: FloatArray) -> str:
        """The least family that says the same at the values `x`, shape (points,):
        an n^3 of which no cube is left is a line."""
        parts = self.family.matrix(x, self.knots) * self.coefficients
        seen = (parts >= NEGLIGIBLE * parts.sum(axis=1, keepdims=True)).any(axis=0)
        used = {self.family.term(int(column), self.knots) for column in np.flatnonzero(seen)}
        if self.family.bends != "none" or self.family.terms[-1] in used:
            return self.family.name
        least = [one for one in FAMILIES.values() if one.bends == "none" and used <= set(one.terms)]
        return min([*least, self.family], key=lambda one: len(one.terms)).name


@dataclass(frozen=True)
class Mixture:
    """Fitted families with their weights, and how well they predicted ahead.

    `parts`, `weights`, `errors`: the families of weight > 0 and the witnesses; errors are mean |log(predicted /
        measured)| in the rolling-origin steps.
    `ahead`, `ahead_ratios`: log(predicted / measured) of the weighted answer, one a step and point, and how far each
        looked (value / last value fitted); empty where there were no steps.
    `replaced`: whether challengers took the place of the usual families.
    """

    parts: tuple[FittedFamily, ...]
    weights: FloatArray
    errors: FloatArray
    ahead: FloatArray
    ahead_ratios: FloatArray
    replaced: bool = False

    def __call__(self, x: FloatArray) -> FloatArray:
        """Weighted times at `x`."""
        return np.asarray(self.weights @ self.each(x))

    def each(self, x: FloatArray) -> FloatArray:
        """Times by family, shape (families, len(x))."""
        return np.stack([part(x) for part in self.parts])

    def law(self) -> Law:
        """The sum of terms that the average is, without terms of coefficient 0."""
        total: dict[Term, float] = {}
        for part, weight in zip(self.parts, self.weights, strict=True):
            for column in np.flatnonzero(weight * part.coefficients):
                term = part.family.term(int(column), part.knots)
                total[term] = total.get(term, 0.0) + float(weight * part.coefficients[column])
        return Law(tuple((coefficient, term) for term, coefficient in total.items()))


def select(
    pool: Pool,
    x: FloatArray,
    y: FloatArray,
    known_knots: tuple[float, ...] = (),
    origins: int = ORIGINS,
) -> list[Mixture]:
    """Fit and weigh the families of a pool on many series of one length.

    Parameters
    ----------
    x, y
        Shape (series, points), sorted by x.
    known_knots
        Borders that the machine gives, instead of change points found from the data.
    origins
        Rolling-origin steps; with 0 the families count alike.
    """
    count, n = x.shape
    starts = tuple(range(max(FIRST_ORIGIN, n - origins), n))
    families = (*pool.families, *pool.challengers)
    knots = [family.knots(x, known_knots) for family in families]
    fits = [fit_prefixes(f, x, y, k, (*starts, n)) for f, k in zip(families, knots, strict=True)]
    later = np.arange(n) >= np.asarray(starts, dtype=int)[:, None]
    ahead = np.stack(
        [_ahead(f, x, y, k, c[:, :-1])[:, later] for f, k, c in zip(families, knots, fits, strict=True)], axis=1
    )
    ratios = (x[:, None, :] / x[:, np.asarray(starts, dtype=int) - 1, None])[:, later]
    trust = np.broadcast_to(np.asarray(starts, dtype=float)[:, None] / n, later.shape)[later]
    errors = np.minimum(np.abs(ahead), ERROR_CAP) @ trust / trust.sum() if trust.size else np.zeros(ahead.shape[:2])
    first = len(pool.families)
    floor = np.clip(CLEAN * errors[:, :first].min(axis=1, keepdims=True), CLEANEST, pool.floor)
    share = (errors**2 + floor**2) ** (-pool.sharpness / 2)
    replaced = np.zeros(count, dtype=bool)
    if len(families) > first:
        bars = np.array([family.bar for family in pool.challengers])
        won = errors[:, first:] + EXACT < bars * errors[:, :first].min(axis=1, keepdims=True)
        share[:, first:] *= won
        replaced = won.any(axis=1)
        share[:, :first] *= ~replaced[:, None]
    share /= share.sum(axis=1, keepdims=True)
    together = np.log(np.einsum("sf,sfa->sa", share, np.exp(ahead)))
    heard = np.array([family in pool.witnesses for family in families])
    mixtures = []
    for i in range(count):
        used = np.flatnonzero((share[i] != 0) | heard)
        parts = tuple(FittedFamily(families[f], knots[f][i], fits[f][i, -1]) for f in used)
        mixtures.append(Mixture(parts, share[i, used], errors[i, used], together[i], ratios[i], bool(replaced[i])))
    return mixtures


def _ahead(family: Family, x: FloatArray, y: FloatArray, knots: FloatArray, coefficients: FloatArray) -> FloatArray:
    """log(predicted / measured), shape (series, origins, points); only the points after an origin mean anything."""
    predicted = np.einsum("snk,sok->son", family.matrix(x, knots), coefficients)
    return np.asarray(np.log(np.maximum(predicted, 1e-300)) - np.log(y[:, None, :]))
