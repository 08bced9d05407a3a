"""Any training step on several devices that each have all of the network: a graph transform."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from slipstick.common.errors import InputError
from slipstick.common.expressions import expression_text, is_symbolic, sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import Amount, Cost
from slipstick.workloads.graph.kinds import SIZE_BYTES, operation
from slipstick.workloads.graph.workload import Attribute, Op, Workload
from slipstick.workloads.graph.workload_kind import WORK

BUCKET_BYTES = 25e6
"""Gradients that are summed together: the default of PyTorch's DistributedDataParallel, 25 MB."""


SHARDS = ("none", "optimizer", "gradients")
"""What replicas share out, for values 1, 2, 3 of `shard` (ZeRO 1 and 2)."""
MOMENTS = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2, "adagrad": 1, "rmsprop": 1}
"""Numbers that an optimizer keeps, and a checkpoint holds, for each parameter."""


def data_parallel(workload: Workload, bucket_bytes: float = BUCKET_BYTES) -> Workload:
    """One device's share of a training step on `data_parallel` devices: gradients summed in buckets before the update.

    The batch is divided among the devices. Gradients enter buckets in the order in which the backward pass makes them;
    a bucket's all_reduce waits for its gradients alone, so that it runs beside the rest of the backward pass where the
    machine's runtime has a second stream; updates wait for their bucket. With `shard` = 2 (optimizer states) or 3
    (gradients too) a bucket is scattered instead, each device updates its part of the parameters, and the new ones are
    gathered. Symbols: those of the workload, `data_parallel` and `shard`. Sources: Li et al., PyTorch Distributed, VLDB
    13(12), 2020, section 3.2; Rajbhandari et al., SC 2020, arXiv 1910.02054.
    Raises InputError where the workload updates no parameters, or has no symbol `batch` to divide.
    """
    updates = [op for op in workload if op.kind == "optimizer"]
    if not updates:
        raise InputError(f"workload {workload.name!r} updates no parameters: data_parallel wants a training step")
    if "batch" not in workload.symbols:
        raise InputError(f"workload {workload.name!r} has no symbol 'batch' to divide among devices")
    if bucket_bytes <= 0:
        raise InputError(f"bucket_bytes = {bucket_bytes!r} byte: want a number > 0")
    devices, shard = symbol("data_parallel"), symbol("shard")
    states = sp.Min(1, shard - 1)
    defaults = dict(workload.defaults)
    share = workload.bind_known({"batch": sp.ceiling(symbol("batch") / devices)})
    place = {op.name: index for index, op in enumerate(share)}
    made = {op.name: [first for first, second in share.edges if second == op.name] for op in updates}
    ready = sorted(updates, key=lambda op: max((place[name] for name in made[op.name]), default=-1))
    gathers, edges = [], list(share.edges)
    after: dict[int, list[Op]] = {}
    for number, bucket in enumerate(_buckets(ready, bucket_bytes)):
        elements = sum(op.dims["elements"] for op in bucket)
        last = max((place[gradient] for op in bucket for gradient in made[op.name]), default=-1)
        for name, times, function in (
            (f"gradients{number}.all_reduce", 1 - states, "all_reduce"),
            (f"gradients{number}.reduce_scatter", states, "reduce_scatter"),
            (f"parameters{number}.all_gather", states, "all_gather"),
        ):
            dims = {"elements": elements, "participants": devices}
            phase = "optimizer" if function == "all_gather" else "backward"
            facts: dict[str, Attribute] = {"function": function, "phase": phase}
            spoken = operation(name, "collective", dims, bucket[0].dtype, facts, times=times)
            if function == "all_gather":
                edges += [(op.name, name) for op in bucket]
                gathers.append(spoken)
                continue
            after.setdefault(last, []).append(spoken)
            for op in bucket:
                edges += [(gradient, name) for gradient in made[op.name]] + [(name, op.name)]
    operations = list(after.get(-1, []))
    for index, op in enumerate(share):
        if op.kind == "optimizer":  # each device updates its part
            part = {"elements": op.dims["elements"] / (1 + (devices - 1) * states)}
            op = operation(op.name, op.kind, {**op.dims, **part}, op.dtype, dict(op.attributes), times=op.times)
        operations += [op, *after.get(index, [])]
    operations += gathers
    memory = expression_text(_state_bytes(updates, devices, shard))
    facts = {WORK: "data parallel", "words.shard": SHARDS, "devices": "data_parallel", "device_states": memory}
    return replace(
        share,
        name=f"{workload.name}-data-parallel",
        operations=expanded(operations),
        edges=tuple(dict.fromkeys(edges)),
        defaults=FrozenDict({**defaults, "data_parallel": 1.0, "shard": 1.0}),
        metadata=FrozenDict({**share.metadata, **facts}),
    )


def _state_bytes(updates: list[Op], devices: sp.Symbol, shard: sp.Symbol) -> Amount:
    """Bytes of parameters, gradients and what the optimizer keeps, in their own dtype."""
    size = sum(float(op.dims["elements"]) * SIZE_BYTES[op.dtype] for op in updates)
    kept = sum(
        float(op.dims["elements"]) * SIZE_BYTES[op.dtype] * MOMENTS.get(str(op.attributes.get("function")), 0)
        for op in updates
    )
    share = [1 + (devices - 1) * sp.Min(1, sp.Max(0, shard - level)) for level in (1, 2)]
    return size + kept / share[0] + size / share[1]


def expanded(operations: Iterable[Op]) -> tuple[Op, ...]:
    """Operations with amounts as sums of products, which is how they come back from a file."""
    known: dict[Amount, Amount] = {}

    def put(amount: Amount) -> Amount:
        if not is_symbolic(amount):
            return amount
        if amount not in known:
            known[amount] = sp.expand(amount)
        return known[amount]

    return tuple(
        replace(
            op,
            dims=FrozenDict({name: put(amount) for name, amount in op.dims.items()}),
            cost=Cost({name: put(amount) for name, amount in op.cost.items()}),
            times=put(op.times),
        )
        for op in operations
    )


def _buckets(updates: list[Op], limit: float) -> Iterator[list[Op]]:
    """Consecutive updates until their gradients fill a bucket."""
    bucket: list[Op] = []
    held = 0.0
    for op in updates:
        amount = op.dims["elements"]
        size = SIZE_BYTES[op.dtype] * float(amount) if not is_symbolic(amount) or amount.is_number else limit
        if bucket and held + size > limit:
            yield bucket
            bucket, held = [], 0.0
        bucket.append(op)
        held += size
    if bucket:
        yield bucket
