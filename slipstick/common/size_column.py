"""A size at many points: laws compute with it as with one number, and are asked anew where their answers differ.

A law that is arithmetic takes a column as it takes a number. Where it asks a question of it (``if rows <= 16``), or
needs the very number (``float(rows)``), a column whose points agree answers; another raises `SizesDifferError`, which
says which points go together, and `by_parts` asks the law again for each part. So there is one law for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray

Sized: TypeAlias = Any
"""A number, or a `SizeColumn`: arithmetic of their union is more than numpy's stubs know."""
AtPoint: TypeAlias = Callable[[Mapping[str, float], Mapping[str, Any]], Any]
"""What a law says, of numbers that it takes one by one and of sizes that may be columns."""
MOST_TOGETHER = 2_048
"""Points of a column: the arrays of some hundred operations are then some megabytes."""


class SizesDifferError(Exception):
    """A law gives some points of a column another answer; `parts`: the number of each point's part, shape (points,)."""

    def __init__(self, parts: npt.NDArray[np.intp]) -> None:
        super().__init__("the points of a column have different answers")
        self.parts = parts


class SizeColumn(npt.NDArray[np.float64]):
    """Values of a size, or of what depends on sizes, at the points of a column, shape (points,).

    Examples
    --------
    >>> batch = np.array([1.0, 2.0, 64.0]).view(SizeColumn)
    >>> by_parts({"batch": batch}, lambda at: (2 * at["batch"] if at["batch"] <= 16 else number(16.0),))[0].tolist()
    [2.0, 4.0, 16.0]
    """

    def __bool__(self) -> bool:
        return bool(_alike(np.asarray(self) != 0))

    def __float__(self) -> float:
        return float(_alike(np.asarray(self)))

    def __int__(self) -> int:
        return int(_alike(np.asarray(self)))

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)  # as the very same object: caches that hold one keep it alive


def _alike(values: npt.NDArray[Any]) -> Any:
    """The value that all points have; raises SizesDifferError where they have several."""
    parts = None if (values == values.flat[0]).all() else np.unique(values, return_inverse=True)[1]
    if parts is not None and parts.any():
        raise SizesDifferError(parts)
    return values.flat[0]


def is_column(value: object) -> bool:
    """Whether it is a size at many points."""
    return isinstance(value, SizeColumn)


def number(value: Sized) -> Sized:
    """A column as it is, anything else as a float."""
    return value if isinstance(value, SizeColumn) else float(value)


def largest(one: Sized, other: Sized) -> Sized:
    """The larger of two numbers, of columns point by point."""
    return np.maximum(one, other) if is_column(one) or is_column(other) else max(one, other)


def smallest(one: Sized, other: Sized) -> Sized:
    """The smaller of two numbers, of columns point by point."""
    return np.minimum(one, other) if is_column(one) or is_column(other) else min(one, other)


def log(value: Sized) -> Sized:
    """The natural logarithm."""
    return np.log(value) if is_column(value) else math.log(value)


def log2(value: Sized) -> Sized:
    """The logarithm to the base two."""
    return np.log2(value) if is_column(value) else math.log2(value)


def hypot(*sides: Sized) -> Sized:
    """The root of the sum of squares."""
    return np.sqrt(sum(side**2 for side in sides)) if any(map(is_column, sides)) else math.hypot(*sides)


def where(condition: Sized, one: Sized, other: Sized) -> Sized:
    """One number where the condition holds, else the other; of columns and arrays point by point."""
    if np.ndim(condition) == 0:
        return one if condition else other
    made = np.asarray(np.where(condition, one, other))
    return made.view(SizeColumn) if is_column(condition) else made


def aligned(rows: Mapping[str, Sequence[Sized]]) -> dict[str, FloatArray]:
    """Numbers by name and row as arrays: of shape (rows,); where one is a column all have a second axis, of points."""
    made = {name: _stacked(row) for name, row in rows.items()}
    if all(array.ndim == 1 for array in made.values()):
        return made
    return {name: array if array.ndim > 1 else array[:, None] for name, array in made.items()}


def _stacked(row: Sequence[Sized]) -> FloatArray:
    if not any(map(is_column, row)):
        return np.array(list(map(float, row)))
    return np.stack([np.asarray(one, dtype=float) for one in np.broadcast_arrays(*row)])


def by_parts(
    columns: Mapping[str, npt.ArrayLike], answer: Callable[[Mapping[str, Sized]], Sequence[Sized]]
) -> list[FloatArray]:
    """What a law says at the points of some columns, shape (points,) each.

    Parameters
    ----------
    columns
        Sizes by name, shape (points,).
    answer
        Numbers, for sizes by name: a `SizeColumn`, or a number where all points of a part have the same.
    """
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    count = len(next(iter(arrays.values())))
    left = [np.arange(start, min(start + MOST_TOGETHER, count)) for start in range(0, count, MOST_TOGETHER)]
    results: list[FloatArray] = []
    while left:
        some = left.pop()
        try:
            made = answer({name: _column(values[some]) for name, values in arrays.items()})
        except SizesDifferError as differ:
            whole = differ.parts.shape == some.shape
            if len(some) == 1:
                raise  # of another column: this one has a single point
            parts = differ.parts if whole else np.arange(len(some))
            left += [some[parts == part] for part in range(int(parts.max()) + 1)]
            continue
        results = results or [np.empty(count) for _ in made]
        for result, values in zip(results, made, strict=True):
            result[some] = values
    return results


def at_points(free: Mapping[str, FloatArray], together: tuple[str, ...], answer: AtPoint) -> FloatArray:
    """What a law says at points of free numbers, shape (points,) each and of the result.

    Parameters
    ----------
    together
        How names begin that it takes as columns; others it takes value by value.
    answer
        For the others, and for sizes as in `by_parts`.
    """
    apart = [name for name in free if not name.startswith(together)]
    count = len(next(iter(free.values())))
    points = np.stack([free[name] for name in apart] or [np.zeros(count)], axis=1)
    distinct, place = np.unique(points, axis=0, return_inverse=True)
    result = np.empty(count)
    for index, values in enumerate(distinct.tolist()):
        here = np.flatnonzero(place.reshape(-1) == index)
        there = dict(zip(apart, values, strict=False))
        columns = {name: one[here] for name, one in free.items() if name not in there} or {"": np.zeros(len(here))}
        (result[here],) = by_parts(columns, partial(_one, answer, there))
    return result


def _one(answer: AtPoint, there: Mapping[str, float], at: Mapping[str, Sized]) -> list[Sized]:
    return [answer(there, at)]


def _column(values: FloatArray) -> Sized:
    return float(values[0]) if (values == values[0]).all() else values.view(SizeColumn)
