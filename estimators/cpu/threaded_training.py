"""Training by threads that share the images: an operation model under the thread schedule, for any graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.schedules.thread_schedule import ThreadSchedule
from slipstick.estimators.symbolic.formula import parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import WorkTimed, work_of
from slipstick.workloads.runs.training_run import is_training_run, training_run


@dataclass(frozen=True)
class ThreadedTraining(ComposedEstimator):
    """Strategies (a) and (b) of Viebke et al. 2019 for any network, any machine with cores, one node or several.

    A plain training step becomes the run of Figure 4 (`workloads.training_run`): numbers of the run are images,
    validation_images, test_images, epochs, preparation and threads, with `exchanging` nodes and exchanges too.

    `exchanging`: the collective by which several nodes sum their weights; "" for one node.
    """

    exchanging: str = ""

    def assumptions(self, workload: Workload, machine: Machine) -> tuple[str, ...]:
        """Also where the operation factor comes from, if it was fitted on another machine."""
        notes = ComposedEstimator.assumptions(self, workload, machine)
        fitted = [note for name, note in parameters(self.operation).items() if name.endswith("operation_factor")]
        fitted_on = self.schedule.measured_on if isinstance(self.schedule, ThreadSchedule) else ""
        if not fitted or not fitted_on or fitted_on in (machine.family, machine.name):
            return notes
        return (*notes, f"operation factor {fitted[0][0]:.3g} was fitted on {fitted_on}, not on {machine.name}")

    def graph(self, workload: Workload, machine: Machine) -> Workload:
        """The whole run; a workload that already says what threads share is taken as it is."""
        return workload if is_training_run(workload) else training_run(workload, exchanging=self.exchanging)

    def work(self, workload: Workload, machine: Machine, numbers: Mapping[str, float]) -> WorkTimed:
        """The whole run: its images, as often as there are epochs."""
        return work_of(self.graph(workload, machine), {**self.run_defaults(machine), **numbers})
