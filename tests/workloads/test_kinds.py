"""The taxonomy: counts by hand, laws, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.size_column import SizeColumn
from slipstick.experiments.question.facts import facts
from slipstick.experiments.question.question import question
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.draw import to_graphviz
from slipstick.workloads.graph.kinds import BYTE, COPIES, KINDS, Kind, operation
from slipstick.workloads.graph.work import move_work
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import elementwise, gemm
from slipstick.workloads.layers.tape import NetworkTape
from slipstick.workloads.transforms.mixed import autocast

SIZES = st.integers(1, 64)


def convolution(groups: int, channels: int, side: int, kernel: int) -> dict[str, int]:
    out = side - kernel + 1
    dims = {"batch": 2, "channels_in": groups * channels, "channels_out": groups * channels, "groups": groups}
    for part, size in (("in", side), ("out", out), ("kernel", kernel)):
        dims |= {f"{part}_depth": 1, f"{part}_height": size, f"{part}_width": size}
    return dims


@given(m=SIZES, n=SIZES, k=SIZES, batch=SIZES)
def test_a_gemm_has_two_flop_a_multiply_add_and_moves_each_operand_once(m: int, n: int, k: int, batch: int) -> None:
    a, b = np.ones((batch, m, k), np.float16), np.ones((batch, k, n), np.float16)
    op = operation("gemm", "gemm", {"m": m, "n": n, "k": k, "batch": batch}, "float16")
    assert op.cost["flop.matrix.float16"] == 2 * batch * m * n * k
    assert op.cost["read"] == a.nbytes + b.nbytes
    assert op.cost["written"] == (a @ b).nbytes


@given(groups=SIZES, channels=SIZES, side=st.integers(4, 20), kernel=st.integers(1, 4))
def test_a_grouped_convolution_is_its_groups_one_by_one(groups: int, channels: int, side: int, kernel: int) -> None:
    whole = operation("c", "convolution", convolution(groups, channels, side, kernel))
    part = operation("c", "convolution", convolution(1, channels, side, kernel))
    for resource in ("flop.matrix.float32", "read", "written"):
        assert whole.cost[resource] == groups * part.cost[resource]


@given(groups=SIZES, channels=SIZES, side=st.integers(4, 20), kernel=st.integers(1, 4))
def test_each_pass_of_a_convolution_does_the_same_products(groups: int, channels: int, side: int, kernel: int) -> None:
    dims = convolution(groups, channels, side, kernel)
    names = ("forward", "backward_data", "backward_weight")
    passes = [operation("c", "convolution", dims, attributes={"pass": name}) for name in names]
    assert len({op.cost["flop.matrix.float32"] for op in passes}) == 1
    assert len({op.cost["read"] + op.cost["written"] for op in passes}) == 1  # the same three arrays in three roles


def test_attention_backward_is_twice_forward() -> None:
    dims = {"batch": 2, "heads": 8, "kv_heads": 2, "queries": 100, "keys": 50, "head_dim": 64, "value_dim": 32}
    forward = operation("a", "attention", dims)
    backward = operation("a", "attention", dims, attributes={"pass": "backward"})
    assert forward.cost["flop.matrix.float32"] == 2 * 2 * 8 * 100 * 50 * (64 + 32)
    assert backward.cost["flop.matrix.float32"] == 2 * forward.cost["flop.matrix.float32"]
    assert forward.cost["read"] == 4 * (2 * 8 * 100 * 64 + 2 * 2 * 50 * (64 + 32))


def test_a_ring_all_reduce_sends_twice_the_share_of_the_others() -> None:
    op = operation("sum", "collective", {"elements": 1000, "participants": 4}, attributes={"function": "all_reduce"})
    assert op.cost["link.network"] == 2 * 4 * 1000 * 3 / 4


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_says_what_its_dims_mean_and_costs_something(kind: str) -> None:
    entry = KINDS[kind]
    functions = {"recurrent": "lstm", "optimizer": "adam"}
    facts = {"function": functions[kind]} if kind in functions else {}
    op = operation("op", kind, {dim: symbol(dim) for dim in entry.dims}, attributes=facts)
    assert entry.meaning
    assert op.symbols == set(entry.dims)
    bound = op.bind(dict.fromkeys(entry.dims, 4))
    assert all(amount >= 0 for amount in bound.cost.values())
    assert bound.cost


def test_a_product_of_integers_is_arithmetic() -> None:
    assert gemm("a", m=64, n=32, k=16, dtype="int8").cost["flop.matrix.int8"] == 2 * 64 * 32 * 16
    assert gemm("a", m=64, n=32, k=16, dtype="uint8").cost["flop.matrix.int8"] == 2 * 64 * 32 * 16
    wide = operation("a", "convolution", convolution(1, 16, 12, 3), "int32")
    assert wide.cost["flop.matrix.int32"] == 2 * 2 * 16 * 16 * 9 * 100
    assert elementwise("a", 100, dtype="int8").cost["flop.vector.int8"] == 100


def test_work_on_indices_is_traffic_only() -> None:
    op = operation("add", "elementwise", {"elements": 10, "reads": 20, "writes": 10}, "int64", {"function": "add"})
    assert op.cost.flop == 0
    assert op.cost.bytes_moved == 8 * 30


def test_what_is_not_known_is_refused_with_the_known_names() -> None:
    with pytest.raises(InputError, match="unknown kind of operation 'gem'; did you mean 'gemm'"):
        operation("x", "gem", {})
    with pytest.raises(InputError, match="unknown dim of gemm 'x' 'rows' .known: batch, m, n, k"):
        operation("x", "gemm", {"rows": 3})
    with pytest.raises(InputError, match="gemm 'x': no value for batch, k"):
        operation("x", "gemm", {"m": 3, "n": 4})
    with pytest.raises(InputError, match="unknown data type 'float31'; did you mean 'float3"):
        operation("x", "move", {"reads": 1, "writes": 1}, "float31")
    with pytest.raises(InputError, match="unknown collective 'all_sum'"):
        operation("x", "collective", {"elements": 1, "participants": 2}, attributes={"function": "all_sum"})


def test_a_tape_sums_gradients_that_meet() -> None:
    tape = NetworkTape("residual")
    x = tape.dense("first", tape.input(symbol("batch"), 8), 8)
    tape.loss("loss", tape.elementwise("add", "add", tape.dense("second", x, 8), x))
    graph = tape.training()
    assert "first.backward_sum" in {op.name for op in graph}
    assert ("first.backward_sum", "first.backward_weight") in graph.edges
    assert "first.backward_data" not in {op.name for op in graph}  # data needs no gradient


def test_amounts_of_a_column_of_sizes_are_those_of_each() -> None:
    network = workload("deepspeech2-inference")
    lengths = [1, 2, 803, 804, 499]
    together = network.bind(batch=37, seq_len=np.array(lengths, dtype=float).view(SizeColumn)).cost
    for place, length in enumerate(lengths):
        alone = network.bind(batch=37, seq_len=length).cost
        assert all(np.broadcast_to(together[name], len(lengths))[place] == alone[name] for name in alone)


def test_a_new_kind_is_answered_rated_and_drawn_as_its_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "roll", Kind("roll", COPIES, ("reads", "writes"), "shifted along an axis", move_work))
    graphs = [Workload(kind, (operation("x", kind, {"reads": 1e7, "writes": 1e7}),)) for kind in ("move", "roll")]
    questions = [question(graph, "v100-sxm") for graph in graphs]
    answers = [asked.answer() for asked in questions]
    assert answers[1].time == pytest.approx(answers[0].time)
    assert answers[1].interval() == pytest.approx(answers[0].interval())
    made = facts(questions[1], answers[1]).throughput
    assert made is not None
    assert (made.unit, made.items) == (BYTE, 2 * 4 * 1e7)
    assert COPIES.colour in to_graphviz(graphs[1])
    mixed = autocast(Workload("step", (gemm("w", m=64, n=32, k=16), *graphs[1].operations), (("w", "x"),)), "bfloat16")
    assert [op.dtype for op in mixed if op.kind == "roll"] == ["bfloat16"]
