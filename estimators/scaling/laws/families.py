"""Families of scaling laws: sums of terms with coefficients that cannot be negative, with change points where wanted.

Because the terms are few and their coefficients are >= 0, no family can oscillate or cross zero beyond the data. A
change point is one more term that is 0 up to a knot: a convex bend of the cost (a cache or a socket that is full).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from slipstick.estimators.scaling.laws.band_constants import (
    BANDWIDTH_PENALTY,
    BARS,
    KNOT_SUPPORT,
    MAX_KNOTS,
    SIZE_PENALTY,
    USUAL_BAR,
    WORK_PENALTY,
)
from slipstick.estimators.scaling.laws.terms import PowerTerm, SizeBend, Term, WorkBend
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.hwmodels.machine import Machine

NEGLIGIBLE = 5e-3
"""Terms below this share of the time everywhere are not said."""
Bends = Literal["none", "size", "work"]

CONSTANT, INVERSE, INVERSE_SQUARE = PowerTerm(), PowerTerm(-1.0), PowerTerm(-2.0)
LOG, LINEAR, LINEAR_LOG, SQUARE = PowerTerm(0.0, 1), PowerTerm(1.0), PowerTerm(1.0, 1), PowerTerm(2.0)


@dataclass(frozen=True)
class Family:
    """Which terms may stand in the sum, and how it is fitted.

    `name`, `meaning`: for people.
    `terms`: each with a coefficient >= 0.
    `bends`: kind of change points that may join: none, of a growing size, of shared work.
    `penalty`: how much a change point must earn its place: the ridge on its share of the last time.
    `through_last`: the fitted curve is scaled to go through the last point, the one nearest to the question.
    `bar`: where it may only replace others: its error in earlier extrapolations must be below `bar` times theirs.
    """

    name: str
    meaning: str
    terms: tuple[Term, ...]
    bends: Bends = "none"
    penalty: float = WORK_PENALTY
    through_last: bool = False
    bar: float = USUAL_BAR

    def counted_in(self, unit: float) -> Family:
        """The family with logarithms of x / unit; for data or targets below 1, whose logarithms would be negative."""
        if unit == 1:
            return self
        terms = (replace(t, unit=unit) if isinstance(t, PowerTerm) and t.logs else t for t in self.terms)
        return replace(self, terms=tuple(terms))

    def matrix(self, x: FloatArray, knots: FloatArray) -> FloatArray:
        """The terms as columns: (..., n) to (..., n, terms + knots)."""
        columns = np.stack([term.values(x) for term in self.terms], axis=-1)
        if self.bends == "none":
            return columns
        if self.bends == "work":
            bent = np.maximum(1.0 - knots[..., None, :] / x[..., None], 0.0)
        else:
            bent = np.maximum(x[..., None] - knots[..., None, :], 0.0)
        return np.concatenate([columns, bent], axis=-1)

    def term(self, column: int, knots: FloatArray) -> Term:
        """The term of a column of `matrix`."""
        if column < len(self.terms):
            return self.terms[column]
        knot = float(knots[column - len(self.terms)])
        return WorkBend(knot) if self.bends == "work" else SizeBend(knot)

    def knots(self, x: FloatArray, known: tuple[float, ...] = ()) -> FloatArray:
        """Where a change point may lie, (..., k): known borders, or the inner points of x (..., n)."""
        if self.bends == "none":
            return np.empty((*x.shape[:-1], 0))
        if known:
            # a border outside the data cannot be seen: moved to the last point its column is 0
            borders = np.broadcast_to(np.asarray(known, dtype=np.float64), (*x.shape[:-1], len(known)))
            return np.where(borders > x[..., :1], borders, x[..., -1:])
        inner = x[..., 1 : max(1, x.shape[-1] - KNOT_SUPPORT + 1)]
        if inner.shape[-1] > MAX_KNOTS:
            inner = inner[..., np.linspace(0, inner.shape[-1] - 1, MAX_KNOTS).astype(int)]
        return inner


AMDAHL = Family("amdahl", "serial part + parallel part", (CONSTANT, INVERSE))
AMDAHL_LOG = Family("amdahl-log", "Amdahl + tree-shaped communication", (CONSTANT, INVERSE, LOG))
USL = Family("usl", "universal scalability law: Amdahl + coherence", (CONSTANT, INVERSE, LINEAR))
FOUR = Family("four-terms", "a + b/x + c log x + d x", (CONSTANT, INVERSE, LOG, LINEAR))
SIZE_BENDS = Family(
    "size-bends",
    "overhead + growth, steeper where a memory level is full",
    (CONSTANT, INVERSE, LOG, LINEAR),
    "size",
    SIZE_PENALTY,
    True,
)
SIZE = Family("size", "overhead + growth", (CONSTANT, INVERSE, LOG, LINEAR), through_last=True)
GROWTH_LOG = Family("constant-log", "tree-shaped growth", (CONSTANT, LOG), through_last=True)
GROWTH_LINEAR = Family("constant-linear", "linear growth", (CONSTANT, LINEAR), through_last=True)
STEEPER = tuple(
    Family(name, meaning, (CONSTANT, LINEAR, term), through_last=True, bar=BARS[name])
    for name, meaning, term in (
        ("nlogn", "sorting-like growth", LINEAR_LOG),
        ("n^1.5", "growth between linear and quadratic", PowerTerm(1.5)),
        ("n^2", "all pairs", SQUARE),
        ("n^2.5", "growth between quadratic and cubic", PowerTerm(2.5)),
        ("n^3", "dense matrix products", PowerTerm(3.0)),
    )
)
"""Laws steeper than a size with bends."""
BANDWIDTH = Family("bandwidth", "parallel until a shared bandwidth saturates", (INVERSE,), "work", BANDWIDTH_PENALTY)

FAMILIES = {
    family.name: family
    for family in (
        *(AMDAHL, AMDAHL_LOG, USL, FOUR, BANDWIDTH),
        *(SIZE_BENDS, SIZE, GROWTH_LOG, GROWTH_LINEAR, *STEEPER),
    )
}


def borders(machine: Machine) -> tuple[float, ...]:
    """Counts of cores or threads at which a machine's sharing changes: NUMA domain, socket, cores, hardware threads."""
    counts = {machine.cores_per_numa, machine.cores_per_socket, machine.cores, machine.cores * machine.threads_per_core}
    return tuple(sorted(float(count) for count in counts if count and count > 1))
