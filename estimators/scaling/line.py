"""A straight line, or a power law, through measurements, continued with honest limits.

The simplest extrapolations there are, chosen explicitly by whoever knows that the law is linear (memory contention on
the Xeon Phi grows linearly with the threads) or a power: ordinary least squares with Student-t prediction intervals.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.scaling.laws.families import CONSTANT, LINEAR
from slipstick.estimators.scaling.laws.terms import Law, PowerTerm
from slipstick.estimators.scaling.prediction import Prediction
from slipstick.estimators.scaling.series import Series


def fit_line(
    x: npt.ArrayLike, y: npt.ArrayLike, to: npt.ArrayLike, level: float = 0.80, parameter: str = "x"
) -> Prediction:
    """Fit y = a + b x by ordinary least squares and predict at `to`.

    The band is the Student-t prediction interval of a new measurement (parameters and residual scatter), with n - 2
    degrees of freedom; it assumes the same absolute scatter everywhere. With two points there is no scatter to
    estimate: `low`, `high` and `covariance` are None.
    Raises InputError where numbers are not finite, x has fewer than two different values, or the level is outside (0,
    1).
    """
    from scipy import stats

    xs, ys, targets = (np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (x, y, to))
    if xs.shape != ys.shape or xs.ndim != 1:
        raise InputError(f"want one time for each {parameter}, got shapes {xs.shape} and {ys.shape}")
    if not (np.isfinite(xs).all() and np.isfinite(ys).all() and np.isfinite(targets).all()):
        raise InputError(f"{parameter}, times and targets must be finite numbers")
    if not 0.0 < level < 1.0:
        raise InputError(f"interval level {level:g}: want a number between 0 and 1")
    if np.unique(xs).size < 2:
        raise InputError(f"a line needs two different values of {parameter}, got {np.unique(xs).size}")
    n = xs.size
    centre, mean = xs.mean(), ys.mean()
    spread = float(np.sum((xs - centre) ** 2))
    slope = float(np.sum((xs - centre) * (ys - mean)) / spread)
    intercept = float(mean - slope * centre)
    value = intercept + slope * targets
    low = high = covariance = None
    freedom = n - 2
    if freedom > 0:
        variance = float(np.sum((ys - intercept - slope * xs) ** 2)) / freedom
        middle = -centre * variance / spread
        covariance = ((variance * (1 / n + centre**2 / spread), middle), (middle, variance / spread))
        reach = np.sqrt(variance * (1 + 1 / n + (targets - centre) ** 2 / spread))
        half = stats.t.ppf(0.5 + level / 2, freedom) * reach
        low, high = tuple(map(float, value - half)), tuple(map(float, value + half))
    order = np.argsort(xs, kind="stable")
    series = Series(tuple(map(float, xs[order])), tuple(map(float, ys[order])), (1,) * n, None, parameter)
    return Prediction(
        series=series,
        kind="line",
        kind_reason="given",
        x=tuple(map(float, targets)),
        value=tuple(map(float, value)),
        low=low,
        high=high,
        level=level,
        verdicts=(),
        law=Law(((intercept, CONSTANT), (slope, LINEAR))),
        shares=FrozenDict({"line": 1.0}),
        covariance=covariance,
        assumptions=("a straight line with the same absolute scatter everywhere (ordinary least squares)",),
    )


def fit_power(
    x: npt.ArrayLike, y: npt.ArrayLike, to: npt.ArrayLike, level: float = 0.80, parameter: str = "x"
) -> Prediction:
    """Fit y = c x^e by least squares in logarithms and predict at `to`: a line there, with its band.

    Raises InputError as `fit_line`, and where a number is not positive.
    """
    xs, ys, targets = (np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (x, y, to))
    if not all((np.isfinite(a) & (a > 0)).all() for a in (xs, ys, targets)):
        raise InputError(f"{parameter}, times and targets must be finite numbers > 0")
    straight = fit_line(np.log(xs), np.log(ys), np.log(targets), level, parameter)
    (intercept, _), (exponent, _) = straight.law.terms
    series = replace(
        straight.series,
        x=tuple(map(float, np.exp(straight.series.x))),
        y=tuple(map(float, np.exp(straight.series.y))),
    )
    return replace(
        straight,
        series=series,
        kind="power",
        x=tuple(map(float, targets)),
        value=tuple(map(float, np.exp(straight.value))),
        low=_exp(straight.low),
        high=_exp(straight.high),
        law=Law(((float(np.exp(intercept)), PowerTerm(exponent)),)),
        shares=FrozenDict({"power": 1.0}),
        covariance=None,
        assumptions=("a power law with the same relative scatter everywhere (least squares in logarithms)",),
    )


def _exp(logs: tuple[float, ...] | None) -> tuple[float, ...] | None:
    return None if logs is None else tuple(map(float, np.exp(logs)))
