"""Training on many devices: kernels as measured on an A100, collectives of NCCL, the pipeline in closed form.

Stages that pass microbatches to each other: one forward, one backward, by recurrence and in closed form.

Each device holds one or several chunks of a network. In Megatron's order it first runs as many forward chunks as the
last stage needs to get going, then forward and backward in turn, then what backward is left (Narayanan et al., SC
2021, arXiv 2104.04473, section 2.2). Where stages are alike the bubble is (p - 1) / v times one microbatch's time on a
device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import Estimate, Spread
from slipstick.estimators.base.operation_model import amount_of, machine_values
from slipstick.estimators.base.primary_quantity import PrimaryQuantity
from slipstick.estimators.base.quantity import Quantity
from slipstick.estimators.base.schedule_model import FormulaSchedule, Outcome, run_values
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.composition.energy_and_cost import device_count
from slipstick.estimators.composition.flop_utilisation import utilisation
from slipstick.estimators.fitting.fitted_model import QUANTILE
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.interconnect.collective_law import half_width, nccl, shipped
from slipstick.estimators.interconnect.collectives import Collectives, DeviceAndCollectives
from slipstick.estimators.schedules.device_memory import device_memory
from slipstick.estimators.schedules.dispatch import AsynchronousDispatch
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified.evaluable import Steps
from slipstick.estimators.symbolic.lambdified.formula_cache import Formulas
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload

SOURCE = "1F1B with interleaving: Narayanan et al., SC 2021, section 2.2; overlap of gradients with the last backward"
LANES = (
    "layer",
    "input_gradient",
    "weight_gradient",
    "beside_input",
    "beside_weight",
    "tensor",
    "transfer",
    "embedding",
    "head",
    "tied",
    "data",
    "data_each",
    "weights_each",
    "gathered",
    "update",
)
ALIKE = ("tensor_parallel", "data_parallel", "pipeline_parallel", "microbatch", "interleave")


@dataclass(frozen=True)
class PipelineParallel(FormulaSchedule):
    """One iteration of a device graph of `slipstick.workloads.networks.megatron.step`, in closed form.

    Collectives of the tensor-parallel group count in full, but for those that run beside gradients: of these what
    sticks out. Sums of gradients over replicas hide behind the last microbatch's backward pass where
    `run.overlap_gradients` says so; where replicas share out gradients or parameters (`run.shard`), what they say to
    each other in every microbatch hides behind its arithmetic. Metrics are shares of the iteration (arithmetic,
    tensor_parallel, pipeline_bubble, pipeline_transfer, data_parallel, update), and of the device's memory
    (memory_share).
    """

    def lane(self, op: Op) -> str:
        """By the operation's attribute `lane`; operations without one are layers.

        Raises InputError where the attribute names no lane of a pipeline.
        """
        lane = str(op.attributes.get("lane", "layer"))
        if lane not in LANES:
            raise InputError(f"operation {op.name!r}: no lane {lane!r} in a pipeline (known: {', '.join(LANES)})")
        return lane

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """time.* of a device's lanes, run.pipeline_parallel, .interleave, .batch, .microbatch, .data_parallel."""
        return Formula(sp.Add(*_parts().values()), "s", SOURCE)

    def form(self, workload: Workload, machine: Machine) -> str:
        """One formula for all layouts."""
        return "all"

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine`; says besides how much memory a device needs, and whether it has it."""
        check_layout(workload, run)
        outcome = super().combine(workload, times, machine, run)
        whole = self.steps(workload, machine)
        values = {**machine_values(whole, machine), **run_values(whole, run)}
        lanes = np.array([self.lane(op) for op in workload.distinct.operations])[workload.distinct.place]
        spent = times * workload.executions
        values |= {f"time.{lane}": float(np.sum(spent[lanes == lane])) for lane in LANES}
        span = outcome.time or 1.0
        shares = {name: float(part(values)) / span for name, part in _part_steps().items()}
        share, notes = device_memory(workload, machine, run)
        if share is not None:
            shares["memory_share"] = share
        return replace(outcome, metrics=FrozenDict(shares), assumptions=(*notes, *_rounded(run)))


@cache
def _part_steps() -> FrozenDict[Steps]:
    """The parts, ready to be evaluated."""
    known = Formulas("parts of a pipeline")
    made = known.get("parts", lambda: Formula(sp.Integer(0), "s", SOURCE, FrozenDict(_parts())).lowered)
    known.keep()
    return made.terms


def _parts() -> dict[str, sp.Expr]:
    """The seconds of an iteration by what they are spent on; their sum is the iteration."""
    time = {lane: symbol(f"time.{lane}") for lane in LANES}
    stages, chunks = symbol("run.pipeline_parallel"), symbol("run.interleave")
    rounds = sp.ceiling(symbol("run.batch") / (symbol("run.data_parallel") * symbol("run.microbatch")))
    arithmetic = time["layer"] + time["input_gradient"] + time["weight_gradient"]
    tensor = time["tensor"] + Largest(0, time["beside_input"] - time["input_gradient"])
    tensor += Largest(0, time["beside_weight"] - time["weight_gradient"])
    ends = (time["embedding"], time["head"])
    # The slower end sets the pace of every microbatch; the other shows once, or always where one device is both.
    other = Smallest(*ends) * Largest(1 / rounds, 2 - stages)
    work = arithmetic + tensor + time["transfer"]
    backward = (time["input_gradient"] + time["weight_gradient"]) / rounds
    overlap = symbol("run.overlap_gradients") - 1
    between = Largest(0, time["data"] - overlap * backward) + time["tied"] + time["gathered"]
    # With parts of gradients and weights shared out, replicas talk in every microbatch, beside its arithmetic.
    between += Largest(0, time["data_each"] - overlap * backward * rounds)
    between += Largest(0, time["weights_each"] - overlap * arithmetic)
    return {
        "arithmetic": arithmetic + Largest(*ends) + other,
        "tensor_parallel": tensor,
        "pipeline_bubble": work * (stages - 1) / (chunks * rounds),
        "pipeline_transfer": time["transfer"],
        "data_parallel": between,
        "update": time["update"],
    }


def check_layout(workload: Workload, run: Mapping[str, float]) -> None:
    """Check the numbers of a run.

    Raises InputError where one cannot be.
    """
    for name in ALIKE:
        if run.get(name, 1) < 1 or run.get(name, 1) != int(run.get(name, 1)):
            raise InputError(f"run.{name} = {run[name]:g}: want a whole number >= 1")
    for name, high in (("recompute", 3), ("sequence_parallel", 2), ("overlap_gradients", 2), ("shard", 4)):
        if run.get(name, 1) not in range(1, high + 1):
            raise InputError(f"run.{name} = {run[name]:g}: want a whole number from 1 to {high}")
    if run.get("shard", 1) >= 3 and run.get("pipeline_parallel", 1) > 1:
        raise InputError(
            f"run.shard = {run['shard']:g} with run.pipeline_parallel = {run['pipeline_parallel']:g}: gradients and "
            "parameters are shared out where there is one stage (frameworks refuse it too, for every microbatch would "
            "sum its gradients); run.shard=optimizer goes with any"
        )
    heads, tensor = workload.metadata.get("heads"), run.get("tensor_parallel", 1)
    if isinstance(heads, int) and (tensor > heads or heads % tensor):
        cuts = ", ".join(str(ranks) for ranks in range(1, heads + 1) if heads % ranks == 0)
        raise InputError(f"run.tensor_parallel = {tensor:g}: want what divides the {heads} heads: {cuts}")
    layers, groups = workload.metadata.get("layers"), run.get("pipeline_parallel", 1) * run.get("interleave", 1)
    if isinstance(layers, int) and groups > layers:
        raise InputError(
            f"run.pipeline_parallel x run.interleave = {groups:g}: more than the {layers} layers of {workload.name!r}"
        )
    batch, least = run.get("batch"), run.get("data_parallel", 1) * run.get("microbatch", 1)
    if batch is not None and least > batch:
        raise InputError(f"run.data_parallel x run.microbatch = {least:g}: more than run.batch = {batch:g}")


def _rounded(run: Mapping[str, float]) -> tuple[str, ...]:
    """A line where the batch is no whole number of microbatches on each replica."""
    batch, at_once = run.get("batch", 1.0), run.get("data_parallel", 1.0) * run.get("microbatch", 1.0)
    rounds = math.ceil(batch / at_once)
    if rounds * at_once == batch:
        return ()
    return (
        f"run.batch = {batch:g} is no multiple of run.data_parallel x run.microbatch = {at_once:g}: the time is that "
        f"of {rounds} whole microbatches a replica, {rounds * at_once:g} sequences (Megatron-LM refuses it)",
    )


KERNELS = FrozenDict(
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
SCATTER = FrozenDict(
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
class ParallelTraining(PrimaryQuantity, ComposedEstimator):
    """A composite whose band follows from the scatter of each part of the iteration.

    `scatter`: standard deviation of log time by part of the schedule's account.
    `quantity`: with which its answers begin; "" for the time alone, which compiles to a formula.
    """

    scatter: FrozenDict[float] = SCATTER
    quantity: str = ""

    @property
    def keeps_open(self) -> frozenset[str]:
        """The layout: the schedule reads it as well as the operations."""
        return LAYOUT

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """See `ComposedEstimator.estimate`; the parts' errors count as independent."""
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
        bound = self.bound(workload, machine, FrozenDict(numbers))
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
        """See `ComposedEstimator.assumptions`."""
        return (*super().assumptions(workload, machine), TOGETHER)


@dataclass(frozen=True)
class CollectiveTimes(ComposedEstimator):
    """Collectives by themselves, with the band of the law that public transfers gave (`collective_law`).

    `scatter`: standard deviation of log time where sizes are not known: of 17,000 public transfers on machines left out
        (`slipstick validate collectives`), half of them where a link that no data sheet states was not measured.
    """

    scatter: float = 0.32

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """See `ComposedEstimator.estimate`; all collectives err alike."""
        answer = super().estimate(workload, machine, run)
        bound = workload.bind_known({**workload.defaults, **(run or {})})
        sums = [op for op in bound.operations if op.kind == "collective" and float(amount_of(op, "participants")) > 1]
        widest = max((half_width(shipped(), op, machine) / QUANTILE for op in sums), default=self.scatter)
        return replace(answer, spread=Spread(residual=widest))

    def assumptions(self, workload: Workload, machine: Machine) -> tuple[str, ...]:
        """See `ComposedEstimator.assumptions`, and the algorithm and protocol of each collective."""
        links = self.operation.links if isinstance(self.operation, DeviceAndCollectives) else nccl()
        known = ways(links, workload, machine)
        return (*super().assumptions(workload, machine), *([known] if known else []))


def collective_times() -> CollectiveTimes:
    """The estimator by the name "collectives"."""
    source = "rings, trees and adding switches by NCCL's protocols"
    return CollectiveTimes(DeviceAndCollectives(TiledRoofline(), nccl()), Sequential(), source)


@dataclass(frozen=True)
class DataParallelTraining(ComposedEstimator):
    """Replicas that each have all of the network, their sums of gradients beside the backward pass."""

    def assumptions(self, workload: Workload, machine: Machine) -> tuple[str, ...]:
        """See `ComposedEstimator.assumptions`."""
        return (*super().assumptions(workload, machine), TOGETHER)


def data_parallel_training() -> DataParallelTraining:
    """The estimator by the name "data-parallel-dispatch"."""
    return DataParallelTraining(
        DeviceAndCollectives(TiledRoofline(), nccl()), AsynchronousDispatch(), "collectives beside kernels"
    )


def parallel_training() -> ParallelTraining:
    """The estimator by the name "parallel-training"."""
    return ParallelTraining(
        DeviceAndCollectives(TiledRoofline(KERNELS), nccl()),
        PipelineParallel(),
        "tiled roofline and NCCL's collectives under a pipeline of microbatches",
    )
