"""The layout that PyTorch's compiler gives convolutions: its rule, and the copies at the ends of a graph."""

from __future__ import annotations

from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.channels_last import channels_last, relaid


def convolution(name: str, channels: int, groups: int = 1) -> Op:
    dims = {"batch": 2, "channels_in": channels, "channels_out": channels, "groups": groups}
    dims |= {f"{part}_{axis}": 8 for part in ("in", "out") for axis in ("height", "width")}
    dims |= {"in_depth": 1, "out_depth": 1, "kernel_depth": 1, "kernel_height": 3, "kernel_width": 3}
    return operation(name, "convolution", dims, "float32", {"stride": (1, 1)})


def test_grouped_convolutions_keep_their_layout_and_depthwise_ones_do_not() -> None:
    """`decide_layout_opt` multiplies grouped flop by 1.358 and counts a depthwise one, as usual."""
    assert not relaid(Workload("w", (convolution("a", 64, groups=8),)))
    assert relaid(Workload("w", (convolution("a", 64, groups=64),)))
    assert relaid(Workload("w", (convolution("a", 64),)))
    product = operation("p", "gemm", {"batch": 1, "m": 8, "n": 8, "k": 8}, "float32")
    assert not relaid(Workload("w", (product,)))


def test_copies_stand_where_the_graph_begins_and_ends() -> None:
    whole = Workload("w", (convolution("a", 64), convolution("b", 64)), (("a", "b"),))
    after = channels_last(whole)
    assert [op.name for op in after] == ["a.layout_in", "a", "b", "b.layout_out"]
    copied = 2 * 64 * 8 * 8 * 4
    assert after.operations[0].cost.bytes_moved == 2 * copied
    assert set(after.edges) == {("a", "b"), ("a.layout_in", "a"), ("b", "b.layout_out")}


def test_one_channel_needs_no_copy() -> None:
    assert len(channels_last(Workload("w", (convolution("a", 1),)))) == 1


def test_an_open_batch_costs_the_copies_of_layout_that_a_known_one_does() -> None:
    network = workload("resnet50")
    unknown, known = channels_last(network).bind(batch=32), channels_last(network.bind(batch=32))
    assert [op.name for op in unknown] == [op.name for op in known]
    assert [op.cost.get("read") for op in unknown] == [op.cost.get("read") for op in known]
    assert len(known) > len(network)
