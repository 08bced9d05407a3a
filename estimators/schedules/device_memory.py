"""What a device of several needs of its memory, and whether it has it."""

from __future__ import annotations

from collections.abc import Mapping

from slipstick.estimators.symbolic.lambdified.formula_cache import text_as_steps
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload


def device_memory(
    workload: Workload, machine: Machine, run: Mapping[str, float]
) -> tuple[float | None, tuple[str, ...]]:
    """The share of a device's main memory that is needed, and a line that says so; (None, ()) where it is not known.

    It is the workload's metadata `device_memory`, a formula in bytes of numbers of the run, or `device_states` where
    only weights, gradients and optimizer states are known.
    """
    for name, rest in (("device_memory", ""), ("device_states", " for weights, gradients and optimizer alone")):
        text = workload.metadata.get(name)
        if isinstance(text, str):
            need = float(text_as_steps(text, "byte").evaluate(run))
            has = float(machine.memory[machine.main_memory].capacity)
            fits = "DOES NOT FIT" if need > has else "activations come on top" if rest else "fits"
            return need / has, (f"{need / 1e9:.1f} GB of {has / 1e9:.0f} GB a device{rest}: {fits}",)
    return None, ()
