"""Which terms each parameter may bring, by its kind of scaling: families as in one parameter, and a finer search.

`setting` is a kind that only surfaces know: an input of a program that is neither a count of workers nor a size (an
opening angle, a tolerance, a block size), which may act with any power.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.readers import unknown_name
from slipstick.estimators.scaling.laws.terms import (
    CONSTANT,
    INVERSE,
    INVERSE_SQUARE,
    LINEAR,
    LINEAR_LOG,
    LOG,
    SQUARE,
    PowerTerm,
    SizeBend,
    Term,
    WorkBend,
)
from slipstick.estimators.scaling.series import Series, kind_of

SurfaceKind = Literal["strong", "weak", "problem_size", "collective", "setting"]
SURFACE_KINDS: tuple[str, ...] = get_args(SurfaceKind)
LEAST_IN_LINE = 3
SCREENED = 5
"""Searched terms that a parameter keeps beside the usual ones."""
CUBE, TREE_SQUARE = PowerTerm(3.0), PowerTerm(0.0, 2)
ALL_BUT_ONE = WorkBend(1.0)
"""1 - 1/p: what rings and all-gathers send (Thakur, Rabenseifner, Gropp 2005, Section 4)."""


@dataclass(frozen=True)
class Shape:
    """Terms that one parameter may bring together, and how much better than the usual shapes it must predict.

    With `bar` 1 the shape shares in the answer; below 1 it replaces the others only where its error on points left out
    is below `bar` times theirs.
    """

    name: str
    terms: tuple[Term, ...]
    bar: float = 1.0


_GROWTH = (
    Shape("log", (CONSTANT, LOG)),
    Shape("linear", (CONSTANT, LINEAR)),
    Shape("log+linear", (CONSTANT, LOG, LINEAR)),
    Shape("ring", (CONSTANT, ALL_BUT_ONE, LINEAR), 0.5),
)
SHAPES: dict[str, tuple[Shape, ...]] = {
    "strong": (
        Shape("amdahl", (CONSTANT, INVERSE)),
        Shape("amdahl-log", (CONSTANT, INVERSE, LOG)),
        Shape("tree", (INVERSE, LOG)),
        Shape("cache", (CONSTANT, INVERSE, INVERSE_SQUARE)),
        Shape("usl", (CONSTANT, INVERSE, LINEAR), 0.75),
    ),
    "weak": _GROWTH,
    "collective": _GROWTH,
    "problem_size": (
        Shape("bends", (CONSTANT, INVERSE, LOG, LINEAR)),
        Shape("n log n", (CONSTANT, LINEAR, LINEAR_LOG), 0.35),
        Shape("n^1.5", (CONSTANT, LINEAR, PowerTerm(1.5)), 0.75),
        Shape("n^2", (CONSTANT, LINEAR, SQUARE), 0.5),
        Shape("n^3", (CONSTANT, LINEAR, SQUARE, CUBE), 0.35),
    ),
}


def _powers(exponents: Sequence[float], logs: Sequence[int] = (0, 1)) -> tuple[Term, ...]:
    return tuple(PowerTerm(exponent, log) for exponent in exponents for log in logs)


_SLOW = (*_powers((0.25, 1 / 3, 0.5, 2 / 3, 0.75, 1.0)), LOG, TREE_SQUARE)
SEARCHED: dict[str, tuple[Term, ...]] = {
    "strong": (*_powers((-2.0, -1.5, -1.25, -1.0, -0.75, -2 / 3, -0.5, -1 / 3, -0.25)), *_powers((0.5, 1.0), (0,))),
    "weak": _SLOW,
    "collective": _SLOW,
    "problem_size": (
        *_powers((0.5, 2 / 3, 0.75, 1.0, 1.25, 4 / 3, 1.5, 5 / 3, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0)),
        *(LOG, TREE_SQUARE),
    ),
    "setting": _powers(tuple(quarter / 4 for quarter in range(-16, 17) if quarter), (0,)),
}
"""Exponents and logarithms of Extra-P's search space (Calotoiu et al. 2013, Section 4), and shrinking ones for strong
scaling, which it lacks."""
USUAL: dict[str, tuple[Term, ...]] = {
    "strong": (CONSTANT, INVERSE, LOG, LINEAR),
    "weak": (CONSTANT, LOG, LINEAR, ALL_BUT_ONE),
    "collective": (CONSTANT, LOG, LINEAR, ALL_BUT_ONE),
    "problem_size": (CONSTANT, LINEAR, LINEAR_LOG, SQUARE, CUBE),
    "setting": (CONSTANT, LINEAR, INVERSE),
}


def surface_kind(x: FloatArray, y: FloatArray, column: int, name: str, given: str | None = None) -> tuple[str, str]:
    """The kind of one parameter and how it is known.

    It is taken from the line on which the time falls most, of those on which only this parameter varies: a program
    that scales at one size is cut into shares, also where another size shows only its overhead.
    Raises InputError where the given kind is unknown.
    """
    if given is not None and given not in SURFACE_KINDS:
        raise unknown_name("kind of scaling", given, SURFACE_KINDS)
    if given is not None:
        return given, "given"
    lines = rows_of_lines(x, column) or rows_of_lines(x, column, 2) or rows_of_lines(x, column, 1)
    kinds = [kind_of(Series.of(x[rows, column], y[rows], name)) for rows in lines]
    kind, reason = next((one for one in kinds if one[0] == "strong"), kinds[0])
    if kind == "strong" and "no kind follows" in reason:
        # a name that is no worker and makes the program faster: an input, not a share of the work
        return "setting", reason
    return kind, reason


def shapes(kind: str, values: FloatArray, slope: float, unit: float, bends: int) -> tuple[Shape, ...]:
    """The shapes of one parameter: its kind's, with change points for sizes, or powers near `slope` for settings."""
    if kind == "setting":
        power = round(slope, 2)
        return (
            Shape("power", (PowerTerm(power),)),
            Shape("constant+power", (CONSTANT, PowerTerm(power))),
            Shape("two powers", (PowerTerm(power - 0.25), PowerTerm(power + 0.25))),
        )
    result = [replace(shape, terms=counted(shape.terms, unit)) for shape in SHAPES[kind]]
    if kind == "problem_size":
        result[0] = replace(result[0], terms=(*result[0].terms, *knots(values, bends)))
    return tuple(result)


