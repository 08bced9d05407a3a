"""What callers may ask of every estimator, of its compiled form and of its uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.operation_model import Clock
from slipstick.estimators.base.ratio_band import MeasuredUncertainty
from slipstick.estimators.symbolic.formula import Parameter
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import WorkTimed

if TYPE_CHECKING:
    from slipstick.estimators.base.operation_model import FormulaModel
    from slipstick.estimators.symbolic.formula import Formula


class CompiledEstimator(Protocol):
    """An estimator compiled: seconds as a function of arrays, one a free quantity."""

    @property
    def free(self) -> tuple[str, ...]:
        """Names of the free quantities, with their namespaces."""
        ...

    @property
    def vectorised(self) -> bool:
        """Whether a million points cost little more than one: a formula, not a loop over simulations or tables."""
        ...

    @property
    def alone(self) -> bool:
        """Whether points must not be evaluated side by side, as when they are measured."""
        ...

    @property
    def read(self) -> frozenset[str] | None:
        """Names of all quantities that the time depends on; None where that cannot be known."""
        ...

    @property
    def base(self) -> Mapping[str, float]:
        """Values of the quantities that are not free, as far as they are known."""
        ...

    def __call__(self, values: Mapping[str, npt.ArrayLike]) -> FloatArray:
        """Seconds, in the shape to which the arrays broadcast."""
        ...


class Uncertainty(Protocol):
    """What a calibration knows: which parameters were fitted, how well, and how far measurements scatter around it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fitted parameters, dotted."""
        ...

    @property
    def residuals(self) -> tuple[float, ...]:
        """log(estimated / measured), one a measurement."""
        ...

    @property
    def residual_std(self) -> float | None:
        """Their standard deviation, or the scale of Student's t; None where unknown."""
        ...

    @property
    def residual_seconds(self) -> float | None:
        """The part of the scatter that does not grow with the time [s]."""
        ...

    @property
    def common_std(self) -> float:
        """The part of `residual_std` (of log time) that all answers for the machine have alike."""
        ...

    @property
    def degrees_of_freedom(self) -> float | None:
        """Number of measurements less that of fitted parameters; None where unknown."""
        ...

    @property
    def residual_freedom(self) -> float | None:
        """Of the scatter's own Student's t."""
        ...

    @property
    def metric_std(self) -> Mapping[str, float]:
        """Scatter of the log of what a metric is measured by, by its name."""
        ...

    @property
    def source(self) -> str:
        """In words: what it was fitted to."""
        ...

    def residual(self, time: float) -> float | None:
        """Scatter of log time around an estimated time [s]; None where it is unknown."""
        ...

    def metric_intervals(self, metrics: Mapping[str, float], level: float) -> Mapping[str, tuple[float, float]]:
        """Between what each measured metric lies with probability `level`, for those whose scatter is known."""
        ...

    def standard_errors(self) -> Mapping[str, float | None]:
        """Name -> the standard error of each fitted parameter, in its unit; None where unknown."""
        ...

    def parameter_draws(self, count: int) -> FloatArray | None:
        """Parameters drawn from what is known of them, shape (count, parameters); None where it is unknown."""
        ...

    def draws(
        self, workload: Workload, machine: Machine, run: Mapping[str, float] | None, count: int
    ) -> FloatArray | None:
        """Times [s] under drawn parameters, shape (count,); None where their uncertainty is unknown."""
        ...


class Fitted(Protocol):
    """What was fitted to measurements: of one estimator, of many machines, of threads."""

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Estimator:
        """The estimator that answers a question instead of another one.

        `machine`: as it stands, before the question changes it: what was measured was measured on that one.
        """
        ...


@runtime_checkable
class Estimator(Protocol):
    """Anything that says how long a workload takes on a machine: a frozen, picklable record.

    `EstimatorBase` gives everything but `estimate`.
    """

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """The time of `workload` on `machine` in one `run`, in seconds, with what it assumes.

        Parameters
        ----------
        run
            Numbers of one execution, by name (threads, images, ...); None: the estimator's defaults.

        Raises
        ------
        InputError
            Where the workload has open symbols, a number is unknown or out of range, or the machine lacks what the
            model needs.
        """
        ...

    def compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: Mapping[str, float] | None = None
    ) -> CompiledEstimator:
        """The time in seconds as a function of arrays of the free quantities (machine.*, workload.*, run.*,
        estimator.*), in SI units.

        Raises
        ------
        InputError
            Where a free name is unknown or cannot vary.
        """
        ...

    def resolved(self, workload: Workload, machine: Machine) -> Estimator:
        """The estimator that answers for a workload on a machine: itself, or the calibration that holds there."""
        ...

    @property
    def model(self) -> Estimator:
        """The estimator without what a calibration adds to it: itself where nothing was fitted."""
        ...

    @property
    def uncertainty(self) -> Uncertainty | None:
        """What measurements say of its parameters and scatter; None where nothing was fitted."""
        ...

    @property
    def keeps_open(self) -> frozenset[str]:
        """Symbols of a workload that must be open until the machine is known, such as a batch divided among cores."""
        ...

    @property
    def alone(self) -> bool:
        """Whether it must run by itself, as when it measures."""
        ...

    @property
    def parameters(self) -> Mapping[str, tuple[float, Parameter]]:
        """Fittable parameters: dotted name -> (value, declaration with its unit and bounds)."""
        ...

    def with_parameters(self, values: Mapping[str, float]) -> Estimator:
        """The same estimator with some parameters changed, each in the unit that it declares.

        Raises
        ------
        InputError
            Where a name is unknown or a value is out of bounds.
        """
        ...

    def measured_uncertainty(self, machine: Machine) -> MeasuredUncertainty | None:
        """How sure its answers are where a measured time of the question holds them; None where none does."""
        ...

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """Numbers of the run that it reads; others are refused."""
        ...

    def graph(self, workload: Workload, machine: Machine) -> Workload:
        """The operations that it takes the time of: a whole run, where one step was given."""
        ...

    def work(self, workload: Workload, machine: Machine, numbers: Mapping[str, float]) -> WorkTimed:
        """What its time is for at sizes and numbers of the run: one step of the workload, or a run of so many."""
        ...

    def run_defaults(self, machine: Machine) -> Mapping[str, float]:
        """Numbers of the run that it takes where none are given, by name."""
        ...

    def runs_at(self) -> Clock:
        """The clock whose times these are: "held" is the one that the power cap leaves."""
        ...

    @property
    def operation_formulas(self) -> FormulaModel | None:
        """The operation model where it is a formula; None for tables, networks and simulations."""
        ...

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """The whole as one readable formula; InputError where it is none."""
        ...

    def metric_at(self, name: str, metrics: Mapping[str, float], factor: float) -> float:
        """A metric where what it is measured by is `factor` times as large."""
        ...

    @property
    def wanted(self) -> str:
        """The quantity with which its answers begin; "" for the time."""
        ...

    def about(self, quantity: str) -> Estimator:
        """The estimator about one of the quantities of its answers: they begin with it, in its unit."""
        ...

    def at(self, workload: Workload, machine: Machine, run: Mapping[str, float], point: Mapping[str, float]) -> float:
        """Seconds at one point of free quantities."""
        ...

    def estimate_at(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], point: Mapping[str, float]
    ) -> Estimate:
        """The estimate (seconds) at one point of free quantities, in SI units."""
        ...

    def least_at(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], free: Mapping[str, FloatArray]
    ) -> FloatArray:
        """Seconds that physics needs at points of free quantities (SI, each of shape (points,)), of that shape."""
        ...
