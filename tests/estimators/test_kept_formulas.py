"""Formulas that are kept: the same answers with and without them, and only where nothing can go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.disk_cache import FORMAT, VARIABLE, cache_folder
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel, grouped
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.cpu.cpu_roofline import CpuRoofline
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.gpu.transfer.residual_by_shape import ResidualByShape
from slipstick.estimators.interconnect.collectives import Collectives, ComputeAndCollectives
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Op

COMMAND = "estimate mlp --on h100 --format json".split()  # noqa: SIM905


def answer(place: str) -> Any:
    """The JSON answer of a process of its own, formulas kept there."""
    words = [sys.executable, "-m", "slipstick", *COMMAND]
    child = subprocess.run(words, env={**os.environ, VARIABLE: place}, capture_output=True, text=True, check=True)
    assert not child.stderr
    return json.loads(child.stdout)


@pytest.mark.slow
def test_cold_warm_and_nothing_kept_give_the_same_digits(tmp_path: Path) -> None:
    place = tmp_path / "kept"
    without = answer("off")
    assert answer(str(place)) == without
    kept = sorted((place / FORMAT).glob("*/*.json"))
    assert {path.parent.name for path in kept} == {"formulas", "workloads"}
    assert all(path.parent.stat().st_mode & 0o777 == 0o700 for path in kept)
    times = [path.stat().st_mtime_ns for path in kept]
    assert answer(str(place)) == without
    assert [path.stat().st_mtime_ns for path in kept] == times, "what is known is not written again"
    for path in kept:
        path.write_text('{"(": [1, ["__import__(\'os\')"]]}')
    assert answer(str(place)) == without, "broken files are as if they were not there"
    assert answer("/dev/null/no/place") == without, "nothing can be written there"


def test_what_others_may_write_to_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from slipstick.estimators.symbolic.lambdified.formula_cache import Formulas

    monkeypatch.setenv(VARIABLE, str(tmp_path))
    one = grouped(Roofline(), workload("gemm").bind(m=8, n=8, k=8).operations, machine("h100"))[0][0].lowered
    first = Formulas("a model")
    assert first.get("key", lambda: one) == one
    first.keep()
    assert Formulas("a model").get("key", lambda: pytest.fail("it is kept")) == one
    place = cache_folder("formulas")
    assert place is not None
    place.chmod(0o770)
    other = Formulas("a model")
    built = []
    assert other.get("key", lambda: built.append(1) or one) == one  # type: ignore[func-returns-value]
    assert built, "a folder that a group may write to is passed over"


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    assert cache_folder("formulas") is None


def scaled(whole: Machine, factors: list[float]) -> Machine:
    """The machine with each of its magnitudes times a factor; what is no magnitude stays."""
    floats = [name for name, value in whole.numbers.items() if isinstance(value, float) and value]
    changed = {name: whole.numbers[name] * factors[i % len(factors)] for i, name in enumerate(floats)}
    kept = {name: value for name, value in changed.items() if not name.startswith(("cycles_per", "price"))}
    return whole.using(kept)


MODELS: tuple[tuple[FormulaModel, str, str], ...] = (
    (Roofline(), "gpt2", "h100"),
    (TiledRoofline(), "resnet50", "a100-80-dgx"),
    (TiledRoofline(), "gnmt", "vega-fe"),
    (CpuRoofline(), "gnmt", "xeon-phi-7250"),
    (Collectives(), "all-reduce", "a100-80-dgx"),
)


@settings(max_examples=6, deadline=None)
@given(factors=st.lists(st.floats(0.6, 1.0), min_size=3, max_size=7))
@pytest.mark.parametrize(("model", "network", "name"), MODELS)
def test_machines_of_one_form_have_one_formula(
    model: FormulaModel, network: str, name: str, factors: list[float]
) -> None:
    whole, operations = machine(name), workload(network).operations
    other = scaled(whole, factors)
    assert other.form == whole.form and model.form(other) == model.form(whole)
    mine, theirs = (grouped(model, operations, one) for one in (whole, other))
    assert [(f.expression, f.terms, places) for f, places in mine] == [
        (f.expression, f.terms, places) for f, places in theirs
    ]


def test_a_kept_answer_follows_the_machine_and_the_parameters() -> None:
    network, whole = workload("mlp"), machine("h100")
    times = [ComposedEstimator(Roofline(), Sequential()).estimate(network, whole).time for _ in range(2)]
    slower = ComposedEstimator(Roofline(), Sequential()).estimate(
        network, whole.using({"memory.HBM3.bandwidth": "1 TB/s"})
    )
    half = ComposedEstimator(Roofline(memory_efficiency=0.5), Sequential()).estimate(network, whole)
    assert times[0] == times[1] < slower.time and half.time > times[0]
    assert ComposedEstimator(Roofline(), Sequential()).estimate(network, whole).time == times[0]


@dataclass(frozen=True)
class Slower(Roofline):
    """A model of one's own, whose formulas hold a number that no form knows of."""

    by: float = 1.0

    def formula(self, op: Op, machine: Machine) -> Formula:
        plain = super().formula(op, machine)
        return Formula(plain.expression * self.by, "s", plain.source)


def test_what_replaces_formulas_and_not_their_form_is_not_kept() -> None:
    network, whole = workload("mlp"), machine("h100")
    times = [ComposedEstimator(Slower(by=by), Sequential()).estimate(network, whole).time for by in (1.0, 2.0, 3.0)]
    assert times == pytest.approx([times[0], 2 * times[0], 3 * times[0]])
    both = FrozenDict(gemm=Slower(by=2.0), other=Roofline())
    assert (
        ComputeAndCollectives(both).form(whole) is None
        and ComputeAndCollectives(FrozenDict(other=Roofline())).form(whole) is not None
    )


def test_shape_factors_are_part_of_the_form() -> None:
    whole = machine("h100")
    with_factor: Any = {"gemm.float32": None}
    forms = [ResidualByShape().form(whole), ResidualByShape(factors=FrozenDict(with_factor)).form(whole)]
    assert forms[0] != forms[1] and TiledRoofline().form(whole) not in forms
