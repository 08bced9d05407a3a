"""The pictures of any answer, for a notebook and for a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstick.common.answer import Answer
from slipstick.common.errors import InputError
from slipstick.common.formatting import share_shown
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.scaling.prediction import Prediction
from slipstick.estimators.serving.serving_answer import Serving
from slipstick.experiments.explain.explain import Explanation
from slipstick.experiments.jobs.simulate_job import Simulated
from slipstick.experiments.report.plots import Bars, Chart, Marks, Picture, PlotLine, draw_charts, svg
from slipstick.experiments.report.print_job import distribution_chart
from slipstick.experiments.report.serving_page import front_chart, serving_charts
from slipstick.experiments.report.whatif_page import ratio_chart, short_labels
from slipstick.experiments.serve.plan_serving import Plan
from slipstick.experiments.studies.whatif import WhatIf

MOST_PARTS = 12


@dataclass(frozen=True)
class Pictures:
    """What `plot` draws; a notebook shows it without a script."""

    charts: tuple[Picture, ...]

    def _repr_html_(self) -> str:
        return svg(self.charts)


@checked
def plot(answer: Answer, path: str | Path | None = None) -> Pictures:
    """The pictures of an answer: those of its page.

    Parameters
    ----------
    path
        A file (.png, .svg, .pdf) that they are written to as well.

    Raises
    ------
    InputError
        Where an answer of this kind has no picture, or the path ends otherwise.

    Examples
    --------
    >>> import slipstick as ss
    >>> import pathlib, tempfile
    >>> series = ss.Series.of([1, 2, 4, 8], [100.0, 52.0, 28.0, 16.0], parameter="threads")
    >>> answer = ss.extrapolate(series, to=[32])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     drawn = ss.charts.plot(answer, f"{folder}/times.png")
    ...     pathlib.Path(folder, "times.png").stat().st_size > 1000
    True
    """
    drawn = Pictures(tuple(_charts(answer)))
    if path is not None:
        draw_charts(drawn.charts, path)
    return drawn


def _charts(answer: Answer) -> Sequence[Picture]:
    match answer:
        case Estimate():
            return [_parts(answer)]
        case WhatIf():
            return [ratio_chart(answer)]
        case Explanation():
            return [_elasticities(answer)]
        case Serving():
            return serving_charts(answer)
        case Plan():
            return [front_chart(answer)]
        case Simulated():
            return [distribution_chart(answer, "time_s"), distribution_chart(answer, "step_s")]
        case Prediction():
            return [_times(answer)]
    raise InputError(f"{type(answer).__name__} has no picture: its table is `to_frame()`")


def _parts(answer: Estimate) -> Bars:
    """What takes the time, by kind of operation."""
    kinds: dict[str, float] = {}
    for part in answer.parts:
        kinds[part.kind] = kinds.get(part.kind, 0.0) + part.time * part.times
    most = sorted(kinds, key=lambda kind: -kinds[kind])[:MOST_PARTS]
    return Bars("What takes the time", "time [s]", most, [0.0] * len(most), [kinds[kind] for kind in most], None)


def _elasticities(answer: Explanation) -> Bars:
    """What the time hangs on, most first: -1 where twice as much halves it."""
    most = [row for row in answer.elasticities if row["elasticity"] is not None][:MOST_PARTS]
    values, labels = [float(row["elasticity"]) for row in most], short_labels([str(row["quantity"]) for row in most])
    ends = [min(0.0, one) for one in values], [max(0.0, one) for one in values]
    return Bars("What the time hangs on", "d log time / d log quantity", labels, *ends, border=0.0)


def _times(answer: Prediction) -> Chart:
    """Measured times, the law through them, and what is expected with its band."""
    series, order = answer.series, np.argsort(answer.x)
    grid = np.geomspace(min(*series.x, *answer.x), max(*series.x, *answer.x), 200)
    x, value = np.asarray(answer.x)[order], np.asarray(answer.value)[order]
    low, high = (np.asarray(ends)[order] if ends else None for ends in (answer.low, answer.high))
    banded = f", {share_shown(answer.level)} band" if answer.level and low is not None else ""
    lines = PlotLine("law", grid, answer.law(grid)), PlotLine(f"expected{banded}", x, value, low, high)
    marks = Marks(f"measured ({series.statistic})", series.x, series.y, 7), Marks("expected", answer.x, answer.value, 1)
    border = series.x[-1]
    return Chart(series.name, series.parameter, "time [s]", lines, marks, "log", "log", border, "last measured")
