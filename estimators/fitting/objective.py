"""What a calibration minimises: log(estimated / measured) over some parameters, and its derivative where it has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray, Mask
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp
from slipstick.common.readers import unknown_name
from slipstick.estimators.base.estimate import Measurement
from slipstick.estimators.base.operation_model import machine_values
from slipstick.estimators.base.protocols import CompiledEstimator, Estimator
from slipstick.estimators.fitting.least_squares import Fit, fit_least_squares, weighed
from slipstick.estimators.fitting.whole_numbers import Whole, search_whole
from slipstick.estimators.symbolic.formula import Formula, parameters

NEIGHBOURING = 1e-10
"""Relative change of cost and parameters at which the fits stop of which the best whole numbers are chosen."""
REACH = 3
"""How far the whole numbers lie that are tried next to the best."""
MAX_OPERATIONS = 64
"""Workloads up to this size are differentiated as one formula; larger ones by differences of compiled functions."""


@dataclass(frozen=True, eq=False)
class Objective:
    """Residuals of some measurements as a function of some parameters.

    `names`, `start`, `low`, `high`: the parameters, dotted, with their values and bounds.
    `functions`: one a measurement: parameters by their full names to seconds.
    `slopes`: one a measurement: the derivative by each parameter at a point; None where a part is no formula.
    `measured`: logarithms of the measured times.
    `groups`: what is held out together, one a measurement.
    `whole`: the parameters that count something.
    """

    names: tuple[str, ...]
    start: FloatArray
    low: FloatArray
    high: FloatArray
    functions: tuple[CompiledEstimator, ...]
    slopes: tuple[Callable[[Mapping[str, float]], FloatArray], ...] | None
    measured: FloatArray
    groups: tuple[str, ...]
    whole: frozenset[str] = frozenset()

    @classmethod
    def of(cls, estimator: Estimator, measurements: Sequence[Measurement], free: Sequence[str]) -> Objective:
        """The objective of fitting named parameters of an estimator to measured times.

        Raises InputError where a name is unknown or repeated, none is given, or a measurement is no time.
        """
        known = parameters(estimator)
        for name in free:
            if name not in known:
                raise unknown_name(f"parameter of {type(estimator).__name__}", name, sorted(known))
        names = tuple(free)
        if not names or len(set(names)) < len(names):
            raise InputError("name at least one parameter to fit, each once")
        for measurement in measurements:
            if measurement.quantity != "time":
                raise InputError(f"calibrate fits times, got a measurement of {measurement.quantity}")
        full = tuple(f"estimator.{name}" for name in names)
        functions = tuple(estimator.compile(m.workload, m.machine, full, m.run) for m in measurements)
        return cls(
            names,
            np.array([known[name][0] for name in names]),
            np.array([known[name][1].low for name in names]),
            np.array([known[name][1].high for name in names]),
            functions,
            _slopes(estimator, measurements, full) if all(function.vectorised for function in functions) else None,
            np.log([m.value for m in measurements]),
            tuple(m.group for m in measurements),
            frozenset(name for name in names if known[name][1].whole),
        )

    def point(self, values: FloatArray) -> dict[str, float]:
        """Parameters by their full names, moved into their bounds."""
        inside = np.clip(values, self.low, self.high)
        return {f"estimator.{name}": float(value) for name, value in zip(self.names, inside, strict=True)}

    def residuals(self, values: FloatArray) -> FloatArray:
        """log(estimated / measured), shape (measurements,)."""
        point = self.point(values)
        return np.asarray(np.log([float(function(point)) for function in self.functions]) - self.measured)

    def jacobian(self, values: FloatArray) -> FloatArray:
        """Derivatives of the residuals, shape (measurements, parameters); needs `slopes`."""
        point = self.point(values)
        times = np.array([float(function(point)) for function in self.functions])
        return np.asarray(np.stack([slope(point) for slope in self.slopes or ()]) / times[:, None])

    def loss_at(self, points: FloatArray, loss: str = "linear") -> FloatArray:
        """Sum over the measurements of the loss (squares, if linear) at parameters of shape (n, parameters): (n,)."""
        by_name: dict[str, Any] = {f"estimator.{name}": points[:, i] for i, name in enumerate(self.names)}
        times = np.stack([np.broadcast_to(function(by_name), len(points)) for function in self.functions], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            residuals = np.log(times) - self.measured
        return np.asarray(np.sum(weighed(np.square(residuals), loss), axis=1))

    @property
    def vectorised(self) -> bool:
        """Whether many points cost little more than one: every function is a compiled formula."""
        return all(function.vectorised for function in self.functions)

    def some(self, indices: Sequence[int]) -> Objective:
        """The objective of some of the measurements (repeated ones count again)."""
        return replace(
            self,
            functions=tuple(self.functions[i] for i in indices),
            slopes=tuple(self.slopes[i] for i in indices) if self.slopes is not None else None,
            measured=self.measured[list(indices)],
            groups=tuple(self.groups[i] for i in indices),
        )

    def fit(
        self, loss: str = "linear", starts: int = 1, start: FloatArray | None = None, tolerance: float = 1e-15
    ) -> Fit:
        """The best parameters (see `fit_least_squares`), around the whole numbers of least loss among them."""
        begin = self.start if start is None else start
        counted = np.array([name in self.whole for name in self.names])
        real = [name for name in self.names if name not in self.whole]

        def values(inner: FloatArray, whole: Whole) -> FloatArray:
            point = begin.copy()
            point[counted], point[~counted] = whole, inner
            return point

        def around(whole: Whole, near: Fit | None = None) -> Fit:
            if not real:
                left = self.residuals(np.array(whole))
                return Fit((), (), (), tuple(map(float, left)), len(left))
            return fit_least_squares(
                lambda inner: self.residuals(values(inner, whole)),
                real,
                begin[~counted] if near is None else near.values,
                self.low[~counted],
                self.high[~counted],
                (lambda inner: self.jacobian(values(inner, whole))[:, ~counted]) if self.slopes is not None else None,
                loss=loss,
                starts=starts,
                tolerance=max(tolerance, NEIGHBOURING) if counted.any() else tolerance,
            )

        if not counted.any():
            return around(())
        low = np.maximum(self.low, np.minimum(begin, 1.0))[counted]  # none of a thing only where there is none today
        ends, cost = (low.tolist(), self.high[counted].tolist()), partial(_cost, loss=loss)
        best, tried = search_whole(tuple(begin[counted].tolist()), *ends, around, cost, reach=REACH)
        return self._with_whole(tried[best], values(np.array(tried[best].values), best), best, tried, counted, loss)

    def _with_whole(
        self,
        fit: Fit,
        values: FloatArray,
        best: Whole,
        tried: Mapping[Whole, Fit],
        counted: Mask,
        loss: str,
    ) -> Fit:
        """A fit of the real parameters with the whole ones, whose errors say how likely each was that was tried.

        Raises InputError where there are fewer measurements than parameters.
        """
        freedom = len(fit.residuals) - len(self.names)
        if freedom < 0:
            raise InputError(
                f"{len(fit.residuals)} measurements cannot fix {len(self.names)} parameters: {', '.join(self.names)}"
            )
        costs = np.array([_cost(one, loss) for one in tried.values()])
        scatter = costs.min() / max(freedom, 1)
        weights = np.exp(-(costs - costs.min()) / max(2 * scatter, 1e-300))
        covariance = np.zeros((len(values), len(values)))
        covariance[np.ix_(~counted, ~counted)] = np.reshape(fit.covariance, (-1, len(fit.names))) if fit.names else 0.0
        spread = weights / weights.sum() @ (np.array(list(tried)) - np.array(best)) ** 2
        covariance[counted, counted] = spread if freedom else np.nan
        return Fit(
            self.names,
            tuple(map(float, values)),
            tuple(tuple(map(float, row)) for row in covariance),
            fit.residuals,
            freedom,
            fit.held,
        )


def _cost(fit: Fit, loss: str) -> float:
    return float(np.sum(weighed(np.square(fit.residuals), loss)))


def _slopes(
    estimator: Estimator, measurements: Sequence[Measurement], full: tuple[str, ...]
) -> tuple[Callable[[Mapping[str, float]], FloatArray], ...] | None:
    """Derivatives from the formula of the whole, one workload and machine derived once; None where there is none."""
    if estimator.operation_formulas is None:
        return None
    if any(len(m.workload) > MAX_OPERATIONS for m in measurements):
        return None
    nothing = Formula(sp.Integer(0), "s", "the parameter does not stand in the formula")
    made: dict[tuple[str, str], tuple[Formula, ...]] = {}
    slopes = []
    for m in measurements:
        key = (m.workload.identity, m.machine.fingerprint)
        if key not in made:
            try:
                whole = estimator.formula(m.workload, m.machine)
            except InputError:  # the schedule is a table or a simulation
                return None
            if any(name.startswith("choice.") for name in whole.names):
                return None  # the least over a menu has no derivative that holds for all of its rows
            made[key] = tuple(whole.derivative(name) if name in whole.names else nothing for name in full)
        slopes.append(_slope(estimator, m, made[key]))
    return tuple(slopes)


def _slope(
    estimator: Estimator, m: Measurement, derivatives: tuple[Formula, ...]
) -> Callable[[Mapping[str, float]], FloatArray]:
    run = {**m.workload.defaults, **estimator.run_defaults(m.machine), **m.run}
    base: dict[str, float] = {f"estimator.{name}": value for name, (value, _) in estimator.parameters.items()}
    for derivative in derivatives:
        base |= machine_values(derivative, m.machine)
    base |= {f"run.{name}": float(value) for name, value in run.items()}
    base |= {name: float(value) for name, value in run.items()}

    def at(point: Mapping[str, float]) -> FloatArray:
        return np.array([float(derivative.evaluate({**base, **point})) for derivative in derivatives])

    return at
