"""Measurements as columns: what every reader of files makes, and series are made of."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import number_of, unknown_name
from slipstick.common.units import LONGEST
from slipstick.estimators.scaling.laws.repeats import Statistic
from slipstick.estimators.scaling.series import Series

MAX_READINGS = 2_000_000
LARGEST_READING = 1e30
"""Cubes of numbers beyond it are no longer finite."""
Row = tuple[str, tuple[float, ...], float]
"""Region, point, seconds."""


@dataclass(frozen=True, eq=False)
class Readings:
    """Measurements as columns.

    `parameters`: names of what varies, one a column of `points`.
    `points`: shape (measurements, parameters).
    `times`: seconds, shape (measurements,).
    `regions`: what was timed, one a measurement; empty where there is one thing only.
    `notes`: what was taken for granted when reading.
    `statistic`: which of the repeats of a point counts.
    """

    parameters: tuple[str, ...]
    points: FloatArray
    times: FloatArray
    regions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    statistic: Statistic = "median"

    def __post_init__(self) -> None:
        for name, column in zip(self.parameters, self.points.T, strict=True):
            beyond = column[np.abs(column) > LARGEST_READING]
            if beyond.size:
                raise InputError(f"{name} = {beyond[0]:g}: want numbers within +-{LARGEST_READING:g}")

    def varying(self) -> tuple[str, ...]:
        """The parameters that take more than one value; the first one where none does."""
        spread = [name for i, name in enumerate(self.parameters) if np.unique(self.points[:, i]).size > 1]
        return tuple(spread) or self.parameters[:1]

    def series(self, parameter: str | None = None) -> list[Series]:
        """One series a region, over the one parameter that varies.

        Raises InputError where several parameters vary and none is named, or one does beside the named one.
        """
        varying = self.varying()
        if parameter is not None and parameter not in self.parameters:
            raise unknown_name("parameter", parameter, self.parameters)
        chosen = parameter or varying[0]
        others = [name for name in varying if name != chosen]
        if others:
            raise InputError(
                f"{', '.join(varying)} all vary: give a target for each (--to {chosen}=..,{others[0]}=..), or keep the "
                f"rows of one value of {', '.join(others)}"
            )
        column = self.points[:, self.parameters.index(chosen)]
        if not self.regions:
            return [Series.of(column, self.times, chosen, statistic=self.statistic)]
        names = np.asarray(self.regions)
        order = np.argsort(names, kind="stable")
        cuts = np.flatnonzero(names[order][1:] != names[order][:-1]) + 1
        parts = np.split(order, cuts)
        parts.sort(key=lambda part: int(part[0]))
        return [
            Series.of(column[part], self.times[part], chosen, str(names[part[0]]), self.statistic) for part in parts
        ]

    def runs(self, series: Series) -> list[tuple[float, float]]:
        """What was measured of a series, run by run: value of its parameter, seconds."""
        column = self.points[:, self.parameters.index(series.parameter)]
        rows = zip(column.tolist(), self.times.tolist(), self.regions or (series.name,) * len(column), strict=True)
        return [(value, seconds) for value, seconds, region in rows if region == series.name]


class MetricRows:
    """Rows of each metric of one file, counted before they are built: a list of repeats may hold millions."""

    def __init__(self, path: object) -> None:
        self._path = path
        self._count = 0
        self.rows: dict[str, list[Row]] = {}

    def add(self, metric: str, region: str, point: tuple[float, ...], count: int, times: Iterable[float]) -> None:
        """Add `count` times of one point.

        Raises InputError where the file then holds more than `MAX_READINGS`.
        """
        self._count += count
        if self._count > MAX_READINGS:
            raise too_many(self._path)
        self.rows.setdefault(metric, []).extend((region, point, seconds) for seconds in times)


def too_many(path: object) -> InputError:
    """The error for a file of more than `MAX_READINGS` measurements."""
    return InputError(f"{path}: more than {MAX_READINGS:,} measurements")


def readings(rows: Iterator[Row], parameters: Sequence[str], path: object, notes: tuple[str, ...] = ()) -> Readings:
    """Rows as columns; regions are dropped where there is only one, times of 0 s are left out and counted.

    Raises InputError where there are none, or too many, or a time lies outside [0, `LONGEST`] s.
    """
    first = list(itertools.islice(rows, MAX_READINGS + 1))
    if len(first) > MAX_READINGS:
        raise too_many(path)
    for region, point, seconds in first:
        if not 0 <= seconds <= LONGEST:
            at = ", ".join(f"{name} = {value:g}" for name, value in zip(parameters, point, strict=False))
            number_of(seconds, f"{path}: {region + ' ' if region else ''}at {at}: time", 0, LONGEST, "s")
    nothing = sum(not seconds for *_, seconds in first)
    first = [row for row in first if row[2]]
    if nothing:
        notes += (f"{nothing:,} times of 0 s left out",)
    if not first or not parameters:
        raise InputError(f"{path}: holds no times over a parameter{f' ({nothing:,} of 0 s)' if nothing else ''}")
    regions = tuple(region for region, _, _ in first)
    return Readings(
        tuple(parameters),
        np.array([point for _, point, _ in first], dtype=np.float64).reshape(len(first), len(parameters)),
        np.array([seconds for *_, seconds in first], dtype=np.float64),
        regions if len(set(regions)) > 1 else (),
        notes,
    )
