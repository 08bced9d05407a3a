"""networkx both ways: a graph comes back as it was, an edited one costs what its edits say, errors name all."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import sympy as sp

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.kinds import operation

SOME = ("mlp", "resnet18-inference", "gnmt", "gpt2-data-parallel", "all-reduce", "spmv-grid", "jacobi-2d-5pt")
PRODUCT: dict[str, Any] = {"kind": "gemm", "dims": {"batch": 1, "m": 64, "n": "batch", "k": 32}}


@pytest.mark.parametrize("name", [*SOME, "imported/srcnn", "imported/lstm-language-model", "decode:qwen3-0.6b"])
def test_a_graph_comes_back_as_the_same_workload(name: str) -> None:
    before = ss.workload(name)
    after = ss.workload(before.graph.copy())
    assert after.identity == before.identity
    assert after.operations == before.operations and set(after.edges) == set(before.edges)
    for field in ("name", "defaults", "metadata", "uncounted"):
        assert getattr(after, field) == getattr(before, field)


def test_plain_nodes_without_our_operations_come_back_too() -> None:
    """What others write down has no `op`: kinds with their formulas, costs as they are."""
    before = ss.workload("resnet18-inference")
    graph = before.graph
    for node in graph.nodes.values():
        del node["op"]
    assert ss.workload(graph).identity == before.identity


def test_numbers_formulas_and_symbols_say_the_same() -> None:
    made = []
    for batch in ("2*batch", 2 * sp.Symbol("batch"), 2 * ss.symbol("batch")):
        graph = nx.DiGraph()
        graph.add_node("a", kind="gemm", dims={"batch": np.int64(1), "m": 64, "n": batch, "k": np.float64(32)})
        made.append(ss.workload(graph))
    assert made[0] == made[1] == made[2]
    assert made[0].bind(batch=5).cost["flop.matrix.float32"] == 2 * 64 * 10 * 32
    assert isinstance(made[0].operations[0].dims["batch"], int)


def test_costs_follow_sizes_by_the_formula_of_the_kind() -> None:
    graph = ss.workload("mlp-inference").graph
    name = next(name for name, node in graph.nodes.items() if node["kind"] == "gemm")
    op = graph.nodes[name]["op"]
    graph.nodes[name]["dims"] = {**op.dims, "k": 4096}
    changed = next(one for one in ss.workload(graph) if one.name == name)
    assert changed.cost == operation(name, "gemm", changed.dims, op.dtype, op.attributes).cost != op.cost
    graph.nodes[name]["cost"] = {"read": 1}
    assert next(one for one in ss.workload(graph) if one.name == name).cost == Cost({"read": 1})


def test_a_cost_of_ones_own_is_not_kept_for_other_sizes() -> None:
    graph = nx.DiGraph()
    graph.add_node("a", **PRODUCT, cost={"flop.matrix.float32": 7, "read": 5})
    own = ss.workload(graph).graph
    own.nodes["a"]["dims"] = {**PRODUCT["dims"], "m": 65}
    with pytest.raises(
        InputError, match="node 'a': cost: it is that of the sizes before, and not by the formula of gemm"
    ):
        ss.workload(own)


def test_edits_move_the_estimate_as_they_should() -> None:
    """On a data sheet's roofline without overheads, by hand: seconds are bytes over the bandwidth."""
    machine = ss.machine("h100-sxm").using({"runtime.mode": "graph_replay"})
    bandwidth = machine.memory["HBM3"].bandwidth

    def seconds(graph: nx.DiGraph[str]) -> float:
        return ss.question(ss.workload(graph), machine, "roofline").answer().time

    graph: nx.DiGraph[str] = nx.DiGraph(name="chain")
    numbers = 1e9
    for name in ("first", "second", "aside"):
        graph.add_node(name, kind="elementwise", dims={"elements": numbers, "reads": numbers, "writes": numbers})
    nx.add_path(graph, ["first", "second"])
    nx.add_path(graph, ["first", "aside"])
    before = seconds(graph)
    assert before == pytest.approx(3 * 8 * numbers / bandwidth, rel=0.05)
    dropped = ss.workload(graph).graph
    dropped.remove_node("aside")
    assert seconds(dropped) == pytest.approx(before * 2 / 3, rel=0.05)
    fused = dropped.copy()
    both = fused.nodes["first"]["cost"] + fused.nodes["second"]["cost"]
    fused.nodes["second"]["cost"] = {**both, "read": 4 * numbers, "written": 4 * numbers}
    fused.remove_node("first")
    assert seconds(fused) == pytest.approx(before / 3, rel=0.05)
    sums = {"elements": numbers, "participants": 8}
    dropped.add_node("sum", kind="collective", dims=sums, attributes={"function": "all_reduce"})
    dropped.add_edge("second", "sum")
    answer = ss.question(ss.workload(dropped), "dgx-h100").answer()
    assert next(part for part in answer.parts if part.name == "sum").bound_by == "nvswitch"


def test_the_graph_is_ones_own() -> None:
    block = ss.workload("mlp-inference")
    block.graph.clear()
    assert len(block.graph) == len(block)
    with pytest.raises(nx.NetworkXError, match="Frozen"):
        block.structure.clear()
    assert pickle.loads(pickle.dumps(block)) == block


