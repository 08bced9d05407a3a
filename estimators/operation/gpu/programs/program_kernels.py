"""Kernels of PyTorch programs: each class of operation reaches its shares of peak and bandwidth, as programs show.

An operation takes the longer of its arithmetic and its traffic plus a share of the shorter, or what its cores need to
work it off, clock by clock, where that is longer (`program_sides.py`); a recurrent layer takes its steps. The numbers
are fitted to whole programs (`slipstick validate programs`); none was timed alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.operation_model import OperationModel, require_bound
from slipstick.estimators.operation.gpu.programs.program_sides import (
    FEATURES,
    bounds,
    computed,
    features,
    joined,
    kernel_class,
)
from slipstick.estimators.operation.physical_bound import PhysicalBound
from slipstick.estimators.tuned.tuned_unseen import STEP_CLOCK
from slipstick.hwmodels.files.readers import InputError, read_json
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op

TRAINED = Path(__file__).parent / "program_kernels.json"
COMPILED = Path(__file__).parent / "program_kernels_compiled.json"
HALF_FITS = {mode: Path(__file__).parent / f"program_kernels_half_{mode}.json" for mode in ("eager", "compiled")}
HALF = ("float16", "bfloat16")


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
                times[key] = max(self._time(op, machine), least.least(computed(op, machine))[0])
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
        name = kernel_class(op)
        slow, late = math.log(_nearest(self.compute, name)), math.log(_nearest(self.memory, name))
        for feature, octaves in zip(FEATURES, features(op), strict=True):
            slow += self.convolution_compute[feature] * octaves
            late += self.convolution_memory[feature] * octaves
        return {
            "compute": sides.arithmetic * math.exp(slow),
            "memory": sides.traffic * math.exp(late),
            "cores": sides.cores * _nearest(self.cycles, name),
            "latency": self.gap,
        }


def _nearest(table: Mapping[str, float], name: str) -> float:
    """The number of a class, or of its relative without the last word (`convolution.grouped.last`); 1 without any."""
    while name not in table and "." in name:
        name = name.rpartition(".")[0]
    return table.get(name, 1.0)


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
    half_eager, half_compiled
        The same of programs that compute in 16 bits, on the matrix units.
    """

    eager: ProgramKernels
    compiled: ProgramKernels
    half_eager: ProgramKernels
    half_compiled: ProgramKernels

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """See `ProgramKernels.times`."""
        return self._kernels(operations, machine).times(operations, machine)

    def bounds(self, operations: Sequence[Op], machine: Machine) -> list[str | None]:
        """See `ProgramKernels.bounds`."""
        return self._kernels(operations, machine).bounds(operations, machine)

    def _kernels(self, operations: Sequence[Op], machine: Machine) -> ProgramKernels:
        compiled = machine.runtime.mode == "compiled"
        if any(op.dtype in HALF and op.kind in ("convolution", "gemm") for op in operations):
            return self.half_compiled if compiled else self.half_eager
        return self.compiled if compiled else self.eager


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


@cache
def half(mode: str) -> ProgramKernels:
    """The fitted model of 16-bit programs, "eager" or "compiled".

    Fitted to image networks under autocast on an RTX 3090 and an RTX 4090 (timm's benchmarks); refitted by
    `python -m slipstick.experiments.evidence.validation.vision.vision_train`.
    """
    return from_numbers(read_json(HALF_FITS[mode]))[0]


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


TABLES = ("compute", "memory", "cycles", "convolution_compute", "convolution_memory")
