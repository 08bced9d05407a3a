"""A PyTorch program on a GPU: what its operations take as whole programs have shown, issued by one host."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from slipstick.estimators.calibration.calibration import Calibration
from slipstick.estimators.composites.composite import Composite
from slipstick.estimators.contract.protocols import Estimator
from slipstick.estimators.operation.gpu.programs.program_kernels import ProgramRuntimes, compiled, half, trained
from slipstick.estimators.operation.gpu.programs.program_sides import rounds_convolutions
from slipstick.estimators.schedule.host_issue import HostIssue
from slipstick.estimators.tuned.tuned_defaults import PROGRAMS
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.transforms.channels_last import channels_last
from slipstick.workloads.transforms.mixed import tf32_convolutions

MAKER = "nvidia"
"""Of the devices on which programs of PyTorch were timed."""


@dataclass(frozen=True)
class TorchProgram(Composite):
    """Operations as PyTorch hands them over: compiled, chains are fused and convolutions change their layout."""

    def handed_over(self, workload: Workload, machine: Machine) -> Workload:
        """See `Composite.handed_over`; a workload with open sizes keeps its layout."""
        rounded = tf32_convolutions(workload) if rounds_convolutions(machine) else workload
        fused = super().handed_over(rounded, machine)
        return channels_last(fused) if machine.runtime.mode == "compiled" and not fused.symbols else fused


def torch_program() -> Calibration:
    """Forward passes, float32 as PyTorch computes it: TF32 in dense convolutions, not in products.

    In 16 bits as image networks are under autocast. Eager, or compiled by TorchInductor where `machine.runtime.mode`
    is "compiled".
    """
    kernels, issue = trained()
    runtimes = ProgramRuntimes(kernels, compiled(), half("eager"), half("compiled"))
    estimator = TorchProgram(runtimes, HostIssue(issue=issue), "kernels of PyTorch programs, issued by one host")
    source = (
        "625 times of PyTorch programs on two H100 and an L40S (KernelBench v0.1, eager; compiled on the H100); in 16 "
        "bits image networks on an RTX 3090 and an RTX 4090 (timm's benchmarks)"
    )
    return Calibration(estimator, (), residual_std=PROGRAMS, source=source)


def by_maker(estimator: Estimator, machine: Machine, std: float) -> tuple[Estimator, tuple[str, ...]]:
    """The estimator, and of a device of another maker than those of the timed programs a wider band and a remark.

    Parameters
    ----------
    std
        Standard deviation of log time [1] on such a device, independent of what is known.
    """
    if machine.family.startswith(MAKER) or not isinstance(estimator, Calibration):
        return estimator, ()
    wider = replace(estimator, residual_std=math.hypot(estimator.residual_std or 0.0, std))
    return wider, (f"no measured row is of {machine.name}, none of its maker: wider band",)
