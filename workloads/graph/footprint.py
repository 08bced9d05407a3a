"""What a workload keeps in memory all the time: at least its parameters, with their gradients and optimizer state."""

from __future__ import annotations

from slipstick.common.expressions import is_symbolic
from slipstick.common.size_column import Sized, number
from slipstick.workloads.graph.cost import SIZE_BYTES, Amount
from slipstick.workloads.graph.given import is_one
from slipstick.workloads.graph.workload import Op, Workload


def resident_bytes(workload: Workload) -> Sized:
    """Bytes that lie in memory at once whatever the runtime does; None where the graph does not say.

    An update reads each parameter with its gradient and state, so what all updates read is there when they begin. A
    workload without updates keeps its parameters, in the smallest type it computes in (less what products with narrow
    weights save), and where single words attend to many (decoding) the keys and values of every layer.
    """
    alike = workload.distinct
    updates = [alike.operations[place].cost["read"] for place in alike.places_of("optimizer")]
    if not updates:
        flop = {name for op in alike.operations for name in op.cost if name.startswith("flop.")}
        sizes = [SIZE_BYTES[name.rpartition(".")[2]] for name in flop]
        cached = [_cached(op) for op in workload] if any(map(attends_to_cache, alike.operations)) else []
        parameters = workload.metadata.get("parameters")
        counted = isinstance(parameters, (int, float)) or (is_symbolic(parameters) and parameters.is_Integer)
        known = counted and bool(sizes)
        stored, held = workload.metadata.get("narrow"), workload.metadata.get("weight_bytes")
        if isinstance(held, (int, float)):  # as a step of serving says it of its weights
            updates = [held, *cached]
        elif known and stored is not None:
            updates = [_narrow(workload, float(parameters), str(stored)), *cached]  # type: ignore[arg-type]
        elif known:
            updates = [float(parameters) * min(sizes), *cached]  # type: ignore[arg-type]
    if not updates or any(is_symbolic(amount) and amount.free_symbols for amount in updates):
        return None
    return number(sum(updates))


def _narrow(workload: Workload, parameters: float, stored: str) -> Amount:
    """Bytes of parameters of which some products have theirs in a narrow format, the rest in 16 bits."""
    wide, narrow = 2.0, SIZE_BYTES[stored]
    stored_so = (op for op in workload if stored in (op.dtype, op.attributes.get("weights")))
    saved = sum(op.times * op.dims["batch"] * op.dims["m"] * op.dims["k"] * (wide - narrow) for op in stored_so)
    left = parameters * wide - saved
    return left if is_symbolic(left) and left.free_symbols else max(float(left), parameters * narrow)


def attends_to_cache(op: Op) -> bool:
    """Whether an operation finds keys and values in a cache, as the attention of a single word does."""
    return op.kind == "attention" and is_one(op.dims, "queries")


def _cached(op: Op) -> Amount:
    """Bytes of the keys and values that an operation, done once a layer, finds in caches."""
    d = op.dims
    if not attends_to_cache(op):
        return 0
    size = SIZE_BYTES[str(op.attributes.get("kv_dtype", op.dtype))]
    return op.times * size * d["batch"] * d["kv_heads"] * d["keys"] * (d["head_dim"] + d["value_dim"])
