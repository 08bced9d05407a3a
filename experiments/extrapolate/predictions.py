"""Predictions of one varying parameter, a region each, and what is wrong with the measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.scaling import Prediction, Series, extrapolate_many
from slipstick.estimators.scaling.laws.repeats import Statistic
from slipstick.estimators.scaling.series import counts_nodes
from slipstick.estimators.scaling.speedup import gain_rows
from slipstick.experiments.extrapolate.readings import Readings
from slipstick.hwmodels.catalog import machine as load_machine
from slipstick.hwmodels.machine import Machine

MAX_TARGETS = 10_000
CONFLICT = 3.0
"""Repeats of one point farther apart than this factor are warned of."""
MAX_WARNINGS = 5


@dataclass(frozen=True)
class ExtrapolationRequest:
    """The command's arguments; `statistic` None: as the file's kind has it."""

    file: str
    to: str
    kind: str | None = None
    parameter: str | None = None
    time: str | None = None
    region: str | None = None
    machine: str | None = None
    family: str | None = None
    level: float = 0.80
    next: int = 0
    plot: str | None = None
    report: str | None = None
    statistic: Statistic | None = None
    cores_per_node: float | None = None
    check: str | None = None


def conflicts(readings: Readings) -> list[str]:
    """A line for each point whose repeats differ by more than `CONFLICT`: one of them measured something else."""
    names = readings.regions or ("",) * len(readings.times)
    groups: dict[tuple[Any, ...], list[float]] = {}
    for name, point, time in zip(names, readings.points.tolist(), readings.times.tolist(), strict=True):
        groups.setdefault((name, *point), []).append(time)
    lines = []
    for (name, *point), times in groups.items():
        low, high = min(times), max(times)
        if low > 0 and high / low > CONFLICT:
            where = ", ".join(f"{label} = {value:g}" for label, value in zip(readings.parameters, point, strict=True))
            lines.append(
                f"{f'{name}, ' if name else ''}{where}: repeats from {low:.4g} s to {high:.4g} s, a factor of "
                f"{high / low:.3g}; their {readings.statistic} counts, but they cannot be the same thing measured twice"
            )
    more = len(lines) - MAX_WARNINGS
    return [*lines[:MAX_WARNINGS], *([f"{more} more points with such repeats"] if more > 0 else [])]


def predict(readings: Readings, request: ExtrapolationRequest) -> list[Prediction]:
    """One prediction a region.

    Raises InputError where a name is unknown or a target is no number.
    """
    series = readings.series(request.parameter)
    if request.region is not None:
        series = [one_region(series, request.region)]
    machine = load_machine(request.machine) if request.machine else None
    targets = _targets(request.to, series)
    predictions = extrapolate_many(series, targets, request.kind, machine, request.family, request.level)
    return [with_gains(noted(one, readings), machine, request.cores_per_node) for one in predictions]


def noted(prediction: Prediction, readings: Readings) -> Prediction:
    """The prediction with what was taken for granted when its file was read among what it assumes."""
    return replace(prediction, assumptions=(*prediction.assumptions, *readings.notes))


def with_gains(prediction: Prediction, machine: Machine | None, cores_per_node: float | None) -> Prediction:
    """The prediction with speed-ups and core-hours, of a node's cores as given or as the machine has them.

    Raises InputError where cores of a node are given and the series does not count nodes.
    """
    parameter = prediction.series.parameter
    if cores_per_node is not None and not counts_nodes(parameter):
        raise InputError(
            f"--cores-per-node {cores_per_node:g}: the series is over {parameter!r}, which counts no nodes"
        )
    cores = float(machine.cores) if cores_per_node is None and machine is not None else cores_per_node
    return replace(prediction, gains=tuple(map(FrozenDict, gain_rows(prediction, cores))))


def one_region(series: Sequence[Series], region: str | None) -> Series:
    """The series of a region; the only one where none is named.

    Raises InputError where there is none of that name, or none is named and there are several.
    """
    known = [one.name for one in series]
    if region is None and len(series) > 1:
        raise InputError(f"{len(known)} regions: name one of {', '.join(known[:8])}")
    if region is not None and region not in known:
        raise unknown_name("region", region, known)
    return next(one for one in series if region in (None, one.name))


def predict_at(prediction: Prediction, values: Sequence[float], request: ExtrapolationRequest) -> Prediction:
    """The same prediction at other values of its parameter, shape (values,)."""
    machine = load_machine(request.machine) if request.machine else None
    return extrapolate_many([prediction.series], values, prediction.kind, machine, request.family, request.level)[0]


def _targets(text: str, series: Sequence[Series]) -> list[float]:
    name, equals, rest = text.partition("=")
    if equals and name.strip() != series[0].parameter:
        raise unknown_name("parameter", name.strip(), [series[0].parameter])
    words = (rest if equals else text).split(",")
    if len(words) > MAX_TARGETS:
        raise InputError(f"--to: {len(words)} targets, want at most {MAX_TARGETS}")
    try:
        return [float(word) for word in words]
    except ValueError:
        raise InputError(f"--to {text[:60]!r}: want numbers, such as 480,3840") from None
