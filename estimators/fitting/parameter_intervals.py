"""Intervals of parameters where a covariance misleads (kinks, ridges, bounds): profile likelihood and bootstrap."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import optimize, stats

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.fitting.least_squares import Fit, fit_least_squares
from slipstick.estimators.fitting.objective import Objective

MAX_DRAWS = 10_000
SEED = 11
TOLERANCE = 1e-8
"""Of the many fits behind an interval; far below its own accuracy."""


def profile(objective: Objective, fit: Fit, level: float = 0.80) -> Mapping[str, tuple[float, float]]:
    """Where the sum of squares, minimised over the other parameters, stays below its F-threshold.

    Both ends of each parameter, in its unit.

    An end at a bound is the bound: the data do not close the interval there.
    Raises InputError where no degree of freedom is left.
    """
    freedom = fit.degrees_of_freedom
    if freedom < 1:
        raise InputError("a profile needs more measurements than parameters")
    best = float(np.sum(np.square(fit.residuals)))
    limit = best * (1 + stats.f.ppf(level, 1, freedom) / freedom)
    intervals = {}
    for i, name in enumerate(fit.names):
        ends = [_end(objective, fit, i, limit, side) for side in (-1, 1)]
        intervals[name] = (ends[0], ends[1])
    return intervals


def _end(objective: Objective, fit: Fit, index: int, limit: float, side: int) -> float:
    """One end of a profile interval: doubling steps until the threshold is passed, then a root."""
    value = fit.values[index]
    bound = float((objective.low if side < 0 else objective.high)[index])
    error = fit.standard_errors[index]
    step = error if np.isfinite(error) and error > 0 else 0.05 * (abs(value) or 1.0)
    near = value
    for _ in range(40):
        far = value + side * step
        if side * (far - bound) >= 0:
            far = bound
        if not np.isfinite(far):
            return float(bound)
        if _least(objective, fit, index, far) > limit:
            return float(
                optimize.brentq(lambda x: _least(objective, fit, index, x) - limit, near, far, rtol=1e-3, xtol=1e-300)
            )
        if far == bound:
            return bound
        near, step = far, step * 2
    return bound


def _least(objective: Objective, fit: Fit, index: int, value: float) -> float:
    """The smallest sum of squares with one parameter held."""
    others = [i for i in range(len(fit.names)) if i != index]
    whole = np.array(fit.values)
    whole[index] = value
    if not others:
        return float(np.sum(objective.residuals(whole) ** 2))

    def residuals(part: FloatArray) -> FloatArray:
        point = whole.copy()
        point[others] = part
        return objective.residuals(point)

    def jacobian(part: FloatArray) -> FloatArray:
        point = whole.copy()
        point[others] = part
        return objective.jacobian(point)[:, others]

    held = fit_least_squares(
        residuals,
        [fit.names[i] for i in others],
        whole[others],
        objective.low[others],
        objective.high[others],
        jacobian if objective.slopes is not None else None,
        tolerance=TOLERANCE,
    )
    return float(np.sum(np.square(held.residuals)))


def bootstrap(
    objective: Objective, fit: Fit, draws: int = 200, level: float = 0.80
) -> Mapping[str, tuple[float, float]]:
    """Quantiles of the parameters refitted to measurements drawn again: whole groups where there are several.

    Raises InputError where the number of draws is out of range.
    """
    if not 20 <= draws <= MAX_DRAWS:
        raise InputError(f"bootstrap draws = {draws}: want 20 .. {MAX_DRAWS}")
    members: dict[str, list[int]] = {}
    for i, group in enumerate(objective.groups):
        members.setdefault(group, []).append(i)
    units = list(members.values()) if len(members) > len(fit.names) else [[i] for i in range(len(objective.groups))]
    generator = np.random.default_rng(SEED)
    values = []
    for _ in range(draws):
        chosen = [i for unit in generator.integers(0, len(units), len(units)) for i in units[unit]]
        if len(set(chosen)) >= len(fit.names):
            values.append(objective.some(chosen).fit(start=np.array(fit.values), tolerance=TOLERANCE).values)
    low, high = np.quantile(np.array(values), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return {name: (float(low[i]), float(high[i])) for i, name in enumerate(fit.names)}
