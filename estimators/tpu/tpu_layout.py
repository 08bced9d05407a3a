"""What the tiled memory layout of a TPU adds to the bytes of image operations: a graph transform.

Tensors lie in tiles of 8 x 128: of the batch and the channels, one is filled up to a multiple of 128 and the other to
one of 8, whichever order wastes less (Cloud TPU documentation, performance guide, "tiling"; the layout of the operation
profile in openxla/xprof shows the same alignments). A network whose batch a core or channels are narrow moves more
bytes than it has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from slipstick.common.lazy_sympy import is_symbolic, sp
from slipstick.workloads.graph.cost import Amount, Cost
from slipstick.workloads.graph.kinds import AXES, SIZE_BYTES, product
from slipstick.workloads.graph.workload import Op, Workload

LANES, SUBLANES = 128, 8
INHERITS = ("elementwise", "pool", "upsample", "move", "norm")
"""Kinds of operations whose result lies as that of the operation before them."""

Tile = tuple[Amount, Amount]
"""Batch and channels of a tensor."""


@lru_cache(maxsize=16)
def laid_out(workload: Workload) -> Workload:
    """The workload with the bytes of convolutions, and of what follows them, as the padded tensors have them."""
    if not any(op.kind == "convolution" for op in workload):
        return workload
    known = {op.name: op for op in workload}
    tiles: dict[str, Tile] = {}
    made: dict[str, Op] = {}
    for name in _order(workload):
        op = known[name]
        if op.kind == "convolution":
            tiles[name] = _result(op)
            made[name] = _scaled(op, _factor_of_convolution(op), *_weights(op))
        elif op.kind in INHERITS:
            before = [tiles[source] for source in workload.structure.predecessors(name) if source in tiles]
            if before:
                tiles[name] = before[0]
                made[name] = _scaled(op, padding(*before[0]), *_statistics(op))
    return replace(workload, operations=tuple(made.get(op.name, op) for op in workload))


@lru_cache(maxsize=1024)
def padding(batch: Amount, channels: Amount) -> Amount:
    """Bytes of a padded tensor over those of its elements, at least 1."""
    orders = [
        _filled(batch, SUBLANES) * _filled(channels, LANES),
        _filled(batch, LANES) * _filled(channels, SUBLANES),
    ]
    if any(is_symbolic(order) for order in orders):
        return sp.Min(*orders)
    return min(orders)


def _filled(size: Amount, to: int) -> Amount:
    if is_symbolic(size):
        return sp.ceiling(size / to) * to / size
    return math.ceil(size / to) * to / size


def _order(workload: Workload) -> Iterator[str]:
    import networkx as nx

    yield from nx.topological_sort(workload.structure)


def _result(op: Op) -> Tile:
    """Of what a convolution makes; a gradient of weights is no image, its operands' layout stands for it."""
    back = op.attributes.get("pass") == "backward_data"
    return op.dims["batch"], op.dims["channels_in" if back else "channels_out"]


def _factor_of_convolution(op: Op) -> Amount:
    """Padded bytes over plain ones: inputs and outputs by their own channels, weights as they are."""
    d = op.dims
    inputs = d["channels_in"] * product(d[f"in_{axis}"] for axis in AXES)
    outputs = d["channels_out"] * product(d[f"out_{axis}"] for axis in AXES)
    wide = inputs * padding(d["batch"], d["channels_in"]) + outputs * padding(d["batch"], d["channels_out"])
    return wide / (inputs + outputs)


def _weights(op: Op) -> tuple[Amount, Amount]:
    """Bytes of weights that a convolution reads and writes: they have no batch to fill up."""
    d = op.dims
    window = product(d[f"kernel_{axis}"] for axis in AXES)
    size = d["channels_in"] * d["channels_out"] * window / d["groups"] * SIZE_BYTES[op.dtype]
    return (0, size) if op.attributes.get("pass") == "backward_weight" else (size, 0)


def _statistics(op: Op) -> tuple[Amount, Amount]:
    """Bytes of the two numbers of each group that a normalisation reads and writes."""
    size = 2 * op.dims["groups"] * SIZE_BYTES[op.dtype] if op.kind == "norm" else 0
    return size, size


def _scaled(op: Op, factor: Amount, read: Amount, written: Amount) -> Op:
    """The operation with all bytes but those read and written as they are times the factor."""
    if factor == 1:
        return op
    sides = {"read": read, "written": written}
    return replace(op, cost=Cost({**op.cost, **{k: kept + (op.cost[k] - kept) * factor for k, kept in sides.items()}}))