def knots(values: FloatArray, most: int) -> tuple[Term, ...]:
    """Change points at inner levels of a size, at most so many."""
    inner = np.unique(values)[1:-2]
    if len(inner) > most:
        inner = inner[np.linspace(0, len(inner) - 1, most).astype(int)] if most else inner[:0]
    return tuple(SizeBend(float(knot)) for knot in inner)


def counted(terms: Sequence[Term], unit: float) -> tuple[Term, ...]:
    """Terms with logarithms of x / unit, for values below 1."""
    if unit == 1:
        return tuple(terms)
    return tuple(replace(t, unit=unit) if isinstance(t, PowerTerm) and t.logs else t for t in terms)


def screened(x: FloatArray, y: FloatArray, column: int, kind: str, unit: float, keep: int, bends: int) -> list[Term]:
    """The usual terms of a parameter, and those searched ones that explain the lines on which only it varies.

    Each line gets an offset and a factor of its own, both >= 0; terms are ranked by the residual over all lines.
    """
    usual = counted(USUAL[kind], unit)
    lines = rows_of_lines(x, column)
    if kind == "problem_size":
        usual = (*usual, *knots(x[:, column], bends))
    if not lines:
        return list(usual)
    searched = counted(SEARCHED[kind], unit)
    residuals = [sum(_residual(y[rows], term.values(x[rows, column])) for rows in lines) for term in searched]
    best = [searched[i] for i in np.argsort(residuals, kind="stable")[:keep]]
    return list(dict.fromkeys([*usual, *best]))


def rows_of_lines(x: FloatArray, column: int, least: int = LEAST_IN_LINE) -> list[npt.NDArray[np.intp]]:
    """Rows that differ in one parameter only, at least so many in each line."""
    _, group = np.unique(np.delete(x, column, axis=1), axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(group.ravel()[order])) + 1)
    return [part for part in parts if len(part) >= least]


def _residual(y: FloatArray, values: FloatArray) -> float:
    """Least squares of (a + b values) / y - 1 with a, b >= 0, in closed form."""
    one, term = 1.0 / y, values / y
    a, b, cross = float(one @ one), float(term @ term), float(one @ term)
    sums = float(one.sum()), float(term.sum())
    least = len(y) - sums[0] ** 2 / a
    if b > 0:
        least = min(least, len(y) - sums[1] ** 2 / b)
        determinant = a * b - cross**2
        if determinant > 1e-14 * a * b:
            offset = (b * sums[0] - cross * sums[1]) / determinant
            factor = (a * sums[1] - cross * sums[0]) / determinant
            if offset >= 0 and factor >= 0:
                least = min(least, len(y) - offset * sums[0] - factor * sums[1])
    return max(least, 0.0)
