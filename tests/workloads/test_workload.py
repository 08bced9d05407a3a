"""Costs add, graphs are checked, files round-trip."""

import pickle
import re
from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.expressions import expression_text, parse_expression, symbol
from slipstick.workloads.catalog import outline, workload, workload_names
from slipstick.workloads.graph.cost import Amount, Cost
from slipstick.workloads.graph.kinds import KINDS, operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_file import load_workload
from slipstick.workloads.layers.single import convolution, dense, elementwise, gemm

amounts = st.integers(0, 10**9)
costs = st.dictionaries(
    st.sampled_from(["flop.matrix.float32", "flop.vector.float32", "read", "written"]), amounts
).map(Cost)


@given(costs, costs, st.integers(1, 1000))
def test_costs_add_and_scale(a: Cost, b: Cost, n: int) -> None:
    assert a + b == b + a
    assert (a + b).flop == a.flop + b.flop
    assert (n * a)["read"] == n * a["read"]
    assert n * (a + b) == n * a + n * b
    assert a + Cost() == a


def test_a_multiply_add_is_two_flop() -> None:
    assert gemm("g", 3, 5, 7).cost.flop == 2 * 3 * 5 * 7
    assert convolution("c", 2, 3, 8, (3, 3), (10, 10)).cost.flop == 2 * 2 * 8 * 100 * 27
    assert convolution("c", 2, 4, 8, (3, 3), (10, 10), groups=4).cost.flop == 2 * 2 * 8 * 100 * 9
    assert dense("d", 8, 16, 32, dtype="bfloat16").cost.bytes_moved == 2 * (8 * 16 + 16 * 32 + 8 * 32)


def test_symbols_bind_by_name_whatever_their_assumptions() -> None:

    for batch in (symbol("batch"), sp.Symbol("batch"), sp.Symbol("batch", integer=True)):
        net = Workload("net", (dense("a", batch, 4, 8),))
        assert net.symbols == {"batch"}
        assert net.bind(batch=16).cost.flop == 2 * 16 * 4 * 8
        assert isinstance(net.bind(batch=16).operations[0].dims["m"], int)
    with pytest.raises(InputError, match=r"unknown symbol of workload 'net' 'bach'; did you mean 'batch'"):
        net.bind(bach=3)


def test_identity_is_what_decides_the_time_and_nothing_else() -> None:
    a, b = dense("a", 8, 16, 32), dense("b", 8, 16, 32)
    assert a.identity == b.identity
    assert replace(a, times=7).identity == a.identity
    assert dense("a", 8, 16, 33).identity != a.identity
    assert dense("a", 8, 16, 32, dtype="bfloat16").identity != a.identity
    assert gemm("a", 8, 32, 16, transposed="b").identity != a.identity


def test_the_graph_is_networkx() -> None:
    net = Workload("net", (dense("a", 1, 2, 3), elementwise("b", 3)), (("a", "b"),))
    assert isinstance(net.graph, nx.DiGraph)
    assert net.graph.nodes["a"]["op"].kind == "gemm"
    assert nx.dag_longest_path_length(net.graph) == 1


MORE_LAYERS = re.compile(r"(megatron-)?(gpt2|bert)-(medium|large|xl)|megatron-(175|530)b")
SAMPLE = [  # imported ones are alike, and so are larger ones of the same builder
    pytest.param(name, marks=[pytest.mark.slow] if MORE_LAYERS.match(name) else [])
    for i, name in enumerate(workload_names())
    if "/" not in name or i % 12 == 0
]


@pytest.mark.parametrize("name", SAMPLE)
def test_built_in_workloads_are_one_graph_that_goes_through_files_and_pickle(name: str, tmp_path: Path) -> None:
    built = workload(name)
    assert "/" in name or nx.is_weakly_connected(built.graph)
    built.save(tmp_path / "w.json.gz")
    again = load_workload(tmp_path / "w.json.gz")
    assert again.identity == built.identity
    assert again.defaults == built.defaults
    assert pickle.loads(pickle.dumps(built)) == built
    bound = built.bound()
    assert not bound.symbols and bound.cost.flop >= 0
    assert again.bound().cost.flop == pytest.approx(bound.cost.flop, rel=1e-12)


@pytest.mark.parametrize("name", ["imported/gpt2", "imported/resnet101", "mlp"])
def test_an_outline_says_what_the_workload_would(name: str) -> None:
    built = workload(name)
    operations, parameters, defaults = outline(name)
    assert (operations, parameters, dict(defaults)) == (len(built), built.metadata["parameters"], dict(built.defaults))


def test_wrong_graphs_are_refused() -> None:
    a, b = Op("a", "gemm"), Op("b", "gemm")
    with pytest.raises(InputError, match="two operations are named 'a'"):
        Workload("w", (a, a))
    with pytest.raises(InputError, match=r"unknown operation in an edge of workload 'w' 'c' \(known: a, b\)"):
        Workload("w", (a, b), (("a", "c"),))
    with pytest.raises(InputError, match="wait for each other: a -> b"):
        Workload("w", (a, b), (("a", "b"), ("b", "a")))
    with pytest.raises(InputError, match="unknown resource 'flops'"):
        Cost({"flops": 1})
    with pytest.raises(InputError, match="give a value for t"):
        Workload("w", (dense("a", symbol("t"), 1, 1),)).bound()


@pytest.mark.parametrize("channels", [8, symbol("c")])
def test_work_is_divided_by_no_0(channels: Amount) -> None:
    one = dict.fromkeys((*KINDS["convolution"].dims, *KINDS["collective"].dims), 1)
    sizes = {name: {**one, "channels_in": channels, "elements": channels} for name in ("convolution", "collective")}
    for kind, divisor in (("convolution", "groups"), ("collective", "participants")):
        dims = {name: sizes[kind][name] for name in KINDS[kind].dims}
        assert operation("a", kind, dims).cost
        with pytest.raises(InputError, match=f"{kind} 'a': {divisor} = 0: want 1 or more"):
            operation("a", kind, {**dims, divisor: 0})


expressions = st.recursive(
    st.sampled_from(["batch", "t", "3", "2.5"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(st.sampled_from(["Max", "Min"]), inner, inner).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        inner.map(lambda e: f"floor({e})"),
        inner.map(lambda e: f"({e})**2"),
    ),
    max_leaves=8,
)


@given(expressions)
def test_formulas_survive_being_written_and_read(text: str) -> None:
    expression = parse_expression(text)
    again = parse_expression(expression_text(expression))
    # 2 (a + b) is read as 2 a + 2 b, and floats are written with 17 digits: equal in value, not always in form
    for start in (1.7, 23.0):
        point = {one: start + place for place, one in enumerate(sorted(expression.free_symbols, key=str))}
        assert complex(again.subs(point)) == pytest.approx(complex(expression.subs(point)), rel=1e-12, nan_ok=True)


def test_the_index_of_workloads_is_complete() -> None:
    import json

    from slipstick.workloads.catalog import built_outline, outlines_file
    from tools.indexes import built_names

    index = json.loads(outlines_file().read_text())
    assert list(index) == built_names() == workload_names(), "run python -m tools.indexes"
    for name in sorted(index)[::9]:
        operations, parameters, defaults = built_outline(name)
        assert index[name] == [operations, parameters, dict(defaults)]
