"""Calls of torch that reduce: sums, losses, scans, bags of embeddings."""

from __future__ import annotations

from slipstick.workloads.graph.assembly import Piece
from slipstick.workloads.importers.torch.aten_readers import Call

LOSSES_OF_TWO = ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "_euclidean_dist")


def read_reduction(call: Call) -> list[Piece]:
    """A reduction from the elements of its input to those of its results.

    Losses write a value an element, and reduce those (aten/src/ATen/native/Loss.cpp).
    """
    x = call.tensors()[0]
    out = call.results[0].elements if call.results else 1
    read = x.elements
    if call.name in LOSSES_OF_TWO:  # an input and a target of its shape
        read = sum(tensor.elements for tensor in call.tensors()[:2])
        dims = {"elements": x.elements, "reads": read, "writes": x.elements}
        each = Piece("elementwise", dims, {"function": call.name})
        mean = Piece("reduction", {"elements": x.elements, "outputs": out}, {"function": "mean"}, "mean", after=(0,))
        return [each] if out == x.elements else [each, mean]
    if call.name.startswith("_embedding_bag"):  # the rows of the table that the index picks
        read = call.tensors()[1].elements * x.shape[-1]
    return [Piece("reduction", {"elements": read, "outputs": out}, {"function": call.name.removesuffix("_")})]


def read_scan(call: Call) -> list[Piece]:
    """A reduction that keeps every partial result (cumsum), or several results (max with its place)."""
    x = call.tensors()[0]
    return [
        Piece(
            "reduction",
            {"elements": x.elements, "outputs": sum(r.elements for r in call.results)},
            {"function": call.name.removesuffix("_")},
        )
    ]
