"""A fit as a picture: estimated against measured times, and what is left between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slipstick.estimators.fitting.least_squares import Fit
from slipstick.estimators.fitting.objective import Objective
from slipstick.experiments.report.plots import Chart, Marks, PlotLine, draw_charts


def draw_fit(objective: Objective, fit: Fit, path: Path) -> None:
    """Write estimated over measured times (both axes logarithmic, the line where they agree) and the residuals.

    Raises InputError where the name ends in no known form.
    """
    measured = np.exp(objective.measured)
    estimated = measured * np.exp(np.asarray(fit.residuals))
    left = 100 * (estimated / measured - 1)
    ends = [float(min(measured.min(), estimated.min())), float(max(measured.max(), estimated.max()))]
    groups = {
        group or f"{len(measured)} measurements": np.array([one == group for one in objective.groups])
        for group in sorted(set(objective.groups))
    }
    times = (Marks(name, measured[at], estimated[at], 1 + place) for place, (name, at) in enumerate(groups.items()))
    residuals = (Marks(name, measured[at], left[at], 1 + place) for place, (name, at) in enumerate(groups.items()))
    equal = PlotLine("equal", ends, ends, thin=True), PlotLine("equal", ends, [0.0, 0.0], thin=True)
    x, y = "measured [s]", "estimated [s]"
    over = Chart("estimated over measured", x, y, equal[:1], tuple(times), "log", "log")
    rest = Chart("residuals", x, "estimated / measured - 1 [%]", equal[1:], tuple(residuals), "log")
    draw_charts([over, rest], path)
