"""Bricks: every layer exactly once, at most G a brick, whatever can be built."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.roofline.measured_table import MeasuredTimes, measured_key
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import dense, elementwise
from slipstick.workloads.transforms.bricks import (
    find_bricks,
    jaccard_similarity,
    quotient,
    unique_bricks,
)


@st.composite
def graphs(draw: st.DrawFn) -> Workload:
    size = draw(st.integers(1, 14))
    widths = draw(st.lists(st.sampled_from([8, 16]), min_size=size, max_size=size))
    edges = draw(st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=20))
    operations = tuple(dense(f"layer{i}", 4, width, width) for i, width in enumerate(widths))
    return Workload("net", operations, tuple((f"layer{a}", f"layer{b}") for a, b in sorted(edges) if a < b))


@given(graphs(), st.integers(1, 16), st.integers(0, 3))
def test_every_layer_stands_in_exactly_one_brick_of_at_most_g(net: Workload, granularity: int, forbidden: int) -> None:
    def buildable(layers) -> bool:
        return all(hash(op.name) % 4 != forbidden for op in layers[1:])

    for rule in (None, buildable):
        bricks = find_bricks(net, granularity, rule)
        names = [name for brick in bricks for name in brick.layers]
        assert sorted(names) == sorted(op.name for op in net)
        assert all(1 <= len(brick.layers) <= granularity for brick in bricks)
        if rule:
            assert all(len(brick.layers) == 1 or rule(brick.workload.operations) for brick in bricks)
        merged = quotient(net, bricks)
        assert nx.is_directed_acyclic_graph(merged.graph)
        assert merged.cost == net.cost


def test_granularity_one_gives_single_layers_and_their_own_identity() -> None:
    net = Workload("net", (dense("a", 4, 8, 8), elementwise("b", 32)), (("a", "b"),))
    bricks = find_bricks(net, 1)
    assert [brick.identity for brick in bricks] == [op.identity for op in net]


def test_a_failed_window_leaves_its_first_layer_alone_and_shifts_by_one() -> None:
    net = Workload("net", tuple(dense(name, 4, 8, 8) for name in "abcde"), tuple(zip("abcd", "bcde", strict=True)))

    def no_brick_starts_with_a(layers) -> bool:
        return layers[0].name != "a"

    assert [brick.layers for brick in find_bricks(net, 3, no_brick_starts_with_a)] == [("a",), ("b", "c", "d"), ("e",)]


def test_sequences_are_the_same_by_what_they_do_not_by_their_names() -> None:
    twice = Workload(
        "twice",
        (dense("a", 4, 8, 8), elementwise("b", 32), dense("c", 4, 8, 8), elementwise("d", 32)),
        (("a", "b"), ("b", "c"), ("c", "d")),
    )
    assert len(unique_bricks(find_bricks(twice, 2))) == 1
    apart = Workload("apart", twice.operations, (("a", "b"), ("b", "c")))
    assert len(unique_bricks(find_bricks(apart, 2))) == 2  # the second pair is not connected


def test_a_measured_table_of_bricks_composes_under_any_schedule() -> None:
    phi = machine("xeon-phi-7120p")
    net = Workload(
        "net", tuple(dense(f"l{i}", 4, 8, 8) for i in range(7)), tuple((f"l{i}", f"l{i + 1}") for i in range(6))
    )
    for granularity in (1, 2, 3):
        merged = quotient(net, find_bricks(net, granularity))
        seconds = FrozenDict({measured_key(op): 1e-3 * len(op.body or [op]) for op in merged})
        answer = ComposedEstimator(MeasuredTimes(seconds, phi.fingerprint), Sequential()).estimate(merged, phi)
        assert answer.time == pytest.approx(7e-3)
    whole = ComposedEstimator(Roofline(), Sequential())
    assert whole.estimate(net, phi).time == pytest.approx(
        7 * whole.estimate(Workload("one", net.operations[:1]), phi).time
    )


def test_similarity_is_one_for_the_same_layers_and_nought_for_none() -> None:
    a = Workload("a", (dense("x", 1, 2, 3), dense("y", 1, 3, 4)))
    b = Workload("b", (dense("p", 1, 2, 3), dense("q", 1, 2, 3), dense("r", 1, 3, 4)))
    c = Workload("c", (dense("x", 9, 9, 9),))
    assert jaccard_similarity([a, b, c]).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]


def test_wrong_bricks_are_refused() -> None:
    net = Workload("net", (dense("a", 1, 2, 3), dense("b", 1, 3, 4)))
    with pytest.raises(InputError, match="granularity = 0: want at least 1 layer a brick"):
        find_bricks(net, 0)
    with pytest.raises(InputError, match=r"bricks hold 1 layers \(1 distinct\); workload 'net' has 2"):
        quotient(net, find_bricks(net, 1)[:1])
