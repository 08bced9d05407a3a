"""The straight line: published predictions of the Xeon Phi's contention, a certified regression, its interval's law."""

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.scaling import Series, extrapolate, fit_line, fit_power

THREADS = (1, 15, 30, 60, 120, 180, 240)
TARGETS = (480, 960, 1920, 3840)
# Viebke et al. 2019, Table IV: measured contention [s], then the paper's own predictions at 480 .. 3,840 threads
TABLE_IV = {
    "small": ((7.10e-6, 6.40e-4, 1.36e-3, 3.07e-3, 6.76e-3, 9.95e-3, 1.40e-2), (2.78e-2, 5.60e-2, 1.12e-1, 2.25e-1)),
    "medium": ((1.56e-4, 2.00e-3, 3.97e-3, 8.03e-3, 1.65e-2, 2.50e-2, 3.83e-2), (7.31e-2, 1.47e-1, 2.95e-1, 5.91e-1)),
    "large": ((8.83e-4, 8.75e-3, 1.67e-2, 3.22e-2, 6.74e-2, 1.00e-1, 1.38e-1), (2.73e-1, 5.46e-1, 1.09, 2.19)),
}


@pytest.mark.parametrize("network", TABLE_IV)
def test_the_published_contention_is_one_call(network: str) -> None:
    measured, published = TABLE_IV[network]
    answer = extrapolate(Series.of(THREADS, measured, "threads"), TARGETS, family="line")
    # the paper prints three digits
    assert answer.value == pytest.approx(published, rel=0.007)
    assert answer.low is not None and answer.high is not None
    assert all(low < value < high for low, value, high in zip(answer.low, answer.value, answer.high, strict=True))


def test_norris_of_the_nist_reference_datasets() -> None:
    # https://www.itl.nist.gov/div898/strd/lls/data/Norris.shtml: certified coefficients and standard deviations
    x = [
        0.2, 337.4, 118.2, 884.6, 10.1, 226.5, 666.3, 996.3, 448.6, 777.0, 558.2, 0.4, 0.6, 775.5, 666.9,
        338.0, 447.5, 11.6, 556.0, 228.1, 995.8, 887.6, 120.2, 0.3, 0.3, 556.8, 339.1, 887.2, 999.0, 779.0,
        11.1, 118.3, 229.2, 669.1, 448.9, 0.5,
    ]  # fmt: skip
    y = [
        0.1, 338.8, 118.1, 888.0, 9.2, 228.1, 668.5, 998.5, 449.1, 778.9, 559.2, 0.3, 0.1, 778.1, 668.8,
        339.3, 448.9, 10.8, 557.7, 228.3, 998.0, 888.8, 119.6, 0.3, 0.6, 557.6, 339.3, 888.0, 998.5, 778.9,
        10.2, 117.6, 228.9, 668.4, 449.2, 0.2,
    ]  # fmt: skip
    answer = fit_line(x, y, [500.0])
    (intercept, _), (slope, _) = answer.law.terms
    assert intercept == pytest.approx(-0.262323073774029, rel=1e-9)
    assert slope == pytest.approx(1.00211681802045, rel=1e-12)
    assert answer.covariance is not None
    assert np.sqrt(answer.covariance[0][0]) == pytest.approx(0.232818234301152, rel=1e-9)
    assert np.sqrt(answer.covariance[1][1]) == pytest.approx(0.429796848199937e-3, rel=1e-9)


def test_the_band_holds_new_measurements_as_often_as_it_says() -> None:
    generator = np.random.default_rng(3)
    x = np.arange(1.0, 9.0)
    inside = 0
    for _ in range(1000):
        y = 3 + 0.5 * x + generator.normal(scale=0.2, size=8)
        answer = fit_line(x, y, [20.0])
        new = 3 + 0.5 * 20 + generator.normal(scale=0.2)
        inside += answer.low[0] <= new <= answer.high[0]
    # binomial standard error 1.3 %
    assert inside / 1000 == pytest.approx(0.80, abs=0.04)


def test_two_points_have_no_band() -> None:
    answer = fit_line([1, 2], [1.0, 2.0], [3])
    assert answer.value == pytest.approx((3.0,)) and answer.low is None and answer.covariance is None


def test_one_x_is_no_line() -> None:
    with pytest.raises(InputError, match="two different values of threads, got 1"):
        fit_line([2, 2, 2], [1.0, 2.0, 3.0], [3], parameter="threads")


def test_a_power_law_is_recovered_with_its_exponent() -> None:
    n = np.array([64.0, 128, 256, 512])
    answer = extrapolate(Series.of(n, 1e-9 * n**2.81, "n"), [4096], family="power")
    # Strassen 1969: n^log2(7)
    assert answer.value[0] == pytest.approx(1e-9 * 4096**2.81, rel=1e-9)
    assert answer.formula.evaluate({"n": 4096.0}) == pytest.approx(answer.value[0], rel=1e-4)
    with pytest.raises(InputError, match="finite numbers > 0"):
        fit_power([1, 2, 3], [1.0, -1.0, 2.0], [4])
