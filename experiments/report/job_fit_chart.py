"""A job's fit as a picture: what was measured, what its file said, and what the fitted simulation gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from slipstick.estimators.schedules.max_plus import Floats
from slipstick.estimators.simulation.job import Job
from slipstick.estimators.simulation.run_quantities import TIME, series
from slipstick.experiments.methods.jobs.job_file import JobQuestion
from slipstick.experiments.methods.jobs.job_fit import FittedJob
from slipstick.experiments.methods.jobs.job_measurements import MeasuredRun, read_job_measurements
from slipstick.experiments.report.plots import Chart, PlotLine, draw_charts

RUNS = 40
SEED = 3_000_000


def draw_job_fit(question: JobQuestion, fitted: FittedJob, measured: str, path: str) -> Path:
    """Write two charts: the share of values that are no longer than a time, and how far the run is over time.

    `measured`: the file that was fitted; its first run with the most values is shown.
    `path`: FILE.png or FILE.svg.
    """
    runs = read_job_measurements(measured, [stage.name for stage in fitted.job.pipeline.stages])
    run = max(runs, key=lambda one: max(len(values) for values, _ in one.series.values()))
    name = max(run.series, key=lambda one: len(run.series[one][0]))
    before, _ = question.using(run.settings).uncalibrated()
    calibrated = replace(question.using(run.settings), calibration=fitted.calibration)
    steps = run.steps or before.steps
    drawn = [_sized(job, steps) for job in calibrated.drawn(RUNS)]
    simulated = [series(job.simulate(SEED + number), name) for number, job in enumerate(drawn)]
    start = [series(_sized(before, steps).simulate(SEED + number), name) for number in range(RUNS)]
    values, places = run.series[name]
    later = places[1:] if len(places) > 3 and places[0] == 0 else places
    charts = [_shares(name, values[-len(later) :], [one[later] for one in start], [one[later] for one in simulated])]
    if name != TIME and len(places) == places[-1] + 1:
        charts.append(_progress(name, run, start, simulated, _sized(before, steps)))
    draw_charts(charts, path)
    return Path(path)


def _sized(job: Job, steps: int) -> Job:
    return replace(job, steps=steps)


def _shares(name: str, values: Floats, before: list[Floats], after: list[Floats]) -> Chart:
    last = float(max(np.quantile(np.concatenate(after), 0.995), values.max()))
    ends = np.geomspace(max(float(np.min(values[values > 0])) / 1.5, last / 1e6), last, 200)
    shares = np.array([np.searchsorted(np.sort(one), ends, side="right") / len(one) for one in after])
    bounds = np.percentile(shares, [10, 50, 90], axis=0)
    first = np.searchsorted(np.sort(np.concatenate(before)), ends, side="right") / sum(map(len, before))
    seen = np.searchsorted(np.sort(values), ends, side="right") / len(values)
    lines = (
        PlotLine(f"measured, {len(values)} values", ends, seen),
        PlotLine("fitted through the simulation, 80 %", ends, bounds[1], bounds[0], bounds[2]),
        PlotLine("as the file said", ends, first),
    )
    return Chart(
        f"{name.removesuffix('_s')}: share that took no longer (after the first)",
        "time [s]",
        "share",
        lines,
        x_scale="log",
    )


def _progress(name: str, run: MeasuredRun, before: list[Floats], after: list[Floats], job: Job) -> Chart:
    values = run.series[name][0]
    number = np.arange(1, len(values) + 1, dtype=np.float64)
    low, middle, high = np.percentile(np.array([np.cumsum(one) for one in after]), [10, 50, 90], axis=0)
    first = np.median(np.array([np.cumsum(one) for one in before]), axis=0)
    lines = (
        PlotLine("measured", number, np.cumsum(values)),
        PlotLine("fitted through the simulation, 80 %", number, middle, low, high),
        PlotLine("as the file said", number, first),
        PlotLine("formula of the file, no waiting", number, number * job.ideal() / job.steps),
    )
    return Chart("Seconds until an iteration is done", "iteration", "time since the start [s]", lines)
