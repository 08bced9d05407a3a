"""A fit as a picture: estimated against measured times, and what is left between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slipstick.common.writer import save_picture
from slipstick.estimators.fitting.least_squares import Fit
from slipstick.estimators.fitting.objective import Objective
from slipstick.experiments.report.plots import si_ticks


def draw_fit(objective: Objective, fit: Fit, path: Path) -> None:
    """Write estimated over measured times (both axes logarithmic, the line where they agree) and the residuals.

    Raises InputError where the name ends in no known form.
    """
    from matplotlib.figure import Figure

    measured = np.exp(objective.measured)
    estimated = measured * np.exp(np.asarray(fit.residuals))
    figure = Figure(figsize=(10, 4), layout="constrained")
    times, left = figure.subplots(1, 2)
    ends = [float(min(measured.min(), estimated.min())), float(max(measured.max(), estimated.max()))]
    times.plot(ends, ends, color="0.7", linewidth=0.8)
    for group in sorted(set(objective.groups)):
        inside = np.array([one == group for one in objective.groups])
        label = group or f"{len(measured)} measurements"
        times.plot(measured[inside], estimated[inside], "o", fillstyle="none", label=label)
        left.plot(measured[inside], 100 * (estimated / measured - 1)[inside], "o", fillstyle="none")
    times.set(
        xscale="log", yscale="log", xlabel="measured [s]", ylabel="estimated [s]", title="estimated over measured"
    )
    times.legend(fontsize="small")
    left.axhline(0, color="0.7", linewidth=0.8)
    left.set(xscale="log", xlabel="measured [s]", ylabel="estimated / measured - 1 [%]", title="residuals")
    si_ticks(figure)
    save_picture(figure, path)
