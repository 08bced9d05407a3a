"""What the sizes of a point decide: what it needs of the main memory, whether that fits, how sure its time is."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, Mask
from slipstick.common.size_column import Sized, by_parts
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.experiments.question.defaults import spread_at
from slipstick.experiments.question.memory_need import FITS, MAY, NOT, MemoryNeed, memory_need
from slipstick.experiments.question.objectives import FIT
from slipstick.experiments.question.question import Question
from slipstick.experiments.question.space import Space

MEMORY = "memory_B"
"""The column of the bytes that a point needs; `FIT` says whether they fit."""
MOST_VALUES, MOST_POINTS = 16, 64
"""Values of one name at which a law is asked, those between interpolated; combinations of several names."""
BEST_FIRST = (FITS, MAY, NOT)


def open_sizes(question: Question, free: Iterable[str]) -> list[str]:
    """The sizes of the workload among names that vary, dotted."""
    open_ = question.workload.symbols
    return [name for name in free if name.startswith(("workload.", "run.")) and name.partition(".")[2] in open_]


@dataclass(frozen=True)
class ScatterAtSizes:
    """The scatter of the default answer at each point, as `estimate` has it there.

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
        query, names = self.question.query, self._decide(free)
        if not (count and names):
            return None
        columns = {name: np.broadcast_to(free[name], count) for name in names}
        made = spread_at(query, columns) if query is not None and names == open_sizes(self.question, names) else None
        if made is None:
            made = self._of_few(columns)
        return None if made is None or np.isnan(made[0]).any() else (made[0], made[1])

    def note(self, space: Space) -> tuple[str, ...]:
        """A line where the points have today's scatter."""
        names = self._decide(space.names)
        if len(names) < 2 or space.size <= MOST_POINTS or names == open_sizes(self.question, names):
            return ()
        return (
            f"bands of times are as wide as today's at {space.size:,} points; up to {MOST_POINTS} have each its own",
        )

    def _decide(self, free: Iterable[str]) -> list[str]:
        """The names that decide the scatter, of those that vary."""
        return [name for name in free if self.question.by_default and (self.read is None or name in self.read)]

    def _of_few(self, columns: Mapping[str, FloatArray]) -> list[FloatArray] | None:
        """Of a law that takes one point at a time: a few, those between interpolated; None of many of several names."""

        def spread(at: Mapping[str, Sized]) -> tuple[float, float]:
            point = {name: float(value) for name, value in at.items()}
            wholes = {name: int(value) for name, value in point.items() if value.is_integer()}
            one = self.question.at({**point, **wholes}).answer().spread
            known = one.total if self.part == "total" else one.residual
            return math.nan if known is None else known, one.common

        distinct = np.unique(np.stack(list(columns.values())), axis=1)
        if distinct.shape[1] <= (MOST_VALUES if len(columns) == 1 else MOST_POINTS):
            return by_parts(columns, spread)
        if len(columns) > 1:
            return None
        ((name, values),) = columns.items()
        few = distinct[0][np.linspace(0, distinct.shape[1] - 1, MOST_VALUES).round().astype(int)]
        return [np.interp(values, few, each) for each in by_parts({name: few}, spread)]


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


def able(words: npt.NDArray[Any]) -> Mask:
    """The points among which one is recommended: those that fit; where none surely does, those that may; else none.

    Shape (points,), as `words` has it.
    """
    for word in BEST_FIRST[:2]:
        if np.any(words == word):
            return np.asarray(words == word)
    return np.zeros(len(words), dtype=bool)
