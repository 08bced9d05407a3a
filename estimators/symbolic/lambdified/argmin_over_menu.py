"""The least of one formula over a small menu, on arrays in blocks of bounded memory: what `choice.Least` evaluates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from slipstick.estimators.symbolic.lambdified.interval_prune import MenuRows
from slipstick.estimators.symbolic.lambdified.tape import Tape

FloatArray = npt.NDArray[np.float64]
Rule = Callable[[Mapping[str, Any]], FloatArray]
Menu = Mapping[str, tuple[float, ...]]


@runtime_checkable
class TapedRule(Protocol):
    """A rule whose steps are known."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the arguments."""
        ...

    @property
    def tape(self) -> Tape:
        """The steps."""
        ...

    def __call__(self, values: Mapping[str, Any], /) -> FloatArray:
        """The value."""
        ...


CHUNK = 200_000
"""Numbers of one intermediate array."""
INNER = 100
"""Numbers of an inner loop, from which numpy's cost of starting one no longer counts."""
MANY, BLOCK = 2_048, 8_192
"""Points from which on dominated rows of a menu are left out, and most neighbours among which they are looked for."""
ROWS_AND_POINTS = 50_000
"""Numbers of one intermediate array where they are."""
ENDS = (np.minimum, np.maximum)
LARGE = 4_000_000
"""Numbers of a block that is allocated and freed before large evaluations: the C library then keeps what smaller
blocks give back, in place of mapping every array anew, page by page (a third of the time)."""


