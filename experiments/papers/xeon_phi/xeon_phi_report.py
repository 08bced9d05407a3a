"""The Xeon Phi job end to end: times at 1..240 threads known, wanted at 3,840 threads, a faster clock, more cores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.cpu import xeon_phi_study as xeon_phi
from slipstick.experiments.question.question import Question
from slipstick.experiments.question.space import Space
from slipstick.experiments.report.page import (
    Card,
    Section,
    formula_html,
    machine_rows,
    parameter_rows,
    picture_html,
    table_html,
    write_page,
)
from slipstick.experiments.report.plots import Chart, Heat, Marks, PlotLine, draw_charts
from slipstick.experiments.studies.sweep import sweep, task
from slipstick.experiments.studies.whatif import whatif
from slipstick.workloads.networks.phi_cnn import phi_cnn

TODAY_THREADS = 240
MANY_THREADS = 3840
SWEPT_THREADS = np.unique(np.round(np.geomspace(1, MANY_THREADS, 120))).astype(float)

HONEST = """<p><b>Measured</b> (by the paper): the memory contention at 1, 15, 30, 60, 120, 180 and 240 threads
(Table IV), the times of one image on one thread (Table III, used by strategy (b)), and how far the models lay off the
measured run times on average (Table IX: the width of the band). The measured run times themselves stand only in
figures without numbers (Figures 5 to 7), so no measured run time is drawn here.</p>
<p><b>Predicted</b>: every run time on this page. Up to 240 threads the paper checked the models against
measurements; beyond, nothing was measured, and the band holds only as long as the contention goes on along its line:
it is a range of the model's errors where they could be checked, no promise about a machine that was never built.</p>"""


def write(folder: str | Path) -> tuple[Path, Path, list[dict[str, Any]]]:
    """Write report.html and report.png into `folder`; returns both paths and the headline rows."""
    folder = Path(folder)
    times = time_chart()
    contention = contention_chart()
    headline = [_headline_row(size, "a", "(a) operations over the clock") for size in xeon_phi.SIZES]
    others = [_headline_row(size, "b", "(b) measured times of one image") for size in xeon_phi.SIZES]
    first = headline[0]
    clock, cores = effect_of("machine.clock"), effect_of("machine.cores")
    cards = [
        Card(
            f"{first['time_min']:.1f} min",
            f"small network on {MANY_THREADS} threads, 80 %: {first['low_min']:.1f} .. {first['high_min']:.1f} min",
        ),
        Card(
            f"{first['time_ratio']:.2f} of today",
            f"{first['today_min']:.1f} min on {TODAY_THREADS} threads are today's time",
        ),
        Card(f"{clock:.2f} of today", f"twice the clock, {TODAY_THREADS} threads"),
        Card(f"{cores:.2f} of today", f"twice the cores, {TODAY_THREADS} threads (fewer on each core)"),
    ]
    question = _question("small")
    formula = question.estimator.formula(question.workload, question.machine)
    sources = [*parameter_rows(question.estimator), *_contention_rows()]
    sections = [
        Section("What is measured, what is predicted", HONEST),
        Section("Time against threads", picture_html(times, "times")),
        Section("The answer for each network, and from other models", table_html(headline + others, "answers")),
        Section("What if: clock and cores", _what_if_html()),
        Section("The contention that was measured", picture_html(contention, "contention")),
        Section("The formula, strategy (a), small network", formula_html(formula)),
        Section("Where each parameter comes from", table_html(sources, "parameters")),
        Section("Where each number of the machine comes from", table_html(machine_rows(question.machine), "machine")),
    ]
    lead = (
        f"Training three convolutional networks on a Xeon Phi 7120P, predicted for {MANY_THREADS} threads, a faster "
        f"clock and more cores. Assuming: {'; '.join(question.answer().assumptions)}."
    )
    page = write_page(folder / "report.html", "Xeon Phi: from 240 threads to 3,840", lead, cards, sections)
    picture = folder / "report.png"
    draw_charts([times, contention], picture)
    return page, picture, headline


def time_chart() -> Chart:
    """Predicted minutes against threads with the 80 % band, and the paper's own predictions beyond 240 threads."""
    lines, marks = [], []
    for index, size in enumerate(xeon_phi.SIZES):
        frame = _sweep(size, SWEPT_THREADS)
        columns = [frame[name].to_numpy() / 60 for name in ("time_s", "low_s", "high_s")]
        lines.append(PlotLine(f"{size}, predicted (a), 80 % band", SWEPT_THREADS, columns[0], columns[1], columns[2]))
        published = [pair[0] for pair in xeon_phi.TABLE_X_MINUTES[size]]
        marks.append(Marks(f"{size}, the paper's prediction (Table X)", xeon_phi.PREDICTED_THREADS, published, index))
    return Chart(
        "Training time against threads",
        "threads",
        "time [min]",
        tuple(lines),
        tuple(marks),
        "log",
        "log",
        TODAY_THREADS,
        "240: last thread count that was measured",
    )


