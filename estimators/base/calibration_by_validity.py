"""An estimator whose calibrations hold in different places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.estimator_base import AsInner
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.base.protocols import CompiledEstimator, Estimator
from slipstick.estimators.base.validity_domain import Domain
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

if TYPE_CHECKING:
    from slipstick.estimators.base.protocols import Estimator


@dataclass(frozen=True)
class CalibrationByValidity(AsInner):
    """An estimator with calibrations, each with the domain in which it holds: the first that holds answers.

    `inner`: the estimator without what was fitted; it answers where no domain holds, and says all else.
    `calibrations`: in the order in which they are tried.
    """

    calibrations: tuple[tuple[Domain, Estimator], ...]

    def resolved(self, workload: Workload, machine: Machine) -> Estimator:
        """The first calibration that holds for a workload on a machine; the plain estimator where none does."""
        holding = (calibration for domain, calibration in self.calibrations if domain.holds(workload, machine))
        return next(holding, self.inner)

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """The estimate, in seconds, of the calibration in whose domain the question lies; see `resolved`."""
        return self.resolved(workload, machine).estimate(workload, machine, run)

    def compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: Mapping[str, float] | None = None
    ) -> CompiledEstimator:
        """The compiled function, in seconds, of the calibration in whose domain the question lies; see `resolved`."""
        return self.resolved(workload, machine).compile(workload, machine, free, run)

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """See `resolved`."""
        return self.resolved(workload, machine).formula(workload, machine)

    @property
    def model(self) -> Estimator:
        """The plain estimator."""
        return self.inner

    def with_parameters(self, values: Mapping[str, float]) -> Self:
        """The plain estimator and all calibrations with some parameters changed, each in its unit."""
        changed = tuple((domain, one.with_parameters(values)) for domain, one in self.calibrations)
        return replace(self, inner=self.inner.with_parameters(values), calibrations=changed)

    @property
    def operation_formulas(self) -> FormulaModel | None:
        """As the plain estimator."""
        return self.inner.operation_formulas

    def metric_at(self, name: str, metrics: Mapping[str, float], factor: float) -> float:
        """A metric (share) at a factor on the time, as the plain estimator has it."""
        return self.inner.metric_at(name, metrics, factor)
