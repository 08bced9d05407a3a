"""The terms that scaling laws are sums of, and a law: such a sum with its coefficients.

Families of scaling laws: sums of terms with coefficients that cannot be negative, with change points where wanted.

Because the terms are few and their coefficients are >= 0, no family can oscillate or cross zero beyond the data. A
change point is one more term that is 0 up to a knot: a convex bend of the cost (a cache or a socket that is full).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import sp, symbol
from slipstick.estimators.scaling.laws.band_constants import (
    BANDWIDTH_PENALTY,
    BARS,
    KNOT_SUPPORT,
    MAX_KNOTS,
    SIZE_PENALTY,
    USUAL_BAR,
    WORK_PENALTY,
)
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.machine import Machine


class Term(Protocol):
    """One summand without its coefficient: values on an array, and the formula of the same."""

    def values(self, x: FloatArray) -> FloatArray:
        """The term at every x > 0, same shape, without its coefficient (seconds)."""

    def expression(self, x: sp.Symbol) -> sp.Expr:
        """The term as a formula."""

    def text(self, x: str) -> str:
        """The term for people, "1" for a constant."""


@dataclass(frozen=True)
class PowerTerm:
    """x^exponent (log2 (x / unit))^logs: 1, 1/x, log x, x, x log x, x^2 and what lies between."""

    exponent: float = 0.0
    logs: int = 0
    unit: float = 1.0

    def values(self, x: FloatArray) -> FloatArray:
        """See `Term`."""
        base = np.ones_like(x, dtype=np.float64) if self.exponent == 0 else np.asarray(x, dtype=np.float64)
        power = base if self.exponent in (0, 1) else base**self.exponent
        return power * np.log2(x / self.unit) ** self.logs if self.logs else power

    def expression(self, x: sp.Symbol) -> sp.Expr:
        """See `Term`."""
        exponent = sp.Integer(int(self.exponent)) if self.exponent == int(self.exponent) else sp.Float(self.exponent, 6)
        unit = sp.Integer(1) if self.unit == 1 else sp.Float(self.unit, 15)
        return x**exponent * (sp.log(x / unit) / sp.log(2)) ** self.logs

    def text(self, x: str) -> str:
        """See `Term`."""
        size = abs(self.exponent)
        power = "" if size == 0 else x if size == 1 else f"{x}^{size:g}"
        ratio = x if self.unit == 1 else f"{x}/{self.unit:g}"
        log = "" if not self.logs else f"log2({ratio})" if self.logs == 1 else f"log2({ratio})^{self.logs}"
        if self.exponent < 0:
            return f"{log or 1}/{power}"
        return " ".join(part for part in (power, log) if part) or "1"


@dataclass(frozen=True)
class SizeBend:
    """max(x - knot, 0): what grows faster beyond a full memory level."""

    knot: float

    def values(self, x: FloatArray) -> FloatArray:
        """The part of x (same shape) above the knot."""
        return np.maximum(x - self.knot, 0.0)

    def expression(self, x: sp.Symbol) -> sp.Expr:
        """See `Term`."""
        return sp.Max(x - sp.Float(self.knot, 8), 0)

    def text(self, x: str) -> str:
        """See `Term`."""
        return f"max({x} - {self.knot:g}, 0)"


@dataclass(frozen=True)
class WorkBend:
    """max(1 - knot / x, 0): what shared work costs more beyond a border (cores, a socket, a saturated bandwidth)."""

    knot: float

    def values(self, x: FloatArray) -> FloatArray:
        """Share of the work beyond the knot, 1 - knot / x, at least 0; shape of x."""
        return np.maximum(1.0 - self.knot / x, 0.0)

    def expression(self, x: sp.Symbol) -> sp.Expr:
        """See `Term`."""
        return sp.Max(1 - sp.Float(self.knot, 8) / x, 0)

    def text(self, x: str) -> str:
        """See `Term`."""
        return f"max(1 - {self.knot:g}/{x}, 0)"


@dataclass(frozen=True)
class SharedIssue:
    """CPI(x) / x: work shared by x threads whose cycles per instruction step up with the threads on a core.

    Source: Viebke et al. 2019, Table III (CPI 1, 1, 1.5, 2 for 1, 2, 3, 4 threads on a core of the Xeon Phi).
    """

    cores: int
    cycles: tuple[float, ...]

    def values(self, x: FloatArray) -> FloatArray:
        """See `Term`."""
        threads = np.clip(np.ceil(x / self.cores).astype(int), 1, len(self.cycles))
        return np.asarray(np.asarray(self.cycles)[threads - 1] / x)

    def expression(self, x: sp.Symbol) -> sp.Expr:
        """See `Term`."""
        steps = [(sp.Float(c, 6), x <= self.cores * (i + 1)) for i, c in enumerate(self.cycles[:-1])]
        return sp.Piecewise(*steps, (sp.Float(self.cycles[-1], 6), True)) / x

    def text(self, x: str) -> str:
        """See `Term`."""
        return f"CPI({x})/{x}"


@dataclass(frozen=True)
class Law:
    """A sum of terms with coefficients in seconds."""

    terms: tuple[tuple[float, Term], ...]

    def __call__(self, x: FloatArray) -> FloatArray:
        """Times at `x`."""
        x = np.asarray(x, dtype=np.float64)
        total = np.zeros_like(x)
        for coefficient, term in self.terms:
            total = total + coefficient * term.values(x)
        return total

    def without(self, share: float, x: FloatArray) -> Law:
        """The law without the terms that are below a share of its time at every `x`; at least one stays."""
        parts = np.abs([coefficient * term.values(x) for coefficient, term in self.terms])
        shares = (parts / np.maximum(parts.sum(axis=0), 1e-300)).max(axis=1)
        kept = shares >= min(share, shares.max())
        return Law(tuple(term for term, keep in zip(self.terms, kept, strict=True) if keep))

    def text(self, parameter: str, at: float) -> str:
        """The sum for people, the largest term at `at` first: "103 1/threads + 1.8"."""
        ordered = sorted(self.terms, key=lambda part: -abs(part[0] * float(part[1].values(np.array([at]))[0])))
        words = [_product(coefficient, term.text(parameter)) for coefficient, term in ordered]
        return " + ".join(words).replace("+ -", "- ")

    def formula(self, parameter: str, source: str, unit: str = "s") -> Formula:
        """The law as a formula of `parameter`, coefficients rounded to six digits."""
        x = symbol(parameter)
        return Formula(sp.Add(*(sp.Float(c, 6) * term.expression(x) for c, term in self.terms)), unit, source)

    @property
    def change_points(self) -> tuple[float, ...]:
        """Knots of the bends in the law, sorted."""
        return tuple(sorted(term.knot for _, term in self.terms if isinstance(term, (SizeBend, WorkBend))))


def _product(coefficient: float, text: str) -> str:
    number = f"{coefficient:.3g}"  # the fourth digit of least squares differs from one CPU to another
    return number if text == "1" else number + text[1:] if text.startswith("1/") else f"{number} {text}"


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
