"""What `slipstick extrapolate` does: read, predict, say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipstick.estimators.extrapolation import Prediction, Series, extrapolate_many
from slipstick.estimators.extrapolation.next_point import next_points
from slipstick.estimators.extrapolation.regions import rank
from slipstick.estimators.extrapolation.repeats import Statistic
from slipstick.estimators.extrapolation.speedup import SCALING_KINDS, advise, gain_rows, plot_gains
from slipstick.experiments.extrapolate.readings import Readings
from slipstick.experiments.extrapolate.series_files import read
from slipstick.experiments.extrapolate.surface_rows import headline, predict_surfaces, say_surfaces
from slipstick.experiments.pages.output import emit, visible
from slipstick.experiments.pages.plots import si_ticks
from slipstick.hwmodels.catalog import machine as load_machine
from slipstick.hwmodels.files.readers import InputError, atomic_write, unknown_name

MAX_TARGETS = 10_000
CONFLICT = 3.0
"""Repeats of one point farther apart than this factor are warned of."""
MAX_WARNINGS = 5


@dataclass(frozen=True)
class Request:
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


def answer(request: Request, form: str) -> None:
    """Print the answer in a format, and write the picture."""
    readings = read(request.file, request.time)
    readings = replace(readings, statistic=request.statistic or readings.statistic)
    for text in conflicts(readings):
        print(visible(f"slipstick: warning: {text}"), file=sys.stderr)
    if "=" in request.to and len(readings.varying()) > 1:
        _surface(readings, request, form)
        return
    predictions = predict(readings, request)
    if form == "table":
        _say(predictions, readings.notes, request)
    elif form == "json":
        emit([_whole(prediction) | _next(prediction, request) for prediction in predictions], form)
    else:
        emit([{"region": p.series.name, **row} for p in predictions for row in rows_of(p)], form)
    if request.plot:
        _plot(predictions, request.plot)
    if request.report:
        from slipstick.experiments.pages.report import rows_page

        rows = [{"region": p.series.name, **row} for p in predictions for row in rows_of(p)]
        assumed = "; ".join([*predictions[0].assumptions, *readings.notes])
        rows_page(rows, request.report, f"{Path(request.file).name} to {request.to}", f"Assuming: {assumed}.")


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
        headline(prediction.rows()[-1]),
        f"time [s] = {prediction.text}",
        f"at {name} = {last:g} that is {prediction.composition}",
        f"laws averaged: {shares}",
    ]
    if prediction.main_law.change_points:
        knots = ", ".join(f"{knot:g}" for knot in prediction.main_law.change_points)
        heads.append(f"change points: {name} = {knots}")
    advice = advise(prediction)
    if advice is not None:
        fastest = "the largest given" if advice.fastest >= max(prediction.x) else f"{advice.fastest:g}"
        heads.append(
            f"best speed-up x efficiency at {name} = {advice.workers:g}; least time at {fastest}; both "
            f"against {name} = {prediction.series.x[0]:g}"
        )
    emit(rows_of(prediction), notes=heads, below=["assuming: " + "; ".join([*prediction.assumptions, *notes])])
    if request.next:
        emit(_next(prediction, request)["measure_next"], title="measure next")


def rows_of(prediction: Prediction) -> list[dict[str, Any]]:
    """One row a target, with speed-up, efficiency and core-hours where the parameter counts workers."""
    rows = []
    for row, more in zip(prediction.rows(), gain_rows(prediction), strict=True):
        words = {key: row.pop(key) for key in ("verdict", "reason")}
        rows.append(row | more | words)
    return rows


def _whole(prediction: Prediction) -> dict[str, Any]:
    advice = advise(prediction)
    more = {} if advice is None else {"recommended_workers": advice.workers, "fastest_workers": advice.fastest}
    return prediction.to_dict() | {"predictions": rows_of(prediction)} | more


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
    predictions = predict_surfaces(readings, request.to, request.kind, request.region, request.level)
    say_surfaces(predictions, tuple(readings.notes), form)
    if request.report:
        from slipstick.experiments.pages.report import rows_page

        rows = [{"region": name, **row} for name, prediction in predictions.items() for row in prediction.rows()]
        rows_page(rows, request.report, f"{Path(request.file).name} to {request.to}", "; ".join(readings.notes))


def _plot(predictions: Sequence[Prediction], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"--plot {path}: want a name that ends in .png, .svg or .pdf")
    shown = predictions[:12]
    gains = len(shown) == 1 and shown[0].kind in SCALING_KINDS
    columns = 3 if gains else min(len(shown), 3)
    lines = -(-len(shown) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(6 * columns, 4.2 * lines), squeeze=False)
    for prediction, axis in zip(shown, axes.flat, strict=False):
        prediction.plot(axis)
    if gains:
        plot_gains(shown[0], axes[0, 1], axes[0, 2])
    else:
        for axis in axes.flat[len(shown) :]:
            axis.set_visible(False)
    si_ticks(figure)
    figure.tight_layout()
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format=Path(path).suffix[1:] or "png", dpi=120)
    plt.close(figure)
