"""Least squares with names: values, covariance, residuals; the one fitter behind every calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, Mask
from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.symbolic.formula import Formula

LOSSES = ("linear", "soft_l1", "huber", "cauchy")
MAX_STARTS = 1024
MULTI_START_SEED = 5
NEAR_BOUND = 1e-4


@dataclass(frozen=True)
class Fit:
    """What a fit found.

    `names`, `values`: the fitted parameters.
    `covariance`: in the order of `names`; nan where the data do not fix a parameter.
    `residuals`: model minus data, in the scale of the fit.
    `degrees_of_freedom`: data less parameters.
    `held`: parameters that ended at a bound, or that no measurement depends on (left where they began): their errors
        are unknown and those of the others assume them.
    """

    names: tuple[str, ...]
    values: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    residuals: tuple[float, ...]
    degrees_of_freedom: int
    held: tuple[str, ...] = ()

    @property
    def residual_std(self) -> float | None:
        """Standard deviation of the residuals; None where no degree of freedom is left."""
        if self.degrees_of_freedom < 1:
            return None
        return float(np.sqrt(np.sum(np.square(self.residuals)) / self.degrees_of_freedom))

    @property
    def standard_errors(self) -> tuple[float, ...]:
        """Square roots of the covariance's diagonal."""
        return tuple(float(np.sqrt(row[i])) for i, row in enumerate(self.covariance))


def fit_least_squares(
    residuals: Callable[[FloatArray], FloatArray],
    names: Sequence[str],
    start: npt.ArrayLike,
    low: npt.ArrayLike | None = None,
    high: npt.ArrayLike | None = None,
    jacobian: Callable[[FloatArray], FloatArray] | None = None,
    loss: str = "linear",
    loss_scale: float = 0.1,
    starts: int = 1,
    tolerance: float = 1e-15,
    variance: float | None = None,
) -> Fit:
    """Minimise the sum of squared residuals within bounds, or of a loss that outliers weigh less in.

    `residuals`: parameters, shape (n,), to residuals, shape (m,).
    `jacobian`: parameters to (m, n); by differences if None.
    `loss`, `loss_scale`: "linear" (least squares), "huber", "soft_l1" or "cauchy"; residuals beyond the scale weigh
        less.
    `starts`: fits from that many starting points, the given one first, the others spread over the bounds (Sobol, in
        logarithms where both bounds are positive); the best one counts.
    Raises InputError where there are fewer data than parameters, the residuals are not finite at the start, or a name
    is unknown.

    tolerance
        Relative change of cost and parameters at which a fit stops.
    variance
        Of the residuals, where it is known; else it is estimated from them.
    """
    from scipy.optimize import least_squares

    if loss not in LOSSES:
        raise unknown_name("loss", loss, LOSSES)
    if not 1 <= starts <= MAX_STARTS:
        raise InputError(f"starts = {starts}: want 1 .. {MAX_STARTS}")
    begin = np.asarray(start, dtype=np.float64)
    first = np.asarray(residuals(begin))
    if len(first) < len(names):
        raise InputError(f"{len(first)} measurements cannot fix {len(names)} parameters: {', '.join(names)}")
    if not np.all(np.isfinite(first)):
        raise InputError(
            "the model is not finite at the starting values "
            + ", ".join(f"{n} = {v:g}" for n, v in zip(names, begin, strict=True))
        )
    bounds = (
        np.full(len(names), -np.inf) if low is None else np.asarray(low, dtype=np.float64),
        np.full(len(names), np.inf) if high is None else np.asarray(high, dtype=np.float64),
    )
    options: dict[str, Any] = {} if loss == "linear" else {"loss": loss, "f_scale": loss_scale}
    points = _starting_points(np.clip(begin, *bounds), *bounds, starts)
    usable = [points[0], *(point for point in points[1:] if np.all(np.isfinite(residuals(point))))]
    tries = [
        least_squares(
            residuals,
            point,
            bounds=bounds,
            jac=jacobian if jacobian is not None else "3-point",
            x_scale="jac",
            method="trf",
            xtol=tolerance,
            ftol=tolerance,
            gtol=tolerance,
            max_nfev=5000,
            **options,
        )
        for point in usable
    ]
    best = min(tries, key=lambda tried: float(tried.cost))
    jacobians = np.asarray(best.jac)
    idle = np.max(np.abs(jacobians), axis=0) == 0
    values = np.clip(np.where(idle, begin, best.x), *bounds)  # what no measurement moves stays where it began
    freedom = len(first) - len(names)
    scatter = variance if variance is not None else 2 * best.cost / freedom if freedom else np.nan
    held = idle | _at_bounds(values, jacobians, np.asarray(best.grad), *bounds)
    covariance = np.zeros((len(names), len(names)))
    if not held.all():
        covariance[np.ix_(~held, ~held)] = scatter * _inverse(jacobians[:, ~held])
    return Fit(
        tuple(names),
        tuple(map(float, values)),
        tuple(tuple(map(float, row)) for row in covariance),
        tuple(map(float, best.fun)),
        freedom,
        tuple(name for name, at in zip(names, held, strict=True) if at),
    )


