"""Defaults of the contract, for estimators that only say how to `estimate`; adopting those of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.operation_model import Clock
from slipstick.estimators.base.ratio_band import MeasuredUncertainty
from slipstick.estimators.symbolic.formula import Parameter, parameters, with_parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import WorkTimed, work_of

if TYPE_CHECKING:
    from slipstick.estimators.base.operation_model import FormulaModel
    from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.base.protocols import CompiledEstimator, Estimator, Uncertainty


class EstimatorBase:
    """Defaults of the contract for an estimator that only says how to `estimate`."""

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """The time of `workload` on `machine` in one `run`, in seconds; to be given by the class.

        Raises
        ------
        InputError
            Where the class does not give it.
        """
        raise InputError(f"{type(self).__name__} does not say how to estimate")

    def compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: Mapping[str, float] | None = None
    ) -> CompiledEstimator:
        """A loop over the points behind the call of a compiled formula: arrays of free quantities (SI) to seconds."""
        return PointByPoint(cast(Any, self), workload, machine, dict(run or {}), tuple(free))

    @property
    def model(self) -> Estimator:
        """Itself: nothing was fitted."""
        return self

    def resolved(self, workload: Workload, machine: Machine) -> Estimator:
        """Itself: it is the same for every question."""
        return self

    @property
    def uncertainty(self) -> Uncertainty | None:
        """None: nothing says how far its answers scatter."""
        return None

    @property
    def keeps_open(self) -> frozenset[str]:
        """None: sizes may be bound at once."""
        return frozenset()

    @property
    def alone(self) -> bool:
        """Points may be evaluated side by side."""
        return False

    @property
    def parameters(self) -> Mapping[str, tuple[float, Parameter]]:
        """Declared parameters of the record and of its parts: dotted name -> (value, declaration with its unit)."""
        return parameters(self)

    def with_parameters(self, values: Mapping[str, float]) -> Self:
        """The same record with some parameters changed, each in the unit that it declares.

        Raises
        ------
        InputError
            Where a name is unknown or a value is out of bounds.
        """
        return cast(Self, with_parameters(self, values))

    def measured_uncertainty(self, machine: Machine) -> MeasuredUncertainty | None:
        """None: no measured time holds its answers."""
        return None

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """The workload's symbols."""
        return workload.symbols | frozenset(workload.defaults)

    def graph(self, workload: Workload, machine: Machine) -> Workload:
        """The operations that it takes the time of: the workload's."""
        return workload

    def work(self, workload: Workload, machine: Machine, numbers: Mapping[str, float]) -> WorkTimed:
        """One execution of the workload, at sizes and numbers of the run."""
        return work_of(workload, numbers)

    def run_defaults(self, machine: Machine) -> Mapping[str, float]:
        """Numbers of the run that hold where none are given; here no number."""
        return {}

    def runs_at(self) -> Clock:
        """The clock whose times these are: "held" is the one that the power cap leaves."""
        return "held"

    @property
    def operation_formulas(self) -> FormulaModel | None:
        """The operation model where it is a formula; None for tables, networks and simulations."""
        return None

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """The whole as one readable formula.

        Raises
        ------
        InputError
            Always: it is none, unless this is overridden.
        """
        raise InputError("this estimator is no formula: its operation model or schedule is a table or a simulation")

    def metric_at(self, name: str, metrics: Mapping[str, float], factor: float) -> float:
        """A metric where what it is measured by is `factor` times as large."""
        return metrics[name] * factor

    @property
    def wanted(self) -> str:
        """The quantity with which its answers begin; "" for the time."""
        return ""

    def about(self, quantity: str) -> Estimator:
        """The estimator about one of the quantities of its answers: they begin with it, in its unit."""
        return About(self, quantity)

    def at(self, workload: Workload, machine: Machine, run: Mapping[str, float], point: Mapping[str, float]) -> float:
        """Seconds at one point of free quantities."""
        return self.estimate_at(workload, machine, run, point).time

    def estimate_at(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], point: Mapping[str, float]
    ) -> Estimate:
        """The estimate (seconds) at one point of free quantities, in SI units."""
        changed, values, parameters = put_in(machine, run, point)
        return (self.with_parameters(parameters) if parameters else self).estimate(workload, changed, values)

    def least_at(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], free: Mapping[str, FloatArray]
    ) -> FloatArray:
        """Seconds that physics needs at points of free quantities (SI, each of shape (points,)), of that shape."""
        points = zip(*(values.tolist() for values in free.values()), strict=True)
        answers = (self.estimate_at(workload, machine, run, dict(zip(free, point, strict=True))) for point in points)
        return np.array([answer.least for answer in answers])


def put_in(
    machine: Machine, run: Mapping[str, float], point: Mapping[str, float]
) -> tuple[Machine, Mapping[str, float], Mapping[str, float]]:
    """The machine, the run's numbers and parameters of an estimator with a point of free quantities (SI) put in."""
    by_space: dict[str, dict[str, float]] = {"machine": {}, "workload": {}, "run": {}, "estimator": {}, "job": {}}
    for name, value in point.items():
        space, _, path = name.partition(".")
        whole = space == "machine" and isinstance(machine.get(path), int)
        by_space[space][path] = int(value) if whole else value
    changed = machine.using(by_space["machine"]) if by_space["machine"] else machine
    return changed, {**run, **by_space["workload"], **by_space["run"]}, by_space["estimator"] | by_space["job"]


