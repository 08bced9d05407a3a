"""What `slipstick extrapolate` prints and draws of predictions.

An extrapolation as a picture and a page: what was measured, the laws, their average with its band, the verdict.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.answer import AnswerTable, PlainAnswer
from slipstick.common.columns import LEVEL
from slipstick.common.errors import InputError
from slipstick.common.formatting import ends_shown, ratio_shown, share_shown, shares_shown, shown, visible
from slipstick.estimators.base.sureness import verdict_text
from slipstick.estimators.scaling import Prediction
from slipstick.estimators.scaling.extrapolate import most_helpful, next_points
from slipstick.estimators.scaling.regions import rank
from slipstick.estimators.scaling.speedup import advise, gains
from slipstick.estimators.scaling.surfaces import SurfacePrediction
from slipstick.experiments.extrapolate.predictions import ExtrapolationRequest, conflicts, predict, predict_at
from slipstick.experiments.extrapolate.readings import Readings
from slipstick.experiments.extrapolate.series_files import read
from slipstick.experiments.extrapolate.surfaces import predict_surfaces
from slipstick.experiments.question.settings import number_of
from slipstick.experiments.report.output import emit, show
from slipstick.experiments.report.page import Card, Section, formula_html, pictures_html, table_html, write_page
from slipstick.experiments.report.plots import Chart, Marks, PlotLine, scale_of

FARTHER = 2.0
"""How far the picture goes beyond the last target, so that one sees where the band leads."""
POINTS = 60
MOST_TICKS = 12
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
    band = f", with the {share_shown(drawn.level)} band" if drawn.low and drawn.level else ""
    lines = [
        PlotLine(f"{curve.name} ({share_shown(curve.share)})", drawn.x, curve.times, thin=True)
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
        scale_of(drawn.x),
        scale_of(times),
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
        scale_of(drawn.x),
        scale_of(drawn.x),
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
        last = shown(prediction.value[-1], "s")
        cards.append(Card(last, lines[0].replace(f": {last} (80 %:", " (80 % likely:")))
        body = "".join(f"<p class=note>{escape(text)}</p>" for text in lines[1:])
        pictures = pictures_html(drawn, f"picture{index}-")
        sections.append(Section(f"Times and speed-up{place}", pictures + body))
        sections.append(Section(f"Expected{place}", table_html(rows, f"rows{index}", prediction.declared)))
        assumed = "".join(f"<li>{escape(text)}</li>" for text in prediction.assumptions)
        formula = formula_html(prediction.main_law.formula(prediction.series.parameter, prediction.formula.source))
        folded = f"<details><summary>What was taken for granted</summary><ul>{assumed}</ul></details>"
        sections.append(Section(f"Formula{place}", formula + folded))
    return write_page(path, title, "", cards, sections)


def _ticks(prediction: Prediction, drawn: Prediction) -> tuple[float, ...]:
    """Values that were measured or predicted, as many as an axis can show; none on a linear axis."""
    if scale_of(drawn.x) == "linear":
        return ()
    places = sorted({*prediction.series.x, *prediction.x})
    apart = (drawn.x[-1] / drawn.x[0]) ** (1 / MOST_TICKS)
    kept = places[:1]
    for place in places[1:]:
        if place >= kept[-1] * apart:
            kept.append(place)
    return tuple(kept)


MOST_DRAWN = 12
"""Regions in a picture or a page, those that grow fastest."""
SURE_WITHIN = "probability_within_20_percent"


def answer(request: ExtrapolationRequest, form: str) -> int:
    """Print the answer in a format, and write the picture; returns 1 where the time to be checked leaves the band."""
    if request.check is not None:
        number_of("--check", request.check, "s")  # before an answer that would be printed for nothing
    readings = read(request.file, request.time)
    readings = replace(readings, statistic=request.statistic or readings.statistic)
    for text in conflicts(readings):
        print(visible(f"slipstick: warning: {text}"), file=sys.stderr)
    if "=" in request.to and len(readings.varying()) > 1:
        return _surface(readings, request, form)
    predictions = predict(readings, request)
    if form == "table":
        _say(predictions, readings.notes, request)
    elif form == "json":
        emit(
            [
                _whole(one, readings.notes, helpful=len(predictions) <= MOST_DRAWN) | _next(one, request)
                for one in predictions
            ],
            form,
            remarks=warnings_of(request, predictions),
            provenance=predictions[0].provenance,
        )
    else:
        emit([{"region": p.series.name, **row} for p in predictions for row in p.rows()], form)
    if request.plot or request.report:
        _draw(predictions, readings, request)
    return 0 if request.check is None else _leaves_band(predictions, request.check)


def _leaves_band(predictions: Sequence[Prediction | SurfacePrediction], text: str) -> int:
    """1 where a time measured at the last target lies outside the band there; a line on standard error says so.

    Raises InputError where several regions are predicted, or the last target has no band.
    """
    if len(predictions) > 1:
        raise InputError(f"--check {text}: is of one region, and there are {len(predictions)}: name one by --region")
    row = predictions[0].rows()[-1]
    low, high = row["low_s"], row["high_s"]
    if low is None:
        raise InputError(f"--check {text}: the last target has no band")
    time = number_of("--check", text, "s")
    where = "within" if low <= time <= high else "above" if time > high else "below"
    print(f"slipstick: check: {shown(time, 's')} lies {where} the band, {ends_shown(low, high)}", file=sys.stderr)
    return int(where != "within")


def _draw(predictions: Sequence[Prediction], readings: Readings, request: ExtrapolationRequest) -> None:
    """Write the picture and the page."""
    from slipstick.experiments.report.plots import draw_charts

    first = sorted(predictions, key=lambda one: -one.value[-1] / one.series.y[-1])[:MOST_DRAWN]
    drawn = [(one, predict_at(one, reach(one), request), readings.runs(one.series)) for one in first]
    if request.plot:
        single = charts(*drawn[0]) if len(drawn) == 1 else [time_chart(*one) for one in drawn]
        draw_charts(single, request.plot)
    if request.report:
        answers = [(one, charts(one, far, runs), one.rows(), _lines(one)) for one, far, runs in drawn]
        write_extrapolation(request.report, f"{Path(request.file).name} to {request.to}", answers)


FLAT = 0.2
"""Largest slope of log time on log workers that counts as none."""


def warnings_of(request: ExtrapolationRequest, predictions: Sequence[Prediction]) -> list[str]:
    """What a choice that nobody made decides: times that more workers do not shorten are read as weak scaling."""
    flat = [one for one in predictions if request.kind is None and one.kind == "weak" and _is_flat(one)]
    if not flat:
        return []
    name = flat[0].series.parameter
    return [
        f"times do not change with {name}, and were read as weak scaling: work that grows with {name}, whose speed-up "
        "is that of the work; where the work stays the same there is no speed-up: --kind strong"
    ]


def _is_flat(prediction: Prediction) -> bool:
    x, times = prediction.series.x, prediction.series.y
    return len(x) > 1 and abs(math.log(times[-1] / times[0]) / math.log(x[-1] / x[0])) < FLAT


def _say(predictions: Sequence[Prediction], notes: Sequence[str], request: ExtrapolationRequest) -> None:
    if len(predictions) > 1:
        last = predictions[0].x[-1]
        heads = [
            *notes,
            f"{len(predictions)} regions at {predictions[0].series.parameter} = {last:g}, fastest growing first",
        ]
        emit(rank(predictions), notes=heads)
        return
    (prediction,) = predictions
    warnings = warnings_of(request, predictions)
    more = (AnswerTable(_next(prediction, request)["measure_next"], title="measure next"),) if request.next else ()
    answer = PlainAnswer(
        prediction.rows(),
        prediction.declared,
        (*_lines(prediction), *(f"beware: {text}" for text in warnings)),
        ("assuming: " + "; ".join(prediction.assumptions),),
        tuple(warnings),
        more=more,
        provenance=prediction.provenance,
    )
    show(verdict_first(answer), "table")


def _lines(prediction: Prediction) -> list[str]:
    """The answer in words, the last target first."""
    name, last = prediction.series.parameter, prediction.x[-1]
    shares = shares_shown(prediction.shares)
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
    helpful = _helpful(prediction)
    if helpful is not None:
        heads.append(
            f"most helpful next: a run at {name} = {helpful[name]:g}; it would take about "
            f"{share_shown(helpful['doubt_removed'])} of the doubt at {last:g}, and leave a band of about "
            f"x{ratio_shown(helpful['expected_band'])}"
        )
    return heads


def verdict_first(answer: PlainAnswer) -> PlainAnswer:
    """Time, band and verdict before what follows from them; the ratio and the reason last."""
    keys, verdict, last = list(answer.table[0]), (SURE_WITHIN, "verdict"), ("ratio", "reason")
    first = keys[: keys.index(LEVEL) + 1]
    rest = [key for key in keys if key not in (*first, *verdict, *last)]
    return replace(answer, shown=(*first, *verdict, *rest, *last))


def _whole(prediction: Prediction, notes: Sequence[str], *, helpful: bool) -> dict[str, Any]:
    assumed = {"assumptions": list(dict.fromkeys([*prediction.assumptions, *notes]))}
    advice = advise(prediction)
    more = {} if advice is None else {"recommended_workers": advice.workers, "fastest_workers": advice.fastest}
    return (
        prediction.to_dict()
        | assumed
        | {"predictions": prediction.rows(), "most_helpful": _helpful(prediction) if helpful else None}
        | more
    )


def _helpful(prediction: Prediction) -> dict[str, float] | None:
    """The one further measurement that narrows the last target's band most, where that is not trusted yet."""
    if not prediction.low or not prediction.high or [one.word for one in prediction.verdicts[-1:]] == ["trust"]:
        return None
    best = most_helpful(prediction)
    if best is None:
        return None
    band = prediction.high[-1] / prediction.low[-1]
    return {
        prediction.series.parameter: best.value,
        "band": band,
        "expected_band": best.band,
        "doubt_removed": best.removed,
    }


