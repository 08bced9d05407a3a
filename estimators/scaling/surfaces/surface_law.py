"""Sums of products of one-parameter terms: what a surface of times over several parameters is written in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import sp, symbol
from slipstick.estimators.scaling.laws.terms import Term
from slipstick.estimators.symbolic.formula import Formula

NEGLIGIBLE = 1e-3
Product = tuple[Term, ...]


def products_of(terms: Sequence[Sequence[Term]]) -> tuple[Product, ...]:
    """Every product of one term a parameter."""
    return tuple(itertools.product(*terms))


def values_of(products: Sequence[Product], x: FloatArray) -> FloatArray:
    """The products as columns, shape (points, products), at points of shape (points, parameters)."""
    known: dict[tuple[int, Term], FloatArray] = {}
    columns = np.ones((len(x), len(products)))
    for k, product in enumerate(products):
        for i, term in enumerate(product):
            if (i, term) not in known:
                known[i, term] = term.values(x[:, i])
            columns[:, k] *= known[i, term]
    return columns


@dataclass(frozen=True)
class Surface:
    """A law of times over several parameters.

    `parameters`, `kinds`: what varies, and as what kind of scaling each was taken.
    `products`: coefficient [s] and one term a parameter.
    """

    parameters: tuple[str, ...]
    kinds: tuple[str, ...]
    products: tuple[tuple[float, Product], ...]

    def __call__(self, points: npt.ArrayLike) -> FloatArray:
        """Times in seconds at points of shape (n, parameters)."""
        x = np.atleast_2d(np.asarray(points, dtype=np.float64))
        coefficients = np.array([coefficient for coefficient, _ in self.products])
        return np.asarray(values_of([product for _, product in self.products], x) @ coefficients)

    def text(self, point: Sequence[float]) -> str:
        """The sum for people, the largest product at `point` first, without those that matter nowhere near it."""
        x = np.asarray(point, dtype=np.float64)
        parts = []
        for coefficient, terms in self.products:
            words = [term.text(name) for term, name in zip(terms, self.parameters, strict=True)]
            size = coefficient * np.prod([float(t.values(x[i : i + 1])[0]) for i, t in enumerate(terms)])
            over = "".join(word[1:] for word in words if word.startswith("1/"))
            times = [word for word in words if word != "1" and not word.startswith("1/")]
            parts.append((float(size), " ".join([f"{coefficient:.4g}", *times]) + over))
        whole = sum(size for size, _ in parts)
        return " + ".join(text for size, text in sorted(parts, reverse=True) if size >= NEGLIGIBLE * whole)

    @property
    def formula(self) -> Formula:
        """The surface as a formula of its parameters, in seconds, coefficients rounded to six digits."""
        symbols = [symbol(name) for name in self.parameters]
        expression = sp.Add(
            *(
                sp.Float(coefficient, 6) * sp.Mul(*(t.expression(s) for t, s in zip(terms, symbols, strict=True)))
                for coefficient, terms in self.products
            )
        )
        return Formula(expression, "s", "sum of products of one-parameter terms, coefficients >= 0")
