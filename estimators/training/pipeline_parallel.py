"""Stages that pass microbatches to each other: one forward, one backward, by recurrence and in closed form.

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

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.lazy_sympy import sp
from slipstick.common.records import Table
from slipstick.estimators.base.operation_model import machine_values
from slipstick.estimators.base.schedule_model import FormulaSchedule, Outcome, run_values
from slipstick.estimators.schedules.device_memory import device_memory
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified import FloatArray
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
        return replace(outcome, metrics=Table(shares), assumptions=(*notes, *_rounded(run)))


@cache
def _part_steps() -> Table[Steps]:
    """The parts, ready to be evaluated."""
    known = Formulas("parts of a pipeline")
    made = known.get("parts", lambda: Formula(sp.Integer(0), "s", SOURCE, Table(_parts())).lowered)
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
