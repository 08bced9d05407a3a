"""Fusion as a rewrite: what a compiler joins, and the laws that hold whatever the graph."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.dispatch import AsynchronousDispatch
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.fusion import fused

SIZES = (64, 256)


def pointwise(name: str, elements: int, reads: int = 1, function: str = "add") -> Op:
    dims = {"elements": elements, "reads": reads * elements, "writes": elements}
    return operation(name, "elementwise", dims, attributes={"function": function})


def gemm(name: str, batch: int, m: int, n: int, k: int) -> Op:
    return operation(name, "gemm", {"batch": batch, "m": m, "n": n, "k": k})


def chain(*operations: Op) -> Workload:
    names = [op.name for op in operations]
    return Workload("chain", operations, tuple(pairwise(names)))


def test_a_chain_reads_its_input_once_and_writes_its_result_once() -> None:
    (whole,) = fused(chain(pointwise("a", 1000), pointwise("b", 1000), pointwise("c", 1000)))
    assert (whole.cost["read"], whole.cost["written"], whole.cost["launches"]) == (4000, 4000, 1)
    assert whole.cost.flop == 3000


def test_bias_and_activation_join_the_product() -> None:
    before = chain(gemm("product", 1, 64, 32, 16), pointwise("bias", 2048, 1), pointwise("relu", 2048))
    (whole,) = fused(before)
    assert whole.kind == "gemm" and whole.attributes["fused"] == ("add", "add")
    assert whole.cost["written"] == 4 * 2048 and whole.cost["read"] == 4 * (64 * 16 + 16 * 32)
    assert whole.cost.flop == before.cost.flop


def test_what_backward_reads_again_is_still_written() -> None:
    saved = pointwise("saved", 1000)
    later = operation(
        "later", "elementwise", {"elements": 1000, "reads": 2000, "writes": 1000}, attributes={"phase": "backward"}
    )
    graph = Workload("w", (saved, pointwise("relu", 1000), later), (("saved", "relu"), ("saved", "later")))
    after = fused(graph)
    assert len(after) == 2
    assert after.operations[0].cost["written"] == 8000, "both results leave the kernel"
    assert after.operations[0].cost["read"] == 4000


def test_two_kernels_that_need_each_others_results_stay_apart() -> None:
    # a -> product -> b and a -> b: a and b in one kernel would wait for the product, which waits for them
    product = gemm("product", 1, 32, 32, 32)
    a, b = pointwise("a", 1024), pointwise("b", 1024, 2)
    after = fused(Workload("w", (a, product, b), (("a", "product"), ("product", "b"), ("a", "b"))))
    assert [op.kind for op in after] == ["elementwise", "gemm"]
    assert nx.is_directed_acyclic_graph(after.graph)


def test_scores_softmax_and_values_become_attention() -> None:
    heads, length, width = 8, 128, 64
    scores = gemm("scores", heads, length, length, width)
    scale = pointwise("scale", heads * length * length)
    softmax = operation("softmax", "softmax", {"rows": heads * length, "columns": length})
    before = chain(scores, scale, softmax, gemm("values", heads, width, length, length))
    (whole,) = fused(before)
    assert whole.kind == "attention"
    assert (whole.dims["queries"], whole.dims["keys"], whole.dims["head_dim"]) == (length, length, width)
    assert whole.cost.flop == before.cost.flop
    assert whole.cost.bytes_moved == 4 * 4 * heads * length * width, "q, k, v and the result"


@st.composite
def graphs(draw: st.DrawFn) -> Workload:
    count = draw(st.integers(1, 12))
    operations, edges = [], []
    for i in range(count):
        elements = draw(st.sampled_from(SIZES))
        kind = draw(st.sampled_from(["pointwise", "pointwise", "gemm", "softmax", "reduction", "view"]))
        name = f"op{i}"
        before = sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else []
        if kind == "pointwise":
            operations.append(pointwise(name, elements, max(1, len(before))))
        elif kind == "gemm":
            operations.append(gemm(name, 1, elements // 8, 8, 8))
        elif kind == "softmax":
            operations.append(operation(name, "softmax", {"rows": elements // 8, "columns": 8}))
        elif kind == "reduction":
            operations.append(operation(name, "reduction", {"elements": elements, "outputs": 1}))
        else:
            operations.append(operation(name, "view", {"elements": elements}))
        edges += [(f"op{j}", name) for j in before]
    return Workload("drawn", tuple(operations), tuple(edges))


@given(graphs())
def test_arithmetic_stays_and_nothing_grows(graph: Workload) -> None:
    after = fused(graph)
    work = [op for op in graph if op.kind != "view"]
    assert after.cost.flop == sum(op.cost.flop for op in work)
    moved = sum(op.cost.bytes_moved for op in work)
    assert 0 <= after.cost.bytes_moved <= moved or not work
    assert after.cost["launches"] <= graph.cost["launches"]
    assert nx.is_directed_acyclic_graph(after.graph)


@given(graphs())
def test_who_waits_for_whom_is_kept(graph: Workload) -> None:
    after = fused(graph)
    names = {op.name for op in after}
    old, new = nx.transitive_closure_dag(graph.graph), nx.transitive_closure_dag(after.graph)
    for first, second in old.edges:
        if first in names and second in names:
            assert not new.has_edge(second, first)


@pytest.mark.parametrize("name", ["imported/gpt2", "resnet18", "imported/mobilenet_w1"])
def test_compiled_takes_fewer_launches_and_less_time_than_eager(name: str) -> None:
    on = machine("h100-sxm").using({"runtime.issue_overhead": 6e-6})
    estimator = ComposedEstimator(Roofline(), AsynchronousDispatch())
    eager = estimator.estimate(workload(name), on)
    compiled = estimator.estimate(workload(name), on.using({"runtime.mode": "compiled"}))
    replayed = estimator.estimate(workload(name), on.using({"runtime.mode": "graph_replay"}))
    assert compiled.time < eager.time and replayed.time <= eager.time
    assert len(compiled.parts) < len(eager.parts) == len(replayed.parts)
    assert any("fused into" in text for text in compiled.assumptions)


def test_one_point_and_many_agree_on_a_compiled_machine() -> None:
    from slipstick.experiments.question.registry import estimator

    on = machine("h100-sxm").using({"runtime.mode": "compiled"})
    model = workload("gpt2-inference")
    many = estimator("roofline").compile(model, on, ("workload.seq_len",), {"batch": 2})
    for length in (128, 1024):
        one = estimator("roofline").estimate(model, on, {"batch": 2, "seq_len": length}).time
        assert float(many({"workload.seq_len": length})) == pytest.approx(one, rel=1e-12)