def least(
    names: Sequence[str], menu: Menu, whole: Rule, criterion: Rule | None, values: Mapping[str, Any]
) -> FloatArray:
    """The least value of a formula over the rows of a menu, at arrays that broadcast against each other.

    Parameters
    ----------
    names
        Symbols of the formula that are no columns of the menu.
    criterion
        What picks the row; the formula itself where None.
    """
    arrays = {name: np.asarray(values[name], dtype=np.float64) for name in names if name in values}
    shape = np.broadcast_shapes(*(array.shape for array in arrays.values())) if arrays else ()
    size, rows = math.prod(shape), len(next(iter(menu.values())))
    if rows * size <= CHUNK:
        return _least(menu, whole, criterion, arrays, len(shape))
    # The longest axis goes last, so that numpy's inner loop is long; then blocks of it and of the next longest one.
    order = sorted(range(len(shape)), key=shape.__getitem__)
    lengths = [shape[axis] for axis in order]
    moved = {name: _ordered(array, order) for name, array in arrays.items()}
    np.empty(LARGE)
    if criterion is None and isinstance(whole, TapedRule) and size >= MANY and len(lengths) < 3:
        return np.transpose(_undominated(menu, whole, moved, lengths), np.argsort(order))
    inner = max(INNER, CHUNK * lengths[-1] // (rows * size))
    outer = max(1, CHUNK * lengths[-2] * lengths[-1] // (rows * size * inner)) if len(lengths) > 1 else 1
    result = np.empty(lengths)
    for first in range(0, lengths[-2] if len(lengths) > 1 else 1, outer):
        for start in range(0, lengths[-1], inner):
            block = (slice(first, first + outer), slice(start, start + inner))[-len(lengths) :]
            part = {name: _block(array, block) for name, array in moved.items()}
            result[(..., *block)] = _least(menu, whole, criterion, part, len(lengths))
    return np.transpose(result, np.argsort(order))


def _undominated(menu: Menu, whole: TapedRule, arrays: Mapping[str, FloatArray], lengths: Sequence[int]) -> FloatArray:
    """The least in blocks of neighbours, over the rows that are not dominated within each (see `dominated`)."""
    columns, axes = _spread(tuple(menu.items()), len(lengths))
    rows = MenuRows.of(whole.tape, whole.names, arrays, columns, axes, len(lengths))
    inner = min(lengths[-1], BLOCK)
    sides = (max(1, MANY // inner), inner)[-len(lengths) :]
    starts = [np.arange(0, length, side) for length, side in zip(lengths, sides, strict=True)]
    lows, highs = ({name: _of_blocks(call, array, starts) for name, array in arrays.items()} for call in ENDS)
    some = rows.candidates(lows, highs, tuple(map(len, starts)))
    result = np.empty(lengths)
    for place in np.ndindex(*map(len, starts)):
        kept = some[(slice(None), *place)]
        width = max(INNER, ROWS_AND_POINTS // int(np.count_nonzero(kept) * math.prod(sides[:-1])))
        first = [slice(int(at[i]), int(at[i]) + side) for at, i, side in zip(starts, place, sides, strict=True)]
        stop = min(first[-1].stop, lengths[-1])
        for begin in range(first[-1].start, stop, width):
            block = (*first[:-1], slice(begin, min(begin + width, stop)))
            part = {name: _block(array, block) for name, array in arrays.items()}
            result[block] = rows.least(part, kept)
    return result


def _of_blocks(call: np.ufunc, array: FloatArray, starts: Sequence[npt.NDArray[np.intp]]) -> FloatArray:
    """The least or the largest of an array in each block that begins at `starts`."""
    if array.ndim:
        for axis, at in enumerate(starts, array.ndim - len(starts)):
            array = call.reduceat(array, at, axis=axis) if array.shape[axis] > 1 else array
    return array


def _least(
    columns: Menu, whole: Rule, criterion: Rule | None, arrays: Mapping[str, FloatArray], dimensions: int
) -> FloatArray:
    menu, axes = _spread(tuple(columns.items()), dimensions)
    table = whole({**arrays, **menu})
    if criterion is None:
        first = table.ndim - dimensions
        return np.asarray(table.min(axis=tuple(range(first)))) if first > 0 else table
    rule = np.broadcast_arrays(criterion({**arrays, **menu}), table, np.empty((*axes, *(1,) * dimensions)))
    flat = [side.reshape(-1, *side.shape[len(axes) :]) for side in rule[:2]]
    best = np.argmin(flat[0], axis=0, keepdims=True)
    return np.asarray(np.take_along_axis(flat[1], best, axis=0)[0])


@lru_cache(maxsize=256)
def _spread(
    columns: tuple[tuple[str, tuple[float, ...]], ...], dimensions: int
) -> tuple[dict[str, FloatArray], tuple[int, ...]]:
    """A menu's columns along axes of their own, before `dimensions` others.

    A menu that holds every combination of some columns with every one of others gets an axis for each: what depends on
    the tile alone is then computed once for all splits.
    """
    axes = _axes([column for _, column in columns])
    menu = {}
    for name, column in columns:
        table = np.array(column).reshape(axes)
        for axis in range(len(axes)):
            if np.all(table == np.take(table, [0], axis=axis)):
                table = np.take(table, [0], axis=axis)
        table.flags.writeable = False
        menu[name] = table.reshape(*table.shape, *(1,) * dimensions)
    return menu, axes


def _axes(columns: Sequence[tuple[float, ...]]) -> tuple[int, ...]:
    """Lengths of two axes along which every column varies on one of them only; else one axis."""
    rows = len(columns[0])
    for inner in range(2, rows):
        if rows % inner == 0:
            tables = [np.array(column).reshape(-1, inner) for column in columns]
            if all(np.all(t == t[:1]) or np.all(t == t[:, :1]) for t in tables):
                return rows // inner, inner
    return (rows,)


def _ordered(array: FloatArray, order: Sequence[int]) -> FloatArray:
    """The axes of what arrays broadcast to in another order; scalars stay."""
    if array.ndim == 0:
        return array
    whole = array.reshape((1,) * (len(order) - array.ndim) + array.shape)
    return np.ascontiguousarray(np.transpose(whole, order))


def _block(array: FloatArray, block: Sequence[slice]) -> FloatArray:
    """A block of the last axes, of those along which an array varies."""
    lengths = array.shape[-len(block) :]
    cut: tuple[Any, ...] = tuple(
        slice(None) if length == 1 else part for length, part in zip(lengths, block, strict=False)
    )
    return np.asarray(array[(Ellipsis, *cut)]) if array.ndim else array
