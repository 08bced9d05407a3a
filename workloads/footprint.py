"""What a workload keeps in memory all the time: at least its parameters, with their gradients and optimizer state."""

from __future__ import annotations

import sympy as sp

from workloads.work import SIZE_BYTES
from workloads.workload import Workload


def resident_bytes(workload: Workload) -> float | None:
    """Bytes that lie in memory at once whatever the runtime does; None where the graph does not say.

    An update reads each parameter with its gradient and state, so what all updates read is there when they begin. A
    workload without updates keeps its parameters, in the smallest type it computes in.
    """
    updates = [op.cost["read"] for op in workload if op.kind == "optimizer"]
    if not updates:
        sizes = [SIZE_BYTES[name.rpartition(".")[2]] for op in workload for name in op.cost if name.startswith("flop.")]
        parameters = workload.metadata.get("parameters")
        known = isinstance(parameters, (int, float, sp.Integer)) and bool(sizes)
        updates = [float(parameters) * min(sizes)] if known else []  # type: ignore[arg-type]
    if not updates or any(isinstance(amount, sp.Basic) and amount.free_symbols for amount in updates):
        return None
    return float(sum(updates))
