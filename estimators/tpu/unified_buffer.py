"""On-chip memory of an accelerator: what a layer hands to the next stays there, what lies longer comes from afar.

Compilers of accelerators keep the activations between two layers in the memory on the chip (Jouppi et al.,
"In-Datacenter Performance Analysis of a Tensor Processing Unit", ISCA 2017: a unified buffer of 24 MiB holds them),
while weights are fetched from main memory for every pass (there from 8 GiB of Weight Memory; later runtimes load them
anew in each execution). Where they stay on the chip, `machine.runtime.cache` is set to warm. An operation to which no
other hands anything reads the inputs of the graph, which lie in main memory: its caches are cold.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel, JointModel
from slipstick.estimators.roofline.roofline import product_of_fields
from slipstick.estimators.symbolic.cache_residency import rated_caches
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.tpu.systolic_array import AXES
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import SIZE_BYTES, Amount
from slipstick.workloads.graph.footprint import attends_to_cache
from slipstick.workloads.graph.op import FIRST
from slipstick.workloads.graph.work import product
from slipstick.workloads.graph.workload import Op, Workload

FAR = "operation.far"
"""Name of the amount of bytes that other layers do not leave on the chip."""


@dataclass(frozen=True)
class UnifiedBuffer(JointModel):
    """An operation takes as `inner` says with warm caches, or as long as what lies far away needs to come.

    t = max(t_inner, far bytes / bandwidth of main memory), and t_inner with cold caches where an operation is the first
    (`with_firsts`)

    `inner`: times with a runtime whose caches are warm: the last one holds what an operation touches, as far as it
        fits.
    `trains`: whether the pass is a training step, which keeps what the forward pass computes until the backward pass.
    """

    inner: FormulaModel
    trains: bool = False

    @property
    def parts(self) -> Mapping[str, FormulaModel]:
        """The inner model alone."""
        return {"inner": self.inner}

    def answering(self, op: Op) -> tuple[str, ...]:
        """The inner model."""
        return ("inner",)

    def key(self, op: Op, machine: Machine) -> Hashable:
        """That of the inner model, and whether anything is far."""
        return super().key(op, machine), self._is_far(op), FIRST in op.attributes

    def form(self, machine: Machine) -> Hashable:
        """That of the inner model; None where that has none."""
        inner = super().form(machine)
        return None if inner is None else (inner, self.trains)

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: those of the inner model, whose parameters stand under ``inner``, and operation.far."""
        found = machine.using({"runtime.cache": "cold"}) if FIRST in op.attributes else machine
        near = self.formula_of("inner", op, found)
        if not self._is_far(op) or near.expression == 0:
            return near
        rate = product_of_fields(machine.bandwidth_factors(machine.main_memory))
        seconds = symbol(FAR) / rate
        terms = {**near.terms, "memory": sp.Max(near.terms.get("memory", sp.Integer(0)), seconds, evaluate=False)}
        return Formula(sp.Max(near.expression, seconds, evaluate=False), near.unit, near.source, FrozenDict(terms))

    def amount(self, op: Op, name: str) -> Amount:
        """Far bytes, and the amounts of the inner model."""
        return far_bytes(op, trains=self.trains) if name == FAR else super().amount(op, name)

    def caches(self, machine: Machine) -> str:
        """What lies where."""
        near, far = rated_caches(machine)[-1], machine.main_memory
        later = "weights and what the backward pass needs" if self.trains else "weights"
        return f"a layer's tiles in {near} where they fit, {later} from {far}"

    def _is_far(self, op: Op) -> bool:
        return far_bytes(op, trains=self.trains) != 0


def with_firsts(workload: Workload) -> Workload:
    """The workload, its operations that wait for no other marked as the first: nothing that they read was written."""
    later = {after for _, after in workload.edges}
    marked = [
        op if op.name in later else replace(op, attributes=FrozenDict({**op.attributes, FIRST: True}))
        for op in workload
    ]
    return replace(workload, operations=tuple(marked))


def far_bytes(op: Op, *, trains: bool) -> Amount:
    """Bytes of one execution that no layer just before it has left on the chip.

    Weights, embeddings and cached keys of a forward pass; in training also what it writes for the backward pass, half
    of what an operation of the backward pass reads (the other half is the gradient), and all that an update touches.
    """
    if op.kind == "optimizer":
        return op.cost.bytes_moved
    if op.attributes.get("phase", "forward") != "forward":
        return op.cost["read"] / 2
    return _weights(op) + (op.cost["written"] if trains and op.kind != "view" else 0)


def _weights(op: Op) -> Amount:
    d = op.dims
    size = SIZE_BYTES[str(op.attributes.get("weights", op.dtype))]
    if op.kind == "gemm":  # batched products multiply activations, as attention does
        return size * d["m"] * d["k"] if d["batch"] == 1 else 0
    if op.kind == "convolution":
        window = product(d[f"kernel_{axis}"] for axis in AXES)
        return size * d["channels_in"] * d["channels_out"] / d["groups"] * window
    if op.kind == "gather":
        return op.cost["read"]
    if attends_to_cache(op):
        return op.cost["read"]
    return 0
