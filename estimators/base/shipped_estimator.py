"""An estimator by name: how it is built, where its calibrations hold, what it answers by default, and how far it errs.

The list, the resolver of default answers, calibration files and the command line all read this record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipstick.estimators.base.validity_domain import Domain

if TYPE_CHECKING:
    from slipstick.estimators.base.protocols import Estimator
    from slipstick.hwmodels.machine import Machine
    from slipstick.workloads.graph.workload import Workload


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
        from slipstick.estimators.base.calibration_by_validity import CalibrationByValidity

        return CalibrationByValidity(plain, made) if made else plain

    def fits(self, workload: Workload) -> bool:
        """Whether it is what a study fits to measurements of a workload."""
        return any(domain.holds_workload(workload) for domain in self.fitted_for)

    @property
    def held_out_error(self) -> str:
        """`error`, or that none is known."""
        return self.error or "none known"
