"""Workloads that are kept as numbers and steps: the same workload, to the digest, and broken files change nothing."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.disk_cache import FORMAT, VARIABLE, cache_folder
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.workloads.catalog import cached_rewrite, workload, workload_builders
from slipstick.workloads.graph.exact import steps_of
from slipstick.workloads.graph.whole_steps import POWER, SizeSteps
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_cache import cached_workload
from slipstick.workloads.transforms.mixed import autocast, tf32_convolutions
from slipstick.workloads.transforms.narrow import computed_in

NETWORKS = ("data-parallel-mlp", "llama-7b-decode", "resnet18-inference")


def twice(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Workload, Workload]:
    """A network as it is built, and as it was kept."""
    monkeypatch.setenv(VARIABLE, str(place))
    build = workload_builders()[name]
    built = cached_workload(name, build)
    return built, cached_workload(name, lambda: pytest.fail("it is kept"))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_kept_network_is_the_network(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built, kept = twice(name, tmp_path, monkeypatch)
    assert kept.symbols == built.symbols and kept.names == built.names and kept.kinds == built.kinds
    sizes = dict.fromkeys(built.symbols, 3)
    one, other = built.bind_known(sizes), kept.bind_known(sizes)
    assert other.operations == one.operations and other.identity == one.identity
    assert [repr(op) for op in other.operations] == [repr(op) for op in one.operations], "int stays int"
    halves = dict.fromkeys(built.symbols, 2.5)
    assert kept.bind_known(halves).operations == built.bind_known(halves).operations
    assert kept == built and kept.identity == built.identity
    assert pickle.loads(pickle.dumps(kept)) == built


@pytest.mark.parametrize(
    ("name", "rewrite"),
    [
        ("gpt2", lambda network: autocast(network, "float16")),
        ("llama-7b-inference", lambda network: computed_in(network, "nvfp4", ())),
        ("resnet18-inference", tf32_convolutions),
    ],
)
def test_a_kept_rewrite_is_the_rewritten_network(
    name: str, rewrite: Callable[[Workload], Workload], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    made = rewrite(workload_builders()[name]())
    assert cached_workload(f"{name} rewritten", lambda: made) is made
    kept = cached_workload(f"{name} rewritten", lambda: pytest.fail("it is kept"))
    for size in (3, 2.5):
        sizes = dict.fromkeys(made.symbols, size)
        one, other = made.bind_known(sizes), kept.bind_known(sizes)
        assert [repr(op) for op in other.operations] == [repr(op) for op in one.operations]
    assert kept == made and kept.identity == made.identity


def test_only_the_network_as_built_is_kept_rewritten() -> None:
    built = workload("gpt2")
    bound = built.bind(batch=2)
    rewritten = cached_rewrite(built, "test of one", lambda: autocast(built, "float16"))
    assert cached_rewrite(built, "test of one", lambda: pytest.fail("it is known")) is rewritten
    assert cached_rewrite(bound, "test of one", lambda: bound) is bound


def test_partly_given_sizes_are_put_in_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built, kept = twice("gpt2-inference", tmp_path, monkeypatch)
    for one in (built, kept):
        assert one.bind(batch=4).symbols == {"seq_len"}
    assert kept.bind(batch=4).bind(seq_len=128).operations == built.bind(seq_len=128).bind(batch=4).operations


@pytest.mark.parametrize(
    "broken",
    [
        lambda content: content["operations"].clear(),
        lambda content: content["place"].append(0),
        lambda content: content["formulas"][0].__setitem__(1, [["x", ["Add", 9]], [], False, False]),
        lambda content: content["formulas"].clear(),
        lambda content: content.pop("edges"),
        lambda content: content.__setitem__("times", None),
    ],
)
def test_what_is_kept_wrong_is_built_anew(broken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    from slipstick.common.disk_cache import read_cached, write_cached

    built, _ = twice("mlp", tmp_path, monkeypatch)
    place = cache_folder("workloads")
    assert place is not None
    (path,) = place.glob("*.json")
    content = read_cached(path)
    broken(content)
    assert write_cached(path, content), "with a digest that fits"
    assert cached_workload("mlp", workload_builders()["mlp"]) == built
    path.write_text(json.dumps({"format": FORMAT, "digest": "0", "content": content}))
    assert cached_workload("mlp", workload_builders()["mlp"]) == built


@given(
    expression=st.recursive(
        st.sampled_from(["a", "b"]).map(symbol) | st.integers(1, 9).map(sp.Integer),
        lambda inner: (
            st.tuples(st.sampled_from(["Add", "Mul", "Max", "Min"]), inner, inner).map(
                lambda one: getattr(sp, one[0])(*one[1:])
            )
            | st.tuples(inner, st.integers(-2, 3)).map(lambda one: one[0] ** one[1])
            | inner.map(lambda one: sp.ceiling(one / 3))
        ),
        max_leaves=6,
    ),
    a=st.integers(1, 50),
    b=st.integers(1, 50),
)
def test_steps_are_read_back_as_they_were(expression: sp.Expr, a: int, b: int) -> None:
    steps = steps_of(expression)
    assert steps is not None
    back = SizeSteps.of(json.loads(json.dumps(steps.data())))
    value = back.at({"a": a, "b": b})
    assert value == steps.at({"a": a, "b": b})
    assert value == pytest.approx(float(expression.subs({symbol("a"): a, symbol("b"): b})))


@pytest.mark.parametrize(
    "data",
    [
        None,
        [[], [], False, False],
        [["a", "b"], [], False, False],
        [["a", ["Add", 2]], [], False, False],
        [["a", ["eval", 1]], [], False, False],
        [["a", ["power", 10**6]], [], False, False],
        [["a", ["Add", 0]], [], False, False],
        [[[1, 0]], [], False, False],
        [[True], [], False, False],
        [["a"], ["b"], False, False],
    ],
)
def test_steps_that_cannot_be_are_refused(data: object) -> None:
    with pytest.raises(InputError, match="as steps"):
        SizeSteps.of(data)


@given(st.lists(st.fractions(-50, 50, max_denominator=12), min_size=1, max_size=4), st.integers(1, 60))
def test_products_of_fractions_are_exact(factors: list[Fraction], size: int) -> None:
    made = SizeSteps((*factors, "a", (POWER, -1), ("Mul", len(factors) + 1)), ("a",), has_float=False, polynomial=True)
    wanted = Fraction(1, size)
    for factor in factors:
        wanted *= factor
    value = made.at({"a": size})
    assert value == (wanted.numerator if wanted.denominator == 1 else float(wanted))
    assert isinstance(value, int) is (wanted.denominator == 1)


def test_a_size_asked_again_as_a_float_gives_a_float() -> None:
    steps = SizeSteps(("a", "b", ("Mul", 2)), ("a", "b"), has_float=False, polynomial=True)
    asked = ({"a": 2, "b": 3, "c": 1}, {"a": 2, "b": 3, "c": 5}, {"a": 2.0, "b": 3}, {"a": 2}, {"a": 2, "b": 4})
    assert [repr(steps.again_at(sizes)) for sizes in asked] == ["6", "6", "6.0", "None", "8"]
