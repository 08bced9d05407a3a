"""What measured rows say of a law: values and effects with their covariance, widths, and predictions with a band.

A law: time as a vectorised function of named parameters and of the columns of measured rows.

Every parameter is positive and is fitted as its logarithm. It may vary by levels of grouping in order (vendor,
generation, chip; engine, version): then log parameter of a row = log value + the effects of the row's groups, each
effect drawn from a normal distribution whose width is estimated together with everything else (`fit`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray

Columns: TypeAlias = Mapping[str, FloatArray]
Groups: TypeAlias = Mapping[str, Sequence[str]]
UNGROUPED = ""
"""The group of a row that has none at a level: it has no effect there."""
SOURCE, ANOTHER_SOURCE, UNMEASURED_SOURCE = "source", "another source", "another source of machines that few measured"
"""The level of who measured, and its groups in a question, which is of no collection that was fitted. It names whose
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


class Parametrised(Protocol):
    """What has fitted parameters: `LawFit.values` needs no more than this."""

    @property
    def parameters(self) -> Sequence[ParameterPrior]:
        """All parameters, in the order of the columns of derivatives."""
        ...


class TimeLaw(Parametrised, Protocol):
    """What is fitted: `fit` needs no more than this."""

    @property
    def name(self) -> str:
        """As files of fitted numbers name it."""
        ...

    @property
    def levels(self) -> Sequence[Grouping]:
        """All levels, the coarser first."""
        ...

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of each row; each parameter is one number or one for each row."""
        ...


@dataclass(frozen=True, eq=False)
class FormulaLaw:
    """A law with one function as its formula; its parameters vary by groups of rows where it has levels.

    `formula`: positive values of rows (seconds, or any other quantity), from the parameters and columns, arrays of one
        length.
    `at_once`: whether the formula broadcasts over a first axis of parameters, so that one call gives all differences.
    """

    name: str
    parameters: tuple[ParameterPrior, ...]
    formula: Callable[[Mapping[str, FloatArray], Columns], FloatArray]
    levels: tuple[Grouping, ...] = ()
    at_once: bool = False

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Values of all rows."""
        return self.formula(parameters, columns)


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


QUANTILE, T_QUANTILE = 1.2816, 1.5332
"""Of 80 % of a normal distribution, and of t with four degrees of freedom, in their scales."""
DECIMAL = 1e-5
"""The last decimal that is kept of a correlation."""
STEP = 1e-4
"""Of finite differences, in log parameters."""


@dataclass(frozen=True)
class Coordinate:
    """One fitted number: the log of a parameter (level ""), or the effect of one group on it."""

    parameter: str
    level: str = ""
    group: str = ""


