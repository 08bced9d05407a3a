"""Do the data identify the parameters? Warnings about a fit: bounds, correlations, condition number."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.least_squares import Fit
from slipstick.estimators.fitting.objective import Objective

MAX_CORRELATION = 0.95
MAX_CONDITION = 1e4
AT_BOUND = 1e-3


def correlations(covariance: npt.ArrayLike) -> FloatArray:
    """Correlation of fitted parameters, shape (n, n); nan where the covariance, of that shape, is unknown."""
    table = np.asarray(covariance)
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.sqrt(np.diag(table))
        return np.asarray(table / np.outer(errors, errors))


def correlation_lines(names: Sequence[str], covariance: npt.ArrayLike) -> list[str]:
    """A warning for each two parameters of which only a combination is known; `covariance` of shape (n, n)."""
    table = correlations(covariance)
    return [
        f"{one} and {other} are correlated ({table[i, j]:+.3f}): only a combination of them is known"
        for (i, one), (j, other) in itertools.combinations(enumerate(names), 2)
        if abs(table[i, j]) > MAX_CORRELATION
    ]


def condition_number(jacobian: FloatArray) -> float:
    """Of the Jacobian with its columns scaled to length 1; infinite where a column is 0."""
    lengths = np.linalg.norm(jacobian, axis=0)
    if not lengths.all():
        return float("inf")
    return float(np.linalg.cond(jacobian / lengths))


def warnings(fit: Fit, low: FloatArray, high: FloatArray, jacobian: FloatArray) -> list[str]:
    """What keeps the parameters from being identified, one line each; empty where nothing does.

    `low`, `high`: bounds of the parameters, each in its unit, shape (parameters,).
    `jacobian`: of the log residuals by the parameters, shape (measurements, parameters).
    """
    lines = []
    lengths = np.max(np.abs(jacobian), axis=0)
    for i, name in enumerate(fit.names):
        value = fit.values[i]
        if lengths[i] == 0:
            lines.append(f"{name}: no measurement depends on it: it is left at {value:.4g}")
            continue
        nearest = min(abs(value - low[i]), abs(value - high[i]))
        for bound, side in ((low[i], "lower"), (high[i], "upper")):
            near = np.isfinite(bound) and abs(value - bound) <= AT_BOUND * max(abs(bound), abs(value), 1e-300)
            if near or (name in fit.held and abs(value - bound) <= nearest):
                lines.append(
                    f"{name} = {value:.4g} is at its {side} bound {bound:g}: held there, its error is unknown and the "
                    "others' assume it"
                )
    lines += correlation_lines(fit.names, fit.covariance)
    free = [i for i, name in enumerate(fit.names) if name not in fit.held]
    condition = condition_number(jacobian[:, free]) if free else 1.0
    if condition > MAX_CONDITION:
        lines.append(
            f"condition number {condition:.3g} (want below {MAX_CONDITION:g}): fix a parameter, or measure more"
        )
    if not np.isfinite(np.asarray(fit.covariance)).all() and not lines:
        lines.append("the covariance is unknown: no degree of freedom is left, or the data do not fix every parameter")
    return lines


def jacobian_at(objective: Objective, fit: Fit) -> FloatArray:
    """Derivatives of the residuals at a fit, by formula where there is one."""
    if objective.slopes is not None:
        return objective.jacobian(np.array(fit.values))
    whole = [name in objective.whole for name in objective.names]
    return numeric_jacobian(objective.residuals, fit.values, objective.low, objective.high, whole)


def numeric_jacobian(
    residuals: Callable[[FloatArray], FloatArray],
    values: Sequence[float],
    low: FloatArray,
    high: FloatArray,
    whole: Sequence[bool],
) -> FloatArray:
    """Central differences inside the bounds, to the neighbours of whole numbers; shape (measurements, parameters)."""
    point = np.asarray(values, dtype=np.float64)
    columns = []
    for i, value in enumerate(point):
        step = 1.0 if whole[i] else 1e-5 * (abs(value) or 1e-3)
        up, down = point.copy(), point.copy()
        up[i], down[i] = min(value + step, high[i]), max(value - step, low[i])
        columns.append((residuals(up) - residuals(down)) / (up[i] - down[i]))
    return np.stack(columns, axis=1)
