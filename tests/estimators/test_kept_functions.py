"""Compiled functions that are kept: the same times and slopes as made anew, and only for what they were made of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

from slipstick.common.disk_cache import FORMAT, VARIABLE
from slipstick.common.expressions import parse_expression, symbol
from slipstick.estimators.composition import composed_estimator
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.composed_estimator import ComposedEstimator, FreeSizeFormulas
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.sensitivity.elasticities import sensitivity
from slipstick.estimators.symbolic.batched_sum import SeparatedTerms, Tables, TermRows
from slipstick.estimators.symbolic.breakpoints import Breakpoints
from slipstick.estimators.symbolic.factored_formula import separate
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable
from slipstick.estimators.symbolic.lambdified.formula_cache import CachedParts
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import cached_rewrite, workload
from tests.estimators.test_separated import TEXTS

FREE = ("machine.clock", "workload.batch")
MODELS = (ComposedEstimator(Roofline(), Sequential()), ComposedEstimator(TiledRoofline(), Sequential()))


def answers(words: str, place: str) -> str:
    """What a command prints in a process of its own."""
    command = [sys.executable, "-m", "slipstick", *words.split(), "--format", "json"]
    child = subprocess.run(command, env={**os.environ, VARIABLE: place}, capture_output=True, text=True, check=True)
    return child.stdout


def compiled_anew(model: ComposedEstimator) -> Compiled:
    """A function that no call before has left in memory."""
    for memory in (composed_estimator._cached_compiled, composed_estimator._cached_with_sizes):
        memory.cache_clear()
    made = model.compile(workload("mlp"), machine("h100"), FREE)
    assert isinstance(made, Compiled)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("words", ["whatif mlp --on h100 --vary machine.clock=1GHz..2GHz:9", "explain gemm --on a100"])
def test_cold_warm_damaged_and_nothing_kept_give_the_same_digits(words: str, tmp_path: Path) -> None:
    place = tmp_path / "kept"
    without = answers(words, "off")
    assert answers(words, str(place)) == without
    kept = sorted((place / FORMAT / "functions").glob("*.json"))
    assert kept
    times = [path.stat().st_mtime_ns for path in kept]
    assert answers(words, str(place)) == without
    assert [path.stat().st_mtime_ns for path in kept] == times, "what is known is not written again"
    for path in kept:
        path.write_text(path.read_text().replace("multiply", "subtract", 1))
    assert answers(words, str(place)) == without


@pytest.mark.parametrize("model", MODELS, ids=("roofline", "tiled"))
def test_what_was_kept_has_the_same_times_and_slopes(
    model: ComposedEstimator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    points = {"machine.clock": np.array([1e9, 1.7e9]), "workload.batch": np.array([3.0, 8.0])}
    first = compiled_anew(model)
    known = sensitivity(first, points)
    first.keep()
    monkeypatch.setattr(FreeSizeFormulas, "groups", property(lambda _: pytest.fail("it is kept")))
    read = compiled_anew(model)
    assert read is not first
    found = sensitivity(read, points)
    assert np.array_equal(found.time, known.time) and list(found.elasticity) == list(known.elasticity)
    for name, slope in known.elasticity.items():
        np.testing.assert_array_equal(found.elasticity[name], slope)
        np.testing.assert_array_equal(found.at_ridge[name], known.at_ridge[name])


def test_another_machine_parameter_or_graph_is_another_function() -> None:
    net, on = workload("mlp"), machine("h100")
    model = MODELS[0]
    others = [
        model.compile(net, on, FREE),
        model.compile(net, on.using({"price": 3.5}), FREE),
        model.compile(net, on.using({"memory.HBM3.bandwidth": "1 TB/s"}), FREE),
        ComposedEstimator(Roofline(memory_efficiency=0.5), Sequential()).compile(net, on, FREE),
        model.compile(net, on, ("machine.clock",), {"batch": 4}),
        model.compile(net, on, ("machine.clock",), {"batch": 5}),
        model.compile(workload("gemm").bind(m=64, n=64, k=64), on, ("machine.clock",)),
    ]
    texts = [one.identity for one in others if isinstance(one, Compiled)]
    assert None not in texts and len(set(texts)) == len(others)


@pytest.mark.parametrize(
    "text",
    [
        "a*b/c + sqrt(a) - b**2.5 + 3*a",
        "Max(a*b, c**2, b + 3) + Min(a, 2*b)/(a + Max(b, c))",
        "ceiling(a/b)*b + floor(c)*a + Mod(a, c)*b + log(a/c)/log(2)",
        "exp(-a/c)*log(b) + a**b + 2**a",
        "a",
        "4",
    ],
)
def test_a_gradient_comes_back_from_its_data(text: str) -> None:
    expression, points = parse_expression(text), {"a": [0.7, 2.0], "b": [[1.3], [4.0]], "c": 2.2}
    steps = Formula(expression, "s", "").lowered
    again = Evaluable.of(json.loads(json.dumps(steps.data())))
    assert again == steps and set(again.names) == {str(name) for name in expression.free_symbols}
    for name, slope in again.gradient(points).items():
        np.testing.assert_array_equal(slope, steps.gradient(points)[name])
        wanted = Formula(expression, "s", "").derivative(name).evaluate({n: np.array(v) for n, v in points.items()})
        np.testing.assert_allclose(np.broadcast_to(slope, (2, 2)), np.broadcast_to(wanted, (2, 2)), rtol=1e-12)


def test_what_lies_below_a_step_needs_no_slope() -> None:
    """sympy has none of a magnitude that may be negative."""
    expression = sp.ceiling(1 / sp.Abs(symbol("a") - 10)) * symbol("b")
    assert float(Formula(expression, "1", "").gradient({"a": 9.5, "b": 3.0})["b"]) == 2.0


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_terms_and_borders_come_back_from_their_data(text: str) -> None:
    expression = parse_expression(text)
    terms = SeparatedTerms(separate(expression, lambda symbol: str(symbol).startswith("r.")))
    again = SeparatedTerms.of(json.loads(json.dumps(terms.data())))
    rows = {"r.a": np.array([1.5, 2.25, 0.3]), "r.b": np.array([0.7, 3.1, 2.0])}
    points = {"p.x": np.array([0.9, 2.3]), "p.y": np.array([1.7, 0.2])}
    totals = [
        Tables.of([TermRows(one.listed, rows, np.array([1.0, 2.0, 5.0]))]).total(points) for one in (terms, again)
    ]
    np.testing.assert_array_equal(*totals)
    turns = Breakpoints.of_expression(expression)
    assert Breakpoints.of(json.loads(json.dumps(turns.data()))) == turns


def test_a_rewrite_of_a_rewrite_is_kept_and_one_that_changes_nothing_gives_back_its_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    net = workload("mlp")
    same = cached_rewrite(net, "nothing done", lambda: net)
    assert same is net
    renamed = cached_rewrite(net, "called other", lambda: net.called("other"))
    twice = cached_rewrite(renamed, "called more", lambda: renamed.called("more"))
    assert twice.name == "more" and cached_rewrite(renamed, "called more", lambda: pytest.fail("it is kept")) is twice
    assert len(list((tmp_path / FORMAT / "workloads").glob("*.json"))) >= 2


def test_parts_that_one_process_alone_knows_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    parts = CachedParts()
    turns = parts.part("turns", Breakpoints.of, lambda: Breakpoints(()))
    parts.keep()
    assert parts.part("turns", Breakpoints.of, lambda: pytest.fail("it is known")) is turns
    assert not list(tmp_path.rglob("*.json"))
