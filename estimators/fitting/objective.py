"""What a calibration minimises: log(estimated / measured) over some parameters, and its derivative where it has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.lazy_sympy import sp
from slipstick.common.readers import unknown_name
from slipstick.estimators.base.estimate import Measurement
from slipstick.estimators.base.operation_model import machine_values
from slipstick.estimators.base.protocols import CompiledEstimator, Estimator
from slipstick.estimators.fitting.least_squares import Fit, fit_least_squares, weighed
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.estimators.symbolic.parameters import parameters

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
    """

    names: tuple[str, ...]
    start: FloatArray
    low: FloatArray
    high: FloatArray
    functions: tuple[CompiledEstimator, ...]
    slopes: tuple[Callable[[Mapping[str, float]], FloatArray], ...] | None
    measured: FloatArray
    groups: tuple[str, ...]

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
        return cls(
            names,
            np.array([known[name][0] for name in names]),
            np.array([known[name][1].low for name in names]),
            np.array([known[name][1].high for name in names]),
            tuple(estimator.compile(m.workload, m.machine, full, m.run) for m in measurements),
            _slopes(estimator, measurements, full),
            np.log([m.value for m in measurements]),
            tuple(m.group for m in measurements),
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
        return Objective(
            self.names,
            self.start,
            self.low,
            self.high,
            tuple(self.functions[i] for i in indices),
            tuple(self.slopes[i] for i in indices) if self.slopes is not None else None,
            self.measured[list(indices)],
            tuple(self.groups[i] for i in indices),
        )

    def fit(
        self, loss: str = "linear", starts: int = 1, start: FloatArray | None = None, tolerance: float = 1e-15
    ) -> Fit:
        """The best parameters (see `fit_least_squares`)."""
        return fit_least_squares(
            self.residuals,
            self.names,
            self.start if start is None else start,
            self.low,
            self.high,
            self.jacobian if self.slopes is not None else None,
            loss=loss,
            starts=starts,
            tolerance=tolerance,
        )


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
