"""Robust losses, several starts, derivatives of the formula, warnings and held-out groups of a calibration."""

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import Measurement
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.fitting.calibration import calibrate
from slipstick.estimators.fitting.identifiability import condition_number, warnings
from slipstick.estimators.fitting.least_squares import Fit, fit_least_squares
from slipstick.estimators.fitting.leave_one_out import leave_one_group_out
from slipstick.estimators.fitting.objective import Objective
from slipstick.estimators.fitting.parameter_intervals import bootstrap, profile
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import dense, elementwise

FREE = ("operation.compute_efficiency", "operation.memory_efficiency", "operation.overhead")
TRUTH = (0.41, 0.68, 3e-6)


@pytest.fixture(scope="module")
def objective() -> Objective:
    from slipstick.hwmodels.catalog import machine

    return Objective.of(
        ComposedEstimator(Roofline(0.9, 0.9, 1e-6), Sequential()), measured(machine("xeon-phi-7120p")), FREE
    )


def measured(on: Machine, noise: float = 0.02) -> list[Measurement]:
    truth, generator, found = ComposedEstimator(Roofline(*TRUTH), Sequential()), np.random.default_rng(0), []
    for size in (8, 128, 1024):
        for name, op in (
            ("square", dense("a", size, size, size)),
            ("wide", dense("a", size, 4096, 4096)),
            ("add", elementwise("a", size * 4096, inputs=2)),
        ):
            one = Workload(name, (op,))
            time = truth.estimate(one, on).time * generator.lognormal(sigma=noise)
            found.append(Measurement(one, on, time, group=name))
    return found


def test_derivatives_of_the_formula_are_those_of_the_times(objective: Objective) -> None:
    point = np.array([0.4, 0.6, 2e-6])
    exact = objective.jacobian(point)
    steps = np.array([1e-6, 1e-6, 1e-11])
    for i, step in enumerate(steps):
        ahead, behind = (objective.residuals(point + sign * step * np.eye(3)[i]) for sign in (1, -1))
        assert exact[:, i] == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-6)


def test_derivatives_find_a_minimum_that_is_no_higher(objective: Objective) -> None:
    plain = fit_least_squares(objective.residuals, FREE, objective.start, objective.low, objective.high)
    exact = objective.fit()
    assert np.sum(np.square(exact.residuals)) <= np.sum(np.square(plain.residuals)) * (1 + 1e-9)
    # differences stall a little before the minimum
    assert exact.values == pytest.approx(plain.values, rel=1e-3)


def test_a_profile_and_a_bootstrap_hold_the_truth(objective: Objective) -> None:
    fit = objective.fit()
    drawn = bootstrap(objective, fit, 20, 0.99)
    assert all(drawn[name][0] <= value <= drawn[name][1] for name, value in zip(FREE, fit.values, strict=True))
    wide = profile(objective, fit, 0.999)
    assert all(wide[name][0] < value < wide[name][1] for name, value in zip(FREE, fit.values, strict=True))
    assert all(wide[name][0] < truth < wide[name][1] for name, truth in zip(FREE, TRUTH, strict=True))


def test_profiles_of_a_linear_fit_are_students_intervals() -> None:
    # the profile of a linear least-squares fit is exactly the t interval
    from scipy import stats

    from slipstick.estimators.fitting.objective import Objective

    x = np.arange(6.0)
    y = 1 + 2 * x + np.array([0.1, -0.2, 0.05, 0.1, -0.1, 0.05])

    class Line(Objective):
        def residuals(self, values: np.ndarray) -> np.ndarray:
            return values[0] + values[1] * x - y

    inf = np.full(2, np.inf)
    line = Line(("a", "b"), np.zeros(2), -inf, inf, (), None, y, ("",) * 6)
    fit = line.fit()
    reach = stats.t.ppf(0.9, 4) * np.array(fit.standard_errors)
    found = profile(line, fit, 0.80)
    for i, name in enumerate(("a", "b")):
        assert found[name] == pytest.approx((fit.values[i] - reach[i], fit.values[i] + reach[i]), rel=2e-3)
    # a bound inside the interval is its end; one that is never reached changes nothing
    near = np.array([-np.inf, fit.values[1] - 0.5 * reach[1]])
    held = Line(("a", "b"), np.zeros(2), near, inf, (), None, y, ("",) * 6)
    ends = profile(held, fit, 0.80)["b"]
    assert ends[0] == near[1] and ends[1] == pytest.approx(found["b"][1], rel=2e-3)


def test_a_robust_loss_forgives_an_outlier(phi: Machine) -> None:
    one = [m for m in measured(phi, noise=0.0) if m.group == "square"] * 3
    spoiled = [Measurement(one[0].workload, phi, one[0].value * 20, group="square"), *one]
    start = ComposedEstimator(Roofline(0.9, 0.9, 1e-6), Sequential())
    errors = {
        loss: abs(calibrate(start, spoiled, FREE[2:], loss=loss).values[FREE[2]] / TRUTH[2] - 1)
        for loss in ("linear", "cauchy")
    }
    assert errors["cauchy"] < 0.05 < errors["linear"]


def test_several_starts_leave_a_local_minimum() -> None:
    # Rastrigin-like residual: many minima, the best one at 2
    def residuals(v: np.ndarray) -> np.ndarray:
        return np.array([v[0] - 2.0, 3 * np.sin(4 * (v[0] - 2.0))])

    alone = fit_least_squares(residuals, ["v"], [8.0], [0.0], [10.0])
    several = fit_least_squares(residuals, ["v"], [8.0], [0.0], [10.0], starts=16)
    assert abs(alone.values[0] - 2) > 0.5
    assert several.values[0] == pytest.approx(2.0, abs=1e-6)
    with pytest.raises(InputError, match="starts = 0: want 1 .. 1024"):
        fit_least_squares(residuals, ["v"], [8.0], starts=0)
    with pytest.raises(InputError, match="unknown loss 'absolute'"):
        fit_least_squares(residuals, ["v"], [8.0], loss="absolute")


def test_warnings_name_what_the_data_cannot_tell() -> None:
    bounds = np.array([0.0, 0.0]), np.array([1.0, 10.0])
    same = np.array([[1.0, 2.0], [2.0, 4.0001], [3.0, 6.0]])
    fit = Fit(("a", "b"), (1.0, 2.0), ((1.0, -0.99), (-0.99, 1.0)), (0.0,) * 3, 1)
    said = warnings(fit, *bounds, same)
    assert any("a = 1 is at its upper bound 1" in line for line in said)
    assert any("a and b are correlated (-0.990)" in line for line in said)
    assert any("condition number" in line for line in said)
    assert any("no measurement depends on it" in line for line in warnings(fit, *bounds, same * [1, 0]))
    clean = Fit(("a", "b"), (0.5, 2.0), ((1.0, 0.0), (0.0, 1.0)), (0.0,) * 3, 1)
    assert warnings(clean, *bounds, np.array([[1.0, 0], [0, 1], [1, 1]])) == []
    assert condition_number(np.eye(3)) == pytest.approx(1.0)


def test_each_group_is_predicted_from_the_others(objective: Objective) -> None:
    rows = leave_one_group_out(objective)
    assert [row.group for row in rows] == ["add", "square", "wide"]
    assert all(row.median < 0.2 for row in rows)
    assert rows[0].median < rows[0].baseline
    with pytest.raises(InputError, match="needs a column 'group'"):
        leave_one_group_out(objective.some([0, 3, 6]))
