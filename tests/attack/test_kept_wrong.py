"""What was kept and cannot be is as if it were not there, also with the digest that it would have."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipstick.common.disk_cache import VARIABLE, cache_path, read_cached, write_cached
from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import grouped
from slipstick.estimators.composition.formula_group_steps import AmountColumn, GroupRows
from slipstick.estimators.gpu.kernels.kernel_classes import PRODUCTS
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.symbolic.batched_sum import SeparatedTerms
from slipstick.estimators.symbolic.breakpoints import Breakpoints
from slipstick.estimators.symbolic.factored_formula import separate
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable
from slipstick.estimators.symbolic.lambdified.formula_cache import CachedParts, Formulas
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload, workload_builders
from slipstick.workloads.graph.workload_cache import cached_workload

TraceChange = Callable[[Any], object]
WORKLOADS: dict[str, TraceChange] = {
    "no table": lambda content: content.clear(),
    "defaults, a text": lambda content: content["defaults"].update(batch="many"),
    "defaults, a list": lambda content: content.update(defaults=[["batch", 1]]),
    "defaults, a truth": lambda content: content["defaults"].update(batch=True),
    "cost, a text": lambda content: content["operations"][0]["cost"].update(read="a"),
    "cost, a list": lambda content: content["operations"][0]["cost"].update(read=[0, 0]),
    "cost, an empty list": lambda content: content["operations"][0]["cost"].update(read=[]),
    "cost, before the first": lambda content: content["operations"][0]["cost"].update(read=[-1]),
    "cost, none": lambda content: content["operations"][0]["cost"].update(read=None),
    "cost, no table": lambda content: content["operations"][0].update(cost=["read"]),
    "dims, a text": lambda content: content["operations"][0]["dims"].update(m="m"),
    "times, a text": lambda content: content["times"].__setitem__(0, "x"),
    "times, a text in all": lambda content: content.update(times="x" * len(content["times"])),
    "place, huge": lambda content: content["place"].__setitem__(0, 10**30),
    "place, negative": lambda content: content["place"].__setitem__(0, -1),
    "place, a fraction": lambda content: content["place"].__setitem__(0, 0.5),
    "place, truths": lambda content: content["place"].__setitem__(0, False),
    "place, nested": lambda content: content.update(place=[content["place"]]),
    "edges, a circle": lambda content: content.update(edges=[[1, 0], [0, 1]]),
    "edges, of one": lambda content: content.update(edges=[[0, 0]]),
    "edges, of three": lambda content: content.update(edges=[[0, 1, 2]]),
    "edges, before the first": lambda content: content.update(edges=[[-2, -1]]),
    "edges, beyond the last": lambda content: content.update(edges=[[0, 10**9]]),
    "names, equal": lambda content: content["names"].__setitem__(1, content["names"][0]),
    "names, numbers": lambda content: content.update(names=list(range(len(content["names"])))),
    "name, a list": lambda content: content.update(name=["a"]),
    "dtype, unknown": lambda content: content["operations"][0].update(dtype="float33"),
    "dtype, a list": lambda content: content["operations"][0].update(dtype=["float32"]),
    "kind, a number": lambda content: content["operations"][0].update(kind=3),
    "payload, a number": lambda content: content["operations"][0].update(payload=3),
    "attributes, a list": lambda content: content["operations"][0].update(attributes=[]),
    "attributes, a table": lambda content: content["operations"][0]["attributes"].update(fact={"a": 1}),
    "metadata, a text": lambda content: content.update(metadata="x"),
    "metadata, a table": lambda content: content["metadata"].update(fact={"a": 1}),
    "uncounted, a text": lambda content: content.update(uncounted="abc"),
    "uncounted, numbers": lambda content: content.update(uncounted=[1]),
    "formulas, a table": lambda content: content.update(formulas={}),
    "formulas, of one": lambda content: content["formulas"].__setitem__(0, ["a"]),
    "formulas, a number": lambda content: content["formulas"][0].__setitem__(0, 3),
    "formulas, symbols": lambda content: content["formulas"][0].__setitem__(2, "batch"),
    "formulas, other symbols": lambda content: content["formulas"][0].__setitem__(2, ["nobody"]),
    "operations, one too many": lambda content: content["operations"].append(content["operations"][0]),
    "operations, a table": lambda content: content.update(operations={"0": content["operations"][0]}),
}


@pytest.mark.parametrize("change", WORKLOADS.values(), ids=WORKLOADS.keys())
def test_a_wrong_network_is_built_anew(change: TraceChange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    build = workload_builders()["mlp"]
    path = cache_path("workloads", "mlp")
    built = cached_workload("mlp", build)
    content = read_cached(path)
    assert path is not None and content is not None
    change(content)
    assert write_cached(path, content)
    calls = []
    assert cached_workload("mlp", lambda: calls.append(1) or build()) == built  # type: ignore[func-returns-value]
    assert calls, "it was taken"
    assert cached_workload("mlp", lambda: pytest.fail("it is kept again")) == built


def test_a_table_is_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    path = cache_path("workloads", "mlp")
    assert path is not None
    for content in ([], "mlp", 3, True, {"name": "mlp"}):
        assert write_cached(path, content)
        assert cached_workload("mlp", workload_builders()["mlp"]) == workload_builders()["mlp"]()


def many(column: object) -> TraceChange:
    return lambda content: content.__setitem__(3, {"split": column})


FORMULAS: dict[str, TraceChange] = {
    "of two": lambda content: content.__delitem__(slice(2, None)),
    "unit, a number": lambda content: content.__setitem__(0, 1),
    "source, a list": lambda content: content.__setitem__(5, ["x"]),
    "names, a text": lambda content: content[1].__setitem__(0, "ab"),
    "names, numbers": lambda content: content[1].__setitem__(0, list(range(len(content[1][0])))),
    "names, equal": lambda content: content[1].__setitem__(0, ["a"] * max(2, len(content[1][0]))),
    "tape, none": lambda content: content[1].__setitem__(1, None),
    "tape, arguments": lambda content: content[1][1].__setitem__(0, 10**30),
    "tape, a text": lambda content: content[1][1][2].__setitem__(0, "add"),
    "terms, a list": lambda content: content.__setitem__(2, [1]),
    "terms, a number": lambda content: content.__setitem__(2, {"a": 1}),
    "criterion, a text": lambda content: content.__setitem__(4, "x"),
    "menu, a list": lambda content: content.__setitem__(3, [[1.0]]),
    "menu, a text": many("123"),
    "menu, texts": many(["1", "2"]),
    "menu, huge": many([10**39, None]),
    "menu, empty": many([]),
    "menu, nested": many([[1.0]]),
    "menu, a million": many([1.0] * 1_000_000),
    "menu, of two lengths": lambda content: content.__setitem__(3, {"a": [1.0], "b": [1.0, 2.0]}),
}


@pytest.mark.parametrize("change", FORMULAS.values(), ids=FORMULAS.keys())
def test_a_wrong_formula_is_built_anew(change: TraceChange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    one = grouped(Roofline(), workload("gemm").bind(m=8, n=8, k=8).operations, machine("h100-sxm"))[0][0].lowered
    path = cache_path("formulas", "a model")
    data = json.loads(json.dumps(one.data()))
    change(data)
    assert path is not None and write_cached(path, {"key": data})
    begin = time.process_time()
    built: list[int] = []
    assert Formulas("a model").get("key", lambda: built.append(1) or one) == one  # type: ignore[func-returns-value]
    assert built and time.process_time() - begin < 3.0


EXPRESSION = "Max(operation.a/b, operation.c*c) + operation.a*c**2 + ceiling(operation.a/b)*Max(operation.a, b + c)"


def terms_data() -> Any:
    return SeparatedTerms(separate(parse_expression(EXPRESSION), lambda name: str(name).startswith("op"))).data()


def turns_data() -> Any:
    return Breakpoints.of_expression(parse_expression(EXPRESSION)).data()


def rows_data() -> Any:
    column = AmountColumn.of_amounts([1.0, parse_expression("2*batch"), 3])
    return GroupRows((({"operation.a": column}, {"all": column}),)).data()


Read = Callable[[Any], object]
OF_FUNCTIONS: dict[str, tuple[Read, Callable[[], Any], TraceChange]] = {
    "terms, a table": (SeparatedTerms.of, lambda: {"product": []}, lambda data: None),
    "term, unknown": (SeparatedTerms.of, terms_data, lambda data: data[0].__setitem__(0, "call")),
    "term, of three": (SeparatedTerms.of, terms_data, lambda data: data[0].append(1)),
    "product, a text": (SeparatedTerms.of, terms_data, lambda data: data[0].__setitem__(1, "rows")),
    "product, text a number": (SeparatedTerms.of, terms_data, lambda data: data[0][1].__setitem__(1, 3)),
    "product, steps none": (SeparatedTerms.of, terms_data, lambda data: data[0][1].__setitem__(0, None)),
    "maximum, of nothing": (SeparatedTerms.of, lambda: [["maximum", []]], lambda data: None),
    "maximum, an empty side": (SeparatedTerms.of, lambda: [["maximum", [[]]]], lambda data: None),
    "whole, none": (SeparatedTerms.of, lambda: [["whole", None]], lambda data: None),
    "chosen, none": (SeparatedTerms.of, lambda: [["chosen", None]], lambda data: None),
    "borders, a table": (Breakpoints.of, dict, lambda data: None),
    "border, of two": (Breakpoints.of, turns_data, lambda data: data[0].pop()),
    "border, names a text": (Breakpoints.of, turns_data, lambda data: data[0].__setitem__(2, "b")),
    "rows, a table": (GroupRows.of, dict, lambda data: None),
    "group, of one": (GroupRows.of, rows_data, lambda data: data[0].pop()),
    "group, a list": (GroupRows.of, rows_data, lambda data: data[0].__setitem__(0, [])),
    "columns of two lengths": (GroupRows.of, rows_data, lambda data: data[0][0]["operation.a"][0].append(1.0)),
    "column, texts": (GroupRows.of, rows_data, lambda data: data[0][0]["operation.a"][0].__setitem__(0, "1")),
    "column, place beyond": (GroupRows.of, rows_data, lambda data: data[0][0]["operation.a"].__setitem__(1, [3])),
    "column, places too many": (GroupRows.of, rows_data, lambda data: data[0][0]["operation.a"].__setitem__(1, [0, 1])),
    "column, no steps": (GroupRows.of, rows_data, lambda data: data[0][0]["operation.a"].__setitem__(2, None)),
}


@pytest.mark.parametrize(("read", "make", "change"), OF_FUNCTIONS.values(), ids=OF_FUNCTIONS.keys())
def test_a_wrong_part_of_a_function_is_built_anew(
    read: Read, make: Callable[[], Any], change: TraceChange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    data = json.loads(json.dumps(make()))
    if make in (terms_data, turns_data, rows_data):
        read(data)
    change(data)
    with pytest.raises(InputError):
        read(data)
    path = cache_path("functions", "a function")
    assert path is not None and write_cached(path, {"key": data})
    parts, built = CachedParts("a function", "functions"), Breakpoints(())
    assert parts.part("key", read, lambda: built) is built  # type: ignore[type-var, arg-type]
    parts.keep()
    assert read_cached(path) == {"key": []}


def test_the_longest_menu_of_ours_is_kept() -> None:
    """The bound on a menu is far from what the models choose from."""
    steps = grouped(Roofline(), workload("gemm").bind(m=8, n=8, k=8).operations, machine("h100-sxm"))[0][0].lowered
    one = Evaluable(steps.unit, steps.whole, menu=FrozenDict(dict(PRODUCTS)))
    assert Evaluable.of(json.loads(json.dumps(one.data()))) == one
