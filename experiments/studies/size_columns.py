"""What the sizes of a point decide: what it needs of the main memory, whether that fits, how sure its time is."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.size_column import Sized, by_parts
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.experiments.question.defaults import spread_at, takes_columns
from slipstick.experiments.question.memory_need import MemoryNeed, memory_need
from slipstick.experiments.question.objectives import FIT
from slipstick.experiments.question.question import Question

MEMORY = "memory_B"
"""The column of the bytes that a point needs; `FIT` says whether they fit."""
MOST_VALUES, MOST_POINTS, STRETCH = 16, 64, 65_536
"""Values of a name at which a law is asked, others interpolated; combinations of several; points counted at once."""


def open_sizes(question: Question, free: Iterable[str]) -> list[str]:
    """The sizes of the workload among names that vary, dotted."""
    open_ = question.workload.symbols
    return [name for name in free if name.startswith(("workload.", "run.")) and name.partition(".")[2] in open_]


@dataclass(frozen=True)
class ScatterAtSizes:
    """The scatter of the default answer at each point of a question's space (`vary`), as `estimate` has it there.

    `read`: names that vary and that the time reads; every one that varies where it is left out.
    `part`: of the spread: "total", or "residual" where the fitted parameters are drawn.
    """

    question: Question
    read: Collection[str] | None = None
    part: Literal["total", "residual"] = "total"

    def at(self, free: Mapping[str, FloatArray], count: int) -> tuple[FloatArray, FloatArray] | None:
        """Standard deviations of log time, and the part that all answers have alike (`Spread.common`), (count,) each.

        None where nothing varies that decides it, or too many combinations do.
        """
        query, names = self.question.query, self._taken
        if not (count and names):
            return None
        columns = {name: np.broadcast_to(free[name], count) for name in names}
        values, (few, known) = columns[names[0]], self._between
        inside = len(few) > 0 and few[0] <= values.min() and values.max() <= few[-1]
        if query is not None and self._by_columns(names):
            made = spread_at(query, columns)
        else:
            made = [np.interp(values, few, each) for each in known] if inside else by_parts(columns, self._spread)
        return None if np.isnan(made[0]).any() else (made[0], made[1])

    def note(self) -> tuple[str, ...]:
        """A line where what varies decides the scatter only in part, or not at all."""
        if self._taken == self._deciding:
            return ()
        wide = f"at today's machine with the same {' and '.join(self._taken)}" if self._taken else "today's"
        return (
            f"bands of times are as wide as {wide}: {' and '.join(self._deciding)} have more than {MOST_POINTS} "
            "combinations; up to so many have each its own",
        )

    @cached_property
    def _deciding(self) -> list[str]:
        """The names that decide the scatter, of those that vary."""
        return list(self.question.vary.names if self.read is None else self.read) if self.question.by_default else []

    @cached_property
    def _taken(self) -> list[str]:
        """The names by which it is taken at all points alike: those that decide; where too many, sizes; else none."""
        return next(
            names
            for names in (self._deciding, open_sizes(self.question, self._deciding), [])
            if len(names) < 2 or self._by_columns(names) or self._distinct(names).shape[1] <= MOST_POINTS
        )

    @cached_property
    def _between(self) -> tuple[FloatArray, list[FloatArray]]:
        """Some values of a name that has more than `MOST_VALUES`, and the scatter there; empty where each is asked."""
        names = self._taken
        if len(names) != 1 or self._by_columns(names) or len(values := self._distinct(names)[0]) <= MOST_VALUES:
            return np.empty(0), []
        few = values[np.linspace(0, len(values) - 1, MOST_VALUES).round().astype(int)]
        return few, by_parts({names[0]: few}, self._spread)

    def _by_columns(self, names: list[str]) -> bool:
        """Whether the law takes columns of these names."""
        return takes_columns(self.question.query) and names == open_sizes(self.question, names)

    def _distinct(self, names: list[str]) -> FloatArray:
        """Combinations of names in the space, shape (names, some); of several names no more once they are too many."""
        space, distinct = self.question.vary, np.empty((len(names), 0))
        for start in range(0, space.size, STRETCH):
            points = space.points(start, start + STRETCH)
            distinct = np.unique(np.hstack([distinct, np.stack([points[name] for name in names])]), axis=1)
            if len(names) > 1 and distinct.shape[1] > MOST_POINTS:
                break
        return distinct

    def _spread(self, at: Mapping[str, Sized]) -> tuple[float, float]:
        """The scatter at one point, asked as a question of its own, and its common part."""
        point = {name: int(value) if float(value).is_integer() else float(value) for name, value in at.items()}
        one = self.question.at(point).answer().spread
        known = one.total if self.part == "total" else one.residual
        return math.nan if known is None else known, one.common


@dataclass(frozen=True)
class MemoryColumns:
    """Memory as a function of the sizes and the capacity that vary."""

    question: Question

    def columns(self, free: Mapping[str, FloatArray], count: int) -> dict[str, npt.NDArray[Any]]:
        """The two columns, shape (count,); none where nothing that varies decides the memory, or too much does."""
        capacity = f"machine.memory.{self.question.machine.main_memory}.capacity"
        names = open_sizes(self.question, free)
        if not count or not (names or capacity in free):
            return {}
        columns = {name: np.broadcast_to(free[name], count) for name in names} or {"": np.zeros(count)}
        known: list[MemoryNeed | None] = []

        def needed(at: Mapping[str, Sized]) -> tuple[Sized]:
            known.append(self.need(at))
            return (math.nan if known[-1] is None else known[-1].needed,)

        (bytes_,) = by_parts(columns, needed)
        one = known[0]
        if one is None or None in known:
            return {}
        there = np.broadcast_to(free.get(capacity, np.array(one.there)), count)
        return {MEMORY: bytes_, FIT: one.verdicts(bytes_, there)}

    def need(self, sizes: Mapping[str, Sized]) -> MemoryNeed | None:
        """Bytes that the work needs at sizes by name (``run.batch``), or columns; None where its graph does not say."""
        question = self.question
        values = {**question.workload.defaults, **question.sizes, **question.run}
        values |= {name.partition(".")[2]: value for name, value in sizes.items()}
        bound = as_compiled(question.workload, question.machine).bind_known(values)
        return None if bound.symbols else memory_need(bound, question.machine, question.workload.bind_known(values))
