"""Kernels of PyTorch programs: each class of operation reaches its shares of peak and bandwidth, as programs show.

The classes are what cuDNN, cuBLAS and PyTorch's own kernels distinguish: convolutions by taps, channels, groups and
direction, products by how thin they are, norms by function. An operation takes the longer of its arithmetic and its
traffic plus a share of the shorter, or what its cores need to work it off, clock by clock, where that is longer;
arithmetic runs no faster than the power cap allows; what fits in the last cache is found there; a recurrent layer takes
its steps. The numbers are fitted to whole programs (`slipstick validate programs`); none was timed alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.operation_model import OperationModel, require_bound
from slipstick.estimators.core.residency import RESIDENT, rated_caches
from slipstick.estimators.operation.gpu.tiled import MATRIX_ENERGY
from slipstick.estimators.operation.physical_bound import PhysicalBound
from slipstick.estimators.operation.roofline import serving_rate
from slipstick.estimators.tuned.tuned_unseen import BYTES_A_CYCLE, FLOP_A_CYCLE, KEPT_BYTES, STEP_CLOCK
from slipstick.hwmodels.files.readers import InputError, read_json
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.workload import Op

TRAINED = Path(__file__).parent / "program_kernels.json"
COMPILED = Path(__file__).parent / "program_kernels_compiled.json"
OVERLAP = 0.3
"""Share of the shorter of arithmetic and traffic that is not hidden (as `KernelParameters.overlap`)."""
FEATURES = ("inputs", "outputs", "taps", "strided", "dilated", "unaligned")
"""Of a convolution: octaves of channels of a group below 64, octaves of taps, and what else slows its kernels."""
REDUCTIONS = {"scan": ("cumsum", "cumprod"), "place": ("argmax", "argmin")}
"""Reductions with kernels of their own: every partial result is written, or the place of the extreme one is kept."""
THIN = 16
"""Rows or columns of a product below which it only reads a matrix."""
IN_FLIGHT = 264
"""Rows that fill the device: two for each multiprocessor of an H100."""


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


@dataclass(frozen=True)
class ProgramKernels(OperationModel):
    """Times of the operations of programs on GPUs.

    Parameters
    ----------
    compute, memory
        By class: the inverse share of peak rate and of bandwidth that its kernels reach.
    cycles
        By class: how many times longer its cores work than at `FLOP_A_CYCLE` and `BYTES_A_CYCLE`.
    convolution_compute, convolution_memory
        By feature: log slowness of a convolution for each of its octaves (`FEATURES`).
    few_rows
        By kind ("norm", "softmax"): log slowness for each octave by which rows are too few for the device.
    gap
        Seconds between two kernels of a stream.
    step
        Seconds of a step of a recurrent layer whose matrices stay in the caches, at `STEP_CLOCK`.
    """

    compute: Table[float]
    memory: Table[float]
    cycles: Table[float]
    convolution_compute: Table[float]
    convolution_memory: Table[float]
    few_rows: Table[float]
    gap: float
    step: float

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds of one execution of each operation, shape (operations,).

        Raises
        ------
        InputError
            Where a size is open, or the machine cannot compute in the operation's data type.
        """
        free = machine.runtime.free_kinds
        least = PhysicalBound(machine)  # shares above 1 were fitted where a mask or a cache saves what is counted
        times: dict[object, float] = {}  # layers repeat: each shape once
        keys = [(op.kind, op.dtype, op.dims, op.attributes, op.cost) for op in operations]
        for key, op in zip(keys, operations, strict=True):
            if op.kind not in free and key not in times:
                times[key] = max(self._time(op, machine), least.least(_computed(op, machine))[0])
        return np.array([times.get(key, 0.0) for key in keys])

    def bounds(self, operations: Sequence[Op], machine: Machine) -> list[str | None]:
        """The longest side of each operation: compute, memory, cores, or latency (of launches and steps)."""
        free = machine.runtime.free_kinds
        return [None if op.kind in free else self._longest(op, machine) for op in operations]

    def _longest(self, op: Op, machine: Machine) -> str:
        sides = self._sides(op, machine)
        waits = "latency" if op.kind != "view" else "memory"
        return max((waits, "memory", "compute", "cores"), key=lambda name: sides[name])

    def _time(self, op: Op, machine: Machine) -> float:
        require_bound(op)
        sides = self._sides(op, machine)
        if op.kind == "recurrent":
            return max(sides["latency"], sides["compute"])
        return float(joined(sides["compute"], sides["memory"], sides["cores"])) + sides["latency"]

    def _sides(self, op: Op, machine: Machine) -> dict[str, float]:
        """Seconds of one execution by what they are spent on."""
        sides = bounds(op, machine)
        if op.kind == "recurrent":
            step = self.step * STEP_CLOCK / machine.clock
            return {"compute": sides.arithmetic, "memory": 0.0, "cores": 0.0, "latency": step}
        name = class_of(op)
        slow, late = math.log(self.compute.get(name, 1.0)), math.log(self.memory.get(name, 1.0))
        for feature, octaves in zip(FEATURES, features(op), strict=True):
            slow += self.convolution_compute[feature] * octaves
            late += self.convolution_memory[feature] * octaves
        if op.kind in self.few_rows:
            late += self.few_rows[op.kind] * rows_missing(op)
        return {
            "compute": sides.arithmetic * math.exp(slow),
            "memory": sides.traffic * math.exp(late),
            "cores": sides.cores * self.cycles.get(name, 1.0),
            "latency": self.gap,
        }


