"""The points of a study: a grid of axes times a sample, numbered, so that any stretch can be made alone."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression, sp
from slipstick.common.records import FrozenDict
from slipstick.estimators.symbolic.lambdified import evaluate

Sampler = Literal["random", "latin-hypercube", "sobol"]
MANY_ROWS = 8
"""Rows of a grid from which on a stretch of it is one box, with the ends of its first and last row."""
MAX_SAMPLES = 10_000_000
MAX_POINTS = 1_000_000_000
"""Points of a whole study: a day at 10,000 points/s, some 100 GB of results. More is a slip of the pen."""


Comparison = Callable[[Any, Any], Any]
_COMPARE: dict[str, Comparison] = {"<=": np.less_equal, ">=": np.greater_equal, "<": np.less, ">": np.greater}


@dataclass(frozen=True)
class Range:
    """Values between two bounds, drawn evenly (or, with `log`, evenly in the logarithm); `whole` rounds them."""

    low: float
    high: float
    scale: Literal["linear", "log"] = "linear"
    kind: Literal["real", "whole"] = "real"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InputError(f"range {self.low!r} .. {self.high!r}: want two finite numbers, low < high")
        if self.scale == "log" and self.low <= 0:
            raise InputError(f"range {self.low!r} .. {self.high!r}: equal ratios need values > 0")

    def at(self, share: FloatArray) -> FloatArray:
        """The values at shares in [0, 1) of the range."""
        if self.scale == "log":
            values = self.low * (self.high / self.low) ** share
        else:
            values = self.low + (self.high - self.low) * share
        return np.round(values) if self.kind == "whole" else values


@dataclass(frozen=True)
class Space:
    """Every combination of the axes' values, for each drawn sample.

    Parameters
    ----------
    axes
        Name -> values; the last varies fastest.
    sampled
        Name -> range to draw from, `samples` times with `sampler` (scipy.stats.qmc) and `seed`.
    where
        Conditions between two formulas of the names, such as "machine.clock*machine.cores <= 2e11"; points that do
        not meet them are left out.

    Raises
    ------
    InputError
        Where a name stands twice, an axis is empty, a condition names something else, or the points are more than
        `MAX_POINTS`.
    """

    axes: FrozenDict[tuple[float, ...]] = FrozenDict()
    sampled: FrozenDict[Range] = FrozenDict()
    samples: int = 1
    sampler: Sampler = "sobol"
    seed: int = 0
    where: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, values in self.axes.items():
            if not values:
                raise InputError(f"{name}: no values")
            if name in self.sampled:
                raise InputError(f"{name} is both an axis and sampled")
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise InputError(f"samples = {self.samples}: want 1 to {MAX_SAMPLES}")
        for condition in self.where:
            _sides(condition, self.names)
        if self.size > MAX_POINTS:
            raise InputError(f"{self.counted}: want at most {MAX_POINTS:,} points")

    @property
    def counted(self) -> str:
        """The number of points, and the axes that it is the product of."""
        factors = [f"{name} ({len(values):,} values)" for name, values in self.axes.items()]
        if self.sampled:
            factors.insert(0, f"a sample of {', '.join(self.sampled)} ({self.samples:,} values)")
        return f"{self.size:,} points of {' x '.join(factors)}"

    @property
    def names(self) -> tuple[str, ...]:
        """What varies."""
        return (*self.sampled, *self.axes)

    @property
    def size(self) -> int:
        """How many points there are, before conditions."""
        return self._grid * (self.samples if self.sampled else 1)

    def points(self, start: int = 0, stop: int | None = None) -> dict[str, FloatArray]:
        """One array a name for the points start..stop that meet the conditions, and `point`, their numbers."""
        numbers = np.arange(start, min(self.size if stop is None else stop, self.size))
        columns: dict[str, FloatArray] = {}
        drawn, place = np.divmod(numbers, self._grid)
        for name in self.sampled:
            columns[name] = self._drawn[name][drawn]
        columns |= self._rows([*self.axes.items()], place)
        inside = self._inside(columns, len(numbers))
        return {"point": numbers[inside], **{name: values[inside] for name, values in columns.items()}}

    def boxes(self, start: int, stop: int) -> list[tuple[dict[str, FloatArray], slice]] | None:
        """The points start..stop as boxes of the grid: arrays that broadcast, and which of their points are meant.

        Arrays have the shape (rows, 1), that of the last axis (1, values); the slice is of their product, row by row.
        The last axis is one of its own, the others together another: what depends on one of them is computed once for
        all values of the other, and neighbours in a box differ little. None where the points are no grid.
        """
        if len(self.axes) < 2 or self.sampled or self.where:
            return None
        *others, (last, values) = self.axes.items()
        inner = len(values)
        rows = range(start // inner, -(-stop // inner))
        along = np.asarray(values)[None]
        if len(rows) >= MANY_ROWS:
            columns = self._rows(others, np.arange(rows.start, rows.stop)[:, None])
            skipped = rows.start * inner
            return [({**columns, last: along}, slice(start - skipped, stop - skipped))]
        boxes = []
        for row in rows:
            part = along[:, max(start - row * inner, 0) : stop - row * inner]
            boxes.append(({**self._rows(others, np.full((1, 1), row)), last: part}, slice(None)))
        return boxes

    @staticmethod
    def _rows(
        axes: Sequence[tuple[str, tuple[float, ...]]], numbers: np.ndarray[Any, np.dtype[np.intp]]
    ) -> dict[str, FloatArray]:
        places = np.unravel_index(numbers, [len(values) for _, values in axes]) if axes else ()
        return {name: np.asarray(values)[place] for (name, values), place in zip(axes, places, strict=True)}

    def _inside(self, values: Mapping[str, FloatArray], count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        inside = np.ones(count, dtype=bool)
        for condition in self.where:
            left, compare, right = _sides(condition, self.names)
            sides = [np.broadcast_to(evaluate(side, values), count) for side in (left, right)]
            wrong = np.flatnonzero(np.isnan(sides[0]) | np.isnan(sides[1]))
            if len(wrong):
                at = ", ".join(f"{name} = {np.broadcast_to(values[name], count)[wrong[0]]:g}" for name in self.names)
                raise InputError(f"condition {condition[:80]!r} is no number at {at}: want one at each point")
            inside &= _COMPARE[compare](*sides)
        return inside

    @cached_property
    def _grid(self) -> int:
        return math.prod(len(values) for values in self.axes.values())

    @cached_property
    def _drawn(self) -> dict[str, FloatArray]:
        from scipy.stats import qmc

        count = len(self.sampled)
        if self.sampler == "random":
            shares = np.random.default_rng(self.seed).random((self.samples, count))
        elif self.sampler == "latin-hypercube":
            shares = qmc.LatinHypercube(count, seed=self.seed).random(self.samples)
        else:
            power = max(0, math.ceil(math.log2(self.samples)))
            shares = qmc.Sobol(count, seed=self.seed).random_base2(power)[: self.samples]
        return {name: limits.at(shares[:, i]) for i, (name, limits) in enumerate(self.sampled.items())}


def _sides(condition: str, names: Collection[str]) -> tuple[sp.Expr, str, sp.Expr]:
    parts = re.split(r"(<=|>=|<|>)", condition)
    if len(parts) != 3:
        raise InputError(f"condition {condition[:80]!r}: want two formulas with <=, >=, < or > between them")
    left, right = (parse_expression(text, names, f"condition {condition[:80]!r}") for text in (parts[0], parts[2]))
    return left, parts[1], right
