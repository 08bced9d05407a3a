"""The terms that scaling laws are sums of, and a law: such a sum with its coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slipstick.common.expressions import sp, symbol
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified import FloatArray


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
    number = f"{coefficient:.4g}"
    return number if text == "1" else number + text[1:] if text.startswith("1/") else f"{number} {text}"
