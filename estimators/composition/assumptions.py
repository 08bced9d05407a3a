"""What an answer of a composite takes for granted, line by line."""

from __future__ import annotations

from slipstick.common.formatting import format_quantity
from slipstick.common.records import Same
from slipstick.estimators.composition.workload_cache import resident
from slipstick.estimators.roofline.roofline import widened
from slipstick.hwmodels.machine import CHANGED, Machine
from slipstick.workloads.graph.footprint import attends_to_cache
from slipstick.workloads.graph.workload import Workload


def served(machine: Machine, unit: str, dtype: str) -> str:
    """UNIT.DTYPE; a product that another engine or another data type serves says which."""
    if unit == "matrix" and widened(machine, dtype):
        why = "has a lower one" if ("vector", dtype) in machine.slow_halves else "states none"
        return f"{unit}.{dtype} at the rate of float32 ({machine.name} {why} for {dtype}: values are widened)"
    rated = [name for name in ("matrix", "vector") if name in machine.engines]
    rated = [name for name in rated if dtype in machine.engines[name].flop_per_cycle]
    return f"{unit}.{dtype}" + (" on the vector engine" if unit == "matrix" and rated == ["vector"] else "")


def geometry_notes(machine: Machine) -> tuple[str, ...]:
    """What of the geometry is not as stated, by how much that scales the rates, and that a rate is set beside it."""
    lines = []
    for path, scaled in machine.stated.geometry.items():
        before, now = machine.stated.get(path), machine.get(path)
        if not before or before == now:
            continue
        set_too = [name for name in scaled if machine.source_of(name).startswith(CHANGED)]
        beside = f", and a rate that is set beside ({', '.join(set_too)})" if set_too else ""
        lines.append(f"{path} {now:g} instead of {before:g} scales what is stated by {now / before:.4g}{beside}")
    return tuple(lines)


def fusion_notes(before: Workload, after: Workload) -> tuple[str, ...]:
    """How many operations the runtime fused into how many."""
    return (f"{len(before)} operations fused into {len(after)}",) if len(after) < len(before) else ()


def memory_notes(workload: Workload, machine: Machine) -> tuple[str, ...]:
    """That the machine cannot hold the workload, where the graph says so; graphs of many devices say their own."""
    kept = None if "devices" in workload.metadata else resident(Same(workload))
    main = machine.main_memory
    there = machine.memory[main].capacity * machine.instances(main)
    if kept is None or not there or kept <= there:
        return ()
    updates = "optimizer" in workload.kinds
    decodes = any(map(attends_to_cache, workload.distinct.operations))
    serving = "parameters, keys and values alone take" if decodes else "parameters alone take"
    what = "parameters, gradients and optimizer state alone take" if updates else serving
    sizes = [format_quantity(size, "byte") for size in (kept, there)]
    return (f"does not fit: {what} {sizes[0]}, {main} of {machine.name} has {sizes[1]}",)


def stands_for(workload: Workload) -> tuple[str, ...]:
    """That another model's numbers stand for it, where they do."""
    other = str(workload.metadata.get("stands_for", ""))
    return (other,) if other else ()
