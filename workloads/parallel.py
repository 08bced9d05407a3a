"""Any training step on several devices that each have all of the network: a graph transform."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import sympy as sp

from hwmodels.expressions import symbol
from hwmodels.files import InputError
from hwmodels.records import Table
from workloads.cost import Amount, Cost
from workloads.kinds import SIZE_BYTES, operation
from workloads.workload import Op, Workload

BUCKET_BYTES = 25e6
"""Gradients that are summed together: the default of PyTorch's DistributedDataParallel, 25 MB."""


def data_parallel(workload: Workload, bucket_bytes: float = BUCKET_BYTES) -> Workload:
    """One device's share of a training step on `data_parallel` devices: gradients summed in buckets before the update.

    The batch is divided among the devices. Gradients enter buckets in the order in which the backward pass makes them;
    a bucket's all_reduce waits for its gradients alone, so that it runs beside the rest of the backward pass where the
    machine's runtime has a second stream; updates wait for their bucket. Symbols: those of the workload, and
    `data_parallel`. Source: Li et al., PyTorch Distributed, VLDB 13(12), 2020, section 3.2.

    Raises
    ------
    InputError
        Where the workload updates no parameters, or has no symbol `batch` to divide.
    """
    updates = [op for op in workload if op.kind == "optimizer"]
    if not updates:
        raise InputError(f"workload {workload.name!r} updates no parameters: data_parallel wants a training step")
    if "batch" not in workload.symbols:
        raise InputError(f"workload {workload.name!r} has no symbol 'batch' to divide among devices")
    if bucket_bytes <= 0:
        raise InputError(f"bucket_bytes = {bucket_bytes!r} byte: want a number > 0")
    devices = symbol("data_parallel")
    defaults = dict(workload.defaults)
    own = workload.bind_known({"batch": sp.ceiling(symbol("batch") / devices)})
    place = {op.name: index for index, op in enumerate(own)}
    made = {op.name: [first for first, second in own.edges if second == op.name] for op in updates}
    ready = sorted(updates, key=lambda op: max((place[name] for name in made[op.name]), default=-1))
    sums, edges = [], list(own.edges)
    after: dict[int, list[Op]] = {}
    for number, bucket in enumerate(_buckets(ready, bucket_bytes)):
        elements: Amount = 0
        for op in bucket:
            elements = elements + op.dims["elements"]
        dims = {"elements": elements, "participants": devices}
        name = f"gradients{number}.all_reduce"
        summed = operation(name, "collective", dims, bucket[0].dtype, {"function": "all_reduce", "phase": "backward"})
        sums.append(summed)
        for op in bucket:
            edges += [(gradient, name) for gradient in made[op.name]] + [(name, op.name)]
        last = max((place[gradient] for op in bucket for gradient in made[op.name]), default=-1)
        after.setdefault(last, []).append(summed)
    operations = list(after.get(-1, []))
    for index, op in enumerate(own):
        operations += [op, *after.get(index, [])]
    return replace(
        own,
        name=f"{workload.name}-data-parallel",
        operations=expanded(operations),
        edges=tuple(dict.fromkeys(edges)),
        defaults=Table({**defaults, "data_parallel": 1.0}),
    )


def expanded(operations: Iterable[Op]) -> tuple[Op, ...]:
    """Operations with amounts as sums of products, which is how they come back from a file."""
    known: dict[Amount, Amount] = {}

    def put(amount: Amount) -> Amount:
        if not isinstance(amount, sp.Basic):
            return amount
        if amount not in known:
            known[amount] = sp.expand(amount)
        return known[amount]

    return tuple(
        replace(
            op,
            dims=Table({name: put(amount) for name, amount in op.dims.items()}),
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
        size = SIZE_BYTES[op.dtype] * float(amount) if not isinstance(amount, sp.Basic) or amount.is_number else limit
        if bucket and held + size > limit:
            yield bucket
            bucket, held = [], 0.0
        bucket.append(op)
        held += size
    if bucket:
        yield bucket
