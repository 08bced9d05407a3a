"""A selection as a picture: how lengths are distributed, which were chosen, and runtime against length."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slipstick.common.writer import save_picture
from slipstick.estimators.sampling.iteration_choice import RepresentativeSet
from slipstick.experiments.report.plots import si_ticks
from slipstick.workloads.runs.iterations import Iterations

MOST_POINTS = 20_000


def draw_selection(iterations: Iterations, selection: RepresentativeSet, path: Path) -> None:
    """Write a histogram of lengths and a scatter of times, with the representatives (area by weight).

    Raises InputError where the name ends in no known form.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    counts, times = figure.subplots(1, 2)
    counts.hist(iterations.lengths, bins=min(60, max(5, len(iterations) // 10)), color="0.75")
    for length in selection.lengths:
        counts.axvline(length, color="C3", linewidth=0.8)
    counts.set(xlabel=iterations.proxy, ylabel="iterations", title=f"{len(iterations)} iterations")
    shown = np.linspace(0, len(iterations) - 1, min(len(iterations), MOST_POINTS)).astype(np.int64)
    times.plot(iterations.lengths[shown], iterations.known_times[shown], ".", color="0.75", markersize=2)
    area = 20 + 280 * selection.weights / selection.weights.max()
    times.scatter(selection.lengths, selection.times, area, color="C3", alpha=0.6)
    times.set(xlabel=iterations.proxy, ylabel="time [s]", title=f"{selection.method}: {len(selection)} representatives")
    times.set_ylim(bottom=0)
    si_ticks(figure)
    save_picture(figure, path)
