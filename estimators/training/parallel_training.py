"""Training on many devices: kernels as measured on an A100, collectives of NCCL, the pipeline in closed form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipstick.common.records import Table
from slipstick.estimators.base.estimate import Estimate, Spread
from slipstick.estimators.base.operation_model import amount_of
from slipstick.estimators.base.primary_quantity import BeginsWith
from slipstick.estimators.base.quantity import Quantity
from slipstick.estimators.composition.composed_estimator import Composite
from slipstick.estimators.composition.energy_and_cost import device_count
from slipstick.estimators.composition.flop_utilisation import utilisation
from slipstick.estimators.fitting.fitted_model import QUANTILE
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.interconnect.collective_law import half_width, library, shipped
from slipstick.estimators.interconnect.collectives import Collectives
from slipstick.estimators.interconnect.compute_and_collectives import DeviceAndLinks
from slipstick.estimators.schedules.dispatch import AsynchronousDispatch
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.training.pipeline_parallel import PipelineParallel, check_layout
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

    Fitted by `slipstick validate --refit collectives`. What a network reaches is of InfiniBand with one card a device:
    a round number, since the systems' own networks were rented. Infinity Fabric has no public timings here: it keeps
    what its library's source says. The launch is that of a call in a loop of calls; a call by itself from Python takes
    up to 31 us more, and never less than 40.
    """
    return library(shipped())


def ways(links: Collectives, workload: Workload, machine: Machine) -> str:
    """Which algorithm and protocol each collective takes, in words; empty where none is bound.

    Raises InputError where the machine has no links between devices.
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
class ParallelTraining(BeginsWith, Composite):
    """A composite whose band follows from the scatter of each part of the iteration.

    `scatter`: standard deviation of log time by part of the schedule's account.
    `quantity`: with which its answers begin; "" for the time alone, which compiles to a formula.
    """

    scatter: Table[float] = SCATTER
    quantity: str = ""

    @property
    def keeps_open(self) -> frozenset[str]:
        """The layout: the schedule reads it as well as the operations."""
        return LAYOUT

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """See `Composite.estimate`; the parts' errors count as independent."""
        check_layout(workload, {**workload.defaults, **(run or {})})
        answer = super().estimate(workload, machine, run)
        wide = 1.0 if machine.family == FITTED_FAMILY else ELSEWHERE
        shares = [answer.metrics.get(name, 0.0) * sigma * wide for name, sigma in self.scatter.items()]
        devices = device_count(workload, run or {})
        answer = replace(answer, spread=Spread(residual=math.hypot(*shares)), devices=devices)
        return self._with_quantities(answer, workload, machine, run or {}) if self.quantity else answer

    def _with_quantities(
        self, answer: Estimate, workload: Workload, machine: Machine, run: Mapping[str, float]
    ) -> Estimate:
        """The answer with tokens/s, MFU, memory, power and cost beside its time, of all devices together."""
        numbers = {**workload.defaults, **run}
        bound = self.bound(workload, machine, Table(numbers))
        low, high = (answer.time / end for end in answer.interval() or (answer.time, answer.time))
        made: list[Quantity] = []

        def rate(name: str, value: float, unit: str, meaning: str) -> None:
            made.append(Quantity(name, value, unit, value * high, value * low, "more", meaning))

        if isinstance(length := workload.metadata.get("seq_len"), int):
            rate("tokens", numbers["batch"] * length / answer.time, "tokens/s", "tokens/s of all devices")
        share, peak = utilisation(bound, machine, answer.time)
        if share is not None:
            rate("mfu", share, "1", f"of {peak}")
        if (held := answer.metrics.get("memory_share")) is not None:
            there = float(machine.memory[machine.main_memory].capacity)
            fits = "fits" if held <= 1 else "DOES NOT FIT"
            meaning = f"of a device: {fits} in {there / 1e9:.4g} GB"
            made.append(Quantity("memory", held * there, "byte", meaning=meaning))
        if answer.energy is not None:
            made.append(Quantity("power", answer.energy / answer.time, "W", meaning="mean power of all devices"))
        if machine.price is not None:
            dollars = machine.price / 3600 * answer.time * answer.devices
            made.append(Quantity("cost", dollars, "$", dollars / low, dollars / high, meaning="cost of a step"))
        return replace(answer, others=tuple(made)).about(self.quantity)

    def assumptions(self, workload: Workload, machine: Machine) -> tuple[str, ...]:
        """See `Composite.assumptions`."""
        return (*super().assumptions(workload, machine), TOGETHER)


@dataclass(frozen=True)
class CollectiveTimes(Composite):
    """Collectives by themselves, with the band of the law that public transfers gave (`collective_law`).

    `scatter`: standard deviation of log time where sizes are not known: of 17,000 public transfers on machines left out
        (`slipstick validate collectives`), half of them where a link that no data sheet states was not measured.
    """

    scatter: float = 0.32

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """See `Composite.estimate`; all collectives err alike."""
        answer = super().estimate(workload, machine, run)
        bound = workload.bind_known({**workload.defaults, **(run or {})})
        sums = [op for op in bound.operations if op.kind == "collective" and float(amount_of(op, "participants")) > 1]
        widest = max((half_width(shipped(), op, machine) / QUANTILE for op in sums), default=self.scatter)
        return replace(answer, spread=Spread(residual=widest))

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
