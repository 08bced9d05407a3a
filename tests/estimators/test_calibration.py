"""Calibration recovers what made the data, and its intervals cover."""

import pickle

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import Measurement
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.fitting.calibration import Calibration, calibrate, gaussian_draws
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.symbolic.formula import parameters, with_parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import dense, elementwise

FREE = ("operation.compute_efficiency", "operation.memory_efficiency", "operation.overhead")
TRUTH = (0.41, 0.68, 3e-6)


def measurements(machine: Machine, seed: int, noise: float = 0.02) -> list[Measurement]:
    truth = ComposedEstimator(Roofline(*TRUTH), Sequential())
    generator = np.random.default_rng(seed)
    found = []
    for size in (8, 32, 128, 512, 1024):
        for workload in (
            Workload("dense", (dense("a", size, size, size),)),
            Workload("wide", (dense("a", size, 4096, 4096),)),
            Workload("add", (elementwise("a", size * 4096, inputs=2),)),
        ):
            time = truth.estimate(workload, machine).time * generator.lognormal(sigma=noise)
            found.append(Measurement(workload, machine, time, protocol="synthetic"))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_known_parameters_are_recovered_within_four_sigma(phi: Machine, seed: int) -> None:
    fit = calibrate(ComposedEstimator(Roofline(0.9, 0.9, 1e-6), Sequential()), measurements(phi, seed), FREE)
    errors = np.sqrt(np.diag(np.array(fit.covariance)))
    assert np.all(np.abs(np.array(list(fit.values.values())) - TRUTH) < 4 * errors)
    assert fit.residual_std == pytest.approx(0.02, rel=0.6)


def test_a_calibration_is_an_estimator_with_both_kinds_of_spread(phi: Machine) -> None:
    fit = calibrate(ComposedEstimator(Roofline(), Sequential()), measurements(phi, 0), FREE, source="synthetic data")
    assert isinstance(fit, Estimator)
    answer = fit.estimate(Workload("new", (dense("a", 300, 300, 300),)), phi)
    assert answer.spread.parameter is not None and answer.spread.residual is not None
    assert 0 < answer.spread.parameter < answer.spread.total < 0.1
    low, high = answer.interval(0.8)
    assert low < answer.time < high
    assert "calibrated on synthetic data" in answer.assumptions


def test_the_band_covers_new_measurements_as_often_as_it_says(phi: Machine) -> None:
    inside = []
    for seed in range(12):
        fit = calibrate(ComposedEstimator(Roofline(), Sequential()), measurements(phi, seed), FREE)
        for measured in measurements(phi, 1000 + seed):
            low, high = fit.estimate(measured.workload, phi).interval(0.8)
            inside.append(low <= measured.value <= high)
    assert 0.72 < np.mean(inside) < 0.88


def test_unknown_spread_is_none_and_never_zero(phi: Machine) -> None:
    answer = ComposedEstimator(Roofline(), Sequential()).estimate(Workload("one", (dense("a", 8, 8, 8),)), phi)
    assert answer.spread.total is None
    assert answer.interval() is None


def test_equality_hash_and_pickle(phi: Machine) -> None:
    fit = calibrate(ComposedEstimator(Roofline(), Sequential()), measurements(phi, 0), FREE)
    again: Calibration = pickle.loads(pickle.dumps(fit))
    assert again == fit and hash(again) == hash(fit)


def test_wrong_names_and_too_few_measurements_are_refused(phi: Machine) -> None:
    model = ComposedEstimator(Roofline(), Sequential())
    data = measurements(phi, 0)
    with pytest.raises(
        InputError, match=r"unknown parameter of ComposedEstimator 'operation.efficiency'.*operation.compute_efficiency"
    ):
        calibrate(model, data, ["operation.efficiency"])
    with pytest.raises(InputError, match="2 measurements cannot fix 3 parameters"):
        calibrate(model, data[:2], FREE)
    with pytest.raises(InputError, match="name at least one parameter"):
        calibrate(model, data, [])


def test_parameters_are_declared_once_and_checked() -> None:
    model = ComposedEstimator(Roofline(0.5), Sequential())
    value, note = parameters(model)["operation.compute_efficiency"]
    assert (value, note.unit, note.high) == (0.5, "1", 1.0)
    with pytest.raises(InputError, match=r"operation.compute_efficiency = 1.5: want a value in \[1e-06, 1\]"):
        with_parameters(model, {"operation.compute_efficiency": 1.5})
    with pytest.raises(InputError, match="Roofline.overhead = -1"):
        Roofline(overhead=-1.0)
    assert with_parameters(model, {"operation.overhead": 1e-6}).operation.overhead == 1e-6
    assert FrozenDict() == FrozenDict({})


def test_draws_of_a_hardly_known_time_do_not_pile_up_at_its_least_value() -> None:
    """Standard errors 85 times the value, as where a simulation cannot make the measured steps at all."""
    mean, low, high = np.array([0.08]), np.array([1e-12]), np.array([1e3])
    draws = gaussian_draws(mean, low, high, np.array([[(85 * 0.08) ** 2]]), 4000)
    assert 0.08 / 5 < np.percentile(draws, 10) < 0.08 / 3
    assert np.median(draws) == pytest.approx(0.08, rel=0.05)
