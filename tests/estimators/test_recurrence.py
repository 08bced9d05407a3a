"""Max-plus recurrences against the event simulation, closed forms and a path search."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.schedules.max_plus import PrecedenceGraph, tandem

edges = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40).map(
    lambda pairs: sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
)


@given(edges, st.lists(st.floats(0, 10), min_size=12, max_size=12))
def test_the_end_is_the_longest_path(pairs: list[tuple[int, int]], service: list[float]) -> None:
    graph: nx.DiGraph[str | int] = nx.DiGraph()
    graph.add_nodes_from(range(12))
    graph.add_edges_from([("start", node, {"weight": service[node]}) for node in range(12)])
    graph.add_edges_from([(a, b, {"weight": service[b]}) for a, b in pairs])
    recurrence = PrecedenceGraph.from_edges(12, pairs)
    done = recurrence.completion(service)
    assert done.max() == pytest.approx(nx.dag_longest_path_length(graph), abs=1e-9)
    path = recurrence.critical_path(service)
    assert sum(service[node] for node in path) == pytest.approx(done.max(), abs=1e-9)
    assert all(pair in set(pairs) for pair in pairwise(path))


@given(edges, st.integers(0, 2**31))
def test_many_scenarios_are_the_single_ones(pairs: list[tuple[int, int]], seed: int) -> None:
    generator = np.random.default_rng(seed)
    service, lags = generator.random((12, 3)), generator.random(len(pairs))
    graph = PrecedenceGraph.from_edges(12, pairs, lags.tolist())
    release = generator.random((12, 1))
    together = graph.completion(service, release)
    for column in range(3):
        np.testing.assert_allclose(together[:, column], graph.completion(service[:, column], release[:, 0]))


def test_a_node_that_waits_for_a_later_one_is_refused() -> None:
    with pytest.raises(InputError, match="topological order"):
        PrecedenceGraph.from_edges(3, [(2, 1)])
    with pytest.raises(InputError, match="graph of 3 nodes"):
        PrecedenceGraph.from_edges(3, [(0, 3)])
    with pytest.raises(InputError, match="shape"):
        PrecedenceGraph.from_edges(3, []).completion([1.0, 2.0])


@given(
    st.lists(st.floats(0.01, 5), min_size=1, max_size=5),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_equal_service_flows_at_the_slowest_stage(times: list[float], workers: int, buffer: int) -> None:
    items = 40
    run = tandem([[t] * items for t in times], [workers] * len(times), [buffer] * (len(times) - 1))
    slowest = max(times) / workers
    gaps = run.departed[-1][-1] - run.departed[-1][items - 1 - 4 * workers]
    assert gaps / (4 * workers) == pytest.approx(slowest, rel=1e-9)
    # the first item meets nobody
    assert run.departed[-1][0] == pytest.approx(sum(times))


@given(st.integers(0, 2**31))
def test_more_room_and_more_workers_never_delay(seed: int) -> None:
    generator = np.random.default_rng(seed)
    service = generator.exponential(size=(3, 30))
    base = tandem(service, [1, 2, 1], [1, 2])
    for workers, buffers in (([2, 2, 1], [1, 2]), ([1, 3, 1], [1, 2]), ([1, 2, 1], [3, 2]), ([1, 2, 1], [1, 5])):
        assert np.all(tandem(service, workers, buffers).departed[-1] <= base.departed[-1] + 1e-12)


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1"):
        tandem([[1.0], [1.0]], [1, 0], [1])
    with pytest.raises(InputError, match="2 stages need"):
        tandem([[1.0], [1.0]], [1, 1], [])
