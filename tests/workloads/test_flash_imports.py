"""softmax(Q K') V of imported training graphs as one operation, forward and backward (transforms/attention.py)."""

from __future__ import annotations

import networkx as nx
import pytest

from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.transforms.attention import flash_attention


def scores_moved(graph: Workload) -> float:
    """Bytes of softmax."""
    return sum(float(op.cost.bytes_moved * op.times) for op in graph.bind_known(graph.defaults) if op.kind == "softmax")


@pytest.mark.parametrize(
    ("name", "layers"),
    [("bart", 12), ("distilbert", 6), ("gpt2", 12), ("llama", 4), ("t5", 18), ("swin", 12), ("vit", 12)],
)
def test_every_layer_is_recognised_forward_and_backward(name: str, layers: int) -> None:
    """Causal masks, biases, dropout and shifted windows stand between scores and softmax, or behind it."""
    whole = workload(f"imported/{name}")
    made = flash_attention(whole)
    forward = [op for op in made if op.kind == "attention" and op.attributes.get("pass") != "backward"]
    backward = [op for op in made if op.kind == "attention" and op.attributes.get("pass") == "backward"]
    assert len(forward) == len(backward) == layers
    assert nx.is_directed_acyclic_graph(made.graph)
    assert scores_moved(made) < scores_moved(whole)
    sizes = whole.defaults
    products = [
        sum(float(op.cost.flop * op.times) for op in graph.bind_known(sizes) if op.kind in ("gemm", "attention"))
        for graph in (whole, made)
    ]
    # the arithmetic stays; a fused backward pass makes the scores again, and softmax counts within
    assert products[0] * 0.95 < products[1] < products[0] * 1.25
