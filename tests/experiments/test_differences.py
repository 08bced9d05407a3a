"""Explanations of what is no formula: by differences, of likely numbers, on the same verbs."""

from __future__ import annotations

import json

import pytest

from slipstick.experiments.cli.cli import run
from slipstick.experiments.explain import explanation as why
from slipstick.experiments.explain.evaluator import Evaluator, likely_numbers
from slipstick.experiments.question.question import Question, question

BANDWIDTH = "machine.memory.HBM2e.bandwidth"
LAUNCH = "machine.runtime.launch_overhead"


@pytest.fixture(scope="module")
def dispatched() -> Question:
    return question("mlp-inference", "a100-sxm-80gb", "roofline-dispatch", ["machine.runtime.issue_overhead=0"])


def test_a_chain_without_issue_costs_has_the_slopes_of_its_sum(dispatched: Question) -> None:
    """One operation after the other: the recurrence is the sum, whose slopes the formula knows."""
    summed = question("mlp-inference", "a100-sxm-80gb", "roofline", [])
    known = {row["quantity"]: row["elasticity"] for row in why.elasticity_rows(summed)}
    found = {row["quantity"]: row for row in why.elasticity_rows(dispatched)}
    assert {BANDWIDTH, LAUNCH, "machine.clock", "run.batch"} <= set(found) == set(likely_numbers(dispatched))
    for name in (BANDWIDTH, LAUNCH, "machine.clock"):
        assert found[name]["elasticity"] == pytest.approx(known[name], abs=2e-3)
        assert found[name]["at_ridge"] is None


def test_the_smallest_change_is_told_of_what_is_named(dispatched: Question) -> None:
    (row,) = why.cheapest_changes(dispatched, 0.9, [LAUNCH])
    share = -1 + dispatched_ratio(dispatched, 2.0)  # T = fixed + share x factor
    assert row["factor"] == pytest.approx(1 - 0.1 / share, rel=4e-3)
    assert row.keys() == {"quantity", "factor", "today", "needed"}  # no price was given


def dispatched_ratio(asked: Question, factor: float) -> float:
    ratio = Evaluator.of(asked, [LAUNCH]).ratio(LAUNCH, factor)
    assert ratio is not None
    return ratio


def test_the_verb_explains_a_recurrence_and_says_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["explain", "mlp-inference", "--on", "a100-sxm-80gb", "--estimator", "roofline-dispatch"]
    assert run([*asked, "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["changes"] == [] and found["tornado"] and any("--vary" in text for text in found["notes"])
    assert run([*asked, "--vary", LAUNCH]) == 0
    said = capsys.readouterr().out
    assert "what alone brings the time" in said and BANDWIDTH not in said


def test_the_verb_names_sizes_once_and_what_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["explain", "mlp-inference", "--on", "v100-sxm", "--estimator", "roofline", "--format", "json"]
    assert run([*asked, "--cost", "machine.clock=1", "--cost", "machine.memory.HBM2.bandwidth=1"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["notes"] == ["run.batch: of the workload, the same as workload.batch"]
    assert run([*asked, "--vary", "machine.clock", "--vary", "machine.power.cap"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["notes"] == ["not used: machine.power.cap: this answer does not read it"]
    assert [row["quantity"] for row in found["elasticities"]] == ["machine.clock"]