@dataclass(frozen=True)
class ProgramRuntimes(OperationModel):
    """Kernels by how the machine's runtime makes them: those of PyTorch's libraries, or those of its compiler.

    Parameters
    ----------
    eager
        Of eager mode, and of recorded graphs of it.
    compiled
        Of TorchInductor in its default mode: norms, softmax and chains are generated, products and convolutions are
        the libraries', on tensors whose channels lie together.
    """

    eager: ProgramKernels
    compiled: ProgramKernels

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """See `ProgramKernels.times`."""
        return self._kernels(machine).times(operations, machine)

    def bounds(self, operations: Sequence[Op], machine: Machine) -> list[str | None]:
        """See `ProgramKernels.bounds`."""
        return self._kernels(machine).bounds(operations, machine)

    def _kernels(self, machine: Machine) -> ProgramKernels:
        return self.compiled if machine.runtime.mode == "compiled" else self.eager


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
    near = float(op.cost["read"]) * _overlap(op) + float(op.cost["written"])
    steps = matrix / FLOP_A_CYCLE + near / BYTES_A_CYCLE
    main = moved / machine.bandwidth(machine.main_memory)
    return Sides(time, _traffic(moved, machine), steps / (_busy_cores(op, machine) * machine.clock), main)


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


def _busy_cores(op: Op, machine: Machine) -> float:
    """Cores that have work: a row of a norm or softmax is one core's."""
    if op.kind in ("norm", "softmax"):
        return max(1.0, min(float(machine.cores), _rows(op)))
    return float(machine.cores)


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


def _computed(op: Op, machine: Machine) -> Op:
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


def rows_missing(op: Op) -> float:
    """Octaves by which a norm or softmax has fewer rows than fill the device."""
    return _octaves(IN_FLIGHT / _rows(op))


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


@cache
def trained() -> tuple[ProgramKernels, float]:
    """The fitted model of eager mode, and the host's seconds to issue an operation.

    Fitted to KernelBench v0.1 (eager, an H100 SXM, an H100 PCIe and an L40S); refitted by
    `python -m slipstick.experiments.evidence.validation.models.programs.program_train`.
    """
    return from_numbers(read_json(TRAINED))


@cache
def compiled() -> ProgramKernels:
    """The fitted model of compiled mode: what torch.compile changed in KernelBench v0.1 on the two H100."""
    return from_numbers(read_json(COMPILED))[0]


def from_numbers(numbers: Mapping[str, Mapping[str, float]]) -> tuple[ProgramKernels, float]:
    """The model and the host's issue time of a fit's file.

    Raises
    ------
    InputError
        Where a time is not above 0.
    """
    tables = {name: Table(dict(numbers[name])) for name in TABLES}
    times = numbers["seconds"]
    if not all(math.isfinite(v) and v > 0 for v in times.values()):
        raise InputError(f"fit of program kernels: seconds = {dict(times)}: want numbers > 0")
    return ProgramKernels(**tables, gap=times["gap"], step=times["step"]), times["issue"]


TABLES = ("compute", "memory", "cycles", "convolution_compute", "convolution_memory", "few_rows")
