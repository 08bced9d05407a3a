"""What the operations of PyTorch programs need of a GPU before their kernels' shares of it.

Arithmetic runs no faster than the power cap allows. What fits in the last cache is found there, and check bits that
stand among the data cost bandwidth. The laws of cap, caches and engines are those of kernels that are timed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from slipstick.common.expressions import sp, symbol
from slipstick.common.size_column import Sized, largest, number, smallest
from slipstick.estimators.gpu.kernels.matrix_tiles import traffic_time
from slipstick.estimators.gpu.kernels.tiled_roofline import arithmetic, resources
from slipstick.estimators.gpu.programs.program_classes import DEPTHWISE, class_of
from slipstick.estimators.gpu.programs.program_priors import BYTES_A_CYCLE, FLOP_A_CYCLE, INLINE_ECC, KEPT_BYTES
from slipstick.estimators.power.voltage import capped_seconds
from slipstick.estimators.roofline.physical_bound import weight_bytes
from slipstick.estimators.roofline.roofline import product_of_fields, rated_flop, rounds_convolutions
from slipstick.estimators.symbolic.cache_residency import BLOCKS, missed
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import Machine
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
    """Seconds of one execution of an operation before its class's shares.

    `arithmetic`: at the rate that peak and power cap allow.
    `traffic`: main memory's and the last cache's.
    `cores`: of the cores that have work, at `FLOP_A_CYCLE` and `BYTES_A_CYCLE`.
    """

    arithmetic: sp.Expr
    traffic: sp.Expr
    cores: sp.Expr


def form_of_sides(op: Op, machine: Machine) -> tuple[Hashable, ...]:
    """What of an operation decides its formulas: what its flop run on, and its kind where rows or weights count."""
    return op.kind if op.kind in (*PASSES, *WEIGHED) else "", rates(op, machine)


def rates(op: Op, machine: Machine) -> tuple[tuple[str, str, str], ...]:
    """Of an operation's flop: their name in the cost, and the engine and data type at whose rate they run."""
    return rated_flop(op, machine, lambda dtype: _rounded(op, machine, dtype))


def sides(op: Op, machine: Machine) -> Sides:
    """Expressions in the machine's numbers and an operation's amounts (`AMOUNTS`, and what all operations have)."""
    rated = rates(op, machine)
    free, flop = arithmetic(rated, lambda *at: product_of_fields(machine.peak_factors(*at)))
    inline = machine.memory[machine.main_memory].ecc == "inline"
    has = resources(machine, free, INLINE_ECC if inline else 1.0, 1 / KEPT_BYTES, OVERLAP)
    moved, cores = symbol("operation.bytes_moved"), has.cores
    cycles = symbol("operation.matrix_bytes") / FLOP_A_CYCLE + symbol("operation.near") / BYTES_A_CYCLE
    busy, far = cores, moved
    if op.kind in PASSES:
        busy = Smallest(cores, symbol("operation.busy"))
        # many rows are under way at a time before one is read again
        under_way = Smallest(1, cores / symbol("operation.busy")) * symbol("operation.read")
        far = moved + symbol("operation.again") * missed(under_way, has.cache_capacity, BLOCKS)
    weights = symbol("operation.weight_bytes") if op.kind in WEIGHED else None
    return Sides(
        Largest(free, capped_seconds(free, flop, machine)),
        traffic_time(far, far, has, weights),
        cycles / (busy * has.clock),
    )


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
    if name == DEPTHWISE:
        return dtype if dtype == "float64" else "float32"
    if not name or dtype not in ("float32", "tfloat32"):
        return dtype
    return "tfloat32" if rounds_convolutions(machine) else "float32"


def _rows(op: Op) -> Sized:
    return number(op.dims["groups" if op.kind == "norm" else "rows"])
