"""The default answer of a GPU by kernels that a user calibrated, or after some operations were measured on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipstick.common.errors import InputError
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.gpu.programs.torch_program import TorchProgram
from slipstick.estimators.gpu.step_of_kernels import step_of_kernels
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
from slipstick.estimators.interconnect.collective_law import nccl
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.training.graph_on_devices import ParallelTraining
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import workload_kind


@dataclass(frozen=True)
class MeasuredOperations:
    """Kernels of GPUs that were calibrated across devices, with what a user measured (the anchors of `kernels`).

    `shipped`: whether nobody gave a calibration: the rows move what ships.
    """

    kernels: DeviceCalibration
    shipped: bool = False

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Estimator:
        """The kernels as calibrated and as measured operations move them [s], under the schedule of the default answer.

        A host that issues operations stays a host that does, so one measured operation changes its kind alone; so does
        a pipeline. Where a law answers that reads no kernels (of a server, a trainer), operations follow one another.
        Raises InputError where the machine is of another kind than those that were fitted: kernels of GPUs say nothing
        of its operations; or where no times of the measured classes were fitted, so that the rows move nothing.
        """
        forecast = self.kernels.forecast(machine)
        if self.shipped and (kind := machine_kind(machine)) != "gpu":
            raise InputError(
                f"measured operations move the kernels of GPUs, {machine.name} is a {kind}: give --calibration "
                "FILE, which slipstick probe and slipstick calibrate write"
            )
        unused = [f"{form.source}: {len(form)} rows of {form.name}" for form in forecast.unused]
        if unused and len(unused) == len(forecast.measured):
            kinds = {form.op.kind for form in forecast.unused}
            known = sorted(name for name in forecast.known if name.partition(".")[0] in kinds)
            raise InputError(f"{', '.join(unused)} move nothing: want {' or '.join(known) or 'another kind'}")
        answers = instead_of.model
        schedule = answers.schedule if isinstance(answers, TorchProgram | ParallelTraining) else Sequential()
        links = nccl() if "collective" in workload.kinds else None
        programs = workload_kind(workload) == "program"
        named = machine.runtime.library if isinstance(answers, TorchProgram) else ""
        library = "" if named in self.kernels.libraries else named
        made, conditions = step_of_kernels(
            self.kernels, machine, workload, run, schedule, links, programs=programs, library=library
        )
        if isinstance(answers, ParallelTraining):  # of many devices, which it counts
            made = replace(made, estimator=replace(answers, operation=made.estimator.operation))
        doubts = forecast.accepted.doubts if forecast.accepted else ()
        source = "; ".join([made.source, *doubts, *(f"not used: {one}" for one in unused)])
        return replace(made, source=source, conditions=conditions)
