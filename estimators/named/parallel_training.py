"""Training on many devices: kernels as measured on an A100, collectives of NCCL, the pipeline in closed form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipstick.estimators.composites.composite import Composite
from slipstick.estimators.core.estimate import Estimate, Spread
from slipstick.estimators.core.operation_model import amount_of
from slipstick.estimators.operation.by_kind import DeviceAndLinks
from slipstick.estimators.operation.gpu.kernel_classes import KernelParameters
from slipstick.estimators.operation.gpu.tiled import TiledRoofline
from slipstick.estimators.operation.links.collectives import Collectives
from slipstick.estimators.operation.links.libraries import LIBRARIES
from slipstick.estimators.schedule.dispatch import AsynchronousDispatch
from slipstick.estimators.schedule.pipelines.pipeline_parallel import PipelineParallel
from slipstick.estimators.schedule.sequential import Sequential
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

KERNELS = Table(
    {
        # Fitted to 2,000 half-precision linear layers of vidur's A100 80 GB (scatter 4.8 %).
        "gemm": KernelParameters(
            overhead=0.0,
            compute_efficiency=0.796,
            memory_efficiency=0.828,
            tile_cycles=1234.0,
            step_cycles=1.5,
            small_tile=0.0294,
            split_overhead=2.29e-6,
            overlap=0.223,
            rotation=5.89,
        ),
        # Fitted to NeuSight's A100 80 GB PCIe; its launch overhead is of a call by itself and is hidden in a step.
        "norm": KernelParameters(memory_efficiency=0.896, tile_cycles=1652.0, step_cycles=0.826, small_tile=0.179),
        "softmax": KernelParameters(memory_efficiency=0.900, tile_cycles=1485.0, step_cycles=0.445, small_tile=0.751),
        "default": KernelParameters(memory_efficiency=0.867, overlap=0.302),
    }
)
LAYOUT = frozenset(
    {
        *("tensor_parallel", "pipeline_parallel", "data_parallel", "sequence_parallel"),
        *("batch", "microbatch", "interleave", "recompute", "overlap_gradients", "shard"),
    }
)
"""Sizes that the schedule reads as well."""
FITTED_FAMILY = "nvidia-ampere-ga100"
SCATTER = Table(
    arithmetic=0.07,
    tensor_parallel=0.15,
    pipeline_bubble=0.07,
    pipeline_transfer=0.5,
    data_parallel=0.3,
    update=0.15,
)
"""Standard deviation of the log of each part: what the fits scatter, wider where nothing was fitted (transfers)."""
ELSEWHERE = 2.0
"""How much wider the band is on machines of another family than the kernels were fitted to."""


TOGETHER = "energy and cost are those of all devices together, without their links, switches and hosts"


def nccl() -> Collectives:
    """Rings, trees and adding switches by NCCL's protocols (RCCL's over xgmi), as all public timings fit them.

    What a network reaches is of InfiniBand with one card a device: a round number, since the systems' own networks
    were rented. Infinity Fabric has no public timings here: it keeps what its library's source says. The launch is
    that of a call in a loop of calls; a call by itself from Python takes up to 31 us and never less than 53.
    """
    return Collectives(
        efficiency=Table(default=0.9, nvlink=0.95, nvswitch=0.91, pcie=0.75, host=0.42, infiniband=0.9),
        floor=Table(default=0.0),
        launch=Table(default=3.8e-6),
        relayed=Table(
            default=1.0, nvlink=0.72, nvswitch=0.72, nvswitch4=0.742, nvlink4=0.742, nvswitch5=0.724, nvlink5=0.724
        ),
        latency=Table(default=1.0, nvlink3=1.04, nvswitch3=1.04, nvlink4=0.806, nvswitch4=0.806),
        tree_share=0.92,
        in_switch=Table(default=0.0, nvswitch4=0.77, nvswitch5=0.67, nvlink5=0.67),
        protocols=LIBRARIES,
        algorithms=("ring", "tree"),
    )


def ways(links: Collectives, workload: Workload, machine: Machine) -> str:
    """Which algorithm and protocol each collective takes, in words; empty where none is bound.

    Raises
    ------
    InputError
        Where the machine has no links between devices.
    """
    taken: dict[str, dict[str, None]] = {}
    for op in workload.operations:
        if op.kind == "collective" and not op.symbols:
            if float(amount_of(op, "participants")) <= 1:
                continue
            function = str(op.attributes.get("function", "all_reduce")).replace("_", "-")
            taken.setdefault(function, {})[" by ".join(links.chosen(op, machine))] = None
    return "; ".join(f"{function}: {' and '.join(found)}" for function, found in taken.items())


@dataclass(frozen=True)
class ParallelTraining(Composite):
    """A composite whose band follows from the scatter of each part of the iteration.

    Parameters
    ----------
    scatter
        Standard deviation of log time by part of the schedule's account.
    """

    scatter: Table[float] = SCATTER

    @property
    def keeps_open(self) -> frozenset[str]:
        """The layout: the schedule reads it as well as the operations."""
        return LAYOUT

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """See `Composite.estimate`; the parts' errors count as independent."""
        answer = super().estimate(workload, machine, run)
        wide = 1.0 if machine.family == FITTED_FAMILY else ELSEWHERE
        shares = [answer.metrics.get(name, 0.0) * sigma * wide for name, sigma in self.scatter.items()]
        return replace(answer, spread=Spread(residual=math.hypot(*shares)))

    def assumptions(self, workload: Workload, machine: Machine) -> tuple[str, ...]:
        """See `Composite.assumptions`."""
        return (*super().assumptions(workload, machine), TOGETHER)


@dataclass(frozen=True)
class CollectiveTimes(Composite):
    """Collectives by themselves, with the band of transfers on machines that nothing was fitted to.

    Parameters
    ----------
    scatter
        Standard deviation of log time: 80 % of 17,000 public transfers on machines left out lie in the band
        (`slipstick validate collectives`), half of them where a link that no data sheet states was not measured.
    """

    scatter: float = 0.32

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """See `Composite.estimate`."""
        return replace(super().estimate(workload, machine, run), spread=Spread(residual=self.scatter))

    def assumptions(self, workload: Workload, machine: Machine) -> tuple[str, ...]:
        """See `Composite.assumptions`, and the algorithm and protocol of each collective."""
        links = self.operation.links if isinstance(self.operation, DeviceAndLinks) else nccl()
        known = ways(links, workload, machine)
        return (*super().assumptions(workload, machine), *([known] if known else []))


def collective_times() -> CollectiveTimes:
    """The estimator by the name "collectives"."""
    source = "rings, trees and adding switches by NCCL's protocols"
    return CollectiveTimes(DeviceAndLinks(TiledRoofline(), nccl()), Sequential(), source)


@dataclass(frozen=True)
class DataParallelTraining(Composite):
    """Replicas that each have all of the network, their sums of gradients beside the backward pass."""

    def assumptions(self, workload: Workload, machine: Machine) -> tuple[str, ...]:
        """See `Composite.assumptions`."""
        return (*super().assumptions(workload, machine), TOGETHER)


def data_parallel_training() -> DataParallelTraining:
    """The estimator by the name "data-parallel-dispatch"."""
    return DataParallelTraining(
        DeviceAndLinks(TiledRoofline(), nccl()), AsynchronousDispatch(), "collectives beside kernels"
    )


def parallel_training() -> ParallelTraining:
    """The estimator by the name "parallel-training"."""
    return ParallelTraining(
        DeviceAndLinks(TiledRoofline(KERNELS), nccl()),
        PipelineParallel(),
        "tiled roofline and NCCL's collectives under a pipeline of microbatches",
    )
