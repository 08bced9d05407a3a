"""Synthetic calibrations: a few of the scoreboard's thousand, and what draws must keep."""

import numpy as np
import pytest

from slipstick.estimators.base.estimate import Measurement
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.fitting.calibration import calibrate, from_objective
from slipstick.estimators.fitting.objective import Objective
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.experiments.scoreboards.shipped.calibrations_board import MOST_WIDE, score
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import dense

ON, PLAIN = machine("v100-pcie"), ComposedEstimator(Roofline(), Sequential())
NAMES = ("operation.compute_efficiency", "operation.memory_efficiency", "operation.overhead")


def product(size: int) -> Workload:
    return Workload(f"product {size}", (dense("a", size, size, size),))


def test_bands_cover_and_are_no_wider_than_three_full_posteriors() -> None:
    few = score(8, 0.20, np.random.default_rng(3), calibrations=2)
    assert few.covered.mean() > 0.5
    assert few.ratios.max() < MOST_WIDE


def test_draws_fit_the_measurements_and_stay_inside() -> None:
    generator = np.random.default_rng(0)
    measured = [
        Measurement(product(n), ON, PLAIN.estimate(product(n), ON).time * float(np.exp(0.2 * generator.normal())))
        for n in (64, 256, 512, 1024, 4096, 8192)
    ]
    objective = Objective.of(PLAIN, measured, NAMES)
    fit = objective.fit()
    made = from_objective(PLAIN, objective, fit)
    drawn = made.parameter_draws(400)
    assert drawn is not None and fit.residual_std is not None
    assert np.all((drawn >= objective.low) & (drawn <= objective.high))
    worst = np.max(objective.loss_at(drawn)) - np.sum(np.square(fit.residuals))
    assert worst < 40 * fit.residual_std**2  # a draw explains the measurements, whatever the covariance says


def test_what_no_measurement_moves_is_left_and_said() -> None:
    measured = [Measurement(product(n), ON, PLAIN.estimate(product(n), ON).time * 1.1) for n in (4096, 8192, 6000)]
    made = calibrate(PLAIN, measured, ["operation.compute_efficiency", "operation.memory_efficiency"])
    assert made.values["operation.memory_efficiency"] == 1.0
    assert any("no measurement depends on it" in line for line in made.warnings)
    said = made.estimate(product(4096), ON).assumptions
    assert any("the calibration warns: operation.memory_efficiency" in text for text in said)


def test_a_parameter_at_its_bound_is_held() -> None:
    faster = [Measurement(product(n), ON, PLAIN.estimate(product(n), ON).time * 0.8) for n in (4096, 8192, 6000)]
    made = calibrate(PLAIN, faster, ["operation.compute_efficiency"])
    assert made.values["operation.compute_efficiency"] == pytest.approx(1.0)
    assert any("at its upper bound" in line and "held there" in line for line in made.warnings)
