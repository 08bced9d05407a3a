"""The least of one formula over a small menu, on arrays in blocks of bounded memory: what `MinOverConfigs` evaluates.

Rows of a menu that are the least nowhere in a block of points, found by interval arithmetic.

A formula over a menu is evaluated twice on what does not depend on the points, once on ranges of what does (Moore 1966,
Interval Analysis: every value at a point of the block lies within the range). A row whose least value is above another
row's largest one is never chosen, so that only the others are computed point by point, by the same operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.symbolic.lambdified.tape import OPERATIONS, Tape

Range: TypeAlias = tuple[Any, Any]
"""The least and the largest value; the same object twice where there is one."""
SLACK = 1e-9
"""Powers of floating-point numbers may fall by a last digit where they should grow."""
GROWING = ("add", "maximum", "minimum", "floor", "ceil", "sqrt", "log", "exp")


def _corners(call: Callable[..., Any], first: Range, second: Range) -> Range:
    each = [call(one, other) for one in first for other in second]
    return np.minimum.reduce(np.broadcast_arrays(*each)), np.maximum.reduce(np.broadcast_arrays(*each))


def _range(name: str, sides: Sequence[Range]) -> Range | None:
    """The range of an operation; None where it is not known."""
    call = OPERATIONS[name][1]
    if all(low is high for low, high in sides):
        value = call(*(low for low, _ in sides))
        return value, value
    if name in GROWING:
        return call(*(low for low, _ in sides)), call(*(high for _, high in sides))
    if name == "negative":
        return call(sides[0][1]), call(sides[0][0])
    if len(sides) != 2:
        return None
    first, second = sides
    if name == "subtract":
        return call(first[0], second[1]), call(first[1], second[0])
    positive = np.all(first[0] >= 0) and np.all(second[0] >= 0)
    if name == "multiply":
        return (call(first[0], second[0]), call(first[1], second[1])) if positive else _corners(call, first, second)
    if name == "divide" and np.all(second[0] > 0):
        return (call(first[0], second[1]), call(first[1], second[0])) if positive else _corners(call, first, second)
    if name == "power" and second[0] is second[1] and np.ndim(second[0]) == 0 and np.all(first[0] > 0):
        ends = call(first[0], second[0]), call(first[1], second[0])
        return ends if second[0] >= 0 else ends[::-1]
    return None


@dataclass(frozen=True, eq=False)
class MenuRows:
    """A formula at the rows of a menu, with all that does not depend on the points computed.

    Parameters
    ----------
    known
        Slots of the tape that are the same at every point; others None.
    rows
        Slots that differ between rows, as shape (rows, 1, ...).
    steps
        What is left: a slot, its operation and its operands.
    names
        Of what differs between points, with their slots.
    dimensions
        Of the points.
    """

    tape: Tape
    known: tuple[Any, ...]
    rows: Mapping[int, FloatArray]
    steps: tuple[tuple[int, str, tuple[int, ...]], ...]
    names: Mapping[str, int]
    dimensions: int

    @classmethod
    def of(
        cls,
        tape: Tape,
        names: Sequence[str],
        values: Mapping[str, Any],
        menu: Mapping[str, FloatArray],
        axes: tuple[int, ...],
        dimensions: int,
    ) -> MenuRows:
        """Compute what depends on no array: `menu` has columns along `axes` of their own, before those of points."""
        points = {name for name in names if name not in menu and np.ndim(values[name])}
        slots: list[Any] = [None if name in points else menu.get(name, values.get(name)) for name in names]
        slots += tape.constants
        left: list[tuple[int, str, tuple[int, ...]]] = []
        read: set[int] = set()
        for name, operands in tape.steps:
            sides = [slots[slot] for slot in operands]
            if any(side is None for side in sides):
                left.append((len(slots), name, operands))
                read.update(operands)
                slots.append(None)
            else:
                slots.append(OPERATIONS[name][1](*sides))
        read.update(tape.results)
        rows = {}
        for slot in read:
            value = slots[slot]
            if np.ndim(value):
                whole = np.broadcast_to(value, (*axes, *np.shape(value)[len(axes) :]))
                rows[slot] = np.ascontiguousarray(whole.reshape(-1, *whole.shape[len(axes) :]))
        return cls(tape, tuple(slots), rows, tuple(left), {name: names.index(name) for name in points}, dimensions)

    @cached_property
    def _dead(self) -> tuple[tuple[int, ...], ...]:
        """Slots made by steps that nobody reads after each step."""
        made = {slot for slot, _, _ in self.steps} - set(self.tape.results)
        last = {slot: step for step, (_, _, operands) in enumerate(self.steps) for slot in operands if slot in made}
        return tuple(tuple(s for s, at in last.items() if at == step) for step in range(len(self.steps)))

    def candidates(
        self, lows: Mapping[str, FloatArray], highs: Mapping[str, FloatArray], blocks: tuple[int, ...]
    ) -> Mask:
        """Which rows may be the least somewhere in each of some blocks of points, shape (rows, *blocks).

        Parameters
        ----------
        lows, highs
            The ends of what differs between points, arrays that broadcast to `blocks`.
        """
        count = max((len(row) for row in self.rows.values()), default=1)
        ranges: list[Range | None] = [None if value is None else (value, value) for value in self.known]
        for slot, row in self.rows.items():
            ranges[slot] = (row, row)
        for name, slot in self.names.items():
            ranges[slot] = (lows[name], highs[name])
        with np.errstate(all="ignore"):
            for slot, name, operands in self.steps:
                sides = [side for side in (ranges[operand] for operand in operands) if side is not None]
                ranges[slot] = _range(name, sides) if len(sides) == len(operands) else None
            whole = ranges[self.tape.results[0]]
            if whole is None or np.ndim(whole[0]) <= self.dimensions:
                return np.ones((count, *blocks), dtype=bool)
            least = whole[1].min(axis=0)
            above = whole[0] > least + SLACK * np.abs(least)  # what is not a number stays
        return np.broadcast_to(~above, (count, *blocks))

    def least(self, points: Mapping[str, FloatArray], some: Mask) -> FloatArray:
        """The least value over some of the rows, in the shape to which the points broadcast."""
        slots = list(self.known)
        for slot, row in self.rows.items():
            slots[slot] = row[some]
        for name, slot in self.names.items():
            slots[slot] = points[name]
        for (slot, name, operands), dead in zip(self.steps, self._dead, strict=True):
            slots[slot] = OPERATIONS[name][1](*(slots[operand] for operand in operands))
            for old in dead:  # its memory is in the cache still, where the next result is put
                slots[old] = None
        whole = np.asarray(slots[self.tape.results[0]])
        return np.asarray(whole.min(axis=0)) if whole.ndim > self.dimensions else whole


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