def contention_chart() -> Chart:
    """Measured contention (Table IV) with the fitted line and its 80 % band."""
    lines, marks = [], []
    for index, size in enumerate(xeon_phi.SIZES):
        fit = xeon_phi.contention_fit(size)
        design = np.column_stack([np.ones_like(SWEPT_THREADS), SWEPT_THREADS])
        line = design @ np.array(fit.values)
        error = np.sqrt(np.einsum("ij,jk,ik->i", design, np.array(fit.covariance), design))
        error = np.hypot(error, fit.residual_std or 0.0) * quantile(DEFAULT_LEVEL, fit.degrees_of_freedom)
        shown = line - error > 0
        x, y, half = SWEPT_THREADS[shown], line[shown], error[shown]
        lines.append(PlotLine(f"{size}, fitted line, 80 % band", x, y, y - half, y + half))
        measured = xeon_phi.TABLE_IV_S[size][0]
        marks.append(Marks(f"{size}, measured (Table IV)", xeon_phi.MEASURED_THREADS, measured, index))
    return Chart(
        "Memory contention of one image",
        "threads",
        "wait [s]",
        tuple(lines),
        tuple(marks),
        "log",
        "log",
        TODAY_THREADS,
        "240: last measured",
    )


def effect_of(name: str) -> float:
    """Time with twice of one number of the machine over today's, with today's threads."""
    today = xeon_phi.phi().get(name.removeprefix("machine."))
    frame = whatif(
        phi_cnn("small"), xeon_phi.phi(), {name: [2.0 * today]}, settings={"run.threads": TODAY_THREADS}
    ).frame
    return float(frame.time_ratio.iloc[0])


def _headline_row(size: str, strategy: str, model: str) -> dict[str, Any]:
    row = _sweep(size, np.array([float(MANY_THREADS)]), strategy).iloc[0]
    return {
        "network": size,
        "model": model,
        "threads": MANY_THREADS,
        "time_ratio": row.time_ratio,
        "time_min": row.time_s / 60,
        "low_min": row.low_s / 60,
        "high_min": row.high_s / 60,
        "today_min": row.time_s / row.time_ratio / 60,
    }


def _what_if_html() -> str:
    clocks, cores = [0.852e9, 1.238e9, 1.857e9, 2.476e9], [61.0, 122.0, 244.0, 1920.0]
    parts = []
    for threads in (TODAY_THREADS, MANY_THREADS):
        axes = {"machine.cores": cores, "machine.clock": clocks, "run.threads": [float(threads)]}
        frame = whatif(phi_cnn("small"), xeon_phi.phi(), axes, settings={"run.threads": TODAY_THREADS}).frame
        grid = frame.time_ratio.to_numpy().reshape(len(cores), len(clocks))
        title = f"{threads} threads: time over today's (61 cores, 1.238 GHz, {TODAY_THREADS} threads)"
        heat = Heat("", "clock [GHz]", "cores", [clock / 1e9 for clock in clocks], cores, grid)
        parts.append(f"<h3>{title}</h3>{picture_html(heat, f'whatif-{threads}')}")
    note = (
        "<p class=note>Below 1 is faster than today. More cores leave fewer threads on each, so that one thread waits "
        "less for its turn; contention for memory stays as it was measured, whatever the cores and the clock.</p>"
    )
    return note + "".join(parts)


def _question(size: str, strategy: str = "a") -> Question:
    run = FrozenDict(threads=float(TODAY_THREADS))
    return Question(phi_cnn(size), xeon_phi.phi(), xeon_phi.calibrated(size, strategy), run)


def _sweep(size: str, threads: FloatArray, strategy: str = "a") -> Any:
    space = Space(FrozenDict({"run.threads": tuple(map(float, threads))}))
    return sweep(task(replace(_question(size, strategy), vary=space)))


def _contention_rows() -> list[dict[str, Any]]:
    rows = []
    for size in xeon_phi.SIZES:
        for threads, seconds in zip(xeon_phi.MEASURED_THREADS, xeon_phi.TABLE_IV_S[size][0], strict=True):
            rows.append(
                {
                    "number": f"contention, {size}, {threads} threads",
                    "value": seconds,
                    "standard_error": None,
                    "unit": "s",
                    "meaning": "wait of one image",
                    "source": "Viebke et al. 2019, Table IV, measured",
                }
            )
    return rows