@dataclass(frozen=True)
class PointByPoint:
    """The call of a compiled formula for estimators that are none: a loop over the points.

    `estimator`: has `at(workload, machine, run, point)`, seconds at one point.
    """

    estimator: Any
    workload: Workload
    machine: Machine
    run: Mapping[str, float]
    free: tuple[str, ...]

    vectorised = False
    read = None

    @property
    def base(self) -> Mapping[str, float]:
        """None is known."""
        return {}

    @property
    def alone(self) -> bool:
        """Whether points must not be evaluated side by side, as when they are measured."""
        return bool(self.estimator.alone)

    def at(self, point: Mapping[str, float]) -> float:
        """Seconds at one point."""
        return float(self.estimator.at(self.workload, self.machine, self.run, point))

    def arrays(self, values: Mapping[str, npt.ArrayLike]) -> dict[str, FloatArray]:
        """The free quantities, each in the shape to which all broadcast.

        Raises InputError where one has no array.
        """
        for name in self.free:
            if name not in values:
                raise InputError(f"no array for the free quantity {name}")
        arrays = np.broadcast_arrays(*(np.asarray(values[name], dtype=np.float64) for name in self.free))
        return dict(zip(self.free, arrays, strict=True))

    def __call__(self, values: Mapping[str, npt.ArrayLike]) -> FloatArray:
        """Seconds, in the shape to which the arrays broadcast."""
        arrays = list(self.arrays(values).values())
        shape = arrays[0].shape if arrays else ()
        points = zip(*(array.ravel() for array in arrays), strict=True) if arrays else [()]
        times = [self.at(dict(zip(self.free, map(float, point), strict=True))) for point in points]
        return np.array(times).reshape(shape)


@dataclass(frozen=True)
class Adopted(EstimatorBase):
    """An estimator of somebody else's that only has `estimate`: the contract's defaults around it."""

    inner: Any

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """What the other says."""
        answer: Estimate = self.inner.estimate(workload, machine, run)
        return answer

    def compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: Mapping[str, float] | None = None
    ) -> CompiledEstimator:
        """The other's own compiled form where it has one, else a loop over the points."""
        if not hasattr(self.inner, "compile"):
            return super().compile(workload, machine, free, run)
        function: CompiledEstimator = self.inner.compile(workload, machine, free, run)
        return function

    @property
    def alone(self) -> bool:
        """As the other says; estimators may be evaluated side by side."""
        return bool(getattr(self.inner, "alone", False))


@dataclass(frozen=True)
class AsInner(EstimatorBase):
    """What an estimator that changes another's answers passes on to it."""

    inner: Estimator

    @property
    def keeps_open(self) -> frozenset[str]:
        """As the inner estimator."""
        return self.inner.keeps_open

    @property
    def alone(self) -> bool:
        """As the inner estimator."""
        return self.inner.alone

    @property
    def parameters(self) -> Mapping[str, tuple[float, Parameter]]:
        """Those of the inner estimator: dotted name -> (value, declaration with its unit)."""
        return self.inner.parameters

    def with_parameters(self, values: Mapping[str, float]) -> Self:
        """The same with some parameters of the inner estimator changed, each in its unit."""
        return replace(self, inner=self.inner.with_parameters(values))

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """As the inner estimator."""
        return self.inner.run_names(workload, machine)

    def graph(self, workload: Workload, machine: Machine) -> Workload:
        """As the inner estimator."""
        return self.inner.graph(workload, machine)

    def work(self, workload: Workload, machine: Machine, numbers: Mapping[str, float]) -> WorkTimed:
        """As the inner estimator."""
        return self.inner.work(workload, machine, numbers)

    def run_defaults(self, machine: Machine) -> Mapping[str, float]:
        """Numbers of the run that the inner estimator takes where none are given."""
        return self.inner.run_defaults(machine)

    def runs_at(self) -> Clock:
        """As the inner estimator."""
        return self.inner.runs_at()


@dataclass(frozen=True)
class About(AsInner):
    """An estimator about one quantity: its answers begin with it, and where it is a time it is theirs.

    So a sweep, an explanation and a fit, which all take one time, take that of a first token as they take a step's.

    `quantity`: as the estimator's answers name it ("ttft").
    """

    quantity: str

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """The inner answer, about the quantity.

        Raises InputError where the answer does not give it.
        """
        return self.inner.estimate(workload, machine, run).about(self.quantity)

    @property
    def wanted(self) -> str:
        """The quantity."""
        return self.quantity

    def resolved(self, workload: Workload, machine: Machine) -> Estimator:
        """The same quantity of what answers there."""
        return replace(self, inner=self.inner.resolved(workload, machine))


def adopted(estimator: Any) -> Estimator:
    """An estimator that keeps the whole contract: itself, or its `estimate` with the contract's defaults.

    Raises InputError where it has no method `estimate`.
    """
    if isinstance(estimator, Estimator):
        return estimator
    if not callable(getattr(estimator, "estimate", None)):
        raise InputError(
            f"{type(estimator).__name__} is no estimator: it has no method estimate(workload, machine, run)"
        )
    return Adopted(estimator)


def check_run_names(estimator: Estimator, workload: Workload, machine: Machine, names: Iterable[str]) -> None:
    """Refuse numbers of the run that an estimator does not read: a misspelt one would be passed over.

    Raises InputError where a name is unknown; it lists the known ones.
    """
    known = estimator.run_names(workload, machine)
    for name in names:
        if name not in known:
            listed = [f"run.{one}" for one in sorted(known)]
            raise unknown_name("number of the run for this estimator:", f"run.{name}", listed)
