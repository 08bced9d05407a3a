"""Two and more parameters (threads x size): a sum of products of one-parameter terms, coefficients >= 0.

The terms of each parameter come from its own kind of scaling; every product of one term each may stand in the sum
(Amdahl in threads times linear in size, and so on). Non-negative least squares on relative residuals keeps the sum
short, so that sparse designs (lines through the space instead of a full grid) do.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import sympy as sp
from scipy.optimize import nnls

from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.extrapolation.laws.families import CONSTANT, INVERSE, LINEAR, LOG
from slipstick.estimators.extrapolation.laws.terms import Term
from slipstick.estimators.extrapolation.series import Series, kind_of, refuse_spread
from slipstick.hwmodels.files.expressions import symbol
from slipstick.hwmodels.files.readers import InputError

TERMS: dict[str, tuple[Term, ...]] = {
    "strong": (CONSTANT, INVERSE, LOG),
    "weak": (CONSTANT, LOG, LINEAR),
    "collective": (CONSTANT, LOG, LINEAR),
    "problem_size": (CONSTANT, LOG, LINEAR),
}
LEAST_POINTS = 4
MAX_PARAMETERS = 4
MAX_POINTS = 100_000
NEGLIGIBLE = 1e-3


@dataclass(frozen=True)
class Surface:
    """Times over several parameters.

    Parameters
    ----------
    parameters, kinds
        What varies, and as what kind of scaling each was taken.
    products
        Coefficient [s] and one term a parameter.
    misses
        Root mean square of log(predicted / measured) of the points farthest out, each predicted from the nearer ones;
        None where there are too few.
    """

    parameters: tuple[str, ...]
    kinds: tuple[str, ...]
    products: tuple[tuple[float, tuple[Term, ...]], ...]
    misses: float | None

    def __call__(self, points: npt.ArrayLike) -> FloatArray:
        """Times in seconds at points of shape (n, parameters)."""
        x = np.atleast_2d(np.asarray(points, dtype=np.float64))
        return np.asarray(
            sum(
                coefficient * np.prod([term.values(x[:, i]) for i, term in enumerate(terms)], axis=0)
                for coefficient, terms in self.products
            )
            + np.zeros(len(x))
        )

    def text(self, point: Sequence[float]) -> str:
        """The sum for people, the largest product at `point` first, without those that matter nowhere near it."""
        x = np.asarray(point, dtype=np.float64)
        found = []
        for coefficient, terms in self.products:
            words = [term.text(name) for term, name in zip(terms, self.parameters, strict=True)]
            size = coefficient * np.prod([float(t.values(x[i : i + 1])[0]) for i, t in enumerate(terms)])
            over = "".join(word[1:] for word in words if word.startswith("1/"))
            times = [word for word in words if word != "1" and not word.startswith("1/")]
            found.append((float(size), " ".join([f"{coefficient:.4g}", *times]) + over))
        whole = sum(size for size, _ in found)
        return " + ".join(text for size, text in sorted(found, reverse=True) if size >= NEGLIGIBLE * whole)

    @property
    def formula(self) -> Formula:
        """The surface as a formula of its parameters, in seconds."""
        symbols = [symbol(name) for name in self.parameters]
        expression = sp.Add(
            *(
                sp.Float(coefficient, 6) * sp.Mul(*(t.expression(s) for t, s in zip(terms, symbols, strict=True)))
                for coefficient, terms in self.products
            )
        )
        return Formula(expression, "s", "sum of products of one-parameter terms, non-negative least squares")


def fit_surface(
    points: npt.ArrayLike, times: npt.ArrayLike, parameters: Sequence[str], kinds: Mapping[str, str] | None = None
) -> Surface:
    """Fit times over several parameters.

    Parameters
    ----------
    points, times
        Shape (n, parameters) and (n,) in seconds; repeats are allowed.
    kinds
        Parameter -> kind of scaling; the others are taken from name and slope.

    Raises
    ------
    InputError
        Where numbers are not finite and positive, times lie too far apart, or there are too few or too many.
    """
    x, y = np.asarray(points, dtype=np.float64), np.asarray(times, dtype=np.float64)
    names = tuple(parameters)
    if x.ndim != 2 or x.shape[1] != len(names) or len(x) != len(y):
        raise InputError(f"want one time and {len(names)} parameters a measurement, got shapes {x.shape} and {y.shape}")
    if not 1 <= len(names) <= MAX_PARAMETERS:
        raise InputError(f"{len(names)} parameters; want 1 .. {MAX_PARAMETERS}")
    if not (np.isfinite(x) & (x > 0)).all() or not (np.isfinite(y) & (y > 0)).all():
        raise InputError("parameters and times must be finite numbers > 0")
    if len(y):
        refuse_spread(y)
    unique, inverse = np.unique(x, axis=0, return_inverse=True)
    if not LEAST_POINTS <= len(unique) <= MAX_POINTS:
        raise InputError(f"{len(unique)} different points; want {LEAST_POINTS} .. {MAX_POINTS}")
    order = np.lexsort((y, inverse.ravel()))
    cuts = np.flatnonzero(np.diff(inverse.ravel()[order])) + 1
    medians = np.array([np.median(part) for part in np.split(y[order], cuts)])
    given = kinds or {}
    found = tuple(_kind(unique, medians, i, name, given.get(name)) for i, name in enumerate(names))
    products = _fit(unique, medians, found)
    return Surface(names, found, products, _misses(unique, medians, names, found))


def _kind(x: FloatArray, y: FloatArray, column: int, name: str, given: str | None) -> str:
    """The kind of one parameter, from the longest line on which only it varies."""
    others = np.delete(x, column, axis=1)
    lines: dict[tuple[float, ...], list[int]] = {}
    for i, rest in enumerate(map(tuple, others)):
        lines.setdefault(rest, []).append(i)
    longest = max(lines.values(), key=len)
    return kind_of(Series.of(x[longest, column], y[longest], name), given)[0]


def _columns(x: FloatArray, kinds: Sequence[str]) -> tuple[list[tuple[Term, ...]], FloatArray]:
    products = list(itertools.product(*(TERMS[kind] for kind in kinds)))
    values = [[term.values(x[:, i]) for term in TERMS[kind]] for i, kind in enumerate(kinds)]
    return products, np.stack([np.prod(np.stack(some), axis=0) for some in itertools.product(*values)], axis=1)


def _fit(x: FloatArray, y: FloatArray, kinds: Sequence[str]) -> tuple[tuple[float, tuple[Term, ...]], ...]:
    products, matrix = _columns(x, kinds)
    scale = np.abs(matrix).max(axis=0)
    scale[scale == 0] = 1.0
    coefficients, _ = nnls(matrix / scale / y[:, None], np.ones(len(y)))
    share = (matrix / scale * coefficients / y[:, None]).max(axis=0)
    kept = np.flatnonzero(share > 1e-9)
    return tuple((float(coefficients[i] / scale[i]), products[i]) for i in kept)


def _misses(x: FloatArray, y: FloatArray, names: tuple[str, ...], kinds: tuple[str, ...]) -> float | None:
    """The farthest third, predicted from the nearer two thirds."""
    far = np.argsort(np.log(x).sum(axis=1), kind="stable")
    known = far[: max(LEAST_POINTS, (2 * len(far)) // 3)]
    ahead = far[len(known) :]
    if len(ahead) < 1:
        return None
    surface = Surface(names, kinds, _fit(x[known], y[known], kinds), None)
    return float(np.sqrt(np.mean(np.log(np.maximum(surface(x[ahead]), 1e-300) / y[ahead]) ** 2)))
