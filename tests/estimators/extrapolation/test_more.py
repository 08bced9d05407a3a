"""Regions, surfaces and what to measure next."""

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.scaling import Series, extrapolate, extrapolate_many
from slipstick.estimators.scaling.extrapolate import most_helpful, next_points
from slipstick.estimators.scaling.regions import rank
from slipstick.estimators.scaling.speedup import advise, gain_rows

P = np.array([1.0, 2, 4, 8, 16, 32])


def test_regions_are_ranked_by_growth() -> None:
    laws = {"flat": 5 + 0 * P, "tree": 1 + 0.5 * np.log2(P), "line": 0.1 + 0.05 * P}
    rows = rank(extrapolate_many([Series.of(P, y, "processes", n) for n, y in laws.items()], [1024]))
    assert [row["region"] for row in rows] == ["line", "tree", "flat"]
    assert sum(row["share_then"] for row in rows) == pytest.approx(1.0)
    assert rows[0]["growth"] == pytest.approx((0.1 + 0.05 * 1024) / (0.1 + 0.05 * 32), rel=0.05)


def test_what_to_measure_next_narrows_the_band() -> None:
    generator = np.random.default_rng(2)
    series = Series.of(P, (2 + 100 / P) * generator.lognormal(sigma=0.02, size=6), "threads")
    prediction = extrapolate(series, [512])
    ranked = next_points(prediction)
    assert ranked == sorted(ranked, key=lambda one: -one.gain)
    farthest = max(ranked, key=lambda one: one.value)
    assert farthest.band < prediction.high[0] / prediction.low[0]
    free = next_points(prediction, [64, 256], cost=lambda x, t: 1.0)
    assert free[0].value == 256
    with pytest.raises(InputError, match="needs a band"):
        next_points(extrapolate(series, [512], level=None))


@pytest.mark.slow
def test_the_most_helpful_run_takes_as_much_of_the_doubt_as_it_was_said_to() -> None:
    generator = np.random.default_rng(51)
    said, took = [], []
    for number in range(24):
        serial, overhead = generator.uniform(0.002, 0.05), generator.uniform(0.0, 0.01) * (number % 3 > 0)

        def times(p: np.ndarray, s: float = serial, c: float = overhead) -> np.ndarray:
            return np.asarray((100 * (s + 1 / p + c * np.log2(p))) * generator.lognormal(sigma=0.03, size=len(p)))

        measured = times(P)
        prediction = extrapolate(Series.of(P, measured, "threads"), [256])
        best = most_helpful(prediction)
        assert best is not None and 32 < best.value <= 128 and prediction.low and prediction.high
        x = np.append(P, best.value)
        after = extrapolate(Series.of(x, np.append(measured, times(x[-1:])), "threads"), [256])
        assert after.low and after.high
        before = np.log(prediction.high[0] / prediction.low[0])
        said.append(best.removed)
        took.append(1 - np.log(after.high[0] / after.low[0]) / before)
    assert 0.2 < np.mean(said) < 0.9 and np.mean(took) == pytest.approx(np.mean(said), abs=0.1)


def test_regions_of_a_file_are_answered_together_as_they_are_singly() -> None:
    generator = np.random.default_rng(7)
    laws = [1 + 100 / P, 0.1 + 1 / P + 0.02 * P, 2 + 0.3 * np.log2(P), 3 + 0 * P]
    series = [
        Series.of(P, law * generator.lognormal(sigma=0.03, size=6), "threads", str(i)) for i, law in enumerate(laws)
    ]
    for one, together in zip(series, extrapolate_many(series, [64, 256]), strict=True):
        single = extrapolate(one, [64, 256])
        assert single.low and single.high and together.low and together.high
        assert together.value == pytest.approx(single.value, rel=1e-9)
        assert together.low + together.high == pytest.approx(single.low + single.high, rel=1e-9)
        sure = [verdict.probability for verdict in single.verdicts]
        assert [verdict.probability for verdict in together.verdicts] == pytest.approx(sure, rel=1e-9)


def test_where_no_law_fits_no_target_is_surer_than_the_points_are_near() -> None:
    times = [1.0, 4.0, 0.9, 5.0, 1.1, 4.5]
    (verdict,) = extrapolate(Series.of(P, times, "threads"), [64], "strong").verdicts
    assert "no law holds" in verdict.reason and verdict.probability is not None and verdict.probability < 0.2
    assert verdict.word == "do not trust"


def test_speedup_and_efficiency_are_those_of_amdahl() -> None:
    # Amdahl 1967: S(p) = 1 / (f + (1 - f) / p); the product S E peaks at p = (1 - f) / f
    f = 0.02
    series = Series.of(P, 100 * (f + (1 - f) / P), "threads")
    prediction = extrapolate(series, [64], family="amdahl")
    (row,) = gain_rows(prediction)
    expected = 1 / (f + (1 - f) / 64)
    assert row["speedup"] == pytest.approx(expected, rel=1e-6)
    assert row["efficiency"] == pytest.approx(expected / 64, rel=1e-6)
    assert row["core_h"] == pytest.approx(64 * 100 / expected / 3600, rel=1e-6)
    advice = advise(prediction)
    assert advice is not None and advice.workers == pytest.approx((1 - f) / f, abs=1.5) and advice.fastest == 64


def test_a_size_has_no_speedup() -> None:
    prediction = extrapolate(Series.of(P, P, "n"), [64])
    assert gain_rows(prediction) == [{}] and advise(prediction) is None
