"""Bad input to a series: clear words, nothing wrong in silence."""

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.scaling import Series, extrapolate
from slipstick.estimators.scaling.series import kind_of


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([1, 2], [1.0, 0.0], r"measurement 2: time = 0 s, want a finite number > 0"),
        ([1, 2], [1.0, -3.0], r"time = -3 s"),
        ([1, 2], [1.0, float("nan")], r"time = nan s"),
        ([1, 0], [1.0, 1.0], r"measurement 2: threads = 0"),
        ([1, float("inf")], [1.0, 1.0], r"threads = inf"),
        ([1, 2, 3], [1.0, 2.0], r"want one time for each threads"),
        ([], [], r"0 measurements"),
        ([[1, 2]], [[1.0, 2.0]], r"shapes \(1, 2\)"),
        (["a"], [1.0], r"must be numbers"),
        ([1, 2, 4], [100.0, 1e200, 1e-200], r"times from 1e-200 s to 1e\+200 s: want them within a factor of 1e\+12"),
        ([1, 2, 4], [100.0, 1e308, 1e-308], r"times from 1e-308 s to 1e\+308 s"),
        ([1, 1, 2], [1e-9, 1.1e3, 1.0], r"times from 1e-09 s to 1100 s"),
        (np.arange(1, 5001), np.ones(5000), r"5000 different values of threads, want at most 4096"),
    ],
)
def test_what_cannot_be_used_is_refused(x: object, y: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Series.of(x, y, "threads")


def test_times_twelve_orders_of_magnitude_apart_are_the_last_that_are_taken() -> None:
    assert Series.of([1, 2], [1e-9, 1e3]).y == (1e-9, 1e3)


def test_one_point_is_refused_and_two_are_answered_without_trust() -> None:
    with pytest.raises(InputError, match="series 'solve': one value of threads cannot be extrapolated"):
        extrapolate(Series.of([4], [1.0], "threads", "solve"), [8])
    answer = extrapolate(Series.of([4, 8], [1.0, 0.6], "threads"), [16])
    assert answer.low is None and answer.verdicts[0].word == "do not trust"


@pytest.mark.parametrize("to", [[], [0], [-5], [float("nan")], [[1, 2]]])
def test_targets_must_be_positive_numbers(to: object) -> None:
    with pytest.raises(InputError, match="want one or more finite numbers > 0"):
        extrapolate(Series.of([1, 2, 4], [4.0, 2.0, 1.0]), to)


def test_unknown_names_list_the_known_ones() -> None:
    series = Series.of([1, 2, 4], [4.0, 2.0, 1.0])
    with pytest.raises(InputError, match="unknown kind of scaling 'week'; did you mean 'weak'"):
        extrapolate(series, [8], "week")
    with pytest.raises(InputError, match="unknown family 'amdal'; did you mean 'amdahl'"):
        extrapolate(series, [8], family="amdal")
    with pytest.raises(InputError, match="interval level 0.99: want 0.01 .. 0.95"):
        extrapolate(Series.of([1, 2, 4, 8], [8.0, 4.0, 2.0, 1.0]), [16], level=0.99)


def test_repeats_become_medians_and_a_noise() -> None:
    series = Series.of([2, 1, 2, 1, 2, 1], [5.0, 1.0, 4.0, 2.0, 90.0, 3.0], "p")
    assert series.x == (1.0, 2.0) and series.y == (2.0, 5.0) and series.repeats == (3, 3)
    assert series.noise is not None and series.noise > 0
    assert "median" in series.notes[0]
    assert Series.of([1, 2], [1.0, 2.0]).noise is None


def test_a_million_rows_are_read_in_bounded_time() -> None:
    generator = np.random.default_rng(0)
    x = generator.integers(1, 65, 1_000_000)
    series = Series.of(x, (1 + 10 / x) * generator.lognormal(sigma=0.2, size=len(x)), "threads")
    assert len(series) == 64 and series.noise == pytest.approx(0.2, rel=0.05)
    assert extrapolate(series, [128]).value[0] == pytest.approx(1 + 10 / 128, rel=0.05)


def test_a_broken_first_point_is_left_out_and_said() -> None:
    # as it happens in a public collection: 0.0276 s with one thread, 154 s with two
    series = Series.of([1, 2, 3, 4, 5, 6], [0.0276, 154.0, 189.0, 217.0, 230.0, 248.0], "threads")
    assert series.x[0] == 2.0 and "left out threads = 1" in series.notes[0]
    steep = Series.of([1, 2, 4, 8, 16], [1.0, 8.0, 64.0, 512.0, 4096.0], "n")
    assert len(steep) == 5


def test_kind_is_strong_only_where_time_falls() -> None:
    assert kind_of(Series.of([1, 2, 4], [4.0, 2.0, 1.0], "nodes"))[0] == "strong"
    assert kind_of(Series.of([1, 2, 4], [4.0, 4.1, 4.2], "nodes"))[0] == "weak"
    assert kind_of(Series.of([1, 2, 4], [4.0, 8.0, 16.0], "rows"))[0] == "problem_size"


def test_repeats_at_one_point_leave_the_doubt_between_laws() -> None:
    """600,000 runs at 8 threads say where that point lies, and little of what a law does beyond it."""
    threads, times = np.array([1.0, 2.0, 4.0, 8.0]), np.array([100.0, 53.0, 28.0, 16.0])
    noise = 1 + 0.03 * np.sin(np.arange(600_000))
    few = extrapolate(Series.of(threads, times, "threads"), [32.0], "strong")
    many = extrapolate(
        Series.of(np.append(threads, np.full(len(noise), 8.0)), np.append(times, 16.0 * noise), "threads"),
        [32.0],
        "strong",
    )
    assert few.low and few.high and many.low and many.high
    assert many.value[0] == pytest.approx(few.value[0], rel=0.2)
    assert np.log(many.high[0] / many.low[0]) > 0.7 * np.log(few.high[0] / few.low[0])
