"""Pages of serving answers and plans: headline numbers with bands, distributions, what a step goes to, sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.estimators.named.serving.served_run import Serving
from slipstick.experiments.pages.plots import Chart, Marks, PlotLine, draw_charts
from slipstick.experiments.pages.report import Card, Section, machine_rows, picture_html, table_html, write_page
from slipstick.experiments.serve.planning import Plan
from slipstick.experiments.serve.serving_text import lines

_LEVELS = np.linspace(0.005, 0.995, 100)
_MOST_POINTS = 600


def write_serving(answer: Serving, path: str | Path) -> tuple[Path, Path]:
    """Write the page of one answer and its charts beside it as PNG; returns both paths."""
    path = Path(path)
    charts = [
        distribution(answer, "ttft", "Time to the first token"),
        distribution(answer, "tpot", "Time of a further token"),
        running(answer),
    ]
    rate, low, high = answer.rate_band
    cards = [Card(f"{rate:,.0f} tokens/s", f"output of all devices; 80 %: {low:,.0f} .. {high:,.0f}")]
    for measure, name in (("tpot", "mean time of a further token"), ("ttft", "mean time to the first token")):
        if answer.served.quantiles(measure):
            value, low, high = answer.band(measure, "mean")
            cards.append(Card(f"{value * 1e3:.4g} ms", f"{name}; 80 %: {low * 1e3:.3g} .. {high * 1e3:.3g} ms"))
    text = lines(answer)
    bounds = [{"a decode step goes to": name, "share": share} for name, share in answer.bounds.items()]
    sections = [
        Section("The answer", "".join(f"<p class=note>{_escaped(line)}</p>" for line in text)),
        Section("Requests", "".join(picture_html(c, f"chart{i}") for i, c in enumerate(charts))),
        Section("What bounds it", table_html(bounds, "bounds")),
        Section("Measures", table_html(answer.rows(), "measures")),
        Section("Figures", table_html([{"figure": k, "value": v} for k, v in answer.summary().items()], "figures")),
        Section("The machine", table_html(machine_rows(answer.deployment.machine), "machine")),
    ]
    title = f"Serving {answer.deployment.model.name} on {answer.deployment.machine.name}"
    page = write_page(path, title, answer.traffic.text(), cards, sections)
    picture = path.with_suffix(".png")
    draw_charts(charts, picture)
    return page, picture


def distribution(answer: Serving, measure: str, title: str) -> Chart:
    """Share of requests below each time, with the 80 % band."""
    series = []
    for served in (answer.served, answer.fast, answer.slow):
        values = getattr(served, measure)
        values = values[np.isfinite(values)]
        series.append(1e3 * np.quantile(values, _LEVELS) if len(values) else np.zeros(len(_LEVELS)))
    middle, factor = series[0], np.exp(answer.first_half_width) if measure == "ttft" else 1.0
    low, high = np.minimum(middle / factor, series[1]), np.maximum(middle * factor, series[2])
    line = PlotLine(measure, _LEVELS * 100, middle, low, high)
    return Chart(title, "requests below, %", "ms", (line,))


def running(answer: Serving) -> Chart:
    """Sequences that decode, over time."""
    rows = answer.served.stretches
    rows = rows[rows[:, 0] == 0]
    every = max(1, len(rows) // _MOST_POINTS)
    rows = rows[::every]
    return Chart(
        "Sequences that decode (first replica)", "s", "sequences", (PlotLine("decoding", rows[:, 1], rows[:, 4]),)
    )


def write_plan(plan: Plan, path: str | Path) -> tuple[Path, Path]:
    """Write the page of a plan and its front beside it as PNG; returns both paths."""
    path = Path(path)
    front, rows = plan.front, plan.rows()
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
        marks = (Marks("cheapest that keeps the limits", *place),)
    axes = "tokens/s a user", "tokens/s a device"
    chart = Chart("Front of each machine, 80 % band", *axes, tuple(made), marks, "log", "log")
    cards = [
        Card(f"{len(plan.candidates)}", "layouts and loads looked at"),
        Card(f"{len(front)}", "that nothing beats in both rates"),
    ]
    if plan.best:
        cards.insert(0, Card(plan.best.text(), "cheapest that keeps the limits with 90 % probability"))
    sections = [
        Section("Front", picture_html(chart, "front")),
        Section("Layouts", table_html(rows, "layouts")),
        Section("Left out", table_html(_reasons(plan), "refused")),
    ]
    page = write_page(path, f"Plan: serving {plan.model}", plan.text(), cards, sections)
    picture = path.with_suffix(".png")
    draw_charts([chart], picture)
    return page, picture


def _reasons(plan: Plan) -> Sequence[dict[str, Any]]:
    return [{"reason": reason, "layouts": count} for reason, count in plan.refused.items()]


def _escaped(text: str) -> str:
    from html import escape

    return escape(text)
