"""Orders that edges allow, held against networkx."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.workloads.graph.order import Neighbours

FORWARD = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] < pair[1]))


@given(FORWARD, st.permutations(range(10)))
def test_orders_are_those_of_networkx(pairs: list[tuple[int, int]], shuffled: list[int]) -> None:
    names = [f"op{number}" for number in shuffled]
    edges = [(f"op{first}", f"op{second}") for first, second in pairs]
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(edges)
    known = Neighbours.of(names, edges)
    assert known.ordered() == list(nx.topological_sort(graph))
    place = {f"op{number}": number for number in range(10)}
    assert known.ordered(place) == list(nx.lexicographical_topological_sort(graph, key=place.__getitem__))
    assert {name: list(known.after[name]) for name in names} == {name: list(graph.successors(name)) for name in names}
    assert {name: set(known.before[name]) for name in names} == {name: set(graph.predecessors(name)) for name in names}


def test_what_waits_for_itself_is_refused() -> None:
    with pytest.raises(InputError, match="2 operations wait for each other"):
        Neighbours.of(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "b")]).ordered()
