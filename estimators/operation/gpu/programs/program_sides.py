"""What the operations of PyTorch programs need of a GPU before their kernels' shares of it, and their classes.

The classes are what cuDNN, cuBLAS and PyTorch's own kernels distinguish: convolutions by taps, channels, groups and
direction, products by how thin they are, norms by function. Arithmetic runs no faster than the power cap allows; what
fits in the last cache is found there.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.residency import RESIDENT, rated_caches
from slipstick.estimators.operation.gpu.tiled import MATRIX_ENERGY
from slipstick.estimators.operation.roofline import serving_rate
from slipstick.estimators.tuned.tuned_unseen import BYTES_A_CYCLE, FLOP_A_CYCLE, KEPT_BYTES
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.kinds import SIZE_BYTES
from slipstick.workloads.graph.workload import Op

OVERLAP = 0.3
"""Share of the shorter of arithmetic and traffic that is not hidden (as `KernelParameters.overlap`)."""
FEATURES = ("inputs", "outputs", "taps", "strided", "dilated", "unaligned")
"""Of a convolution: octaves of channels of a group below 64, octaves of taps, and what else slows its kernels."""
REDUCTIONS = {"scan": ("cumsum", "cumprod"), "place": ("argmax", "argmin")}
"""Reductions with kernels of their own: every partial result is written, or the place of the extreme one is kept."""
THIN = 16
"""Rows or columns of a product below which it only reads a matrix."""
TILE = 128
"""Channels of a tile of outputs: what a window loads serves so many (CUTLASS's and cuDNN's usual tiles)."""
THREADS = {"norm.layer": 128, "softmax": 1024}
"""Of the block that works off a row (aten/src/ATen/native/cuda: layer_norm_kernel.cu, PersistentSoftmax and SoftMax.cu;
batch and group norms have 512 a channel or group, cuDNN's kernel for batches as well)."""
USUAL_THREADS, THREADS_A_CORE = 512, 2048
PASSES = {"norm": 2, "softmax": 3}
"""How often those kernels read a row: for its mean or maximum, for the sum of a softmax, and to scale it."""


LAST = ".last"
LAST_ORDERS = ("0231", "02341")
"""Axes of images and volumes as they lie in memory where channels lie together (`torch.channels_last`)."""


class Sides(NamedTuple):
    """Seconds of one execution of an operation before its class's shares.

    Parameters
    ----------
    arithmetic
        At the rate that peak and power cap allow.
    traffic
        Main memory's and the last cache's.
    cores
        Of the cores that have work, at `FLOP_A_CYCLE` and `BYTES_A_CYCLE`.
    main
        Of all bytes through main memory: the plain roofline's.
    """

    arithmetic: float
    traffic: float
    cores: float
    main: float


def joined(arithmetic: npt.ArrayLike, traffic: npt.ArrayLike, cores: npt.ArrayLike) -> FloatArray:
    """Seconds by what the three sides of an operation need: the longest, and a share of what is not hidden.

    Joined by a power mean (4), so that a fit sees the cores before they bind.
    """
    longer = np.maximum(arithmetic, traffic) + OVERLAP * np.minimum(arithmetic, traffic)
    return np.asarray(np.sqrt(np.sqrt(np.square(np.square(longer)) + np.square(np.square(cores)))))


def bounds(op: Op, machine: Machine) -> Sides:
    """What the arithmetic, the traffic and the cores of an operation need at least."""
    time = matrix = 0.0
    product = any(name.startswith("flop.matrix.") for name in op.cost)
    for name in op.cost:
        if not name.startswith("flop."):
            continue
        _, unit, dtype = name.split(".")
        if product and unit != "matrix":
            continue  # the epilogue of a product
        engine, rated = serving_rate(machine, unit, _rounded(op, machine, dtype))
        rate = machine.peak(engine, rated)
        power = machine.power
        if power.cap and power.per_flop:
            each = power.per_flop * (MATRIX_ENERGY.get(rated, 1.0) if engine == "matrix" else 1.0)
            rate = min(rate, (power.cap - power.idle) / each)
        time += float(op.cost[name]) / rate
        matrix += float(op.cost[name]) if unit == "matrix" else 0.0
    moved = float(op.cost.bytes_moved)
    again = (PASSES.get(op.kind, 1) - 1) * float(op.cost["read"])
    near = float(op.cost["read"]) * _overlap(op) + float(op.cost["written"]) + again + _windows(op, matrix)
    steps = matrix / FLOP_A_CYCLE + near / BYTES_A_CYCLE
    main = moved / machine.bandwidth(machine.main_memory)
    far = moved + (again * _missed(op, machine) if again else 0.0)
    return Sides(time, _traffic(far, machine), steps / (_busy_cores(op, machine) * machine.clock), main)


def _traffic(moved: float, machine: Machine) -> float:
    """Seconds of so many bytes, those that the last cache still holds at its rate."""
    main = machine.bandwidth(machine.main_memory)
    caches = rated_caches(machine)
    if not caches or not moved:
        return moved / main
    held = KEPT_BYTES * machine.memory[caches[-1]].capacity * machine.instances(caches[-1])
    resident = float(RESIDENT) * held**3 / (held**3 + moved**3)
    return moved * ((1 - resident) / main + resident / max(main, machine.bandwidth(caches[-1])))


def _overlap(op: Op) -> float:
    """How often the windows of a pooling read an element from the nearest cache."""
    if op.kind != "pool":
        return 1.0
    return max(1.0, float(op.dims["outputs"]) * float(op.dims["window"]) / max(1.0, float(op.dims["inputs"])))


def _windows(op: Op, flop: float) -> float:
    """Bytes that a convolution loads from the nearest cache as matrices of windows: once for each tile of outputs."""
    if op.kind != "convolution":
        return 0.0
    outputs = float(op.dims["channels_out"]) / float(op.dims["groups"])
    return SIZE_BYTES[op.dtype] * flop / 2 / min(outputs, TILE)


def _busy_cores(op: Op, machine: Machine) -> float:
    """Cores that have work: a row of a norm or softmax is one block's, which has a share of a core's threads."""
    if op.kind in PASSES:
        return min(float(machine.cores), max(1.0, _rows(op)) * _threads(op) / THREADS_A_CORE)
    return float(machine.cores)


def _threads(op: Op) -> int:
    return THREADS.get(class_of(op), USUAL_THREADS)


def _missed(op: Op, machine: Machine) -> float:
    """Share of a row that the last cache has lost when it is read again: many rows are under way at a time."""
    caches = rated_caches(machine)
    if not caches:
        return 1.0
    under_way = min(1.0, machine.cores * THREADS_A_CORE / _threads(op) / max(1.0, _rows(op))) * float(op.cost["read"])
    held = machine.memory[caches[-1]].capacity * machine.instances(caches[-1])
    return under_way**3 / (held**3 + under_way**3)


def _rounded(op: Op, machine: Machine, dtype: str) -> str:
    """PyTorch rounds float32 convolutions to tfloat32 where NVIDIA's machines can; those of groups stay."""
    if op.kind != "convolution" or dtype not in ("float32", "tfloat32"):
        return dtype
    dense = class_of(op) not in ("convolution.depthwise", "convolution.grouped")
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


def class_of(op: Op) -> str:
    """The class of kernels that serves an operation."""
    dims, kind = op.dims, op.kind
    if kind == "convolution":
        deep = float(dims["kernel_depth"]) > 1 or float(dims["in_depth"]) > 1
        if op.attributes.get("transposed"):
            return "convolution.transposed3" if deep else "convolution.transposed"
        if float(dims["groups"]) > 1:
            alone = dims["groups"] == dims["channels_in"]
            return "convolution.depthwise" if alone else "convolution.grouped"
        if deep:
            return "convolution.3"
        if _taps(op) == 1:
            return "convolution.point"
        return "convolution.first" if float(dims["channels_in"]) <= 4 else "convolution"
    if kind == "gemm":
        if min(float(dims["m"]), float(dims["n"])) <= THIN:
            return "gemm.thin"
        return "gemm.batch" if float(dims["batch"]) > 1 else "gemm"
    function = str(op.attributes.get("function", "layer"))
    if kind == "reduction":
        return next((f"reduction.{word}" for word, names in REDUCTIONS.items() if function in names), kind)
    return f"norm.{function}" if kind == "norm" else kind


def kernel_class(op: Op) -> str:
    """`class_of`, and where the channels of images lie together: other kernels of the library serve those."""
    together = op.attributes.get("order") in LAST_ORDERS and op.kind in ("convolution", "pool")
    return class_of(op) + (LAST if together else "")


def features(op: Op) -> tuple[float, ...]:
    """Numbers of a convolution, by `FEATURES` (octaves and flags); zeros for other operations."""
    if op.kind != "convolution":
        return (0.0,) * len(FEATURES)
    groups = float(op.dims["groups"])
    inputs, outputs = (float(op.dims[f"channels_{side}"]) / groups for side in ("in", "out"))
    return (
        _octaves(64 / inputs),
        _octaves(64 / outputs),
        _octaves(_taps(op)),
        float(_largest(op, "stride") > 1),
        float(_largest(op, "dilation") > 1),
        float(inputs % 4 != 0 or outputs % 4 != 0),
    )


def _rows(op: Op) -> float:
    return float(op.dims["groups" if op.kind == "norm" else "rows"])


def _taps(op: Op) -> float:
    return math.prod(float(op.dims.get(f"kernel_{axis}", 1)) for axis in ("depth", "height", "width"))


def _largest(op: Op, name: str) -> float:
    value = op.attributes.get(name, 1)
    return (
        max((float(v) for v in value if isinstance(v, (int, float))), default=1.0) if isinstance(value, tuple) else 1.0
    )


def _octaves(ratio: float) -> float:
    return math.log2(max(1.0, ratio))
