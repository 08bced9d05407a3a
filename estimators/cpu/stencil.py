"""Loops over arrays on a CPU: layer conditions, traffic of each path, and data cycles.

A loop kernel reads and writes arrays at fixed offsets from its indices. Sort the accesses to one array by address: the
gap between one and the next is the reuse distance, infinite for the first. A cache holds all reuse up to distance t if

    sum over accesses of min(distance, t) <= capacity            (the layer condition)

and then the accesses with a larger distance miss: a step, or the share that `cache_residency.missed` says (Hammer,
Eitzinger, Hager, Wellein: "Kerncraft: a tool for analytic performance modeling of loop kernels", 2017; Stengel et al.,
ICS 2015). A line that is written but not read is loaded first (write-allocate) and evicted later.
All counts are in cache lines per line of results, so no line size appears.

Paths are named by their far end: "L2" is the path between L1 and L2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from slipstick.common.errors import InputError
from slipstick.estimators.symbolic.cache_residency import missed
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.kernels.loop_kernels import LoopKernel, reuse_distances

Bandwidth = Callable[[str, "LineTraffic"], float]
"""(level, lines that its path moves) -> bytes a second of traffic."""


@dataclass(frozen=True)
class LineTraffic:
    """Cache lines that a path moves for one line of results."""

    loads: float
    stores: float


def cache_traffic(
    kernel: LoopKernel, shape: Sequence[int], capacity: float, line: int = 64, sharpness: float = math.inf
) -> LineTraffic:
    """Lines of `line` bytes that a cache of `capacity` bytes exchanges with what lies beyond it.

    `sharpness`: of `missed`; infinite is the layer condition as published, a step at the capacity.

    Raises InputError where the shape does not have the kernel's dimensions.
    """
    if len(shape) != kernel.dimensions or any(size < 1 for size in shape):
        raise InputError(f"kernel {kernel.name!r}: shape {tuple(shape)}: want {kernel.dimensions} sizes >= 1")
    distances = reuse_distances(kernel, shape)
    whole = missed(float(kernel.element_bytes * footprint(kernel, shape)), capacity, sharpness)
    loads, arrays = 0.0, iter(kernel.arrays)
    for distance in distances:
        if distance is None:
            loads += whole if next(arrays) in kernel.reads else whole * kernel.allocates
        elif distance >= line // kernel.element_bytes:  # nearer neighbours share a line, however small the cache
            between = sum(distance if d is None else min(d, distance) for d in distances)
            loads += min(whole, missed(float(kernel.element_bytes * between), capacity, sharpness))
    return LineTraffic(loads, whole * len(kernel.writes))


def footprint(kernel: LoopKernel, shape: Sequence[int]) -> int:
    """Elements of all arrays together."""
    return len(kernel.arrays) * prod(shape)


def path_traffic(
    kernel: LoopKernel,
    shape: Sequence[int],
    machine: Machine,
    caches: Machine | None = None,
    sharpness: float = math.inf,
) -> dict[str, LineTraffic]:
    """Lines over every path of the machine beyond its nearest level, by the path's far end.

    `caches`: whose capacities decide the layer conditions; the machine's own if None.
    `sharpness`: see `cache_traffic`.
    """
    sizes = caches if caches is not None else machine
    levels = list(machine.memory)
    return {
        far: cache_traffic(kernel, shape, sizes.memory[near].capacity, machine.memory[near].line, sharpness)
        for near, far in pairwise(levels)
    }


def data_cycles(
    kernel: LoopKernel,
    shape: Sequence[int],
    machine: Machine,
    memory_bandwidth: float | Bandwidth,
    caches: Machine | None = None,
    sharpness: float = math.inf,
) -> dict[str, float]:
    """Cycles that each path is busy for one line of results: the data part of the ECM model, penalties apart.

    `memory_bandwidth`: bytes a second of traffic from main memory, or what gives it for a path and its lines.
    `sharpness`: see `cache_traffic`.
    """
    cycles = {}
    for name, lines in path_traffic(kernel, shape, machine, caches, sharpness).items():
        level = machine.memory[name]
        busy = lines.loads + lines.stores if level.duplex == "half" else max(lines.loads, lines.stores)
        if level.bytes_per_cycle is not None:
            cycles[name] = busy * level.line / level.bytes_per_cycle
        elif busy:
            rate = memory_bandwidth(name, lines) if callable(memory_bandwidth) else memory_bandwidth
            cycles[name] = busy * level.line * machine.clock / rate
        else:
            cycles[name] = 0.0
    return cycles


def core_elements(kernel: LoopKernel, shape: Sequence[int], line: int) -> float:
    """Elements that an iteration moves between the core and its nearest cache, each loaded once for a line of results.

    A neighbour that the iterations of one line share (i-1, i, i+1) stays in registers.
    """
    together = max(1, line // kernel.element_bytes)
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    total = 0
    for arrays in (kernel.reads, kernel.writes):
        for offsets in arrays.values():
            places = {sum(o * s for o, s in zip(offset, strides, strict=True)) for offset in offsets}
            total += len({place + i for place in places for i in range(together)})
    return total / together


def ecm_cycles(data: Mapping[str, float], overlapping: float, non_overlapping: float) -> float:
    """Cycles for one line of results on one core of the Intel kind, where transfers do not overlap with each other.

    max(T_OL, T_nOL + sum of the data cycles): Stengel et al., "Quantifying performance bottlenecks of stencil
    computations using the Execution-Cache-Memory model", ICS 2015, equation 1.
    """
    return max(overlapping, non_overlapping + sum(data.values()))
