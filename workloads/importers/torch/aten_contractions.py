"""Calls of torch that contract several tensors by more than one product: `nn.Bilinear`, distances, weight norms."""

from __future__ import annotations

from collections.abc import Sequence

from slipstick.workloads.graph.assembly import Number, Piece, Tensor
from slipstick.workloads.graph.kinds import product
from slipstick.workloads.importers.torch.aten_readers import Call


def read_trilinear(call: Call) -> list[Piece]:
    """``sum(a * b * c)`` of three expanded tensors: two products for each index of the dimension that is unrolled.

    The first contracts what the third tensor lacks (aten/src/ATen/native/Linear.cpp: `_trilinear`); the results of
    all indices are written by additions of their own.
    """
    shapes = [tensor.shape for tensor in call.tensors()[:3]]
    summed, unrolled = frozenset(call.arguments[6]), call.arguments[7]
    present = _axes(shapes, call.arguments[3:6])
    sizes = _sizes(shapes, present)
    times = sizes[unrolled] if unrolled not in summed else 1
    first = summed - set(present[2])
    left, right, last = (frozenset(axes) - {unrolled} for axes in present)
    made = (left | right) - first
    pieces = [_product(sizes, left, right, first, "first", times, ())]
    pieces.append(_product(sizes, made, last, summed - first, "second", times, (0,)))
    written = product(trilinear_shape(shapes, call.arguments[3:6], call.arguments[6]))
    dims = {"elements": written, "reads": 2 * written, "writes": written}
    pieces.append(Piece("elementwise", dims, {"function": "add"}, "add", (1,)))
    return pieces


def trilinear_shape(
    shapes: Sequence[tuple[Number, ...]], expanded: Sequence[Sequence[int]], summed: Sequence[int]
) -> tuple[Number, ...]:
    """The shape of a trilinear result: all dimensions that are not summed."""
    sizes = _sizes(shapes, _axes(shapes, expanded))
    return tuple(sizes[axis] for axis in sorted(sizes) if axis not in summed)


def _axes(shapes: Sequence[tuple[Number, ...]], expanded: Sequence[Sequence[int]]) -> list[list[int]]:
    """Of each tensor, which dimensions of the whole it has."""
    rank = len(shapes[0]) + len(expanded[0])
    return [[axis for axis in range(rank) if axis not in gaps] for gaps in expanded]


def _sizes(shapes: Sequence[tuple[Number, ...]], axes: Sequence[Sequence[int]]) -> dict[int, Number]:
    return {axis: size for one, shape in zip(axes, shapes, strict=True) for axis, size in zip(one, shape, strict=True)}


def _product(
    sizes: dict[int, Number],
    left: frozenset[int],
    right: frozenset[int],
    summed: frozenset[int],
    suffix: str,
    times: Number,
    after: tuple[int, ...],
) -> Piece:
    """A batched product of two tensors over their axes (`sumproduct_pair`)."""

    def size(axes: frozenset[int]) -> Number:
        return product(sizes[axis] for axis in sorted(axes))

    shared = left & right
    dims = {
        "batch": size(shared - summed),
        "m": size(right - shared),
        "n": size(left - shared),
        "k": size(shared & summed),
    }
    return Piece("gemm", dims, {}, suffix, after, times=times)


def read_distances(call: Call) -> list[Piece]:
    """Distances of all pairs of rows of two tensors, in one kernel that reads each row from memory once."""
    a, b = call.tensors()[:2]
    made: Tensor = call.results[0]
    dims = {"elements": made.elements * a.shape[-1], "reads": a.elements + b.elements, "writes": made.elements}
    return [Piece("elementwise", dims, {"function": "cdist"})]


def read_weight_norm(call: Call) -> list[Piece]:
    """A weight divided by the norms of its rows, times a length each; backward reads the gradient as well."""
    reads = sum(tensor.elements for tensor in call.tensors())
    elements = call.results[0].elements
    sums = {"elements": elements, "outputs": call.results[1].elements}
    norms = Piece("reduction", sums, {"function": "norm"}, "norm")
    dims = {"elements": elements, "reads": reads, "writes": elements}
    return [norms, Piece("elementwise", dims, {"function": "weight_norm"}, "scale", (0,))]
