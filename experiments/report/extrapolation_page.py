"""An extrapolation as a picture and a page: what was measured, the laws, their average with its band, the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.formatting import shown
from slipstick.estimators.scaling import Prediction
from slipstick.estimators.scaling.speedup import gains
from slipstick.experiments.report.page import Card, Section, formula_html, table_html, write_page
from slipstick.experiments.report.plots import Chart, Marks, PlotLine, Scale, svg

FARTHER = 2.0
"""How far the picture goes beyond the last target, so that one sees where the band leads."""
POINTS = 60
MOST_TICKS = 12
LOG_FROM = 8.0
"""Axes whose values span this ratio are logarithmic."""
MANY_LAWS = 8
"""Thin lines that a picture can show."""


def reach(prediction: Prediction) -> list[float]:
    """Values at which the picture draws the laws, from the first measured to past the last target, shape (points,)."""
    first, last = min(*prediction.series.x, *prediction.x), max(*prediction.series.x, *prediction.x)
    return [float(value) for value in np.geomspace(first, last * FARTHER, POINTS)]


def time_chart(prediction: Prediction, drawn: Prediction, runs: Sequence[tuple[float, float]] = ()) -> Chart:
    """Times over the parameter.

    `drawn`: the same prediction at the values of `reach`.
    `runs`: each measured run: value of the parameter, seconds.
    """
    series = prediction.series
    band = f", with the {drawn.level:.0%} band" if drawn.low and drawn.level else ""
    lines = [
        PlotLine(f"{curve.name} ({curve.share:.0%})", drawn.x, curve.times, thin=True)
        for curve in drawn.curves[:MANY_LAWS]
        if len(drawn.curves) > 1
    ]
    average = PlotLine(f"average{band}" if lines else f"law{band}", drawn.x, drawn.value, drawn.low, drawn.high)
    marks = [Marks(f"measured ({series.statistic})" if max(series.repeats) > 1 else "measured", series.x, series.y, 7)]
    if len(runs) > len(series.x):
        marks.insert(0, Marks("each run", [x for x, _ in runs], [time for _, time in runs], 7, "dot"))
    marks.append(Marks("expected", prediction.x, prediction.value, 1))
    times = [*series.y, *prediction.value]
    return Chart(
        series.name or "time",
        series.parameter,
        "time [s]",
        (average, *lines),
        tuple(marks),
        _scale(drawn.x),
        _scale(times),
        border=series.x[-1],
        border_label="last measured",
        x_ticks=_ticks(prediction, drawn),
    )


def speedup_chart(prediction: Prediction, drawn: Prediction) -> Chart | None:
    """Speed-up over workers beside the ideal; None where the parameter does not count workers."""
    law = gains(prediction, np.asarray(drawn.x), np.asarray(drawn.value))
    measured = gains(prediction, np.asarray(prediction.series.x), np.asarray(prediction.series.y))
    if law is None or measured is None:
        return None
    ends = None, None
    if drawn.low and drawn.high:
        outer = [gains(prediction, np.asarray(drawn.x), np.asarray(times)) for times in (drawn.high, drawn.low)]
        ends = tuple(one.speedup if one else None for one in outer)  # type: ignore[assignment]
    ideal = law.speedup[0] * np.asarray(drawn.x) / drawn.x[0]
    return Chart(
        "speed-up",
        prediction.series.parameter,
        "speed-up",
        (PlotLine("average", drawn.x, law.speedup, *ends), PlotLine("ideal", drawn.x, ideal, thin=True)),
        (Marks("measured", prediction.series.x, measured.speedup, 7),),
        _scale(drawn.x),
        _scale(drawn.x),
        border=prediction.series.x[-1],
        border_label="last measured",
        x_ticks=_ticks(prediction, drawn),
    )


def charts(prediction: Prediction, drawn: Prediction, runs: Sequence[tuple[float, float]] = ()) -> list[Chart]:
    """What the page and `--plot` show; `runs` as (value of the parameter, seconds)."""
    gained = speedup_chart(prediction, drawn)
    return [time_chart(prediction, drawn, runs), *([gained] if gained else [])]


def write_extrapolation(
    path: str | Path,
    title: str,
    answers: Sequence[tuple[Prediction, Sequence[Chart], Sequence[Mapping[str, Any]], Sequence[str]]],
) -> Path:
    """Write the page: the answer, the picture, the table, the formula, and what was taken for granted folded in.

    `answers`: a region each: the prediction, its charts, its rows, and its lines, the headline first.
    """
    sections, cards = [], []
    for index, (prediction, drawn, rows, lines) in enumerate(answers):
        place = f" of {prediction.series.name}" if len(answers) > 1 else ""
        cards.append(Card(shown(prediction.value[-1], "s"), lines[0]))
        body = "".join(f"<p class=note>{escape(text)}</p>" for text in lines[1:])
        pictures = "".join(f"<div>{svg([chart])}</div>" for chart in drawn)
        sections.append(Section(f"Times and speed-up{place}", f"<div class=pictures>{pictures}</div>{body}"))
        sections.append(Section(f"Expected{place}", table_html(rows, f"rows{index}", prediction.declared)))
        assumed = "".join(f"<li>{escape(text)}</li>" for text in prediction.assumptions)
        formula = formula_html(prediction.main_law.formula(prediction.series.parameter, prediction.formula.source))
        folded = f"<details><summary>What was taken for granted</summary><ul>{assumed}</ul></details>"
        sections.append(Section(f"Formula{place}", formula + folded))
    return write_page(path, title, "", cards, sections)


def _ticks(prediction: Prediction, drawn: Prediction) -> tuple[float, ...]:
    """Values that were measured or predicted, as many as an axis can show; none on a linear axis."""
    if _scale(drawn.x) == "linear":
        return ()
    places = sorted({*prediction.series.x, *prediction.x})
    apart = (drawn.x[-1] / drawn.x[0]) ** (1 / MOST_TICKS)
    kept = places[:1]
    for place in places[1:]:
        if place >= kept[-1] * apart:
            kept.append(place)
    return tuple(kept)


def _scale(values: Sequence[float]) -> Scale:
    return "log" if min(values) > 0 and max(values) / min(values) >= LOG_FROM else "linear"
