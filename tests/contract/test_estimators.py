"""The one contract that every estimator keeps: every record of the registry, on its own example."""

from __future__ import annotations

import json
import math
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict, content_digest
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.base.quantity import SUFFIXES
from slipstick.estimators.base.shipped_estimator import ShippedEstimator
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.roofline.measured_table import MeasuredTimes, measured_key
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.symbolic.formula import Parameter
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question import registry
from slipstick.experiments.question.question import question
from slipstick.experiments.report.summary import headline
from slipstick.experiments.scoring.scoreboard_catalog import scoreboards
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import dense, elementwise
from tests.laws.better_hardware import part_faults

NET = Workload(
    "net", (dense("a", 64, 256, 512), elementwise("b", 64 * 512), dense("c", 64, 512, 10)), (("a", "b"), ("b", "c"))
)


def measured() -> ComposedEstimator:
    """A table of times, as somebody would register it."""
    seconds = FrozenDict({measured_key(op): 1e-3 * (i + 1) for i, op in enumerate(NET)})
    return ComposedEstimator(MeasuredTimes(seconds, machine("xeon-phi-7120p").fingerprint), Sequential())


@dataclass(frozen=True)
class Case:
    """An estimator by name with a question that it answers."""

    name: str
    estimator: Estimator
    workload: Workload
    machine: Machine
    run: Mapping[str, float]

    @classmethod
    def of(cls, record: ShippedEstimator) -> Case:
        """The example of a record."""
        example = record.example
        assert example is not None, f"{record.name}: no example"
        on = machine(example.machine)
        return cls(record.name, record.estimator(), workload(example.workload), on, dict(example.run))


def case_of(name: str) -> Case:
    """Of the registry; a table of measured times is a record of this test's own."""
    if name == "measured":
        return Case(name, ShippedEstimator(name, measured).estimator(), NET, machine("xeon-phi-7120p"), {})
    return Case.of(registry.named_estimator(name))


@pytest.fixture(scope="module", params=[*registry.estimator_names(), "measured"])
def case(request: pytest.FixtureRequest) -> Case:
    return case_of(request.param)


@pytest.fixture(scope="module")
def answer(case: Case) -> Estimate:
    return case.estimator.estimate(case.workload, case.machine, case.run)


def test_it_is_an_estimator_and_a_frozen_value(case: Case) -> None:
    estimator: Any = case.estimator
    assert isinstance(estimator, Estimator)
    again = pickle.loads(pickle.dumps(estimator))
    assert again == estimator and hash(again) == hash(estimator)
    assert content_digest(again) == content_digest(estimator)
    with pytest.raises((AttributeError, TypeError)):
        estimator.source = "changed"


def test_the_answer_is_finite_says_its_rule_and_what_it_assumes(answer: Estimate) -> None:
    assert math.isfinite(answer.time) and answer.time > 0
    assert answer.rule
    assert answer.assumptions
    assert all(0 <= value <= 1 + 1e-9 or name == "parallelism" for name, value in answer.metrics.items())


def test_the_whole_equals_its_rule_on_its_parts_or_its_trace(answer: Estimate) -> None:
    if answer.rule.startswith("formula: sum of parts"):
        assert answer.time == pytest.approx(math.fsum(p.time * p.times for p in answer.parts), rel=1e-12)
    if answer.trace:
        assert max(event.end for event in answer.trace) <= answer.time * (1 + 1e-12)
        assert all(event.start <= event.end for event in answer.trace)
    assert all(part.time >= 0 and part.times >= 0 for part in answer.parts)
    left = math.fsum(answer.remainder.values()) / answer.time
    assert answer.to_frame()["share"].sum() + left == pytest.approx(1.0)
    assert list(part_faults(answer)) == []


def test_unknown_uncertainty_is_none_and_known_is_a_band_that_widens(answer: Estimate) -> None:
    band = answer.interval(0.8)
    if band is None:
        assert answer.spread.total is None
        return
    wider = answer.interval(0.95)
    assert wider[0] < band[0] < answer.time < band[1] < wider[1]


def test_an_answer_is_a_set_of_named_quantities(answer: Estimate) -> None:
    """The time is one of them, with its own band; each stands in its unit inside its band."""
    known = answer.quantities
    time = known[answer.name]
    assert (time.value, time.band, time.unit, time.better) == (answer.time, answer.interval(), "s", "less")
    assert answer.headline is not None and answer.headline.name in known
    for name, one in known.items():
        assert one.name == name and one.key.endswith(SUFFIXES[one.unit])
        assert one.band is None or one.band[0] <= one.value <= one.band[1], name
        if one.unit == "s" and one.parts:
            assert math.fsum(one.parts.values()) == pytest.approx(one.value, rel=1e-9)
    assert answer.about(answer.name).quantities.keys() == known.keys()
    with pytest.raises(InputError, match=re.escape("unknown quantity of this answer 'speed'")):
        answer.about("speed")


