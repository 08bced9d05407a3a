"""What kernels reach of each level of a GPU's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity
from slipstick.estimators.symbolic.cache_residency import rated_caches
from slipstick.estimators.symbolic.formula import CheckedParameters, Parameter
from slipstick.hwmodels.machine import Machine

GPU_FAMILIES = ("nvidia-", "amd-gcn", "amd-cdna", "amd-rdna")


@dataclass(frozen=True)
class GpuMemory(CheckedParameters):
    """Plateaus; the defaults are medians over the devices of a public collection.

    The nearest cache's rate and the last cache's capacity are the data sheet's: their medians predict left-out devices
    worse (11 and 78 % against 4 and 11 %).

    Source: te42kyfo/gpu-benches (gpu-cache, gpu-l2-cache, gpu-stream) on A100, A40, H100, MI100, RX 6900 XT and V100;
    `slipstick validate gpu-memory` gives their errors with each device left out.
    """

    near: Annotated[float, Parameter("1", "share of the nearest cache's rate", 0.05, 1.5)] = 1.0
    main: Annotated[float, Parameter("1", "share of main memory's rate", 0.05, 1.2)] = 0.96
    over_main: Annotated[float, Parameter("1", "rate of the last cache over that of main memory", 1.0, 20.0)] = 3.1

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


def reached_in_words(machine: Machine) -> str:
    """What kernels reach of each level of a GPU's memory; empty for other machines."""
    if not machine.family.startswith(GPU_FAMILIES):
        return ""
    model = GpuMemory()
    levels = [*(name for name in rated_caches(machine) if machine.memory[name].capacity > 0), machine.main_memory]
    rates = ", ".join(f"{name} {format_quantity(model.reached(machine, name), 'byte/s')}" for name in levels)
    return f"as kernels reach it, predicted from other GPUs (slipstick validate gpu-memory): {rates}"
