"""What the sizes of a point decide: what it needs of the main memory, whether that fits, how sure its time is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.size_column import by_parts
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.question.defaults import spread_at
from slipstick.experiments.question.memory_need import FITS, MAY, NOT, MemoryNeed, memory_need
from slipstick.experiments.question.objectives import FIT
from slipstick.experiments.question.question import Question

MEMORY = "memory_B"
"""The column of the bytes that a point needs; `FIT` says whether they fit."""
MOST_SIZES = 16
"""Combinations of sizes that are counted for one sweep; of one size alone those between are interpolated."""
BEST_FIRST = (FITS, MAY, NOT)


def open_sizes(question: Question, free: Iterable[str]) -> list[str]:
    """The sizes of the workload among names that vary, dotted."""
    open_ = question.workload.symbols
    return [name for name in free if name.startswith(("workload.", "run.")) and name.partition(".")[2] in open_]


@dataclass(frozen=True, eq=False)
class AtSizes:
    """The points of a table by the sizes that vary in it, of which few are looked at: of laws that take one at a time.

    Parameters
    ----------
    distinct, place
        Combinations of sizes, shape (combinations, names), and that of each point.
    """

    names: tuple[str, ...]
    distinct: FloatArray
    place: npt.NDArray[np.intp]

    @classmethod
    def of(cls, free: Mapping[str, FloatArray], names: Sequence[str], count: int) -> AtSizes | None:
        """None where more than one size varies, in more than `MOST_SIZES` combinations."""
        points = np.stack([np.broadcast_to(free[name], count) for name in names], axis=1)
        distinct, place = np.unique(points, axis=0, return_inverse=True)
        if len(distinct) > MOST_SIZES and len(names) != 1:
            return None
        return cls(tuple(names), distinct, place.reshape(-1))

    @property
    def _looked_at(self) -> FloatArray:
        few = np.linspace(0, len(self.distinct) - 1, MOST_SIZES).round().astype(int)
        return np.asarray(self.distinct[np.unique(few)])

    def tried(self) -> list[dict[str, float]]:
        """The combinations to look at, by name."""
        return [dict(zip(self.names, map(float, values), strict=False)) for values in self._looked_at]

    def spread(self, values: FloatArray) -> FloatArray:
        """Values of those that were looked at for each point; of a single size those between are interpolated."""
        if len(self.distinct) > MOST_SIZES:
            values = np.interp(self.distinct[:, 0], self._looked_at[:, 0], values)
        return np.asarray(values[self.place])


@dataclass(frozen=True)
class ScatterAtSizes:
    """The scatter of the default answer at each point, as `estimate` has it there."""

    question: Question

    def at(self, free: Mapping[str, FloatArray], count: int) -> tuple[FloatArray, FloatArray] | None:
        """Standard deviations of log time, and the part that all answers have alike (`Spread.common`), (count,) each.

        None where sizes do not vary, or too many do.
        """
        asked, names = self.question.asked, open_sizes(self.question, free)
        if not (self.question.by_default and count and names):
            return None
        columns = {name.partition(".")[2]: np.broadcast_to(free[name], count) for name in names}
        if asked is not None and (made := spread_at(asked, columns)) is not None:
            return made[0], made[1]
        points = AtSizes.of(free, names, count)
        if points is None:
            return None
        spreads = [self.question.at(point).answer().spread for point in points.tried()]
        known = [(one.total, one.common) for one in spreads if one.total is not None]
        if len(known) < len(spreads):
            return None
        total, common = (points.spread(np.array(values)) for values in zip(*known, strict=True))
        return total, common


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

        def needed(at: Mapping[str, Any]) -> tuple[Any]:
            known.append(self.need(at))
            return (math.nan if known[-1] is None else known[-1].needed,)

        (bytes_,) = by_parts(columns, needed)
        one = known[0]
        if one is None or None in known:
            return {}
        there = np.broadcast_to(free.get(capacity, np.array(one.there)), count)
        return {MEMORY: bytes_, FIT: one.verdicts(bytes_, there)}

    def need(self, sizes: Mapping[str, Any]) -> MemoryNeed | None:
        """Bytes that the work needs at sizes by name (``run.batch``), or columns; None where its graph does not say."""
        question = self.question
        values = {**question.workload.defaults, **question.sizes, **question.run}
        values |= {name.partition(".")[2]: value for name, value in sizes.items()}
        bound = as_compiled(question.workload, question.machine).bind_known(values)
        return None if bound.symbols else memory_need(bound, question.machine, question.workload.bind_known(values))


def able(words: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """The points among which one is recommended: those that fit; where none surely does, those that may; else none.

    Shape (points,), as `words` has it.
    """
    for word in BEST_FIRST[:2]:
        if np.any(words == word):
            return np.asarray(words == word)
    return np.zeros(len(words), dtype=bool)