def test_an_answer_may_be_about_any_of_its_quantities(case: Case, answer: Estimate) -> None:
    if case.estimator.alone:
        pytest.skip("a clock never says the same twice")
    for name, one in answer.quantities.items():
        about = answer.about(name)
        assert (about.headline.name, about.headline.value, about.headline.band) == (name, one.value, one.band)
        assert one.unit != "s" or about.time == one.value
    last = list(answer.quantities)[-1]
    about = case.estimator.about(last)
    assert about.estimate(case.workload, case.machine, case.run).headline == answer.about(last).headline
    assert about.run_names(case.workload, case.machine) == case.estimator.run_names(case.workload, case.machine)


def test_what_the_command_prints_is_what_the_record_answers(
    case: Case, answer: Estimate, capsys: pytest.CaptureFixture[str]
) -> None:
    if case.estimator.alone or case.name == "measured":
        pytest.skip("clocked or the test's own")
    example = registry.named_estimator(case.name).example
    assert example is not None
    assert run([*example.command.split()[1:], "--estimator", case.name, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    band = answer.interval() or (None, None)
    assert row["time_s"] == pytest.approx(answer.time, rel=1e-12)
    assert (row["low_s"], row["high_s"]) == (pytest.approx(band[0]), pytest.approx(band[1]))
    assert (row["headline"], row["devices"]) == (answer.headline.name, answer.devices)
    printed = {one["quantity"]: one for one in row["quantities"]}
    assert list(printed) == list(answer.quantities)
    for name, one in answer.quantities.items():
        assert printed[name] == {key: pytest.approx(value) for key, value in one.row().items()}
    query = question(example.workload, example.machine, case.name, {f"run.{k}": v for k, v in case.run.items()})
    assert answer.headline.text() in headline(query, answer)


def test_the_same_question_has_the_same_answer(case: Case, answer: Estimate) -> None:
    if case.estimator.alone:
        pytest.skip("a clock never says the same twice")
    assert case.estimator.estimate(case.workload, case.machine, case.run).time == answer.time


def test_compile_equals_estimate(case: Case, answer: Estimate) -> None:
    if case.estimator.alone:
        pytest.skip("a clock never says the same twice")
    known = case.estimator.resolved(case.workload, case.machine).parameters
    names = tuple(f"run.{name}" for name in case.run) or tuple(f"estimator.{name}" for name in list(known)[:1])
    if not names:
        pytest.skip("nothing of this estimator can be left free: a table without run or parameters")
    values = {
        name: [float(case.run[name.removeprefix("run.")])]
        if name.startswith("run.")
        else [known[name.removeprefix("estimator.")][0]]
        for name in names
    }
    compiled = case.estimator.compile(case.workload, case.machine, names, case.run)
    assert compiled(values)[0] == pytest.approx(answer.time, rel=1e-12)
    assert compiled({name: np.repeat(value, 3) for name, value in values.items()}).shape == (3,)


def test_parameters_are_declared_with_unit_meaning_and_bounds(case: Case) -> None:
    for name, (value, note) in case.estimator.parameters.items():
        assert isinstance(note, Parameter) and note.unit and note.meaning, name
        assert note.low <= value <= note.high
    for name, (value, _) in list(case.estimator.model.parameters.items())[:20]:
        assert case.estimator.model.with_parameters({name: value}) == case.estimator.model


def test_open_symbols_are_refused_by_name(case: Case) -> None:
    if case.estimator.alone:
        pytest.skip("measured sizes are bound before")
    unset = tuple(replace(op, times=symbol("unset")) for op in case.workload)
    with pytest.raises(InputError, match="give a value for unset"):
        case.estimator.estimate(replace(case.workload, operations=unset), case.machine, case.run)


def test_the_same_name_is_the_same_estimator_everywhere(case: Case, answer: Estimate) -> None:
    """From the facade, by its record and as the question of a what-if or an estimate finds it."""
    if case.estimator.alone or case.name == "measured":
        pytest.skip("clocked or the test's own")
    settings = {f"run.{name}": value for name, value in case.run.items()}
    found = question(case.workload, case.machine, case.name, settings)
    assert found.answer().time == pytest.approx(answer.time, rel=1e-12)
    assert found.answer().interval() == answer.interval()
    assert found.estimator == case.estimator.resolved(found.workload, found.machine)


def test_answers_are_plain_json(answer: Estimate) -> None:
    json.dumps({"time_s": answer.time, "metrics": dict(answer.metrics), "assumptions": answer.assumptions})


def test_names_are_one_and_records_say_what_people_need() -> None:
    words = [word for record in registry.named_estimators() for word in (record.name, *record.aliases)]
    assert len(set(words)) == len(words)
    for record in registry.named_estimators():
        assert record.purpose and record.domain and record.held_out_error
        assert not record.board or record.board in scoreboards(), record.board
        assert all(registry.named_estimator(word) is record for word in record.aliases)


def test_phi_a_has_one_band_wherever_it_is_named() -> None:
    training, phi = workload("phi-cnn-small"), machine("xeon-phi-7120p")
    band = ss.estimator("phi-a").estimate(training, phi, {"threads": 240}).interval()
    assert band is not None
    table = ss.whatif(training, phi, {"machine.clock": [phi.clock]}, settings={"run.threads": 240}, estimator="phi-a")
    assert table.today.interval() == band
    by_default = ss.whatif(training, phi, {"machine.clock": [phi.clock]}, settings={"run.threads": 240})
    assert by_default.today.interval() == band
