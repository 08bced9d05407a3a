"""The cheapest change of several quantities: against closed forms, a fine grid, and single changes."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.experiments.explain import explanation as why
from slipstick.experiments.explain.cheapest import cheapest_together
from slipstick.experiments.explain.evaluator import value_of
from slipstick.experiments.question.question import Question, question

CLOCK, MEMORY, CORES = "machine.clock", "machine.memory.HBM2.bandwidth", "machine.cores"


@pytest.fixture(scope="module")
def mlp() -> Question:
    return question(
        "mlp-inference", "v100-sxm", "roofline", ["workload.batch=40", "machine.runtime.launch_overhead=0.1us"]
    )


@pytest.fixture(scope="module")
def computing() -> Question:
    return question("mlp-inference", "v100-sxm", "roofline", ["workload.batch=400"])


def test_one_quantity_is_the_single_change(computing: Question) -> None:
    alone = why.cheapest_changes(computing, 0.8, [CLOCK], {CLOCK: 1.0})[0]
    found = cheapest_together(computing, 0.8, {CLOCK: 1.0})
    assert found.rows()[0]["factor"] == pytest.approx(alone["factor"], rel=1e-3)
    assert found.price == pytest.approx(alone["price"], rel=2e-3) and found.ratio <= 0.8 * (1 + 1e-9)


@pytest.mark.parametrize(
    "weights",
    [(3.0, 1.0), pytest.param((1.0, 1.0), marks=pytest.mark.slow), pytest.param((1.0, 4.0), marks=pytest.mark.slow)],
)
def test_no_point_of_a_fine_grid_is_cheaper(mlp: Question, weights: tuple[float, float]) -> None:
    prices = dict(zip((CLOCK, MEMORY), weights, strict=True))
    found = cheapest_together(mlp, 0.6, prices)
    assert found.ratio <= 0.6 * (1 + 1e-9)
    assert found.at_least <= found.price <= found.at_least * 1.002
    logs = np.linspace(0, 3, 301)
    function = mlp.estimator.compile(mlp.workload, mlp.machine, (CLOCK, MEMORY), mlp.run)
    today = [value_of(mlp, name) for name in (CLOCK, MEMORY)]
    times = function({CLOCK: today[0] * 2 ** logs[:, None], MEMORY: today[1] * 2 ** logs[None, :]})
    cost = weights[0] * logs[:, None] + weights[1] * logs[None, :]
    least = float(cost[times <= 0.6 * mlp.answer().time].min())
    assert found.price <= least * (1 + 1e-9) and least <= found.price + 0.01 * sum(weights)


def test_a_product_of_powers_is_met_by_the_cheaper_one() -> None:
    """A matrix product bound by arithmetic: clock and cores count alike, so all the change is where it is cheap."""
    asked = question("gemm", "v100-sxm", "roofline", [f"workload.{n}=8192" for n in "mnk"])
    asked = Question(asked.workload, asked.machine.using({"runtime.launch_overhead": 0.0}), asked.estimator, {})
    found = {row["quantity"]: row for row in cheapest_together(asked, 0.5, {CLOCK: 5.0, CORES: 1.0}).rows()}
    assert found[CLOCK]["factor"] == pytest.approx(1.0, abs=1e-6)
    assert found[CORES]["needed"] == 160  # twice as many, a whole number


def test_two_together_are_no_dearer_than_the_best_alone(computing: Question) -> None:
    names = [CLOCK, MEMORY]
    alone = [
        row["price"] for row in why.cheapest_changes(computing, 0.8, names, dict.fromkeys(names, 1.0)) if row["price"]
    ]
    assert cheapest_together(computing, 0.8, dict.fromkeys(names, 1.0)).price <= min(alone) * (1 + 1e-3)


def test_what_cannot_be_is_said(mlp: Question) -> None:
    for target, prices, words in (
        (1.5, {CLOCK: 1.0}, "between 0 and 1"),
        (0.5, {}, "no prices"),
        (0.5, {CLOCK: -1.0}, "want a number > 0"),
        (0.01, {MEMORY: 1.0}, r"do not bring the time to 0\\.01"),
    ):
        with pytest.raises(InputError, match=words.replace("\\\\", "\\")):
            cheapest_together(mlp, target, prices)
    with pytest.raises(InputError, match="no formula"):
        cheapest_together(question("phi-cnn-small", "xeon-phi-7120p", "phi-simulated", []), 0.5, {"run.threads": 1.0})


def test_the_verb_takes_prices(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["explain", "mlp-inference", "--on", "v100-sxm", "--estimator", "roofline", "--target", "0.7"]
    prices = list(
        itertools.chain.from_iterable(("--cost", f"{name}={value}") for name, value in ((CLOCK, 2), (MEMORY, 1)))
    )
    assert run([*asked, *prices, "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [row["quantity"] for row in found["together"]] == [CLOCK, MEMORY]
    assert run([*asked, *prices]) == 0
    assert "none can cost less than" in capsys.readouterr().out
