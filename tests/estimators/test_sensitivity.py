"""Elasticities equal finite differences; ridges are seen; crossovers are where the sides are equal."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression
from slipstick.common.records import FrozenDict
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.cpu import xeon_phi_study as xeon_phi
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.sensitivity.elasticities import crossovers, sensitivity
from slipstick.estimators.symbolic.formula import Formula
from slipstick.experiments.explain.evaluator import Evaluator
from slipstick.experiments.explain.explanation import elasticity_rows
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload

STEP = 1e-6


def _check(function: object, points: dict[str, np.ndarray], whole: tuple[str, ...] = ()) -> int:
    """Compare with central differences where both sides of the point agree (no ridge between); returns how many did."""
    found = sensitivity(function, points)  # type: ignore[arg-type]
    compared = 0
    for name in points:
        if name in whole:
            continue
        up, down = ({**points, name: points[name] * factor} for factor in (1 + STEP, 1 - STEP))
        here, above, below = (np.log(function(at)) for at in (points, up, down))  # type: ignore[operator]
        ahead, behind = (above - here) / np.log1p(STEP), (here - below) / -np.log1p(-STEP)
        smooth = np.abs(ahead - behind) < 1e-4
        central = (above - below) / (np.log1p(STEP) - np.log1p(-STEP))
        gap = np.abs(found.elasticity[name] - central)
        assert np.all(gap[smooth] < 1e-5), (name, gap[smooth].max())
        compared += int(smooth.sum())
    return compared


def test_a_thousand_random_points_of_gnmt() -> None:
    gnmt, v100 = workload("gnmt"), machine("v100-sxm")
    bandwidth = f"machine.memory.{v100.main_memory}.bandwidth"
    names = ("machine.clock", bandwidth, "machine.runtime.launch_overhead", "workload.seq_len", "workload.batch")
    free = (*names, "estimator.operation.compute_efficiency", "estimator.operation.memory_efficiency")
    function = ComposedEstimator(Roofline(), Sequential()).compile(gnmt, v100, free)
    generator = np.random.default_rng(11)
    low, high = np.array([5e8, 1e11, 1e-7, 5, 1, 0.05, 0.05]), np.array([3e9, 4e12, 1e-4, 300, 512, 0.99, 0.99])
    draws = low * (high / low) ** generator.random((1000, len(free)))
    points = {name: draws[:, i] for i, name in enumerate(free)}
    assert _check(function, points) > 6900


def test_random_points_of_the_xeon_phi_formula() -> None:
    phi = xeon_phi.phi()
    free = ("machine.clock", "run.threads", "run.images", "run.epochs", "estimator.operation.operation_factor")
    function = xeon_phi.estimator("a").compile(workload("phi-cnn-medium"), phi, free)
    generator = np.random.default_rng(12)
    low, high = np.array([5e8, 2, 1e3, 5, 1]), np.array([3e9, 4000, 1e5, 200, 40])
    draws = low * (high / low) ** generator.random((1000, len(free)))
    assert _check(function, {name: draws[:, i] for i, name in enumerate(free)}) > 4900


def test_elasticities_that_are_known_by_hand() -> None:
    """One dense layer, bound by its arithmetic: the clock counts fully, bandwidth not at all; then the other way."""
    phi = machine("xeon-phi-7120p")
    mlp = workload("mlp-inference")
    for factor, clock, bandwidth in ((1e-4, -1.0, 0.0), (1e4, 0.0, -1.0)):
        slow = phi.using(clock=phi.clock * factor).using({"runtime.launch_overhead": 0.0})
        found = sensitivity(ComposedEstimator(Roofline(), Sequential()).compile(mlp, slow, ()))
        assert float(found.elasticity["machine.clock"]) == pytest.approx(clock, abs=1e-12)
        assert float(found.elasticity["machine.memory.GDDR5.bandwidth"]) == pytest.approx(bandwidth, abs=1e-12)


def test_the_elasticities_of_rates_sum_to_minus_one() -> None:
    """Euler: twice every rate (and half of every overhead) is half the time."""
    v100 = machine("v100-sxm")
    found = sensitivity(ComposedEstimator(Roofline(), Sequential()).compile(workload("gnmt"), v100, ()))
    rates = ("machine.clock", f"machine.memory.{v100.main_memory}.bandwidth")
    total = sum(float(found.elasticity[name]) for name in rates)
    overhead = sum(float(v) for name, v in found.elasticity.items() if name.endswith("overhead"))
    assert total - overhead == pytest.approx(-1, rel=1e-9)


def test_a_ridge_is_said_and_its_active_side_used() -> None:
    phi = xeon_phi.phi()
    function = xeon_phi.estimator("a").compile(workload("phi-cnn-small"), phi, ("machine.cores", "run.threads"))
    found = sensitivity(function, {"machine.cores": [61.0, 61.0], "run.threads": [122.0, 130.0]})
    assert list(found.at_ridge["run.threads"]) == [True, False]
    assert list(found.at_ridge["machine.cores"]) == [True, False]
    assert list(found.elasticity["machine.cores"]) == [0.0, 0.0]  # a step: flat on both sides


def test_a_ridge_point_is_peak_over_bandwidth() -> None:
    terms = {
        "compute": parse_expression("operation.flop/machine.rate"),
        "memory": parse_expression("operation.b/machine.bw"),
    }
    formula = Formula(
        parse_expression("Max(operation.flop/machine.rate, operation.b/machine.bw)"), "s", "", FrozenDict(terms)
    )
    at = {"operation.flop": 6e9, "operation.b": 2e9, "machine.rate": 9e12, "machine.bw": 1e12}
    (found,) = crossovers(formula, "machine.bw", at, "gemm")
    assert found.value == pytest.approx(9e12 * 2e9 / 6e9, rel=1e-12)
    assert (found.below, found.above) == ("memory", "compute")


def test_a_simulation_has_no_gradient() -> None:
    simulated = xeon_phi.estimator("simulated").compile(workload("phi-cnn-small"), xeon_phi.phi(), ("run.threads",))
    with pytest.raises(InputError, match="no gradient"):
        sensitivity(simulated, {"run.threads": [240.0]})


KINDS = [
    ("gpt2-inference", "h100-sxm", "roofline", {}),
    ("gemm", "tpu-v6e", None, {}),
    pytest.param("resnet50-inference", "trainium2", None, {}, marks=pytest.mark.slow),
    ("gpt2-inference", "gaudi2", None, {}),
    ("resnet18-inference", "xeon-e5-2690v2", None, {}),
    ("phi-cnn-small", "xeon-phi-7120p", None, {"run.threads": 240}),
    ("stream-triad", "xeon-e5-2695v3", "cpu", {}),
    pytest.param("gpt2-inference", "ascend-910b2", None, {}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("network", "on", "estimator", "settings"), KINDS)
def test_ratios_are_the_integral_of_the_elasticity_or_a_turn_is_named(
    network: str, on: str, estimator: str | None, settings: dict[str, float]
) -> None:
    """At 1 %, 10 % and twice: ln ratio is what the elasticity adds up to over ln quantity, kinks included.

    Where the time jumps (folds, rounds of threads) the row names the value, which lies before that ratio's.
    """
    asked = question(network, on, estimator, settings)
    dials = Evaluator.of(asked)
    assert dials.is_formula
    rows = {row["quantity"]: row for row in elasticity_rows(asked, dials)}
    assert len(rows) > 3
    for name, row in rows.items():
        if name in dials.whole or dials.is_fixed(name) or not row["value"] > 0:
            continue
        near = dials.ratio(name, 1.0001)
        if not row["at_ridge"] and near is not None:
            assert row["below"] is row["above"] is None
            assert np.log(near) / np.log(1.0001) == pytest.approx(row["elasticity"], abs=1e-3), name
        jumps = row["at_ridge"] and row["above"] is not None and abs(row["above"] - row["elasticity"]) > 0.05
        for factor in (1.01, 1.1, 2.0):
            values = row["value"] * np.geomspace(1, factor, 257)
            if (ratio := dials.ratio(name, factor)) is None:
                continue
            along = sensitivity(dials.function, {**dials.today, name: values}).elasticity[name]
            added = float(np.mean((along[1:] + along[:-1]) / 2) * np.log(factor))
            turned = row["turns_at"] is not None and row["turns_at"] <= row["value"] * factor * (1 + 1e-9)
            assert jumps or turned or np.log(ratio) == pytest.approx(added, abs=0.004), (name, factor)


def test_both_sides_of_a_kink_stand_beside_its_slope() -> None:
    """A product bound alike by compute and by memory: -1 and 0 of the clock, 0 and -1 of the bandwidth."""
    bandwidth_of = "memory.HBM3.bandwidth"
    fast = machine("h100-sxm").using({"runtime.launch_overhead": 0, bandwidth_of: 1e17})
    asked = question("gemm", fast, "roofline")
    even = question("gemm", fast.using({bandwidth_of: 12 * 512**2 / asked.answer().time}), "roofline")
    rows = {row["quantity"]: row for row in elasticity_rows(even)}
    clock, bandwidth = rows["machine.clock"], rows[f"machine.{bandwidth_of}"]
    assert clock["at_ridge"] and (clock["below"], clock["above"]) == pytest.approx((-1, 0), abs=1e-3)
    assert bandwidth["at_ridge"] and (bandwidth["below"], bandwidth["above"]) == pytest.approx((-1, 0), abs=1e-3)
