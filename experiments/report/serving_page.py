"""Pages of serving answers and plans: headline numbers with bands, distributions, what a step goes to, sources."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.columns import amount_shown, amounts_shown, shown_columns
from slipstick.common.formatting import money_shown, share_shown
from slipstick.estimators.serving.serving_answer import Serving
from slipstick.experiments.report.page import (
    Card,
    Section,
    assumptions,
    folded,
    machine_rows,
    picture_html,
    pictures_html,
    table_html,
    timeline_sections,
    write_with_charts,
)
from slipstick.experiments.report.plots import Chart, Marks, PlotLine
from slipstick.experiments.serve.plan_serving import Plan
from slipstick.experiments.serve.serving_text import lines

_LEVELS = np.linspace(0.005, 0.995, 100)
_MOST_POINTS = 600


def write_serving(answer: Serving, path: str | Path) -> tuple[Path, Path]:
    """Write the page of one answer and its charts beside it as PNG; returns both paths."""
    charts = serving_charts(answer)
    rate, low, high = answer.rate_band
    cards = [
        Card(
            amount_shown(rate, "tokens/s"),
            f"output of {_devices(answer)}{_offered(answer)}; 80 % likely: {amounts_shown(low, high, 'tokens/s')}",
        )
    ]
    for measure, name in (("tpot", "mean time of a further token"), ("ttft", "mean time to the first token")):
        if answer.served.quantiles(measure):
            value, low, high = answer.band(measure, "mean")
            cards.append(Card(amount_shown(value, "s"), f"{name}; 80 % likely: {amounts_shown(low, high, 's')}"))
    figures = [one for one in shown_columns([answer.summary()]) if one.cells[0] is not None]
    cards += [
        Card(name, f"takes {share_shown(share)} of a decode step") for name, share in [*answer.bounds.items()][:1]
    ]
    bounds = [{"a decode step goes to": name, "share": share} for name, share in answer.bounds.items()]
    sections = [
        Section("What bounds it", table_html(bounds, "bounds")),
        Section("Requests", pictures_html(charts, "chart")),
        Section("Measures", table_html(answer.rows(), "measures", answer.declared)),
        *timeline_sections(answer),
        folded("In words", "".join(f"<p class=note>{escape(line)}</p>" for line in (*answer.headed, *lines(answer)))),
        folded("Figures", table_html([{"figure": one.head, "value": one.cells[0]} for one in figures], "figures")),
        *assumptions(answer.notes),
        folded("The machine", table_html(machine_rows(answer.deployment.machine), "machine")),
    ]
    title = f"Serving {answer.deployment.model.name} on {answer.deployment.machine.name}"
    return write_with_charts(path, charts, title, answer.traffic.text(), cards, sections)


def _devices(answer: Serving) -> str:
    count = answer.deployment.devices
    return "one device" if count == 1 else f"all {count} devices"


def _offered(answer: Serving) -> str:
    """The output at a given rate of requests is no capacity."""
    rate = answer.traffic.rate
    return f" at the {rate:g} requests/s that are offered, not the most it could" if rate else ""


def serving_charts(answer: Serving) -> list[Chart]:
    """Times of the requests, and how many sequences decode."""
    return [
        distribution(answer, "ttft", "Time to the first token"),
        distribution(answer, "tpot", "Time of a further token"),
        running(answer),
    ]


def distribution(answer: Serving, measure: str, title: str) -> Chart:
    """Share of requests below each time, with the 80 % band."""
    series = []
    for served in (answer.served, answer.fast, answer.slow):
        values = getattr(served, measure)
        values = values[np.isfinite(values)]
        series.append(np.quantile(values, _LEVELS) if len(values) else np.zeros(len(_LEVELS)))
    middle, factor = series[0], np.exp(answer.first_half_width) if measure == "ttft" else 1.0
    low, high = np.minimum(middle / factor, series[1]), np.maximum(middle * factor, series[2])
    line = PlotLine(measure, _LEVELS * 100, middle, low, high)
    return Chart(title, "requests below [%]", "time [s]", (line,))


def running(answer: Serving) -> Chart:
    """Sequences that decode, over time."""
    rows = answer.served.stretches
    rows = rows[rows[:, 0] == 0]
    every = max(1, len(rows) // _MOST_POINTS)
    rows = rows[::every]
    line = PlotLine("decoding", rows[:, 1], rows[:, 4], steps=True)  # a batch holds until the next one begins
    return Chart("Sequences that decode (first replica)", "time [s]", "sequences", (line,))


def _pick(plan: Plan) -> str:
    """By what the pick was picked."""
    pick = "cheapest" if plan.in_dollars else "most tokens/s a device"
    return pick + (" that keeps the limits" if plan.limits else "")


def front_chart(plan: Plan) -> Chart:
    """Tokens/s a device over tokens/s a user, of each machine what nothing beats in both, and the pick."""
    front = plan.front
    names = sorted({row.machine for row in front})
    made = []
    for name in names:
        line = sorted((row for row in front if row.machine == name), key=lambda row: row.per_user)
        rate = np.array([row.per_device for row in line])
        width = np.exp([row.half_width for row in line])
        made.append(PlotLine(name, np.array([row.per_user for row in line]), rate, rate / width, rate * width))
    marks: tuple[Marks, ...] = ()
    if plan.best:
        place = np.array([plan.best.per_user]), np.array([plan.best.per_device])
        marks = (Marks(f"the pick: {_pick(plan)}", *place, 1),)
    axes = "tokens/s a user", "tokens/s a device"
    return Chart("Front of each machine, 80 % band", *axes, tuple(made), marks, "log", "log")


def write_plan(plan: Plan, path: str | Path) -> tuple[Path, Path]:
    """Write the page of a plan and its front beside it as PNG; returns both paths."""
    chart, pick = front_chart(plan), _pick(plan)
    unpriced = ", ".join(name for name, text in plan.priced.items() if not text)
    (layouts,) = plan.tables()
    cards: list[Card] = []
    sure = " with 90 % probability" if plan.limits else ""
    if plan.best:
        row = plan.best.row()
        of_device = amounts_shown(row["low"], row["high"], "tokens/s")
        no_price = f"; no price of {unpriced} (--price)" if unpriced else ""
        cards = [
            Card(plan.best.text(), f"the pick: {pick}{sure}{no_price}"),
            Card(amount_shown(plan.best.per_device, "tokens/s"), f"per device; 80 % likely: {of_device}"),
            Card(amount_shown(plan.best.per_user, "tokens/s"), "per user"),
            Card(amount_shown(plan.best.ttft, "s"), "median time to the first token"),
        ]
        if plan.best.dollars is not None:
            cards.append(Card(money_shown(plan.best.dollars), "per million tokens"))
    sections = [
        Section(chart.title, picture_html(chart, "front")),
        Section("Layouts", table_html(layouts.rows, "layouts", layouts.columns)),
        folded("Left out", table_html(_reasons(plan), "refused")),
        *assumptions(plan.remarks),
    ]
    counted = f"{len(plan.candidates)} layouts and loads answered, {len(plan.front)} that nothing beats in both rates"
    lead = f"{plan.text()}; {counted}"
    return write_with_charts(path, [chart], f"Plan: serving {plan.model}", lead, cards, sections)


def _reasons(plan: Plan) -> Sequence[dict[str, Any]]:
    return [{"reason": reason, "layouts": count} for reason, count in plan.refused.items()]
