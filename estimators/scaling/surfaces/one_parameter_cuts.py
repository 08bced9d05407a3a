"""Targets that lie beyond the data in one parameter alone, at measured levels of the others: a series answers for them.

A long series of one parameter shows its own bends; a surface spreads them over all levels of the others. And what the
average over laws of one parameter leaves open, a sum of products that fits a table may not know of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.scaling.extrapolate import extrapolate
from slipstick.estimators.scaling.laws.terms import PowerTerm
from slipstick.estimators.scaling.prediction import Prediction
from slipstick.estimators.scaling.series import ENOUGH_POINTS, Series
from slipstick.estimators.scaling.surfaces.surface_constants import SLICE_POINTS
from slipstick.estimators.scaling.surfaces.surface_law import Surface


@dataclass(frozen=True, eq=False)
class Slice:
    """A series along one parameter, and what it predicts for one target."""

    column: int
    prediction: Prediction

    def law(self, parameters: tuple[str, ...], kinds: tuple[str, ...]) -> Surface:
        """The series' law as a surface that does not depend on the other parameters."""
        products = (
            (coefficient, tuple(term if i == self.column else PowerTerm() for i in range(len(parameters))))
            for coefficient, term in self.prediction.law.terms
        )
        return Surface(parameters, kinds, tuple(products))


def slices(
    x: FloatArray,
    y: FloatArray,
    parameters: Sequence[str],
    kinds: Sequence[str],
    to: FloatArray,
    level: float | None,
) -> dict[int, Slice]:
    """The targets that a series of enough points answers, by their place in `to`.

    `x`, `y`: different points, shape (points, parameters), and their times [s].
    `to`: shape (targets, parameters).
    """
    result = {}
    outside = (to < x.min(axis=0)) | (to > x.max(axis=0))
    for place in np.flatnonzero(outside.sum(axis=1) == 1):
        column = int(np.argmax(outside[place]))
        least = SLICE_POINTS.get(kinds[column])
        others = np.arange(x.shape[1]) != column
        along = (x[:, others] == to[place, others]).all(axis=1)
        if least is None or along.sum() < least:
            continue
        series = Series.of(x[along, column], y[along], parameters[column])
        result[int(place)] = Slice(column, extrapolate(series, to[place, [column]], kinds[column], level=level))
    return result


AVERAGED = ("strong", "weak", "collective")
"""Kinds whose laws are averaged over, with bands learned from public codes."""


def half_widths(
    x: FloatArray, y: FloatArray, parameters: Sequence[str], kinds: Sequence[str], to: FloatArray
) -> FloatArray:
    """Half of ln(high / low) of the 80 % bands along each parameter of `AVERAGED` kinds that a target exceeds.

    In squares over these parameters, shape (targets,), nan where there is none. Each is that of the series nearest to
    the target's levels of the others that has enough points.

    `x`, `y`: different points, shape (points, parameters), and their times [s].
    `to`: shape (targets, parameters).
    """
    squares = np.full(len(to), np.nan)
    outside = (to < x.min(axis=0)) | (to > x.max(axis=0))
    for column in (i for i, kind in enumerate(kinds) if kind in AVERAGED and outside[:, i].any()):
        others = np.arange(x.shape[1]) != column
        levels, line, counts = np.unique(x[:, others], axis=0, return_inverse=True, return_counts=True)
        long, wanted = np.flatnonzero(counts >= ENOUGH_POINTS), np.flatnonzero(outside[:, column])
        if not len(long):
            continue
        apart = np.abs(np.log(levels[long])[:, None] - np.log(to[wanted][:, others])).sum(axis=2)
        nearest = long[np.argmin(apart, axis=0)]
        for one in np.unique(nearest):
            along, here = line.ravel() == one, wanted[nearest == one]
            series = Series.of(x[along, column], y[along], parameters[column])
            values, place = np.unique(to[here, column], return_inverse=True)
            answer = extrapolate(series, values, kinds[column])
            if answer.low is not None and answer.high is not None:
                half = np.log(np.array(answer.high) / np.array(answer.low)) / 2.0
                squares[here] = np.nan_to_num(squares[here]) + half[place] ** 2
    return np.asarray(np.sqrt(squares))
