"""What the operations of PyTorch programs need of a GPU before their kernels' shares of it.

Arithmetic runs no faster than the power cap allows: below the knee of the voltage a flop costs a fixed energy, above it
the clock falls with the cube root of the power that is missing (as in `tiled`). What fits in the last cache is found
there, and check bits that stand among the data cost bandwidth. `sides` is written once, for today's numbers (fits) and
for symbols (answers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import sp, symbol
from slipstick.common.size_column import Sized, largest, number, smallest
from slipstick.estimators.base.operation_model import amount_of
from slipstick.estimators.gpu.programs.program_classes import DEPTHWISE, class_of
from slipstick.estimators.gpu.programs.program_priors import BYTES_A_CYCLE, FLOP_A_CYCLE, INLINE_ECC, KEPT_BYTES
from slipstick.estimators.power.energy import MATRIX_ENERGY
from slipstick.estimators.power.voltage import knee
from slipstick.estimators.roofline.physical_bound import weight_bytes
from slipstick.estimators.roofline.roofline import serving_rate
from slipstick.estimators.symbolic.cache_residency import BLOCKS, RESIDENT, capacity_of_all, missed, rated_caches
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import HALF, Machine
from slipstick.workloads.graph.cost import Amount, Cost
from slipstick.workloads.graph.kinds import SIZE_BYTES
from slipstick.workloads.graph.workload import Op

OVERLAP = 0.3
"""Share of the shorter of arithmetic and traffic that is not hidden (as `KernelParameters.overlap`)."""
TILE = 128
"""Channels of a tile of outputs: what a window loads serves so many (CUTLASS's and cuDNN's usual tiles)."""
THREADS = {"norm.layer": 128, "softmax": 1024}
"""Of the block that works off a row (aten/src/ATen/native/cuda: layer_norm_kernel.cu, PersistentSoftmax and SoftMax.cu;
batch and group norms have 512 a channel or group, cuDNN's kernel for batches as well)."""
USUAL_THREADS, THREADS_A_CORE = 512, 2048
PASSES = {"norm": 2, "softmax": 3}
"""How often those kernels read a row: for its mean or maximum, for the sum of a softmax, and to scale it."""


WEIGHED = ("gemm", "convolution")
"""Kinds that read weights, which come back only after all others of a program."""


class Sides(NamedTuple):
    """Seconds of one execution of an operation before its class's shares: numbers, or expressions of them.

    `arithmetic`: at the rate that peak and power cap allow.
    `traffic`: main memory's and the last cache's.
    `cores`: of the cores that have work, at `FLOP_A_CYCLE` and `BYTES_A_CYCLE`.
    `main`: of all bytes through main memory: the plain roofline's.
    """

    arithmetic: Any
    traffic: Any
    cores: Any
    main: Any


def joined(arithmetic: npt.ArrayLike, traffic: npt.ArrayLike, cores: npt.ArrayLike) -> FloatArray:
    """Seconds by what the three sides of an operation need: the longest, and a share of what is not hidden.

    Joined by a power mean (4), so that a fit sees the cores before they bind.
    """
    longer = np.maximum(arithmetic, traffic) + OVERLAP * np.minimum(arithmetic, traffic)
    return np.asarray(np.sqrt(np.sqrt(np.square(np.square(longer)) + np.square(np.square(cores)))))


class SideTerms(Protocol):
    """Where `sides` has what it computes with: today's numbers, or symbols."""

    def value(self, name: str) -> Any:
        """Of ``operation.NAME`` or ``machine.PATH``."""
        ...

    def held(self, level: str) -> Any:
        """Bytes that all instances of a level hold together."""
        ...

    def most(self, one: Any, other: Any) -> Any:
        """The larger of two."""
        ...

    def least(self, one: Any, other: Any) -> Any:
        """The smaller of two."""
        ...


@dataclass(frozen=True)
class NumberTerms:
    """Today's numbers of a bound operation and a machine."""

    op: Op
    machine: Machine

    def value(self, name: str) -> float:
        """See `SideTerms.value`."""
        space, _, path = name.partition(".")
        return float(self.machine.get(path)) if space == "machine" else float(amount(self.op, name))

    def held(self, level: str) -> float:
        """See `SideTerms.held`."""
        return float(self.machine.memory[level].capacity * self.machine.instances(level))

    def most(self, one: float, other: float) -> float:
        """See `SideTerms.most`."""
        return max(one, other)

    def least(self, one: float, other: float) -> float:
        """See `SideTerms.least`."""
        return min(one, other)


@dataclass(frozen=True)
class SymbolTerms:
    """Symbols of a machine's numbers and of an operation's amounts (`amount`)."""

    machine: Machine

    def value(self, name: str) -> sp.Symbol:
        """See `SideTerms.value`."""
        return symbol(name)

    def held(self, level: str) -> sp.Expr:
        """See `SideTerms.held`."""
        return capacity_of_all(self.machine, level)

    def most(self, one: sp.Expr, other: sp.Expr) -> sp.Expr:
        """See `SideTerms.most`."""
        return Largest(one, other)

    def least(self, one: sp.Expr, other: sp.Expr) -> sp.Expr:
        """See `SideTerms.least`."""
        return Smallest(one, other)


def bounds(op: Op, machine: Machine) -> Sides:
    """What the arithmetic, the traffic and the cores of an operation need at least."""
    return sides(op, machine, NumberTerms(op, machine))


def rates(op: Op, machine: Machine) -> tuple[tuple[str, str, str], ...]:
    """Of an operation's flop: their name in the cost, and the engine and data type at whose rate they run."""
    rated_flop = []
    for name in op.cost:
        if not name.startswith("flop."):
            continue
        _, unit, dtype = name.split(".")
        rated_flop.append(
            (name, *serving_rate(machine, unit, _rounded(op, machine, dtype) if unit == "matrix" else dtype))
        )
    return tuple(rated_flop)


def sides(op: Op, machine: Machine, terms: SideTerms) -> Sides:
    """`bounds`, computed with what `terms` stands for: today's numbers or symbols."""
    arithmetic = 0
    power = machine.power
    product = any(name.startswith("flop.matrix.") for name in op.cost)
    for name, engine, rated in rates(op, machine):
        if product and not name.startswith("flop.matrix."):
            continue  # the epilogue of a product
        rate = _product(terms, machine.peak_factors(engine, rated))
        if power.cap and power.per_flop:
            each = terms.value("machine.power.per_flop") * (
                MATRIX_ENERGY.get(rated, 1.0) if engine == "matrix" else 1.0
            )
            idle = terms.value("machine.power.idle") if power.idle else 0
            at_knee = (terms.value("machine.power.cap") - idle) / each
            voltage = terms.most(1, terms.value("machine.clock") / knee(machine))
            # above the knee power grows with the cube of the clock
            squeezed = rate ** (2 / 3) * (at_knee / voltage**2) ** (1 / 3)
            rate = terms.least(rate, terms.least(at_knee, squeezed))
        arithmetic = arithmetic + terms.value(f"operation.{name}") / rate
    moved, cores = terms.value("operation.bytes_moved"), terms.value("machine.cores")
    cycles = terms.value("operation.matrix_bytes") / FLOP_A_CYCLE + terms.value("operation.near") / BYTES_A_CYCLE
    busy = terms.least(cores, terms.value("operation.busy")) if op.kind in PASSES else cores
    main = _product(terms, machine.bandwidth_factors(machine.main_memory))
    reached = main * INLINE_ECC if machine.memory[machine.main_memory].ecc == "inline" else main
    far = moved
    if op.kind in PASSES:
        far = moved + terms.value("operation.again") * _missed(machine, cores, terms)
    weights = terms.value("operation.weight_bytes") if op.kind in WEIGHED else None
    traffic = _traffic(far, reached, machine, terms, weights)
    return Sides(arithmetic, traffic, cycles / (busy * terms.value("machine.clock")), moved / main)


def _product(terms: SideTerms, paths: Sequence[str]) -> Any:
    return math.prod(terms.value(f"machine.{path}") for path in paths)


def _traffic(moved: Any, main: Any, machine: Machine, terms: SideTerms, weights: Any) -> Any:
    """Seconds of so many bytes, those that the last cache still holds at its rate; weights after all the others."""
    caches = rated_caches(machine)
    if not caches or not machine.memory[caches[-1]].capacity:
        return moved / main
    held = terms.held(caches[-1])
    resident = float(RESIDENT) * (1 - missed(moved, KEPT_BYTES * held, BLOCKS))
    if weights is not None:
        kept = terms.least(resident, 1 - missed(terms.value("machine.runtime.weights_between"), held))
        resident = resident - (resident - kept) * weights / moved
    fast = terms.most(main, _product(terms, machine.bandwidth_factors(caches[-1])))
    return moved * ((1 - resident) / main + resident / fast)


def _missed(machine: Machine, cores: Any, terms: SideTerms) -> Any:
    """Share of a row that the last cache has lost when it is read again: many rows are under way at a time."""
    caches = rated_caches(machine)
    if not caches or not machine.memory[caches[-1]].capacity:
        return 1
    under_way = terms.least(1, cores / terms.value("operation.busy")) * terms.value("operation.read")
    return missed(under_way, terms.held(caches[-1]), BLOCKS)


def amount(op: Op, name: str) -> Amount:
    """What stands for a symbol of `sides` in an operation: `AMOUNTS`, and what all operations have."""
    counted = AMOUNTS.get(name.removeprefix("operation."))
    return amount_of(op, name) if counted is None else counted(op)


def _again(op: Op) -> Sized:
    """Bytes that a row's kernel reads again."""
    return (PASSES.get(op.kind, 1) - 1) * number(op.cost["read"])


def _near(op: Op) -> Sized:
    """Bytes that cores load and store, from wherever they are."""
    return number(op.cost["read"]) * _overlap(op) + number(op.cost["written"]) + _again(op) + _windows(op)


def _matrix_bytes(op: Op) -> Sized:
    """Flop of products times the bytes of their numbers, float32 as TF32 (`FLOP_A_CYCLE`)."""
    return sum(
        number(op.cost[name]) * SIZE_BYTES[name.rpartition(".")[2]]
        for name in op.cost
        if name.startswith("flop.matrix.")
    )


def _overlap(op: Op) -> Sized:
    """How often the windows of a pooling read an element from the nearest cache."""
    if op.kind != "pool":
        return 1.0
    inputs = largest(1.0, number(op.dims["inputs"]))
    return largest(1.0, number(op.dims["outputs"]) * number(op.dims["window"]) / inputs)


def _windows(op: Op) -> Sized:
    """Bytes that a convolution loads from the nearest cache as matrices of windows: once for each tile of outputs."""
    if op.kind != "convolution":
        return 0.0
    outputs = number(op.dims["channels_out"]) / number(op.dims["groups"])
    flop = sum(number(op.cost[name]) for name in op.cost if name.startswith("flop.matrix."))
    return SIZE_BYTES[op.dtype] * flop / 2 / smallest(outputs, TILE)


def _busy(op: Op) -> Sized:
    """Cores that the rows of a norm or softmax fill: a row is one block's, which has a share of a core's threads."""
    return largest(1.0, _rows(op)) * THREADS.get(class_of(op), USUAL_THREADS) / THREADS_A_CORE


AMOUNTS: Mapping[str, Callable[[Op], Sized]] = {
    "again": _again,
    "near": _near,
    "matrix_bytes": _matrix_bytes,
    "busy": _busy,
    "weight_bytes": weight_bytes,
}
"""Amounts of an operation that `sides` names beside its cost."""


def _rounded(op: Op, machine: Machine, dtype: str) -> str:
    """PyTorch rounds float32 convolutions to tfloat32 where NVIDIA's machines can.

    Kernels of depthwise ones take no matrix instruction in any type and sum in float32 (aten/src/ATen/native/cuda:
    DepthwiseConv2d.cu, `acc_t`; cuDNN's as well).
    """
    name = class_of(op) if op.kind == "convolution" else ""
    if not name or dtype not in ("float32", "tfloat32", *(HALF if name == DEPTHWISE else ())):
        return dtype
    dense = name != DEPTHWISE
    return "tfloat32" if dense and rounds_convolutions(machine) else "float32"


def rounds_convolutions(machine: Machine) -> bool:
    """Whether PyTorch computes float32 convolutions in tfloat32 there: on NVIDIA's machines whose matrix units can."""
    matrix = machine.engines.get("matrix")
    return machine.family.startswith("nvidia") and matrix is not None and "tfloat32" in matrix.flop_per_cycle


def computed(op: Op, machine: Machine) -> Op:
    """The operation with its arithmetic in the type that the machine computes in."""
    if op.kind != "convolution" or _rounded(op, machine, "float32") == "float32":
        return op
    names = {name: name.replace("flop.matrix.float32", "flop.matrix.tfloat32") for name in op.cost}
    return replace(op, cost=Cost({names[name]: amount for name, amount in op.cost.items()}))


def _rows(op: Op) -> Sized:
    return number(op.dims["groups" if op.kind == "norm" else "rows"])