def _next(prediction: Prediction, request: ExtrapolationRequest) -> dict[str, Any]:
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


def _surface(readings: Readings, request: ExtrapolationRequest, form: str) -> int:
    words = {"machine": "on", "family": "family", "next": "next", "plot": "plot"}
    unused = [word for name, word in words.items() if getattr(request, name)]
    if unused:
        raise InputError(f"--{unused[0]} is for one parameter, but {', '.join(readings.varying())} vary")
    predictions = predict_surfaces(readings, request.to, request.kind, request.region, request.level)
    _say_surfaces(predictions, tuple(readings.notes), form)
    if request.report:
        from slipstick.experiments.report.page import page

        rows = [{"region": name, **row} for name, prediction in predictions.items() for row in prediction.rows()]
        page(
            PlainAnswer(rows, notes=tuple(readings.notes)), request.report, f"{Path(request.file).name} to {request.to}"
        )
    return 0 if request.check is None else _leaves_band([*predictions.values()], request.check)


def _say_surfaces(predictions: Mapping[str, SurfacePrediction], notes: tuple[str, ...], form: str) -> None:
    """Print predictions in a format."""
    if form == "json":
        emit(
            [row for name, prediction in predictions.items() for row in _whole_rows(name, prediction, notes)],
            form,
            remarks=(),
            provenance="calibrated",
        )
        return
    rows = [{"region": name, **row} for name, prediction in predictions.items() for row in prediction.rows()]
    if form != "table":
        emit(rows, form)
        return
    if len(predictions) > 1:
        emit(sorted(rows, key=lambda row: -float(str(row["time_s"]))), notes=[*notes, "slowest first"])
        return
    (prediction,) = predictions.values()
    last = prediction.answers[-1]
    shares = ", ".join(f"{name} {share_shown(share)}" for name, share in last.shares)
    assumed = ("assuming: " + "; ".join([*prediction.assumptions, *notes]),)
    heads = (
        headline(prediction.rows()[-1], len(prediction.parameters)),
        f"time [s] = {last.law.text(last.point)}",
        f"laws averaged: {shares}",
    )
    show(
        verdict_first(
            PlainAnswer(prediction.rows(), prediction.declared, heads, assumed, provenance=prediction.provenance)
        ),
        "table",
    )


def headline(row: Mapping[str, Any], parameters: int = 1) -> str:
    """``at threads = 64, size = 3200: 52.5 ms (80 %: 45.1 .. 71.3 ms), wide: within 20 %: 62 % sure``.

    `parameters`: how many of the row's first cells are the point.
    """
    point = ", ".join(f"{name} = {row[name]:g}" for name in list(row)[:parameters])
    low, high = row["low_s"], row["high_s"]
    level = f"{100 * row['interval_level']:g} %" if low is not None else ""
    band = f" ({level}: {ends_shown(low, high)})" if level else "; no band"
    probability = row["probability_within_20_percent"]
    verdict = verdict_text(probability) or (f", {row['verdict']}" if row["verdict"] else "")
    return f"at {point}: {shown(row['time_s'], 's')}{band}{verdict}"


def _whole_rows(region: str, prediction: SurfacePrediction, notes: Sequence[str]) -> list[dict[str, Any]]:
    whole = prediction.to_dict()
    kinds = ", ".join(f"{name}: {kind}" for name, kind in whole["kinds"].items())
    more = {"kinds": kinds, "points": whole["points"], "assumptions": [*whole["assumptions"], *notes]}
    return [{"region": region, **row, **more} for row in whole["predictions"]]
