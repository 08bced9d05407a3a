"""Streams and stencils on a multi-core CPU: layer conditions, and the ECM model over all cores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.base.operation_model import Clock, OperationModel
from slipstick.estimators.cpu.stencil import core_elements, data_cycles, ecm_cycles, footprint
from slipstick.estimators.symbolic.cache_residency import missed
from slipstick.estimators.symbolic.formula import CheckedParameters, Parameter
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.kernels.loop_kernels import AXES, BY_NAME, LoopKernel, kernel_named

ELEMENT_BYTES = {"float32": 4, "float64": 8}
"""Data types of loops, and the bytes of one element."""


@dataclass(frozen=True)
class LayerConditions(CheckedParameters, OperationModel):
    """t = lines of results x max(ECM cycles / cores, memory cycles / NUMA domains in use) / clock.

    * ECM cycles of one line on one core: max(T_OL, T_nOL + sum of the transfers), T_OL the arithmetic at the peak of
      the vector unit, T_nOL the loads and stores between core and nearest cache at its bytes a cycle.
    * Transfers: the lines that miss each cache by its layer condition , at its bytes a cycle; main memory at the
      saturated bandwidth of one NUMA domain. Cores fill one domain after the other, divide the outermost dimension and
      share a cache in equal parts: arrays stay in a cache where a core's part of them fits its part of the cache.

    Sources: Stengel et al., ICS 2015, equations 1 and 2; Hammer et al., "Kerncraft", 2017. T_OL and T_nOL are bounds
    from the data sheet where those papers take an analyser of the machine code.
    """

    cores: Annotated[float, Parameter("1", "cores that run; 0: all of the machine's", 0.0, 1e6)] = 0.0
    write_allocate: Annotated[
        float, Parameter("1", "share of written lines that are loaded first; -1: nobody said, all of them", -1.0, 1.0)
    ] = -1.0

    @property
    def allocated(self) -> float:
        """`write_allocate`, all where nobody said: GCC and Clang stream no store of a loop by themselves."""
        return self.write_allocate if self.write_allocate >= 0 else 1.0

    def runs_at(self) -> Clock:
        """The machine's own clock."""
        return "nominal"

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds of one sweep of each operation, shape (operations,).

        Raises InputError where an operation is no loop over arrays, or the machine lacks the width of a path or a
        vector unit.
        """
        return np.array([self._seconds(op, machine) for op in operations])

    def lacks(self, machine: Machine) -> str:
        """The fields that a machine does not state and this model needs; "" where it states all."""
        caches = [name for name in machine.memory if name != machine.main_memory]
        missing = [f"memory.{name}.bytes_per_cycle" for name in caches if machine.memory[name].bytes_per_cycle is None]
        vector = machine.engines.get("vector")
        if vector is None or not vector.flop_per_cycle.get("float64"):
            missing.append("engines.vector.flop_per_cycle.float64")
        return ", ".join(missing if caches else ["memory.L1"])

    def _seconds(self, op: Op, machine: Machine) -> float:
        cores = int(self.cores) or machine.cores
        domain = machine.cores_per_numa or machine.cores
        rate = machine.bandwidth(machine.main_memory) / ceil(machine.cores / domain)
        cycles = loop_cycles(op, machine, cores, rate, allocates=self.allocated)
        each = max(cycles.lines / cores, 1.0) * cycles.one
        return max(each, cycles.lines * cycles.memory / ceil(cores / domain)) / machine.clock


@dataclass(frozen=True)
class LoopCycles:
    """Of one sweep: lines of results, cycles of one line on one core, all of them and those of main memory, and which
    share of the arrays the last cache does not hold from sweep to sweep."""

    lines: float
    one: float
    memory: float
    beyond: float


def loop_cycles(
    op: Op, machine: Machine, cores: int, rate: float, turn: float = math.inf, allocates: float = 1.0
) -> LoopCycles:
    """The ECM model of a loop while so many cores share the caches.

    `rate`: of main memory as one core alone would see it, bytes a second.
    `turn`: sharpness of `missed` at each cache's capacity; infinite as published.
    `allocates`: see `LoopKernel`.
    Raises InputError where the operation is no loop over arrays, the machine lacks the width of a path or a vector
    unit, or has fewer cores.
    """
    name = op.attributes.get("loop")
    if not isinstance(name, str):
        raise InputError(
            f"operation {op.name!r} ({op.kind}) is no loop over arrays; layer-conditions knows {', '.join(BY_NAME)}"
        )
    kernel = replace(kernel_named(name), element_bytes=_element_bytes(op), allocates=allocates)
    shape = tuple(int(float(op.dims[axis])) for axis in reversed(AXES[: kernel.dimensions]))
    if cores > machine.cores:
        raise InputError(f"threads, one a core, cores = {cores}: machine {machine.name!r} has {machine.cores}")
    nearest, level = next(iter(machine.memory.items()))
    if level.bytes_per_cycle is None:
        raise InputError(f"machine {machine.name!r}: give memory.{nearest}.bytes_per_cycle")
    results = level.line / kernel.element_bytes
    part = (ceil(shape[0] / cores), *shape[1:])
    shared = _shared(machine, cores)
    data = data_cycles(kernel, part, machine, rate, shared, turn)
    moved = core_elements(kernel, shape, level.line) * level.line / level.bytes_per_cycle
    one = ecm_cycles(data, results * kernel.flop / _flop_per_cycle(kernel, machine), moved)
    held = list(shared.memory.values())[-2].capacity if len(shared.memory) > 1 else 0.0
    beyond = missed(float(kernel.element_bytes * footprint(kernel, part)), held, turn)
    return LoopCycles(float(op.dims["elements"]) / results, one, data[machine.main_memory], beyond)


def _element_bytes(op: Op) -> int:
    """Of all arrays, from the operation's data type.

    Raises InputError where loops in that type are not modelled.
    """
    if op.dtype not in ELEMENT_BYTES:
        raise InputError(f"loop {op.name!r} in {op.dtype}: its arithmetic is not modelled (known: float32, float64)")
    return ELEMENT_BYTES[op.dtype]


def _shared(machine: Machine, cores: int) -> Machine:
    """The machine with each cache as small as the share of one of the running cores."""
    shares = {}
    for name, level in machine.memory.items():
        together = min(cores, machine.cores // max(1, machine.instances(name)))
        if name != machine.main_memory and together > 1:
            shares[f"memory.{name}.capacity"] = level.capacity / together
    return machine.using(shares) if shares else machine


def _flop_per_cycle(kernel: LoopKernel, machine: Machine) -> float:
    """Of one core, on the kernel's floats."""
    dtype = next(name for name, size in ELEMENT_BYTES.items() if size == kernel.element_bytes)
    vector = machine.engines.get("vector")
    rate = vector.flop_per_cycle.get(dtype) if vector is not None else None
    if not rate:
        raise InputError(f"machine {machine.name!r}: give engines.vector.flop_per_cycle.{dtype}")
    return float(rate)
