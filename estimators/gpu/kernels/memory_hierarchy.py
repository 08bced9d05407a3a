"""The levels of a GPU's memory as kernels reach them: plateaus, knees, and the bytes in flight that fill the bandwidth.

A working set is read at the rate of the nearest level that holds it. Below saturation a level gives what is in flight
over its latency (Little's law); caches hold somewhat more than their capacity's worth before half of the gain is lost,
since lines are reused before all of them are thrown out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity
from slipstick.estimators.symbolic.cache_residency import missed, rated_caches
from slipstick.estimators.symbolic.formula import CheckedParameters, Parameter
from slipstick.hwmodels.machine import Machine

Floats = npt.NDArray[np.float64]
GPU_FAMILIES = ("nvidia-", "amd-gcn", "amd-cdna", "amd-rdna")


@dataclass(frozen=True)
class GpuMemory(CheckedParameters):
    """Plateaus, knees and latency; the defaults are medians over the devices of a public collection.

    The nearest cache's rate and the last cache's capacity are the data sheet's: their medians predict left-out devices
    worse (11 and 78 % against 4 and 11 %).

    Source: te42kyfo/gpu-benches (gpu-cache, gpu-l2-cache, gpu-stream) on A100, A40, H100, MI100, RX 6900 XT and V100;
    `slipstick validate gpu-memory` gives their errors with each device left out.
    """

    near: Annotated[float, Parameter("1", "share of the nearest cache's rate", 0.05, 1.5)] = 1.0
    main: Annotated[float, Parameter("1", "share of main memory's rate", 0.05, 1.2)] = 0.96
    over_main: Annotated[float, Parameter("1", "rate of the last cache over that of main memory", 1.0, 20.0)] = 3.1
    near_knee: Annotated[float, Parameter("1", "knee of the nearest cache over its capacity", 0.1, 10.0)] = 1.4
    cache_knee: Annotated[float, Parameter("1", "knee of the last cache over its capacity", 0.1, 10.0)] = 1.0
    latency: Annotated[float, Parameter("s", "of a read from main memory that waits for nobody", 1e-9, 1e-5)] = 3.1e-7
    sharpness: Annotated[float, Parameter("1", "how suddenly reads in flight saturate a level", 1.0, 50.0)] = 3.0

    def reached(self, machine: Machine, level: str) -> float:
        """Bytes a second of a level when it is saturated.

        A shared cache whose file states bytes a second gives them; bytes a cycle of all slices are rarely reached, and
        they are inferred from main memory.
        Raises InputError where the machine states no rate for it.
        """
        main = machine.main_memory
        if level == main:
            return self.main * machine.bandwidth(main)
        caches = rated_caches(machine)
        if level not in caches or machine.memory[level].capacity <= 0:
            raise InputError(
                f"{machine.name}: no rate of level {level!r} (levels with one: {', '.join((*caches, main))})"
            )
        if level == caches[0] and len(caches) > 1:
            return self.near * machine.bandwidth(level)
        if machine.memory[level].bandwidth is not None:
            return machine.bandwidth(level)
        return min(machine.bandwidth(level), self.over_main * self.reached(machine, main))

    def knee(self, machine: Machine, level: str) -> float:
        """Bytes of the working set (of one core, for a core's own cache) at which half of the level's gain is lost."""
        memory = machine.memory[level]
        return memory.capacity * (self.near_knee if memory.per == "core" else self.cache_knee)

    def rate(self, machine: Machine, size: npt.ArrayLike) -> Floats:
        """Bytes a second of all cores that read the same `size` bytes again and again.

        Levels of capacity 0 are not there: what they would hold is read from the next one.
        """
        sizes = np.asarray(size, dtype=np.float64)
        levels = [name for name in rated_caches(machine) if machine.memory[name].capacity > 0]
        rates = np.full(sizes.shape, self.reached(machine, machine.main_memory))
        for level in reversed(levels):
            level_rate, knee = self.reached(machine, level), self.knee(machine, level)
            beyond = missed(sizes, np.asarray(knee))
            rates = 1 / ((1 - beyond) / level_rate + beyond / rates)
        return rates

    def in_flight(self, machine: Machine, size: npt.ArrayLike) -> Floats:
        """Bytes a second from main memory with `size` bytes of reads on their way (threads x bytes of each)."""
        sizes = np.asarray(size, dtype=np.float64)
        ideal, most = sizes / self.latency, self.reached(machine, machine.main_memory)
        return np.asarray((ideal**-self.sharpness + most**-self.sharpness) ** (-1 / self.sharpness))


def reached_in_words(machine: Machine) -> str:
    """What kernels reach of each level of a GPU's memory; empty for other machines."""
    if not machine.family.startswith(GPU_FAMILIES):
        return ""
    model = GpuMemory()
    levels = [*(name for name in rated_caches(machine) if machine.memory[name].capacity > 0), machine.main_memory]
    rates = ", ".join(f"{name} {format_quantity(model.reached(machine, name), 'byte/s')}" for name in levels)
    return f"as kernels reach it, predicted from other GPUs (slipstick validate gpu-memory): {rates}"
