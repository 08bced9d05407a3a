"""Operations that are alike are bound and timed once: nothing but the time that takes may change."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

import slipstick as ss
from slipstick.estimators.base.operation_shares import Parts
from slipstick.workloads.graph.cost import bind_amount
from slipstick.workloads.graph.exact import exactly
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import dense

BATCH, LENGTH = sp.symbols("batch seq_len", positive=True)


@pytest.mark.parametrize("name", ["gpt2", "resnet50", "gnmt", "llama-3-8b-decode"])
def test_each_operation_has_the_identity_of_the_one_it_is_like(name: str) -> None:
    workload = ss.workload(name)
    bound = workload.bind(batch=3)
    for graph in (workload, bound):
        alike = [graph.distinct.operations[place] for place in graph.distinct.place]
        assert [op.identity for op in graph] == [op.identity for op in alike]
        assert sum(op.times for op in graph.merged) == sum(op.times for op in graph)
    alone = [replace(op).bind({"batch": 3}) for op in workload]
    assert [op.identity for op in alone] == [op.identity for op in bound]
    assert [(op.name, op.times) for op in alone] == [(op.name, op.times) for op in bound]


def test_operations_that_differ_in_times_alone_are_alike_and_keep_their_symbols() -> None:
    product = dense("a", 8, 16, 32)
    graph = Workload("two", (product, replace(product, name="b", times=BATCH), dense("c", 8, 16, 33)))
    assert graph.distinct.place.tolist() == [0, 0, 1]
    assert [op.symbols for op in graph] == [frozenset(), {"batch"}, frozenset()]
    assert graph.symbols == {"batch"}
    bound = graph.bind(batch=5)
    assert bound.symbols == frozenset() and [op.times for op in bound.merged] == [6, 1]
    assert bound.cost.flop == 6 * 2 * 8 * 16 * 32 + 2 * 8 * 16 * 33


def test_a_size_that_only_says_how_often_leaves_the_operations_as_they_are() -> None:
    graph = Workload("two", (dense("a", 8, 16, 32), replace(dense("b", 8, 16, LENGTH), times=BATCH)))
    once, again, longer = (graph.bind(batch=b, seq_len=n) for b, n in ((5, 64), (6, 64), (6, 65)))
    assert again.distinct is once.distinct and longer.distinct is not once.distinct
    assert [[op.times for op in bound.merged] for bound in (once, again, longer)] == [[1, 5], [1, 6], [1, 6]]
    assert again.cost.flop == 2 * 8 * 16 * 32 + 6 * 2 * 8 * 16 * 64


@given(st.integers(1, 4096), st.integers(1, 4096), st.booleans())
def test_whole_sizes_are_bound_as_sympy_binds_them(batch: int, length: int, in_floats: bool) -> None:
    values = {"batch": float(batch) if in_floats else batch, "seq_len": float(length) if in_floats else length}
    for amount in (12 * BATCH * LENGTH**2 + 768 * BATCH, 3 * BATCH / 4, (BATCH - LENGTH) ** 2 + 1, BATCH / LENGTH):
        bound = bind_amount(amount, values)
        number = amount.xreplace({one: sp.sympify(values[str(one)]) for one in amount.free_symbols}).doit()
        assert type(bound) is (int if number.is_integer else float) or in_floats
        assert math.isclose(bound, float(number), rel_tol=1e-15)


def test_the_same_question_is_answered_once_and_another_size_anew() -> None:
    first = ss.question("gpt2-inference", "a100-sxm-40gb", settings={"workload.batch": 2})
    assert ss.question("gpt2-inference", "a100-sxm-40gb", settings={"workload.batch": 2}) is first
    other = ss.question("gpt2-inference", "a100-sxm-40gb", settings={"workload.batch": 4})
    assert other.answer().time > first.answer().time


@given(st.integers(1, 4096), st.integers(1, 64), st.booleans())
def test_rounded_and_chosen_sizes_are_those_of_sympy(batch: int, length: int, in_floats: bool) -> None:
    values = {"batch": float(batch) if in_floats else batch, "seq_len": float(length) if in_floats else length}
    tiles = sp.ceiling(BATCH / (3 * LENGTH))
    for amount in (tiles * LENGTH, sp.Max(BATCH, 7 * LENGTH) / 2, 1.5 * BATCH + sp.Min(2, LENGTH), sp.floor(BATCH / 5)):
        symbols = {one: sp.sympify(values[str(one)]) for one in amount.free_symbols}
        assert bind_amount(amount, values) == float(amount.xreplace(symbols))


def test_an_amount_that_floats_cannot_hold_is_left_to_sympy() -> None:
    thirds = sp.Min(BATCH / 3, LENGTH) * 3.0
    assert exactly(thirds, {"batch": 2.0, "seq_len": 5.0}) is None
    assert exactly(0.1 * BATCH, {"batch": 10}) is None  # 0.1 was rounded already
    assert exactly(BATCH, {"batch": 2.5}) is None and exactly(1 / (BATCH - 2), {"batch": 2}) is None


@pytest.mark.parametrize("sizes", [{"batch": 3}, {"batch": 3.0}])
def test_sizes_given_one_after_the_other_are_those_given_at_once(sizes: dict[str, float]) -> None:
    first = ss.workload("gpt2-inference").bind(**sizes)
    assert first.symbols == {"seq_len"}
    whole, twice = ss.workload("gpt2-inference").bind(**sizes, seq_len=77), first.bind(seq_len=77)
    assert whole == twice and whole.symbols == twice.symbols == frozenset()
    assert pickle.loads(pickle.dumps(first)) == first and pickle.loads(pickle.dumps(twice)) == whole
    assert [op.symbols <= {"seq_len"} for op in first] == [True] * len(first)


def test_shares_are_records_whichever_way_they_are_held() -> None:
    parts = ss.question("gpt2-inference", "h100").answer().parts
    assert isinstance(parts, Parts)
    records = tuple(parts)
    assert parts == records and hash(parts) == hash(records) and parts[1:3] == records[1:3]
    assert pickle.loads(pickle.dumps(parts)) == parts
    assert Parts.of(records).contributions.tolist() == [part.contribution for part in records]
    assert {part.bound_by for part in parts} >= {"compute", "memory"}


def test_a_size_that_no_operation_reads_makes_none_anew() -> None:
    """What only a schedule reads; a whole float is not the whole number."""
    graph = ss.workload("megatron-175b")
    sizes = {**dict.fromkeys(graph.symbols, 8), **graph.defaults}
    assert graph.bind_known(sizes).distinct is graph.bind_known({**sizes, "overlap_gradients": 1}).distinct
    for changed in ({"microbatch": 2}, {"microbatch": 2.0}, {"microbatch": 4}):
        bound = graph.bind_known({**sizes, **changed})
        alone = [op.bind({**sizes, **changed}) for op in graph.distinct.operations]
        assert repr(bound.distinct.operations) == repr(tuple(alone))
    floats, whole = (graph.bind_known({**sizes, "microbatch": size}).distinct.operations for size in (2.0, 2))
    assert floats == whole and repr(floats) != repr(whole)
