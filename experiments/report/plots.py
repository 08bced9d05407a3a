"""Charts as plain records, drawn by matplotlib for a page and for a file: one description, two pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

from slipstick.common.array_types import FloatArray
from slipstick.common.columns import PREFIXED
from slipstick.common.formatting import common_scale, number_shown, shown
from slipstick.common.writer import save_picture

Scale = Literal["linear", "log"]
Numbers = Sequence[float] | FloatArray
SHORT_LOG = 100.0
"""A logarithmic axis that spans less than this has numbers at 2 and 5 too."""
LONG_LABEL = 40
"""Letters of a label from which on the legend stands below the chart."""
PER_ROW = 4
"""Charts of a picture beside each other."""
MOST_POINTED = 200
"""Values of a line that a page tells under the pointer."""
COLOURS = ("#1f5a91", "#c2571a", "#2e7d4f", "#8a3b8f", "#7a6a1f", "#35808a", "#a03040", "#555555")


@dataclass(frozen=True)
class PlotLine:
    """A prediction: y over x, with the band between low and high where it is known.

    `thin` is one of several; `steps` stays at each value until the next.
    """

    label: str
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    thin: bool = False
    steps: bool = False


@dataclass(frozen=True)
class Marks:
    """Single points: measured ones, or those of another source; `areas` are in points squared."""

    label: str
    x: Numbers
    y: Numbers
    line: int = 0
    shape: Literal["ring", "dot"] = "ring"
    areas: Numbers = ()


@dataclass(frozen=True)
class Chart:
    """What is shown over what; axis titles carry the unit; `x_ticks` says where an axis has its numbers."""

    title: str
    x_title: str
    y_title: str
    lines: tuple[PlotLine, ...] = ()
    marks: tuple[Marks, ...] = ()
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    border: float | None = None
    border_label: str = ""
    x_ticks: tuple[float, ...] = ()

    def _repr_html_(self) -> str:
        """A picture without a script: it stays where a notebook is exported."""
        return svg([self])


@dataclass(frozen=True)
class Heat:
    """Two parameters together: ratios (rows y, columns x) as numbers, coloured by their logarithm."""

    title: str
    x_title: str
    y_title: str
    x: Sequence[float]
    y: Sequence[float]
    ratios: FloatArray


@dataclass(frozen=True)
class Bars:
    """One bar a label, sorted by the caller; low and high are ends of bars or bands.

    `border` is where nothing changes (1: today), None for amounts; `middle` marks the value inside each band.
    """

    title: str
    x_title: str
    labels: Sequence[str]
    low: Sequence[float]
    high: Sequence[float]
    border: float | None = 1.0
    middle: Sequence[float] = ()


Picture = Chart | Bars | Heat


def draw_charts(charts: Sequence[Picture], path: str | Path) -> None:
    """The charts side by side as one PNG or SVG file (by its name), without a browser.

    Examples
    --------
    >>> import slipstick as ss
    >>> import pathlib, tempfile
    >>> clocks = {"machine.clock": ["1 GHz", "2 GHz"]}
    >>> chart = ss.charts.ratio_chart(ss.whatif("gpt2", "H100", clocks, estimator="roofline"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ss.charts.draw_charts([chart], f"{folder}/clock.svg")
    ...     pathlib.Path(folder, "clock.svg").stat().st_size > 1000
    True
    """
    save_picture(_figure(charts, PER_ROW), path)


def svg(charts: Sequence[Picture], width: float = 6.4) -> str:
    """The charts one below the other as an SVG element for a page, so many inches wide; it needs no script.

    Its attribute ``data-points`` is a JSON list of ``[x, y, text]``, in units of its view box: what a reader who points
    at a value is told.
    """
    import io

    import matplotlib as mpl

    stream = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "slipstick", "font.family": "sans-serif"}):
        figure = _figure(charts, 1, width)
        figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True)
    text = stream.getvalue()
    values = json.dumps([one for axes, chart in zip(figure.axes, charts, strict=True) for one in _pointed(axes, chart)])
    return f'<svg data-points="{escape(values)}"{text[text.index("<svg") + 4 :]}'


def _pointed(axes: Any, chart: Picture) -> list[tuple[float, float, str]]:
    """Where each value of a chart stands in its picture, and its text; cells of a `Heat` say theirs already."""
    if isinstance(chart, Heat):
        return []
    rows: list[tuple[float, float, str]] = []
    if isinstance(chart, Bars):
        unit = _unit(chart.x_title)
        for place, (label, low, high) in enumerate(zip(chart.labels, chart.low, chart.high, strict=True)):
            middle = chart.middle[place] if chart.middle else high
            ends = f" [{at_axis(low, unit)} .. {at_axis(high, unit)}]" if chart.middle or low else ""
            rows.append((middle, place, f"{label}: {at_axis(middle, unit)}{ends}"))
    else:
        across, up = _unit(chart.x_title), _unit(chart.y_title)
        series: tuple[PlotLine | Marks, ...] = (*chart.lines, *chart.marks)
        for each in series:
            step = max(1, len(each.x) // MOST_POINTED)
            for place in range(0, len(each.x), step):
                x, y, ends = each.x[place], each.y[place], ""
                if isinstance(each, PlotLine) and each.low is not None and each.high is not None:
                    ends = f" [{at_axis(each.low[place], up)} .. {at_axis(each.high[place], up)}]"
                rows.append((x, y, f"{each.label}: {at_axis(y, up)}{ends} at {at_axis(x, across)}"))
    scale, height = 72 / axes.figure.dpi, 72 * axes.figure.get_figheight()
    pixels = scale * axes.transData.transform([row[:2] for row in rows]) if rows else []
    places = [(round(float(x), 1), round(height - float(y), 1)) for x, y in pixels]
    return [(x, y, row[2]) for (x, y), row in zip(places, rows, strict=True) if math.isfinite(x + y)]


def _unit(title: str) -> str:
    """The unit that ends the title of an axis: ``time [s]``."""
    return title.rpartition("[")[2].removesuffix("]") if title.endswith("]") else ""


def at_axis(value: float, unit: str) -> str:
    """A value at an axis as text, in the unit of the axis."""
    return shown(value, unit) if unit in PREFIXED else f"{number_shown(float(value))} {unit}".strip()


def _figure(charts: Sequence[Picture], columns: int, width: float = 6.4) -> Any:
    """A figure of matplotlib with so many charts in a row."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    columns = min(columns, len(charts))
    lines = -(-len(charts) // columns)
    height = max(_height(chart) for chart in charts)
    figure = Figure(figsize=(width * columns, height * lines), dpi=140, layout="constrained")
    places = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes in places[len(charts) :]:
        axes.set_visible(False)
    for axes, chart in zip(places, charts, strict=False):
        if isinstance(chart, Bars):
            _draw_bars(axes, chart)
        elif isinstance(chart, Heat):
            _draw_heat(axes, chart)
        else:
            _draw_lines(axes, chart)
    for axes, chart in zip(places, charts, strict=False):
        if isinstance(chart, Chart):
            for axis in (axes.xaxis, axes.yaxis):
                readable_axis(axis)
            if chart.x_ticks:
                axes.set_xticks(chart.x_ticks, [f"{value:g}" for value in chart.x_ticks])
                axes.set_xticks([], minor=True)
    return figure


def _height(chart: Picture) -> float:
    """Inches."""
    return 1.2 + 0.3 * len(chart.labels) if isinstance(chart, Bars) else 3.4 if isinstance(chart, Heat) else 4.6


def _draw_lines(axes: Any, chart: Chart) -> None:
    for index, line in enumerate(chart.lines):
        colour = COLOURS[index % len(COLOURS)]
        steps = {"drawstyle": "steps-post"} if line.steps else {}
        axes.plot(line.x, line.y, color=colour, label=line.label, linewidth=0.7 if line.thin else 1.8, **steps)
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.22, linewidth=0)
    for mark in chart.marks:
        colour = COLOURS[mark.line % len(COLOURS)]
        dot = mark.shape == "dot"
        style = {"markersize": 2, "alpha": 0.4} if dot else {"mfc": "none"}
        if len(mark.areas):
            axes.scatter(mark.x, mark.y, mark.areas, color=colour, label=mark.label, alpha=0.5, linewidths=0)
        else:
            axes.plot(mark.x, mark.y, "o", color=colour, label=mark.label, **style)
    if chart.border is not None:
        axes.axvline(chart.border, linestyle=":", color="#888888")
        place = {"xycoords": ("data", "axes fraction"), "fontsize": 8, "rotation": 90, "ha": "right", "va": "bottom"}
        axes.annotate(f"{chart.border_label} ", (chart.border, 0.02), **place)
    axes.set(title=chart.title, xlabel=chart.x_title, ylabel=chart.y_title)
    axes.set(xscale=chart.x_scale, yscale=chart.y_scale)
    axes.grid(visible=True, alpha=0.25)
    handles, labels = axes.get_legend_handles_labels()
    if max(map(len, labels), default=0) > LONG_LABEL:  # as wide as the chart: it would hide what it names
        axes.legend(handles, labels, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    else:
        axes.legend(fontsize=8)


def _draw_bars(axes: Any, chart: Bars) -> None:
    """Horizontal bars from low to high, the first on top (a tornado)."""
    spans = [high - low for low, high in zip(chart.low, chart.high, strict=True)]
    axes.barh(range(len(spans)), spans, left=list(chart.low), color=COLOURS[0])
    axes.set_yticks(range(len(spans)), list(chart.labels), fontsize=9)
    axes.invert_yaxis()
    axes.set(title=chart.title, xlabel=chart.x_title)
    axes.use_sticky_edges = False
    axes.margins(x=0.04)
    if chart.border is not None:
        axes.axvline(chart.border, color="#444444", linewidth=1)
    else:
        axes.set_xlim(left=0.0)
        readable_axis(axes.xaxis)
    if chart.middle:
        axes.plot(chart.middle, range(len(chart.middle)), "|", color="white", markersize=14, markeredgewidth=2)
    axes.grid(visible=True, axis="x", alpha=0.25)


def _draw_heat(axes: Any, chart: Heat) -> None:
    most = max(0.1, max(abs(math.log2(value)) for row in chart.ratios for value in row))
    logs = [[math.log2(value) for value in row] for row in chart.ratios]
    axes.imshow(logs, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", origin="lower")
    axes.set_xticks(range(len(chart.x)), [f"{value:g}" for value in chart.x])
    axes.set_yticks(range(len(chart.y)), [f"{value:g}" for value in chart.y])
    for i, row in enumerate(chart.ratios):
        for j, value in enumerate(row):
            axes.text(j, i, f"{value:.3g}", ha="center", va="center", fontsize=9)
    axes.set(title=chart.title, xlabel=chart.x_title, ylabel=chart.y_title)


def si_ticks(figure: Any) -> None:
    """The axes of a matplotlib figure in one readable unit each; see `readable_axis`."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            readable_axis(axis)


def readable_axis(axis: Any) -> None:
    """Numbers at an axis in the one unit in which its whole span is readable: ``clock [Hz]`` becomes ``clock [GHz]``.

    The title of an axis ends in its unit: ``time [s]``. Where the span is too wide, prefixes stand at the ticks.
    """
    from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

    title, _, unit = axis.get_label_text().rpartition("[")
    unit = unit.removesuffix("]")
    low, high = sorted(axis.get_view_interval())
    scale = common_scale([low if low > 0 else high / 10, high], unit) if unit in PREFIXED and high > 0 else None
    if scale is not None:
        axis.set_label_text(f"{title}[{scale.name}]")
    factor = scale.factor if scale else 1.0
    plain = FuncFormatter(lambda value, _: f"{value / factor:,.10g}")
    axis.set_major_formatter(EngFormatter(sep="") if unit in PREFIXED and scale is None else plain)
    if axis.get_scale() == "log":
        few = low > 0 and high / low < SHORT_LOG
        if few:
            axis.set_minor_locator(LogLocator(subs=(2, 5)))
        axis.set_minor_formatter(axis.get_major_formatter() if few else NullFormatter())
