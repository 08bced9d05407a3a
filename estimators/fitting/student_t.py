"""How errors scatter: scales of Student's t that make them likeliest, where tails or censored errors are part of it."""

from __future__ import annotations

import numpy as np

from slipstick.common.array_types import FloatArray


def student_scale(error: FloatArray, freedom: float, above: FloatArray | None = None) -> float:
    """Scale of Student's t that makes errors likeliest; of those `above` it is known only that they were no larger."""
    from scipy.optimize import minimize_scalar
    from scipy.stats import t as student

    limits = np.zeros(0) if above is None else above

    def cost(log_scale: float) -> float:
        scale = np.exp(log_scale)
        seen = student.logpdf(error / scale, freedom) - log_scale
        return -float(np.sum(seen) + np.sum(student.logcdf(limits / scale, freedom)))

    return float(np.exp(minimize_scalar(cost, bounds=(np.log(1e-3), np.log(3.0)), method="bounded").x))


def student_scatter(error: FloatArray, time: FloatArray) -> tuple[float, float, float]:
    """Student's t around a model, likeliest for errors of log time at times [s]: scale hypot(relative, seconds / time).

    Returns
    -------
    relative, seconds, degrees of freedom
    """
    from scipy.optimize import minimize
    from scipy.stats import t as student

    def cost(logs: FloatArray) -> float:
        scale = np.hypot(np.exp(logs[0]), np.exp(logs[1]) / time)
        return -float(np.sum(student.logpdf(error / scale, 1 + np.exp(logs[2])) - np.log(scale)))

    best = minimize(cost, np.log([0.02, 1e-4, 2.0]), method="Nelder-Mead", options={"maxiter": 2000})
    relative, seconds, freedom = (float(np.exp(value)) for value in best.x)
    return relative, seconds, 1 + freedom
