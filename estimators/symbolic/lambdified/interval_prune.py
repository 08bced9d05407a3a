"""Rows of a menu that are the least nowhere in a block of points, found by interval arithmetic.

A formula over a menu is evaluated twice on what does not depend on the points, once on ranges of what does (Moore 1966,
Interval Analysis: every value at a point of the block lies within the range). A row whose least value is above another
row's largest one is never chosen, so that only the others are computed point by point, by the same operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstick.estimators.symbolic.lambdified.tape import OPERATIONS, Tape

FloatArray = npt.NDArray[np.float64]
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
    ) -> npt.NDArray[np.bool_]:
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

    def least(self, points: Mapping[str, FloatArray], some: npt.NDArray[np.bool_]) -> FloatArray:
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