def _at_bounds(
    values: FloatArray, jacobian: FloatArray, gradient: FloatArray, low: FloatArray, high: FloatArray
) -> Mask:
    """Which parameters the data push against a bound: as far as a fit can show, and the loss falls beyond it.

    Near: a step to the bound changes no residual by as much as `NEAR_BOUND` (a bound of 0 is never reached to a digit).
    """
    held = np.zeros(len(values), dtype=bool)
    for index, value in enumerate(values):
        for bound, outward in ((low[index], gradient[index] > 0), (high[index], gradient[index] < 0)):
            if not np.isfinite(bound):
                continue
            change = np.max(np.abs(jacobian[:, index])) * abs(value - bound)
            near = abs(value - bound) <= NEAR_BOUND * max(abs(value), abs(bound)) or change <= NEAR_BOUND
            held[index] |= bool(near and outward)
    return held


def weighed(squares: FloatArray, loss: str, scale: float = 0.1) -> FloatArray:
    """What squared residuals count in a loss (those of scipy.optimize.least_squares; `linear`: the squares).

    Raises InputError where the loss is unknown.
    """
    if loss == "linear":
        return squares
    ratio = squares / scale**2
    if loss == "huber":
        rho = np.where(ratio <= 1, ratio, 2 * np.sqrt(ratio) - 1)
    elif loss == "soft_l1":
        rho = 2 * (np.sqrt(1 + ratio) - 1)
    elif loss == "cauchy":
        rho = np.log1p(ratio)
    else:
        raise unknown_name("loss", loss, LOSSES)
    return np.asarray(scale**2 * rho)


def _starting_points(begin: FloatArray, low: FloatArray, high: FloatArray, count: int) -> list[FloatArray]:
    """The given start, then points spread over the bounds; an open bound counts as a hundredfold of the start."""
    if count == 1:
        return [begin]
    from scipy.stats import qmc

    reach = 100.0 * np.maximum(np.abs(begin), 1e-12)
    low = np.where(np.isfinite(low), low, np.where(begin > 0, begin / 100.0, begin - reach))
    high = np.where(np.isfinite(high), high, begin + reach)
    share = qmc.Sobol(len(begin), seed=MULTI_START_SEED).random_base2(int(np.ceil(np.log2(count))))[: count - 1]
    logs = low > 0
    safe_low, safe_high = np.where(logs, low, 1.0), np.where(logs, high, 1.0)
    spread = np.where(logs, safe_low * (safe_high / safe_low) ** share, low + (high - low) * share)
    return [begin, *np.clip(spread, low, high)]


def _inverse(jacobian: FloatArray) -> FloatArray:
    """(J'J)^-1 by QR on scaled columns; nan for directions the data do not fix."""
    scale = np.linalg.norm(jacobian, axis=0)
    if np.any(scale == 0):
        free = scale == 0
        whole = np.full((len(scale), len(scale)), np.nan)
        if not free.all():
            whole[np.ix_(~free, ~free)] = _inverse(jacobian[:, ~free])
        return whole
    triangle = np.linalg.qr(jacobian / scale, mode="r")
    if np.min(np.abs(np.diag(triangle))) < 1e-13:
        return np.full((len(scale), len(scale)), np.nan)
    half = np.linalg.inv(triangle) / scale[:, None]
    return np.asarray(half @ half.T)


def fit_formula(
    formula: Formula,
    data: Mapping[str, npt.ArrayLike],
    response: npt.ArrayLike,
    start: Mapping[str, float],
    bounds: Mapping[str, tuple[float, float]] | None = None,
) -> Fit:
    """Fit a formula's symbols to data by least squares, with the formula's own derivatives.

    `data`: arrays for the symbols that are not fitted.
    `response`: what the formula should give, shape (m,).
    `start`: starting values of the symbols to fit.
    Raises InputError where a symbol has neither data nor a starting value.
    """
    names = tuple(start)
    for name in names:
        if name not in formula.names:
            raise unknown_name("symbol of the formula", name, formula.names)
    observed = np.asarray(response, dtype=np.float64)
    fixed: dict[str, Any] = {name: np.asarray(value, dtype=np.float64) for name, value in data.items()}
    slopes = [formula.derivative(name) for name in names]

    def at(values: FloatArray) -> dict[str, Any]:
        return {**fixed, **dict(zip(names, values, strict=True))}

    def residuals(values: FloatArray) -> FloatArray:
        return np.broadcast_to(formula.evaluate(at(values)), observed.shape) - observed

    def jacobian(values: FloatArray) -> FloatArray:
        return np.stack([np.broadcast_to(slope.evaluate(at(values)), observed.shape) for slope in slopes], axis=-1)

    limits = [(bounds or {}).get(name, (-np.inf, np.inf)) for name in names]
    return fit_least_squares(
        residuals, names, [start[n] for n in names], [b[0] for b in limits], [b[1] for b in limits], jacobian
    )
