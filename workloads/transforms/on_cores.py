"""A step as one of several cores of an accelerator does it, with what feeds it: a graph transform.

The global batch is divided among the cores, gradients are summed over them before the update, the host makes examples
and hands them in.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import Amount, Cost
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.runs.feed import Feed, feed_of

HOST_CORES = 16
"""Of the host of a Cloud TPU board (Wudenhe and Tseng, TPUPoint, ISPASS 2021, section V)."""
SYMBOLS = ("host_seconds", "example_bytes", "workers")
"""What the transform adds: seconds of one host core an example, bytes an example, cores of the host that make them."""
SUM, MEAN = "gradients.all_reduce", "gradients.mean"


def stands_on_cores(workload: Workload) -> bool:
    """Whether a workload already says what one device of several does, or what its host hands in."""
    return "devices" in workload.metadata or any(op.kind in ("collective", "host") for op in workload)


@lru_cache(maxsize=16)
def on_cores(workload: Workload, cores: int) -> Workload:
    """One core's share of a step that `cores` cores do on one global batch.

    Symbols: those of the workload (`batch` is the global one) and, where a batch is divided, `SYMBOLS`, whose defaults
    are the workload's feed (`workloads.feed`) or 0 where nothing is known of it. A workload that says itself what each
    device does is handed back as it is; one without a symbol `batch` is taken as one core's.
    Raises InputError where `cores` is below 1.
    """
    if cores < 1:
        raise InputError(f"cores = {cores}: want at least 1")
    if stands_on_cores(workload):
        return workload
    if "batch" not in workload.symbols:
        return replace(workload, metadata=FrozenDict({**workload.metadata, "cores": 1}))
    batch = symbol("batch")
    share = workload.bind_known({"batch": sp.ceiling(batch / cores) if cores > 1 else batch})
    host = _host(batch)
    first = next(iter(share)).name if len(share) else None
    edges = [*share.edges, (host[0].name, host[1].name), *([(host[1].name, first)] if first else [])]
    operations = [*host, *share]
    updates = [op for op in share if op.kind == "optimizer"]
    if updates and cores > 1:
        operations, edges = _summed(operations, edges, updates, cores)
    feed = feed_of(workload) or Feed(0.0, 0.0)
    known = {"host_seconds": feed.host_seconds, "example_bytes": feed.example_bytes, "workers": float(HOST_CORES)}
    return replace(
        share,
        operations=tuple(operations),
        edges=tuple(dict.fromkeys(edges)),
        defaults=FrozenDict({**workload.defaults, **known}),
        metadata=FrozenDict({**share.metadata, "cores": cores}),
    )


def _host(batch: Amount) -> list[Op]:
    """Making the examples, and handing them in."""
    seconds = batch * symbol("host_seconds") / symbol("workers")
    decode = Op(
        "input.decode",
        "host",
        FrozenDict({"elements": batch}),
        "uint8",
        Cost({"host.seconds": seconds}),
        attributes=FrozenDict({"function": "decode"}),
    )
    size = {"elements": batch * symbol("example_bytes")}
    return [decode, operation("input.infeed", "host", size, "uint8", {"function": "infeed", "data": "features"})]


def _summed(
    operations: list[Op], edges: list[tuple[str, str]], updates: list[Op], cores: int
) -> tuple[list[Op], list[tuple[str, str]]]:
    """The same with one sum of all gradients over the cores, and their mean, before the updates."""
    names = {op.name for op in updates}
    elements = sum(op.dims["elements"] * op.times for op in updates)
    facts = {"function": "all_reduce", "phase": "backward"}
    total = operation(SUM, "collective", {"elements": elements, "participants": cores}, updates[0].dtype, facts)
    dims = {"elements": elements, "reads": elements, "writes": elements}
    mean = operation(MEAN, "elementwise", dims, updates[0].dtype, {"function": "mul", "phase": "collective"})
    made = [(before, SUM) for before, after in edges if after in names]
    place = next(index for index, op in enumerate(operations) if op.name in names)
    kept = [edge for edge in edges if edge[1] not in names]
    after = [(MEAN, op.name) for op in updates]
    return [*operations[:place], total, mean, *operations[place:]], [*kept, *made, (SUM, MEAN), *after]
