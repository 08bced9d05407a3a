"""The page of a simulated job: how its time is distributed, what varies with it, where stages wait."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.columns import SHARE, Column
from slipstick.common.formatting import ends_shown, ratio_shown, shown
from slipstick.estimators.schedules.max_plus import Floats
from slipstick.experiments.methods.jobs.job_records import JobFile
from slipstick.experiments.methods.jobs.simulate_job import Simulated
from slipstick.experiments.report.page import Card, Section, assumptions, folded, picture_html, table_html, write_page
from slipstick.experiments.report.plots import Chart, PlotLine, draw_charts

if TYPE_CHECKING:
    import pandas as pd

MOST_LINES = 5
SHARES = tuple(Column(name, name, SHARE) for name in ("busy", "starved", "blocked"))


def write_job_page(
    simulated: Simulated, file: JobFile, path: str | Path, swept: pd.DataFrame | None = None
) -> tuple[Path, Path]:
    """Write the page to `path` and its charts beside it as PNG; returns both paths."""
    path = Path(path)
    charts = {"run": distribution_chart(simulated, "time_s"), "step": distribution_chart(simulated, "step_s")}
    sections = []
    if swept is not None and len(swept):
        charts = {"sweep": sweep_chart(swept, float(np.median(simulated.numbers["time_s"]))), **charts}
        rows = [dict(zip(swept.columns, row, strict=True)) for row in swept.itertuples(index=False, name=None)]
        sections.append(Section("Every point, with the same seeds as today", table_html(rows, "points")))
    pictures = [Section(chart.title, picture_html(chart, name)) for name, chart in charts.items()]
    numbers = [row for row in simulated.rows() if "." not in row["quantity"]]
    sections = [
        *pictures,
        Section("Percentiles", table_html(numbers, "percentiles", simulated.declared)),
        Section(
            "What each stage does, shares of its workers' time", table_html(share_rows(simulated), "shares", SHARES)
        ),
        *sections,
        folded("The stages", table_html(stage_rows(simulated), "stages")),
        *assumptions(simulated.assumptions),
    ]
    page = write_page(path, file.name, file.about or "A simulated job.", cards(simulated), sections)
    picture = path.with_suffix(".png")
    draw_charts(list(charts.values()), picture)
    return page, picture


def cards(simulated: Simulated) -> list[Card]:
    """Time and its band, what a formula misses, the device's idle share."""
    low, high = simulated.band()
    ideal, mean = simulated.formula, float(np.mean(simulated.numbers["time_s"]))
    idle = float(np.mean(simulated.numbers["idle"]))
    return [
        Card(
            shown(float(np.median(simulated.numbers["time_s"])), "s"),
            f"median of {simulated.runs} runs, 80 %: {ends_shown(low, high)}",
        ),
        Card(f"{ratio_shown(mean / ideal)} x", f"of the formula's {shown(ideal, 's')}: {simulated.formula_source}"),
        Card(f"{idle:.1%}", f"of the time {simulated.job.pipeline.device} is idle"),
    ]


def distribution_chart(simulated: Simulated, name: str) -> Chart:
    """Share of runs (or steps) that are over by then, and the formula's time."""
    values, per = (simulated.numbers[name], 1) if name == "time_s" else (simulated.steps, simulated.job.steps)
    what = "runs" if name == "time_s" else "steps"
    levels, times = _cumulative(values)
    line = PlotLine(f"{len(values):,} {what}", times, levels)
    title = f"Time of a {what[:-1]}, as a share of {what} that took no longer"
    formula = simulated.formula / per
    return Chart(title, "time [s]", f"share of {what}", (line,), border=formula, border_label="formula")


def sweep_chart(swept: pd.DataFrame, today: float) -> Chart:
    """Ratio to today over the axis with the most values: simulated with its band, and the formula's."""
    varied = [name for name in swept.columns if str(name).partition(".")[2]]
    x_name = max(varied, key=lambda name: swept[name].nunique())
    others = [name for name in varied if name != x_name]
    groups: list[tuple[Any, pd.DataFrame]] = list(swept.groupby(others)) if others else [((), swept)]
    lines, formulas = [], []
    for key, part in groups[:MOST_LINES]:
        label = ", ".join(f"{name} = {_short(value)}" for name, value in zip(others, key, strict=True))
        x = part[x_name].to_numpy(dtype=float)
        band = (part.low_ratio.to_numpy(), part.high_ratio.to_numpy())
        lines.append(PlotLine(f"simulated {label}".strip(), x, part.time_ratio.to_numpy(), *band))
        formulas.append(PlotLine(f"formula {label}".strip(), x, part.formula_s.to_numpy() / today))
    if len({line.y.tobytes() for line in formulas if isinstance(line.y, np.ndarray)}) == 1:
        formulas = [PlotLine("formula", formulas[0].x, formulas[0].y)]
    values = swept[x_name].to_numpy(dtype=float)
    wide = values.min() > 0 and values.max() / values.min() > 10
    return Chart(
        "What varies (below 1: faster than today)",
        str(x_name),
        "time / today's simulated time",
        (*lines, *formulas),
        x_scale="log" if wide else "linear",
    )


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def share_rows(simulated: Simulated) -> list[dict[str, Any]]:
    """Busy, starved and blocked, by stage."""
    return [
        {"stage": stage.name}
        | {kind: float(np.mean(simulated.numbers[f"{stage.name}.{kind}"])) for kind in ("busy", "starved", "blocked")}
        for stage in simulated.job.pipeline.stages
    ]


def stage_rows(simulated: Simulated) -> list[dict[str, Any]]:
    """The stages as they were simulated."""
    rows = []
    for stage in simulated.job.pipeline.stages:
        row: dict[str, Any] = {"stage": stage.name, "mean_s": stage.mean, "variation": stage.variation}
        row |= {
            "workers": stage.workers,
            "gather": stage.gather,
            "buffer": "unlimited" if stage.buffer is None else stage.buffer,
        }
        rows.append(row | {"resource": stage.resource or "", "scatter": stage.scatter, "uneven": stage.uneven})
    return rows


def _cumulative(values: Floats, points: int = 400) -> tuple[Floats, Floats]:
    levels = np.linspace(0, 1, min(points, max(len(values), 2)))
    return levels, np.quantile(values, levels)
