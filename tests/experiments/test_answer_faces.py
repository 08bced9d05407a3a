"""Every answer has one face: rows, a table, what a notebook shows, and a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import slipstick as ss
from slipstick.common.answer import Answer
from slipstick.common.errors import InputError
from slipstick.estimators.scaling.prediction import Prediction
from slipstick.estimators.scaling.series import Series
from slipstick.estimators.scaling.surfaces.surface_answers import extrapolate_surface
from slipstick.estimators.schedules.trace_replay import Replay
from slipstick.estimators.serving.serving_answer import Serving
from slipstick.experiments.explain.cheapest import cheapest_together
from slipstick.experiments.methods.power.power_plan import power_plan
from slipstick.experiments.report.page import page
from slipstick.experiments.report.plots import Chart

CLOCK = "machine.clock"


def estimate() -> Answer:
    return ss.question("vector-sum", "v100-sxm", "roofline").answer()


def whatif() -> Answer:
    return ss.whatif("vector-sum", "v100-sxm", {CLOCK: ["1 GHz", "1.4 GHz"]}, estimator="roofline")


def explanation() -> Answer:
    return ss.explain("gemm", "v100-sxm", estimator="roofline")


def together() -> Answer:
    return cheapest_together(ss.question("gemm", "v100-sxm", "roofline"), 0.9, {CLOCK: 1.0})


def prediction() -> Answer:
    x, y = (1.0, 2.0, 4.0, 8.0, 16.0), (16.0, 8.1, 4.2, 2.2, 1.2)
    return ss.extrapolate(Series(x, y, (1,) * 5, parameter="threads", name="loop"), [32])


def surface() -> Answer:
    grid = [(p, n) for p in (1, 2, 4, 8) for n in (100, 200, 400, 800)]
    return extrapolate_surface(grid, [1e-6 * n**2 / p for p, n in grid], ["threads", "n"], [(32, 3200)])


def replayed() -> Answer:
    before, after = Replay((4e-3, 4e-3), 0.5, {"kernel": 0.5}), Replay((3e-3, 3e-3), 0.7, {"kernel": 0.7})
    return ss.records.TraceAnswer(before, after, 2.5e-3, 3.5e-3, {"host": -1e-3}, {"memory": 0.7, "host": 0.3})


def simulated() -> Answer:
    return ss.simulate("phi-memory", settings=["job.steps=200"], runs=3)


@cache
def served() -> Serving:
    return ss.serve("llama-3-8b", "h100-sxm", concurrency=2, input_tokens=64, output_tokens=8)


def requests() -> Answer:
    return served().served


def serving_plan() -> Answer:
    return ss.plan_serving("llama-3-8b", ["h100-sxm"], devices=1, input_tokens=64, output_tokens=8)


def limits() -> Answer:
    return power_plan(100.0, 320.0, 400.0)


ANSWERS: list[Callable[[], Answer]] = [
    estimate,
    whatif,
    explanation,
    together,
    prediction,
    surface,
    replayed,
    simulated,
    served,
    requests,
    serving_plan,
    limits,
]


@pytest.mark.parametrize("make", ANSWERS, ids=lambda make: make.__name__)
def test_rows_table_notebook_and_page(make: Callable[[], Answer], tmp_path: Path) -> None:
    answer = make()
    rows = answer.rows()
    assert rows and all(list(row) == list(rows[0]) for row in rows)
    json.dumps(rows, default=np.generic.item)  # plain values, or numbers of numpy
    frame = answer.to_frame()
    assert isinstance(frame, pd.DataFrame) and len(frame)
    assert "<" in answer._repr_html_()
    written = page(answer, tmp_path / "answer.html").read_text()
    assert written.startswith("<!doctype html>") and f"<title>{type(answer).__name__}</title>" in written
    assert 'src="http' not in written


ANSWERS_DRAWN = [estimate, whatif, explanation, prediction, simulated, served, serving_plan]


@pytest.mark.slow
@pytest.mark.parametrize("make", ANSWERS_DRAWN, ids=lambda make: make.__name__)
def test_an_answer_is_drawn_to_a_file_by_its_name(make: Callable[[], Answer], tmp_path: Path) -> None:
    answer = make()
    for name, start in (("a.png", b"\x89PNG"), ("b.svg", b"<?xml"), ("c.pdf", b"%PDF")):
        for path in (tmp_path / name, str(tmp_path / f"text-{name}")):
            assert ss.charts.plot(answer, path)._repr_html_().startswith("<svg")
            assert Path(path).read_bytes().startswith(start)
    with pytest.raises(InputError, match="a.txt: want a picture that ends in .png, .svg, .pdf"):
        ss.charts.plot(answer, tmp_path / "a.txt")


def test_a_drawn_series_has_data_law_and_band() -> None:
    """What stands in the picture is what the answer says."""
    answer = prediction()
    assert isinstance(answer, Prediction)
    (chart,) = ss.charts.plot(answer).charts
    assert isinstance(chart, Chart)
    measured, expected = chart.marks
    assert (tuple(measured.x), tuple(measured.y)) == (answer.series.x, answer.series.y)
    assert (tuple(expected.x), tuple(expected.y)) == (answer.x, answer.value)
    _, banded = chart.lines
    assert banded.low is not None and banded.high is not None and answer.low and answer.high
    assert (banded.low[0], banded.high[0]) == (answer.low[0], answer.high[0])


def test_an_answer_without_a_picture_says_so() -> None:
    with pytest.raises(InputError, match="has no picture"):
        ss.charts.plot(limits())
