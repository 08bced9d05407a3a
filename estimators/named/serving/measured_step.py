"""The law of a step after its user measured some: a calibration of every step of serving on that machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipstick.estimators.contract.protocols import Estimator
from slipstick.estimators.named.served_step import served_step
from slipstick.estimators.named.serving.served_requests import ServedRequests
from slipstick.estimators.operation.serving.known_steps import server_on
from slipstick.estimators.operation.serving.measured_steps import TimedServerStep, engine_of_steps, kept_measured
from slipstick.estimators.operation.serving.step_graph import is_step
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload


@dataclass(frozen=True)
class MeasuredSteps:
    """Steps measured on a machine under its engine."""

    steps: tuple[TimedServerStep, ...]

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Estimator:
        """The law of a step as these steps move it (seconds), or the server whose steps it gives the time of.

        Raises
        ------
        InputError
            Where the workload is no step of serving, or a step contradicts the data sheet.
        """
        if isinstance(instead_of, ServedRequests):
            return replace(instead_of, known=self.steps)
        if not is_step(workload):
            raise InputError(f"measured steps are of serving, {workload.name} is no step of it: give operations")
        measured, engine = kept_measured(self.steps), engine_of_steps(self.steps) or server_on(machine)
        running = machine.using({"runtime.library": engine, "runtime.mode": "graph_replay"})
        made = served_step(workload, running, engine, run, measured.fit).estimator
        return replace(made, source=f"{made.source}; {measured.text()}")
