"""The layout that PyTorch's compiler gives convolutions, and the copies that it costs.

TorchInductor (torch/_inductor/graph.py, `decide_layout_opt`; in use since PyTorch 2.1) runs the convolutions of a graph
without gradients on tensors whose channels lie together, unless the flop of truly grouped ones outweigh what the others
gain. What enters the graph is copied into that layout, and what leaves it is copied back; between convolutions nothing
is. A depthwise convolution does not count as grouped there, though its kernels are many times slower in that layout.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from slipstick.common.records import Same
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.work import AXES
from slipstick.workloads.graph.workload import Op, Workload

GROUPED, SMALL, NARROWING, USUAL = 1.358, 0.783, 0.725, 0.823
"""Time over that in the old layout which PyTorch expects (the same function): of grouped convolutions, of few channels,
of half as many channels out as in, and of the others."""
FEW = 64
INSERTED = "inserted"
"""Attribute of an operation that a compiler puts into a graph."""


def channels_last(workload: Workload) -> Workload:
    """The workload with a copy before convolutions that read an input of the graph and after those that end it.

    A workload whose convolutions keep their layout is returned as it is, and one with sizes open besides its batch, to
    which all flop are in proportion.
    """
    return _with_copies(Same(workload))


@lru_cache(maxsize=16)
def _with_copies(whole: Same[Workload]) -> Workload:
    workload = whole.it
    if workload.symbols - {"batch"} or not relaid(workload.bind_known({"batch": 1.0})):
        return workload
    graph = workload.structure
    operations: list[Op] = []
    edges = list(workload.edges)
    for op in workload:
        image = op.kind == "convolution"
        if image and not graph.in_degree(op.name) and float(op.dims["channels_in"]) > 1:
            copy = _copy(op, "in")
            operations.append(copy)
            edges.append((copy.name, op.name))
        operations.append(op)
        ends = image and not graph.out_degree(op.name) and not op.attributes.get("fused")
        if ends and float(op.dims["channels_out"]) > 1:
            copy = _copy(op, "out")
            operations.append(copy)
            edges.append((op.name, copy.name))
    return replace(workload, operations=tuple(operations), edges=tuple(edges))


def relaid(workload: Workload) -> bool:
    """Whether the compiler changes the layout of the convolutions."""
    plain = changed = 0.0
    for op in workload:
        if op.kind == "convolution":
            flop = float(sum(float(op.cost[name]) for name in op.cost if name.startswith("flop.matrix.")) * op.times)
            plain, changed = plain + flop, changed + flop * _expected(op)
    return 0 < changed <= plain


def _expected(op: Op) -> float:
    groups = float(op.dims["groups"])
    inputs, outputs = float(op.dims["channels_in"]) / groups, float(op.dims["channels_out"])
    if groups > 1 and inputs > 1:
        return GROUPED
    if inputs <= FEW and outputs <= FEW:
        return SMALL
    return NARROWING if outputs * 2 <= inputs and float(op.dims["kernel_height"]) > 1 else USUAL


def _copy(op: Op, side: str) -> Op:
    size = op.dims["batch"] * float(op.dims[f"channels_{side}"])
    for axis in AXES:
        size = size * float(op.dims[f"{side}_{axis}"])
    dims = {"elements": size, "reads": size, "writes": size}
    return operation(
        f"{op.name}.layout_{side}", "elementwise", dims, op.dtype, {"function": "copy", INSERTED: True}, times=op.times
    )