def test_all_that_is_wrong_is_said_at_once_by_node_and_field() -> None:
    graph = nx.DiGraph(name="mine", defaults={"batch": 0}, colour="red")
    graph.add_node("a", kind="gem", dims={})
    graph.add_node("b", **{**PRODUCT, "dims": {"batch": 1, "m": -1, "n": float("nan"), "k": "__import__('os')"}})
    graph.add_node("c", **PRODUCT, m=5)
    graph.add_node("d", **PRODUCT, dtype="float31")
    graph.add_edge("a", "b", weight=3)
    with pytest.raises(InputError) as caught:
        ss.workload(graph)
    text = str(caught.value)
    for part in (
        "graph 'mine': 9 problems",
        "node 'a': unknown kind 'gem'; did you mean 'gemm'?",
        "node 'b': dims.m = -1: want a finite amount >= 0",
        "node 'b': dims.n = nan",
        "node 'b': dims.k: only these functions may be called",
        "node 'c': unknown field 'm' (known: kind, dims, dtype, cost, times, attributes); sizes stand in dims",
        "node 'd': unknown data type 'float31'",
        "edge a -> b: 'weight': an edge has no field",
    ):
        assert part in text, text
    assert "\n" not in text


def test_each_unknown_resource_is_named_by_its_field_beside_what_else_is_wrong(tmp_path: Path) -> None:
    sizes = {**PRODUCT["dims"], "m": -1}
    cost = {"magic": 1, "flop": 2, "read": 3, "wonder": 4}
    graph: nx.DiGraph[str] = nx.DiGraph(name="mine")
    graph.add_node("a", **{**PRODUCT, "dims": sizes, "cost": cost})
    document = {"schema": "slipstick-workload-1", "name": "mine", "links": []}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**document, "nodes": [{"id": "a", "kind": "gemm", "dims": sizes, "cost": cost}]}))
    for given in (graph, str(path)):
        with pytest.raises(InputError) as caught:
            ss.workload(given)
        for part in (
            "4 problems",
            "node 'a': dims.m = -1: want a finite amount >= 0",
            "node 'a': cost.magic: unknown resource 'magic' (known: flop,",
            "node 'a': cost.flop: resource 'flop': want flop.UNIT.DTYPE",
            "node 'a': cost.wonder: unknown resource 'wonder'",
        ):
            assert part in str(caught.value), caught.value


REFUSED: dict[str, tuple[Any, str]] = {
    "no graph": (7, "workload: name = 7: want a text"),
    "no direction": (nx.Graph(), "its edges have no direction"),
    "nothing": (nx.DiGraph(), "has no node"),
    "a circle": (
        nx.DiGraph([("a", "b"), ("b", "a")]),
        "field 'kind' is missing",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_workload_is_refused(case: str) -> None:
    graph, words = REFUSED[case]
    with pytest.raises(InputError, match=re.escape(words)):
        ss.workload(graph)


@pytest.mark.parametrize(
    "amount",
    [
        lambda: 1,
        "9**9**9",
        "batch.__class__",
        "x" * 30_000,
        10**400,
        float("inf"),
        True,
        [1],
        sp.Function("f")(1),
        sp.I,
    ],
)
def test_hostile_amounts_are_refused(amount: Any) -> None:
    graph = nx.DiGraph()
    graph.add_node("a", **{**PRODUCT, "dims": {**PRODUCT["dims"], "m": amount}})
    with pytest.raises(InputError, match=r"node 'a': dims\.m"):
        ss.workload(graph)


def test_operations_in_a_circle_are_named() -> None:
    graph = nx.DiGraph()
    graph.add_node("a", **PRODUCT)
    graph.add_node("b", **PRODUCT)
    graph.add_edges_from([("a", "b"), ("b", "a")])
    with pytest.raises(InputError, match="operations wait for each other: a -> b"):
        ss.workload(graph)


def test_each_of_many_nodes_is_read_as_it_would_be_alone() -> None:
    """Alike nodes are read once: those that differ in a type, an order or a nesting alone are not alike."""
    nodes: list[dict[str, Any]] = [
        {**PRODUCT, "dims": {**PRODUCT["dims"], "m": m}} for m in (64, 64.0, "64", np.float32(64), "batch", "64*batch")
    ]
    nodes += [
        {**PRODUCT, "attributes": {"given": given}} for given in (1, 1.0, True, "1", (1, (2,)), ((1,), 2), (1, 2))
    ]
    nodes += [{**PRODUCT, "times": times} for times in (2, 2.0, "batch")] + [
        dict(ss.workload("gemm").graph.nodes["product"])
    ]
    graph = nx.DiGraph()
    for place, fields in enumerate([*nodes, *nodes]):
        graph.add_node(place, **fields)
    for place, op in enumerate(ss.workload(graph)):
        alone = nx.DiGraph()
        alone.add_node(place, **nodes[place % len(nodes)])
        assert repr(op) == repr(ss.workload(alone).operations[0])


def test_each_of_alike_nodes_that_cannot_be_used_is_named() -> None:
    graph = nx.DiGraph()
    graph.add_nodes_from("ab", **{**PRODUCT, "dtype": "float31"})
    graph.add_node("c", kind={1, 2}, dims={"m": [1]})
    with pytest.raises(InputError, match=r"node 'a': .*; \(2\) node 'b': .*; \(3\) node 'c': kind"):
        ss.workload(graph)