@dataclass(frozen=True, eq=False)
class LawFit:
    """A law with what rows say of it.

    `coordinates`, `logs`, `covariance`: log parameters and log effects, shape (n,), with their posterior covariance,
        shape (n, n).
    `widths`: standard deviation of log effects by (parameter, level), and of log parameters about what was expected by
        ("", kind).
    `scatter`, `shared`: by source of rows: scale of the t distribution of log errors, and their correlation within a
        configuration.
    `stretch`: factor on all deviations, by which bands of left-out groups hold 80 % (`bands`).
    `stretches`: the same by level, in place of `stretch` for rows whose group there is unseen: the largest of theirs.
    `band_factors`: by level and group, a factor on the bands of the group's rows beside these, whose errors are larger
        or smaller than those of others.
    `inner`: mean |log error| of those groups; None where none were left out, and of fits that were read from a file.
    """

    coordinates: tuple[Coordinate, ...]
    logs: FloatArray
    covariance: FloatArray
    widths: Mapping[tuple[str, str], float]
    scatter: Mapping[str, float]
    shared: Mapping[str, float]
    stretch: float = 1.0
    inner: float | None = None
    stretches: Mapping[str, float] = field(default_factory=dict)
    band_factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @cached_property
    def _known(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """Groups whose effect was fitted, by parameter and level, and of each level (the parameter "")."""
        made: dict[tuple[str, str], set[str]] = {}
        for c in self.coordinates:
            for parameter in (c.parameter, ""):
                made.setdefault((parameter, c.level), set()).add(c.group)
        return {place: frozenset(groups) for place, groups in made.items()}

    def seen(self, level: str) -> frozenset[str]:
        """Groups of a level of which rows were fitted."""
        return self._known.get(("", level), frozenset())

    def values(self, law: Parametrised, groups: Groups, count: int = 1) -> dict[str, FloatArray]:
        """Parameters of each of `count` rows: value times the effects of the row's groups; unseen groups have none."""
        return Design(law, self.coordinates, groups, count).values(self.logs)

    def seconds(self, law: TimeLaw, columns: Columns, groups: Groups) -> FloatArray:
        """Times of rows, seconds."""
        return law.predict(self.values(law, groups, count_of(columns)), columns)

    def half_width(self, law: TimeLaw, columns: Columns, groups: Groups) -> FloatArray:
        """Half of the 80 % band of log time of each row.

        It grows with what is unseen: parameters and effects of groups that were seen count with their posterior
        covariance, effects of groups that were not with their estimated width, and the scatter of the source that the
        row's groups name (`SOURCE`), else of the widest.
        """
        design = Design(law, self.coordinates, groups, count_of(columns))
        slopes = slopes_of(law, columns, design.values(self.logs))
        jacobian = design.jacobian(slopes)
        variance = np.einsum("ij,ij->i", jacobian @ self.covariance, jacobian)
        for at, prior in enumerate(law.parameters):
            for level in prior.levels:
                known = self._known.get((prior.name, level), frozenset())
                unseen = np.array([group != UNGROUPED and group not in known for group in groups[level]])
                width = self.widths[prior.name, level] if unseen.any() else 0.0
                variance = variance + unseen * (slopes[:, at] * width) ** 2
        widest = max(self.scatter.values())
        sources = groups.get(SOURCE, [UNGROUPED] * len(variance))
        scatter = np.array([self.scatter.get(name, widest) for name in sources]) * T_QUANTILE
        return np.asarray(self._stretched(groups, variance) * np.sqrt(QUANTILE**2 * variance + scatter**2), dtype=float)

    def _stretched(self, groups: Groups, like: FloatArray) -> FloatArray:
        """The factor on the band of each row, by what it leaves unseen."""
        made = np.zeros(len(like))
        for level, factor in self.stretches.items():
            known = self.seen(level) | {UNGROUPED}
            made = np.maximum(made, np.where([group in known for group in groups[level]], 0.0, factor))
        made = np.where(made > 0, made, self.stretch)
        for level, factors in self.band_factors.items():
            made = made * [factors.get(group, 1.0) for group in groups[level]]
        return made

    def ratio_half_width(self, law: TimeLaw, columns: Columns, groups: Groups) -> float:
        """Half of the 80 % band of the log ratio of the first row to the second.

        What is not known of parameters and effects that both rows have cancels as far as it moves both alike; effects
        of groups that were not seen, and the scatter, are each row's own.
        """
        design = Design(law, self.coordinates, groups, count_of(columns))
        slopes = slopes_of(law, columns, design.values(self.logs))
        jacobian = design.jacobian(slopes)
        apart = jacobian[0] - jacobian[1]
        variance = float(apart @ self.covariance @ apart)
        for at, prior in enumerate(law.parameters):
            for level in prior.levels:
                known = self._known.get((prior.name, level), frozenset())
                first, second = groups[level][:2]
                one, two = (slopes[row, at] * (groups[level][row] not in known | {UNGROUPED}) for row in (0, 1))
                moved = (one - two) ** 2 if first == second else one**2 + two**2
                variance += float(moved) * self.widths[prior.name, level] ** 2 if moved else 0.0
        scatter = max(self.scatter.values()) * T_QUANTILE
        return float(self._stretched(groups, jacobian).max()) * math.sqrt(QUANTILE**2 * variance + 2 * scatter**2)

    def values_alone(self) -> LawFit:
        """Without the covariance, which needs the square of the values' room in a file: for points, not for bands."""
        return replace(self, covariance=np.zeros_like(self.covariance))

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, numbers to six digits; the covariance by rows of its lower triangle, none of zeros.

        What two coordinates share is rounded to five decimals of their correlation, which makes files a third smaller.
        """
        known = self.covariance if self.covariance.any() else self.covariance[:0]
        deviations = np.sqrt(np.diag(self.covariance))
        return {
            "values": [
                [c.parameter, c.level, c.group, _short(v)] for c, v in zip(self.coordinates, self.logs, strict=True)
            ],
            "covariance": [
                [*map(_rounded, row[:at], DECIMAL * deviations[at] * deviations[:at]), _short(row[at])]
                for at, row in enumerate(known)
            ],
            "widths": [[parameter, level, _short(width)] for (parameter, level), width in sorted(self.widths.items())],
            "scatter": _shorts(self.scatter),
            "shared": _shorts(self.shared),
            "stretch": _short(self.stretch),
            **({"stretches": _shorts(self.stretches)} if self.stretches else {}),
            **({"band_factors": {k: _shorts(of) for k, of in self.band_factors.items()}} if self.band_factors else {}),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> LawFit:
        """From plain JSON values.

        Raises
        ------
        KeyError, TypeError, ValueError
            Where a field is missing or no number.
        """
        entries = document["values"]
        covariance = np.zeros((len(entries), len(entries)))
        for at, row in enumerate(document["covariance"]):
            covariance[at, : at + 1] = covariance[: at + 1, at] = [float(value) for value in row]
        return cls(
            tuple(Coordinate(str(p), str(level), str(group)) for p, level, group, _ in entries),
            np.array([float(entry[3]) for entry in entries]),
            covariance,
            {(str(p), str(level)): float(width) for p, level, width in document["widths"]},
            {str(name): float(value) for name, value in document["scatter"].items()},
            {str(name): float(value) for name, value in document["shared"].items()},
            float(document["stretch"]),
            stretches={str(name): float(factor) for name, factor in document.get("stretches", {}).items()},
            band_factors={
                str(level): {str(group): float(factor) for group, factor in factors.items()}
                for level, factors in document.get("band_factors", {}).items()
            },
        )


def mean_of_levels(values: Mapping[str, FloatArray]) -> dict[str, float]:
    """Parameters of a level that nobody named: the geometric mean over those that were seen, a row each, and never
    beyond them by what rounding adds."""
    means = {name: np.clip(np.exp(np.mean(np.log(rows))), rows.min(), rows.max()) for name, rows in values.items()}
    return {name: float(mean) for name, mean in means.items()}


def half_over_levels(halves: npt.ArrayLike, seconds: npt.ArrayLike) -> FloatArray:
    """Half of the 80 % band of log time where nobody named the level, shape (rows,).

    One more level differs from the mean of those that were seen as they differ from each other, and it may be the least
    sure of them: who names none knows no more than who names that one.

    `halves`, `seconds`: of each row under each level that was seen, shape (levels, rows).
    """
    known, logs = np.asarray(halves, dtype=float), np.log(np.asarray(seconds, dtype=float))
    count = len(known)
    if count == 1:
        return np.asarray(known[0], dtype=float)
    between = np.var(logs, axis=0, ddof=1) * (1 + 1 / count)
    return np.asarray(np.sqrt(np.max(known**2, axis=0) + QUANTILE**2 * between), dtype=float)


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _shorts(values: Mapping[str, float]) -> dict[str, float]:
    return {name: _short(value) for name, value in sorted(values.items())}


def _rounded(value: float, grain: float) -> float:
    """To the decimal place of `grain`, above zero, or the next finer one; at most six digits."""
    return _short(round(value, math.ceil(-math.log10(grain)))) + 0.0 if grain > 0 else _short(value)


class Design:
    """Which coordinates make the log parameters of which rows."""

    def __init__(self, law: Parametrised, coordinates: Sequence[Coordinate], groups: Groups, count: int) -> None:
        names = [prior.name for prior in law.parameters]
        self.law, self.count, self.width = law, count, len(coordinates)
        rows: dict[tuple[str, str], list[int]] = {}
        for level in {c.level for c in coordinates} - {""}:
            for i, group in enumerate(groups[level]):
                rows.setdefault((level, group), []).append(i)
        self.parts: list[tuple[int, int, npt.NDArray[np.intp] | None]] = []
        """Of the coordinates that make any row: their place, that of their parameter, and the rows, None for all."""
        for at, c in enumerate(coordinates):
            if not c.level or (c.level, c.group) in rows:
                mine = np.array(rows[c.level, c.group], dtype=np.intp) if c.level else None
                self.parts.append((at, names.index(c.parameter), mine))

    def values(self, logs: FloatArray) -> dict[str, FloatArray]:
        """Parameters of all rows, within their bounds."""
        table = np.empty((len(self.law.parameters), self.count))
        table[:] = np.log([[prior.expected] for prior in self.law.parameters])
        for at, parameter, rows in self.parts:
            if rows is None:
                table[parameter] = logs[at]
        for at, parameter, rows in self.parts:
            if rows is not None:
                table[parameter, rows] += logs[at]
        low, high = (np.array([[getattr(prior, end)] for prior in self.law.parameters]) for end in ("low", "high"))
        clipped = np.clip(np.exp(table), low, high)  # not the logarithms: exp(log 0.1) lies above 0.1
        return {prior.name: row for prior, row in zip(self.law.parameters, clipped, strict=True)}

    def jacobian(self, slopes: FloatArray) -> FloatArray:
        """Derivatives of log time by coordinates, from those by the rows' log parameters."""
        made = np.zeros((len(slopes), self.width))
        for at, parameter, rows in self.parts:
            places = slice(None) if rows is None else rows
            made[places, at] = slopes[places, parameter]
        return made


@runtime_checkable
class SlopedLaw(Protocol):
    """A law that knows its derivatives: differences over its parameters would take too long."""

    def slopes(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Derivatives of log time by each log parameter, shape (rows, parameters)."""
        ...


def slopes_of(law: TimeLaw, columns: Columns, values: Mapping[str, FloatArray]) -> FloatArray:
    """Derivatives of log time by each log parameter, shape (rows, parameters): the law's, else forward differences."""
    if isinstance(law, SlopedLaw):
        return law.slopes(values, columns)
    if isinstance(law, FormulaLaw) and law.at_once:
        return _slopes_at_once(law, columns, values)
    here, more = np.log(law.predict(values, columns)), np.exp(STEP)
    moved = (law.predict({**values, prior.name: values[prior.name] * more}, columns) for prior in law.parameters)
    return np.array([(np.log(seconds) - here) / STEP for seconds in moved]).T


def _slopes_at_once(law: TimeLaw, columns: Columns, values: Mapping[str, FloatArray]) -> FloatArray:
    """The same forward differences in one call of `predict`, shape (rows, parameters).

    Each parameter gets a first axis, of today's values and of each moved one.
    """
    moved = {}
    for at, prior in enumerate(law.parameters):
        moved[prior.name] = np.repeat(np.atleast_2d(values[prior.name]), len(law.parameters) + 1, axis=0)
        moved[prior.name][at + 1] *= np.exp(STEP)
    here, *each = np.log(law.predict(moved, columns))
    return np.array([(logs - here) / STEP for logs in each]).T


def count_of(columns: Columns) -> int:
    """The number of rows."""
    return len(next(iter(columns.values())))
