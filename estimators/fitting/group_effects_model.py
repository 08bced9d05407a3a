"""A law: time as a vectorised function of named parameters and of the columns of measured rows.

Every parameter is positive and is fitted as its logarithm. It may vary by levels of grouping in order (vendor,
generation, chip; engine, version): then log parameter of a row = log value + the effects of the row's groups, each
effect drawn from a normal distribution whose width is estimated together with everything else (`fit`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
Columns: TypeAlias = Mapping[str, FloatArray]
Groups: TypeAlias = Mapping[str, Sequence[str]]
UNGROUPED = ""
"""The group of a row that has none at a level: it has no effect there."""
SOURCE, ANOTHER_SOURCE = "source", "another source"
"""The level of who measured, and its group in a question, which is of no collection that was fitted. It names whose
scatter a row has; where a law varies by it, it has an effect as well (`source_effects`)."""


@dataclass(frozen=True)
class Grouping:
    """A way to group rows, such as by vendor.

    `width`: standard deviation of log effects that is expected before any row is seen. It weighs as much as four
        groups, so that it decides below five groups and hardly matters beyond twenty.
    """

    name: str
    width: float


@dataclass(frozen=True)
class ParameterPrior:
    """What is expected of a parameter before any row is seen.

    `unit`, `meaning`: in words; the unit of a ratio is "1".
    `expected`, `width`: median, and standard deviation of the logarithm; the width weighs as much as four parameters of
        its `kind`, whose common width is estimated. A parameter of width 0 stays as expected and only its groups
        differ.
    `low`, `high`: bounds.
    `kind`: parameters of one kind share the estimated width.
    `levels`: names of the levels by which it varies.
    """

    name: str
    unit: str
    meaning: str
    expected: float
    width: float
    low: float
    high: float
    kind: str = ""
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.expected <= self.high < math.inf:
            raise ValueError(f"prior of {self.name}: want 0 < {self.low:g} <= {self.expected:g} <= {self.high:g}")


class TimeLaw(Protocol):
    """What is fitted: `fit` needs no more than this."""

    @property
    def name(self) -> str:
        """As files of fitted numbers name it."""
        ...

    @property
    def parameters(self) -> Sequence[ParameterPrior]:
        """All parameters, in the order of `predict`'s columns of derivatives."""
        ...

    @property
    def levels(self) -> Sequence[Grouping]:
        """All levels, the coarser first."""
        ...

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of each row; each parameter is one number or one for each row."""
        ...


@dataclass(frozen=True, eq=False)
class LawRows:
    """Measured rows as arrays of one length.

    `columns`: what the law reads.
    `groups`: the group of each row at each level.
    `cluster`: rows of one configuration share an error: they count as repeats and not as independent evidence.
    `seconds`: measured times.
    `source`: who measured a row: rows of one source scatter alike.
    """

    columns: Columns
    groups: Groups
    cluster: Sequence[str]
    seconds: FloatArray
    source: Sequence[str]

    def __post_init__(self) -> None:
        lengths = {len(values) for values in (*self.columns.values(), *self.groups.values(), self.cluster, self.source)}
        if lengths - {len(self.seconds)}:
            raise ValueError(f"rows of {len(self.seconds)} times: columns and groups of {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.seconds)

    def __add__(self, other: LawRows) -> LawRows:
        """These rows and then those of another table, in the columns and levels that both have."""
        return LawRows(
            {name: np.concatenate([values, other.columns[name]]) for name, values in self.columns.items()},
            {name: [*values, *other.groups[name]] for name, values in self.groups.items()},
            [*self.cluster, *other.cluster],
            np.concatenate([self.seconds, other.seconds]),
            [*self.source, *other.source],
        )

    def take(self, places: npt.NDArray[np.intp]) -> LawRows:
        """The rows of these numbers."""
        return LawRows(
            {name: values[places] for name, values in self.columns.items()},
            {name: [values[i] for i in places] for name, values in self.groups.items()},
            [self.cluster[i] for i in places],
            self.seconds[places],
            [self.source[i] for i in places],
        )
