"""Charts as plain records, drawn by plotly for a page and by matplotlib for a file: one description, two pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

from slipstick.common.columns import PREFIXED
from slipstick.common.formatting import common_scale
from slipstick.common.writer import save_picture
from slipstick.estimators.symbolic.lambdified import FloatArray

Scale = Literal["linear", "log"]
Numbers = Sequence[float] | FloatArray
SHORT_LOG = 100.0
"""A logarithmic axis that spans less than this has numbers at 2 and 5 too."""
LONG_LABEL = 40
"""Letters of a label from which on the legend stands below the chart."""
PER_ROW = 4
"""Charts of a picture beside each other."""
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


def plotly_chart(chart: Chart) -> Any:
    """The chart as a plotly figure."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for index, line in enumerate(chart.lines):
        colour = COLOURS[index % len(COLOURS)]
        group = f"line{index}"
        if line.low is not None and line.high is not None:
            figure.add_scatter(
                x=[*line.x, *line.x[::-1]],
                y=[*line.high, *line.low[::-1]],
                mode="lines",  # else plotly marks the corners of a short band
                fill="toself",
                fillcolor=_faint(colour),
                line={"width": 0},
                hoverinfo="skip",
                showlegend=False,
                legendgroup=group,
                name=_text(f"{line.label}, band"),
            )
        figure.add_scatter(
            x=list(line.x),
            y=list(line.y),
            mode="lines",
            line={"color": colour, "width": 0.8 if line.thin else 2},
            name=_text(line.label),
            legendgroup=group,
        )
    for mark in chart.marks:
        colour = COLOURS[mark.line % len(COLOURS)]
        marker = {"color": colour, "size": 9, "symbol": "circle-open", "line": {"width": 2}}
        if mark.shape == "dot":
            marker = {"color": _faint(colour, 0.35), "size": 4}
        figure.add_scatter(x=list(mark.x), y=list(mark.y), mode="markers", name=_text(mark.label), marker=marker)
    if chart.border is not None:
        dotted = {"dash": "dot", "color": "#888888"}
        figure.add_shape(type="line", x0=chart.border, x1=chart.border, y0=0, y1=1, yref="paper", line=dotted)
        # plotly wants the logarithm for an annotation, but the value itself for a shape
        at = math.log10(chart.border) if chart.x_scale == "log" else chart.border
        font = {"size": 11, "color": "#666666"}
        figure.add_annotation(
            x=at, y=1, yref="paper", yanchor="bottom", text=_text(chart.border_label), font=font, showarrow=False
        )
    _layout(figure, chart.title, chart.x_title, chart.y_title)
    figure.update_xaxes(type=chart.x_scale, exponentformat="SI")
    figure.update_yaxes(type=chart.y_scale, exponentformat="SI")
    return figure


def _layout(figure: Any, title: str, x_title: str, y_title: str) -> None:
    figure.update_layout(
        meta={"title": title},
        template="plotly_white",
        margin={"l": 60, "r": 16, "t": 24, "b": 56},
        legend={"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0},
        font={"family": "system-ui, sans-serif", "size": 12},
        hoverlabel={"namelength": -1},
        height=440,
    )
    figure.update_xaxes(title=_text(x_title), ticks="outside")
    figure.update_yaxes(title=_text(y_title), ticks="outside")


def _text(label: str) -> str:
    """A label as it stands: plotly reads some HTML in what it shows (links, bold)."""
    return escape(label, quote=False)


def _faint(colour: str, share: float = 0.16) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share})"


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
    """The charts one below the other as an SVG element for a page, so many inches wide; it needs no script."""
    import io

    import matplotlib as mpl

    stream = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "slipstick", "font.family": "sans-serif"}):
        _figure(charts, 1, width).savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


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
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.16, linewidth=0)
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
