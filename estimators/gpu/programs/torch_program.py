"""A PyTorch program on a GPU: what its operations take as whole programs have shown, issued by one host."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.records import FrozenDict
from slipstick.common.size_column import Sized, at_points
from slipstick.estimators.base.estimator_base import PointByPoint, put_in
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.base.schedule_model import FormulaSchedule
from slipstick.estimators.composition.clipped_at_peak import ClippedAtPeak, between_uses
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.power_capped import CAP, cap_was_set
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.gpu.programs.program_kernels import ProgramRuntimes, programs_scatter
from slipstick.estimators.roofline.physical_bound import PhysicalBound
from slipstick.estimators.roofline.roofline import rounds_convolutions
from slipstick.estimators.schedules.host_issue import HostIssue
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.transforms.channels_last import channels_last
from slipstick.workloads.transforms.mixed import tf32_convolutions

SIZES = ("workload.", "run.")
PASSED = ("machine.clock", "machine.memory.", "machine.price.", "machine.runtime.", "estimator.")
"""Numbers on which no operation hangs that PyTorch hands over, nor at which engine's rate it runs."""


@dataclass(frozen=True)
class InColumns(PointByPoint):
    """A composite at columns of sizes: its operations' laws are asked once for all points that they treat alike."""

    vectorised = True

    def __call__(self, values: Mapping[str, npt.ArrayLike]) -> FloatArray:
        """Seconds, in the shape to which the arrays broadcast; machine by machine."""
        estimator: TorchProgram = self.estimator
        held = CAP in self.free or cap_was_set(self.machine, estimator.runs_at())
        if held or not isinstance(estimator.schedule, FormulaSchedule):
            return super().__call__(values)
        arrays = self.arrays(values)

        def seconds(there: Mapping[str, float], at: Mapping[str, Sized]) -> Sized:
            machine, run, given = put_in(self.machine, self.run, there)
            by = estimator.with_parameters(given) if given else estimator
            return by.in_columns(self.workload, machine, {**run, **_sizes(at)})[2]

        flat = {name: array.ravel() for name, array in arrays.items()}
        return at_points(flat, SIZES, seconds).reshape(arrays[self.free[0]].shape)


def _sizes(at: Mapping[str, Sized]) -> dict[str, Sized]:
    return {name.partition(".")[2]: value for name, value in at.items() if name.startswith(SIZES)}


@dataclass(frozen=True)
class TorchProgram(ClippedAtPeak):
    """Operations as PyTorch hands them over: compiled, chains are fused and convolutions change their layout."""

    def lowered_graph(self, workload: Workload, machine: Machine) -> Workload:
        """See `ComposedEstimator.lowered_graph`; a workload with sizes open besides its batch keeps its layout."""
        return lowered_graph(workload, machine)

    def as_found(self, bound: Workload, machine: Machine) -> Machine:
        """Between two uses of a weight all the others are read: it is in a cache only where all of them fit."""
        return between_uses(bound, machine)

    def least_at(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], free: Mapping[str, FloatArray]
    ) -> FloatArray:
        """See `EstimatorBase.least_at`: numbers that no operation hangs on as arrays, the others value by value."""
        if CAP in free or cap_was_set(machine, self.runs_at()) or not isinstance(self.schedule, HostIssue):
            return super().least_at(workload, machine, run, free)

        def least(there: Mapping[str, float], at: Mapping[str, Sized]) -> Sized:
            changed, numbers, _ = put_in(machine, run, there)
            bound = self.bound(workload, changed, {**numbers, **_sizes(at)})
            arrays = {name.removeprefix("machine."): one for name, one in at.items()}
            return PhysicalBound(self.as_found(bound, changed), arrays).together(bound)

        return at_points(free, (*PASSED, *SIZES), least)

    def _compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: FrozenDict[float]
    ) -> Compiled | PointByPoint:
        """In columns where a free size decides the class of a kernel, where weights are found, or what is fused."""
        sizes = {name.partition(".")[2] for name in free if name.startswith(SIZES)}
        graph = self.graph(workload, machine)
        weighed = "parameters" in graph.metadata or len(graph.distinct.operations) == 1
        if sizes & graph.symbols and not (weighed and self._holds_open(graph, machine, sizes)):
            return InColumns(self, workload, machine, run, free)
        return super()._compile(workload, machine, free, run)

    def _holds_open(self, graph: Workload, machine: Machine, sizes: AbstractSet[str]) -> bool:
        """Whether one formula an operation answers at all values of some sizes."""
        if machine.runtime.mode == "compiled" or not isinstance(self.operation, FormulaModel):
            return False
        operations = self.lowered_graph(graph, machine).distinct.operations
        return all(self.operation.holds_open(op, machine) for op in operations if op.symbols & sizes)


def lowered_graph(workload: Workload, machine: Machine) -> Workload:
    """The operations that PyTorch launches: float32 convolutions rounded, and what its compiler makes of the rest."""
    rounded = tf32_convolutions(workload) if rounds_convolutions(machine) else workload
    fused = as_compiled(rounded, machine)
    return channels_last(fused) if machine.runtime.mode == "compiled" else fused


def torch_program() -> Calibration:
    """Forward passes, float32 as PyTorch computes it: TF32 in dense convolutions, not in products.

    The host issues operations as in every step, whatever their type. In 16 bits as image networks are under autocast.
    Eager, or compiled by TorchInductor where `machine.runtime.mode` is "compiled".
    """
    estimator = TorchProgram(ProgramRuntimes(), HostIssue(), "kernels of PyTorch programs, issued by one host")
    source = (
        "835 times of PyTorch programs on two H100, an L40S and an L4 (KernelBench v0.1; compiled but on the L40S); "
        "in 16 bits image networks on an RTX 3090 and an RTX 4090 (timm's benchmarks)"
    )
    return Calibration(estimator, (), residual_std=programs_scatter(), source=source)
