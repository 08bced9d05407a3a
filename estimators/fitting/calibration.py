"""Calibration: an estimator with some parameters fitted to measurements; it is again an estimator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.records import FrozenDict, content_digest
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.conditions import Condition
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Estimate, Measurement, Spread, quantile
from slipstick.estimators.base.estimator_base import EstimatorBase
from slipstick.estimators.base.operation_model import Clock, FormulaModel
from slipstick.estimators.base.protocols import CompiledEstimator, Estimator, Uncertainty
from slipstick.estimators.fitting.least_squares import Fit
from slipstick.estimators.fitting.objective import Objective
from slipstick.estimators.fitting.posterior import posterior_draws
from slipstick.estimators.symbolic.formula import Formula, Parameter, parameters, with_parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

DRAWS = 400
SEED = 20_240_229


@dataclass(frozen=True)
class Calibration(EstimatorBase):
    """A fitted estimator, how well its parameters are known, and how far measurements scatter around it.

    Parameters
    ----------
    estimator
        With the fitted values put in.
    names
        The fitted parameters, dotted.
    covariance
        In the order of `names`, in products of their units.
    residuals
        log(estimated / measured), one a measurement.
    residual_std
        Their standard deviation, or a published one; None where unknown. With `residual_freedom`: the scale of
        Student's t.
    degrees_of_freedom
        Of the fit.
    residual_freedom
        Of the scatter's own Student's t, where its tails are heavier than the fit's.
    residual_seconds, common_std
        The part of the scatter that does not grow with the time (a start that differs from run to run) [s]; the part of
        `residual_std` that all answers for the machine have alike; see `Spread.common`.
    metric_std
        Scatter of the log of what a metric is measured by (`Schedule.metric_at`), by its name.
    fingerprint
        Digest of the measurements.
    source
        In words: what it was fitted to.
    sample
        Draws of the parameters, one a row, in the order of `names`, where a covariance is not their law.
    warnings
        What keeps its parameters from being known, one line each: every answer repeats them.
    conditions
        What makes the band wider: every answer has them too.
    """

    estimator: Any
    names: tuple[str, ...]
    covariance: tuple[tuple[float, ...], ...] = ()
    residuals: tuple[float, ...] = ()
    residual_std: float | None = None
    degrees_of_freedom: float | None = None
    fingerprint: str = ""
    source: str = ""
    sample: tuple[tuple[float, ...], ...] = ()
    residual_seconds: float | None = None
    residual_freedom: float | None = None
    metric_std: FrozenDict[float] = FrozenDict()
    warnings: tuple[str, ...] = ()
    common_std: float = 0.0
    conditions: tuple[Condition, ...] = ()

    def __repr__(self) -> str:
        values = "".join(f", {name}={value:.4g}" for name, value in self.values.items())
        scatter = "" if self.residual_std is None else f", residual_std={self.residual_std:.3g}"
        return f"Calibration({type(self.estimator).__name__}{values}{scatter})"

    @property
    def values(self) -> dict[str, float]:
        """The fitted parameters by name."""
        known = parameters(self.estimator)
        return {name: known[name][0] for name in self.names}

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """The fitted estimate; its spread keeps parameters and residuals apart."""
        best: Estimate = self.estimator.estimate(workload, machine, run)
        times = self.draws(workload, machine, run)
        parameter = float(np.std(np.log(times), ddof=1)) if times is not None and np.all(times > 0) else None
        freedom = self.degrees_of_freedom, self.residual_freedom
        spread = Spread(parameter, self.residual(best.time), *freedom, self.common_std)
        note = f"calibrated on {self.source}" if self.source else f"calibrated on {len(self.residuals)} measurements"
        return replace(
            best,
            spread=spread,
            band=None,
            metric_intervals=FrozenDict(self.metric_intervals(best.metrics)),
            conditions=(*best.conditions, *self.conditions),
            assumptions=(*best.assumptions, note, *(f"the calibration warns: {line}" for line in self.warnings)),
        )

    def residual(self, time: Any) -> Any:
        """Scatter of log time around an estimated time [s], a number or an array; None where it is unknown."""
        if self.residual_std is None or self.residual_seconds is None:
            return self.residual_std
        scatter = np.hypot(self.residual_std, self.residual_seconds / np.maximum(time, 1e-300))
        return scatter if np.ndim(time) else float(scatter)

    def metric_intervals(
        self, metrics: Mapping[str, float], level: float = DEFAULT_LEVEL
    ) -> dict[str, tuple[float, float]]:
        """Between what each measured metric lies with probability `level`, for those whose scatter is known."""
        width = quantile(level, self.residual_freedom or self.degrees_of_freedom)
        intervals = {}
        for name, std in self.metric_std.items():
            if name in metrics:
                ends = [self.estimator.metric_at(name, metrics, math.exp(sign * width * std)) for sign in (-1, 1)]
                intervals[name] = (min(ends), max(ends))
        return intervals

    def compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: Mapping[str, float] | None = None
    ) -> CompiledEstimator:
        """The fitted estimator as a function of arrays."""
        function: CompiledEstimator = self.estimator.compile(workload, machine, free, run)
        return function

    @property
    def model(self) -> Estimator:
        """The fitted estimator by itself."""
        inner: Estimator = self.estimator.model
        return inner

    @property
    def uncertainty(self) -> Uncertainty:
        """Itself: a calibration holds what is known of its parameters."""
        return self

    @property
    def keeps_open(self) -> frozenset[str]:
        """As the fitted estimator."""
        return self.model.keeps_open

    @property
    def alone(self) -> bool:
        """As the fitted estimator."""
        return self.model.alone

    @property
    def parameters(self) -> Mapping[str, tuple[float, Parameter]]:
        """Those of the fitted estimator."""
        return self.model.parameters

    def with_parameters(self, values: Mapping[str, float]) -> Self:
        """The calibration with some parameters given: they count as known and are fitted no more."""
        changed = self.model.with_parameters(values)
        kept = [i for i, name in enumerate(self.names) if name not in values]
        return replace(
            self,
            estimator=changed,
            names=tuple(self.names[i] for i in kept),
            covariance=tuple(tuple(self.covariance[i][j] for j in kept) for i in kept) if self.covariance else (),
            sample=tuple(tuple(draw[i] for i in kept) for draw in self.sample),
        )

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Estimator:
        """Itself: a calibration holds for every question that its estimator answers."""
        return self

    @property
    def wanted(self) -> str:
        """That of the fitted estimator: what was fitted is of it."""
        return str(self.estimator.wanted)

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """Those of the fitted estimator."""
        return self.model.run_names(workload, machine)

    def run_defaults(self, machine: Machine) -> Mapping[str, float]:
        """Those of the fitted estimator."""
        return self.model.run_defaults(machine)

    def runs_at(self) -> Clock:
        """As the fitted estimator."""
        clock: Clock = self.estimator.runs_at()
        return clock

    @property
    def operation_formulas(self) -> FormulaModel | None:
        """As the fitted estimator."""
        formulas: FormulaModel | None = self.estimator.operation_formulas
        return formulas

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """See the fitted estimator."""
        formula: Formula = self.estimator.formula(workload, machine)
        return formula

    def metric_at(self, name: str, metrics: Mapping[str, float], factor: float) -> float:
        """See the fitted estimator."""
        return float(self.estimator.metric_at(name, metrics, factor))

    def estimate_at(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], point: Mapping[str, float]
    ) -> Estimate:
        """The fitted estimate at one point of free quantities, without its band."""
        answer: Estimate = self.estimator.estimate_at(workload, machine, run, point)
        return answer

    def least_at(self, workload: Workload, machine: Machine, *at: Mapping[str, Any]) -> FloatArray:
        """See the fitted estimator; a run, and arrays of free quantities of shape (points,)."""
        return np.asarray(self.estimator.least_at(workload, machine, *at))

    def draws(
        self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None, count: int = DRAWS
    ) -> FloatArray | None:
        """Times under parameters drawn from the covariance (inside their bounds); None where it is unknown.

        Sampled, not linearised: at a ridge the delta method is wrong.
        """
        sample = self.parameter_draws(count)
        if sample is None:
            return None
        free = tuple(f"estimator.{name}" for name in self.names)
        function = self.estimator.compile(workload, machine, free, run)
        return np.asarray(function({name: sample[:, i] for i, name in enumerate(free)}))

    def standard_errors(self) -> dict[str, float | None]:
        """Name -> the standard error of each fitted parameter, of its draws where they are its law; None if unknown."""
        if self.sample:
            spread = np.std(np.asarray(self.sample, dtype=np.float64), axis=0, ddof=1)
            return dict(zip(self.names, spread.tolist(), strict=True))
        if not self.covariance:
            return dict.fromkeys(self.names)
        variances = np.diag(np.asarray(self.covariance, dtype=np.float64)).tolist()
        return {n: v**0.5 if v >= 0 else None for n, v in zip(self.names, variances, strict=True)}

    def parameter_draws(self, count: int = DRAWS) -> FloatArray | None:
        """Parameters drawn from the covariance, shape (count, parameters); None where it is unknown."""
        if self.sample:
            return np.resize(np.asarray(self.sample, dtype=np.float64), (count, len(self.names)))
        covariance = np.asarray(self.covariance, dtype=np.float64)
        if not self.names or not covariance.size or not np.all(np.isfinite(covariance)):
            return None
        known = parameters(self.estimator)
        mean = np.array([known[name][0] for name in self.names])
        low = np.array([known[name][1].low for name in self.names])
        high = np.array([known[name][1].high for name in self.names])
        draws = gaussian_draws(mean, low, high, covariance, count)
        return np.where([known[name][1].whole for name in self.names], np.round(draws), draws)


def gaussian_draws(
    mean: FloatArray, low: FloatArray, high: FloatArray, covariance: FloatArray, count: int
) -> FloatArray:
    """Draws of parameters by their covariance, inside their bounds, shape (count, parameters); the same every time."""
    generator = np.random.default_rng(SEED)
    # in standard deviations: the units of parameters differ by more than a double's digits (1e-6 s, 1e10 byte/s)
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(np.where(scale > 0, scale, 1.0), np.where(scale > 0, scale, 1.0))
    normal = generator.multivariate_normal(np.zeros(len(mean)), correlation, size=count, method="eigh")
    # a positive parameter stays so: its logarithm is drawn, and one that is hardly known within about a factor e, since
    # the tail of a wider one would explode, and a normal one would pile up at the least value
    logs = (low >= 0) & (mean > 0)
    relative = np.minimum(scale / np.where(logs, mean, 1.0), 1.0)
    sample = np.where(logs, mean * np.exp(relative * normal), mean + scale * normal)
    return np.asarray(np.clip(sample, low, high))


@checked
def calibrate(
    estimator: Estimator,
    measured: Sequence[Measurement],
    fit: Sequence[str],
    source: str = "",
    loss: str = "linear",
    starts: int = 1,
) -> Calibration:
    """Least squares in log time over the named parameters, inside their bounds.

    Parameters
    ----------
    fit
        Dotted names of parameters of `estimator` ("operation.compute_efficiency").
    loss
        "linear" (least squares), or "huber", "soft_l1", "cauchy", in which outliers weigh less.
    starts
        Fits from that many starting points; the best one counts.

    Raises
    ------
    InputError
        Where a name is unknown, a measurement is no time, or there are fewer measurements than parameters.

    Examples
    --------
    >>> import slipstick as ss
    >>> h100, half = ss.machine("H100"), ss.ComposedEstimator(ss.Roofline(compute_efficiency=0.5), ss.Sequential())
    >>> products = [ss.Workload("product", (ss.operations.dense("layer", n, 4096, 4096),)) for n in (1024, 2048, 4096)]
    >>> measured = [ss.Measurement(p, h100, half.estimate(p, h100).time) for p in products]
    >>> perfect = ss.ComposedEstimator(ss.Roofline(), ss.Sequential())
    >>> fitted = ss.calibrate(perfect, measured, ["operation.compute_efficiency"])
    >>> round(fitted.values["operation.compute_efficiency"], 6)
    0.5
    """
    model = estimator.model
    objective = Objective.of(model, measured, fit)
    return from_objective(model, objective, objective.fit(loss, starts), fingerprint(measured), source, loss)


def from_objective(
    estimator: Any, objective: Objective, fit: Fit, fingerprint: str = "", source: str = "", loss: str = "linear"
) -> Calibration:
    """A calibration from a fit and what was fitted: parameters drawn by their likelihood, warnings kept.

    Where the estimator is no compiled formula, each draw would cost a run of it: there the covariance is the law.
    """
    from slipstick.estimators.fitting.identifiability import jacobian_at, warnings

    plain = from_fit(estimator, fit, fingerprint, source)
    drawn = posterior_draws(objective, fit, DRAWS, loss) if objective.vectorised else None
    notes = tuple(warnings(fit, objective.low, objective.high, jacobian_at(objective, fit)))
    sample = () if drawn is None else tuple(tuple(map(float, row)) for row in drawn)
    return replace(plain, sample=sample, warnings=notes)


def from_fit(estimator: Any, fit: Fit, fingerprint: str = "", source: str = "") -> Calibration:
    """A calibration from a fit of parameters by their dotted names, in log time."""
    fitted = with_parameters(estimator, dict(zip(fit.names, fit.values, strict=True)))
    known = fit.names, fit.covariance, fit.residuals, fit.residual_std, float(fit.degrees_of_freedom)
    return Calibration(fitted, *known, fingerprint, source)


def fingerprint(measurements: Sequence[Measurement]) -> str:
    """Digest of what was measured and how."""
    return content_digest(
        [[m.workload.identity, m.machine.fingerprint, m.run, m.value, m.quantity, m.protocol] for m in measurements]
    )
