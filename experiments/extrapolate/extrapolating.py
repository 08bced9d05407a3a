"""What `slipstick extrapolate` does: read, predict, say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.estimators.extrapolation import Prediction, Series, extrapolate_many
from slipstick.estimators.extrapolation.next_point import next_points
from slipstick.estimators.extrapolation.regions import rank
from slipstick.estimators.extrapolation.surface import fit_surface
from slipstick.experiments.extrapolate.readings import Readings
from slipstick.experiments.extrapolate.series_files import read
from slipstick.experiments.pages.output import emit, visible
from slipstick.hwmodels.catalog import machine as load_machine
from slipstick.hwmodels.files.readers import InputError, unknown_name

MAX_TARGETS = 10_000
CONFLICT = 3.0
"""Repeats of one point farther apart than this factor are warned of."""
MAX_WARNINGS = 5


@dataclass(frozen=True)
class Request:
    """The command's arguments."""

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


def answer(request: Request, form: str) -> None:
    """Print the answer in a format, and write the picture."""
    readings = read(request.file, request.time)
    for text in conflicts(readings):
        print(visible(f"slipstick: warning: {text}"), file=sys.stderr)
    if "=" in request.to and len(readings.varying()) > 1:
        _surface(readings, request, form)
        return
    predictions = predict(readings, request)
    if form == "table":
        _say(predictions, readings.notes, request)
    elif form == "json":
        emit([prediction.to_dict() | _next(prediction, request) for prediction in predictions], form)
    else:
        emit([{"region": p.series.name, **row} for p in predictions for row in p.rows()], form)
    if request.plot:
        _plot(predictions, request.plot)


def conflicts(readings: Readings) -> list[str]:
    """A line for each point whose repeats differ by more than `CONFLICT`: one of them measured something else."""
    names = readings.regions or ("",) * len(readings.times)
    groups: dict[tuple[Any, ...], list[float]] = {}
    for name, point, time in zip(names, readings.points.tolist(), readings.times.tolist(), strict=True):
        groups.setdefault((name, *point), []).append(time)
    found = []
    for (name, *point), times in groups.items():
        low, high = min(times), max(times)
        if low > 0 and high / low > CONFLICT:
            where = ", ".join(f"{label} = {value:g}" for label, value in zip(readings.parameters, point, strict=True))
            found.append(
                f"{f'{name}, ' if name else ''}{where}: repeats from {low:.4g} s to {high:.4g} s, a factor of "
                f"{high / low:.3g}; their median counts, but they cannot be the same thing measured twice"
            )
    more = len(found) - MAX_WARNINGS
    return [*found[:MAX_WARNINGS], *([f"{more} more points with such repeats"] if more > 0 else [])]


def predict(readings: Readings, request: Request) -> list[Prediction]:
    """One prediction a region.

    Raises
    ------
    InputError
        Where a name is unknown or a target is no number.
    """
    series = readings.series(request.parameter)
    if request.region is not None:
        known = [one.name for one in series]
        if request.region not in known:
            raise unknown_name("region", request.region, known)
        series = [one for one in series if one.name == request.region]
    machine = load_machine(request.machine) if request.machine else None
    targets = _targets(request.to, series)
    return extrapolate_many(series, targets, request.kind, machine, request.family, request.level)


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


def _say(predictions: Sequence[Prediction], notes: Sequence[str], request: Request) -> None:
    if len(predictions) > 1:
        last = predictions[0].x[-1]
        heads = [
            *notes,
            f"{len(predictions)} regions at {predictions[0].series.parameter} = {last:g}, fastest growing first",
        ]
        emit(rank(predictions), notes=heads)
        return
    (prediction,) = predictions
    name, last = prediction.series.parameter, prediction.x[-1]
    shares = ", ".join(f"{law} {share:.0%}" for law, share in sorted(prediction.shares.items(), key=lambda s: -s[1]))
    heads = [
        "assuming: " + "; ".join([*prediction.assumptions, *notes]),
        f"time [s] = {prediction.text}",
        f"at {name} = {last:g} that is {prediction.composition}",
        f"laws averaged: {shares}",
    ]
    if prediction.main_law.change_points:
        knots = ", ".join(f"{knot:g}" for knot in prediction.main_law.change_points)
        heads.append(f"change points: {name} = {knots}")
    emit(prediction.rows(), notes=heads)
    if request.next:
        emit(_next(prediction, request)["measure_next"], title="measure next")


def _next(prediction: Prediction, request: Request) -> dict[str, Any]:
    if not request.next:
        return {}
    rows = [
        {
            prediction.series.parameter: one.value,
            "time_s": one.time,
            "cost_s": one.cost,
            "expected_band": one.band,
            "gain_per_s": one.gain,
        }
        for one in next_points(prediction)[: request.next]
    ]
    return {"measure_next": rows}


def _surface(readings: Readings, request: Request, form: str) -> None:
    unused = [name for name in ("machine", "family", "next", "plot") if getattr(request, name)]
    if unused:
        raise InputError(f"--{unused[0]} is for one parameter, but {', '.join(readings.varying())} vary")
    given: dict[str, float] = {}
    for word in request.to.split(","):
        name, _, value = word.partition("=")
        if name.strip() not in readings.parameters:
            raise unknown_name("parameter", name.strip(), readings.parameters)
        try:
            given[name.strip()] = float(value)
        except ValueError:
            raise InputError(f"--to {word[:60]!r}: want NAME=NUMBER") from None
    varying = readings.varying()
    missing = [name for name in varying if name not in given]
    if missing:
        raise InputError(f"--to gives no value for {', '.join(missing)}: several parameters vary, and each needs one")
    columns = [readings.parameters.index(name) for name in varying]
    names = np.asarray(readings.regions) if readings.regions else np.zeros(len(readings.times), dtype=str)
    kinds = {varying[0]: request.kind} if request.kind else None
    rows = []
    for region in dict.fromkeys(names.tolist()):
        if request.region not in (None, region):
            continue
        chosen = names == region
        surface = fit_surface(readings.points[chosen][:, columns], readings.times[chosen], varying, kinds)
        rows.append(
            {
                "region": region,
                **{name: given[name] for name in varying},
                "time_s": float(surface([[given[name] for name in varying]])[0]),
                "kinds": ", ".join(f"{n}: {k}" for n, k in zip(varying, surface.kinds, strict=True)),
                "farthest_third_missed_by": surface.misses,
                "formula": surface.text([given[name] for name in varying])
                if form == "table"
                else str(surface.formula.expression),
            }
        )
    rows.sort(key=lambda row: -float(str(row["time_s"])))
    note = (
        "several parameters: no band is known; the farthest third of the points, predicted from the nearer ones, was "
        "missed by farthest_third_missed_by"
    )
    emit(rows, form, notes=[*readings.notes, note])


def _plot(predictions: Sequence[Prediction], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"--plot {path}: want a name that ends in .png, .svg or .pdf")
    shown = predictions[:12]
    columns = min(len(shown), 3)
    lines = -(-len(shown) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(6 * columns, 4.2 * lines), squeeze=False)
    for prediction, axis in zip(shown, axes.flat, strict=False):
        prediction.plot(axis)
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
