"""An estimator by name: how it is built, where its calibrations hold, what it answers by default, and how far it errs.

The list, the resolver of default answers, calibration files and the command line all read this record.

An estimator whose calibrations hold in different places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


@dataclass(frozen=True)
class Example:
    """A question that an estimator answers, of workloads and machines that ship."""

    workload: str
    machine: str
    run: tuple[tuple[str, float], ...] = ()

    @property
    def command(self) -> str:
        """The same on the command line, without the estimator."""
        run = "".join(f" --set run.{name}={value:g}" for name, value in self.run)
        return f"slipstick estimate {self.workload} --on {self.machine}{run}"


def _lacks_nothing(machine: Machine) -> str:
    return ""


@dataclass(frozen=True)
class ShippedEstimator:
    """An estimator by name. Only `name` and `build` are needed; the rest is for people and for the default answer.

    Parameters
    ----------
    build
        Makes the estimator, without the calibrations below; imports what it needs.
    calibrations
        Where each holds and what makes it, in the order in which they are tried; the built estimator elsewhere.
    purpose, domain
        What it is for and where it was built for, in words.
    error
        Of time, on data that it was not fitted to, with its unit; "" where none is known.
    board
        The scoreboard that says so (``slipstick validate BOARD``).
    source
        Paper, table or data.
    why
        The line of an answer that it gives by default.
    fitted_for
        What it is fitted to where a study names no estimator.
    lacks
        What a machine does not say and this estimator needs; "" where it says all.
    example
        A question that it answers; the contract's tests use it.
    """

    name: str
    build: Callable[[], Estimator]
    purpose: str = ""
    domain: str = ""
    error: str = ""
    board: str = ""
    source: str = ""
    aliases: tuple[str, ...] = ()
    calibrations: tuple[tuple[Domain, Callable[[], Estimator]], ...] = ()
    why: str = ""
    fitted_for: tuple[Domain, ...] = ()
    lacks: Callable[[Machine], str] = _lacks_nothing
    example: Example | None = None

    def estimator(self) -> Estimator:
        """The estimator, with its calibrations where they hold."""
        from slipstick.estimators.base.estimator_base import adopted

        plain = adopted(self.build())
        made = tuple((domain, make()) for domain, make in self.calibrations)
        return CalibrationByValidity(plain, made) if made else plain

    def fits(self, workload: Workload) -> bool:
        """Whether it is what a study fits to measurements of a workload."""
        return any(domain.holds_workload(workload) for domain in self.fitted_for)

    @property
    def held_out_error(self) -> str:
        """`error`, or that none is known."""
        return self.error or "none known"
