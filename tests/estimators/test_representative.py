"""Representative iterations: the paper's flow chart worked by hand, laws of weights and intervals, and speed."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.sampling.length_groups import by_length, line_noise, times_by_length
from slipstick.estimators.sampling.seqpoint import METHODS, select, values_from
from slipstick.workloads.runs.iterations import Iterations


def run(lengths: list[float], times: list[float], **settings: object) -> Iterations:
    return Iterations(np.array(lengths), np.array(times), **settings)  # type: ignore[arg-type]


def noisy(count: int, seed: int, noise: float = 0.05, slope: float = 1e-3) -> Iterations:
    generator = np.random.default_rng(seed)
    lengths = np.clip(np.rint(20 * np.exp(0.6 * generator.standard_normal(count))), 1, 150)
    times = (0.01 + slope * lengths) * np.exp(noise * generator.standard_normal(count))
    return Iterations(lengths, times)


def test_fewer_unique_lengths_than_the_threshold_are_all_taken_by_frequency() -> None:
    # Figure 10: n = 10 and three unique lengths, so no bins
    three = run([5, 7, 5, 9, 5], [1.0, 2.0, 1.0, 4.0, 1.0])
    chosen = select("seqpoint", three)
    assert chosen.lengths.tolist() == [5, 7, 9]
    assert chosen.weights.tolist() == [3, 1, 1]
    assert chosen.project(chosen.times).total == pytest.approx(9.0)
    assert chosen.error == pytest.approx(0.0, abs=1e-12)


def test_exactly_the_threshold_is_binned() -> None:
    # "if the number of unique lengths is less than this threshold": ten are not
    ten = run([float(i) for i in range(1, 11)], [float(i) for i in range(1, 11)])
    assert len(select("seqpoint", ten, error=0.2)) == 5
    assert len(select("seqpoint", ten, threshold=11)) == 10


def test_bins_and_their_points_by_hand() -> None:
    # lengths 1..100 once each, time = length^2; five bins of 20; in [1, 20] the mean of squares is 143.5: nearest 12
    lengths = [float(i) for i in range(1, 101)]
    chosen = select("seqpoint", run(lengths, [v * v for v in lengths]), error=0.02)
    assert chosen.weights.tolist() == [20.0] * 5
    assert chosen.lengths[0] == 12
    whole = sum(v * v for v in lengths)
    by_hand = 20 * sum(v * v for v in chosen.lengths)
    assert chosen.project(chosen.times).total == pytest.approx(by_hand)
    assert chosen.error == pytest.approx(by_hand / whole - 1)


def test_bins_are_added_until_the_error_is_met() -> None:
    lengths = [float(i) for i in range(1, 101)]
    times = [v**3 for v in lengths]
    coarse, fine = (select("seqpoint", run(lengths, times), error=e) for e in (0.5, 0.0005))
    assert len(coarse) == 5
    assert len(fine) > 5
    assert abs(fine.error) <= 0.0005


def test_a_ratio_is_normalised_by_the_weights() -> None:
    # eq. 1 and the note below it: throughput is averaged, not summed
    three = run([1, 1, 2, 3], [1.0, 1.0, 2.0, 3.0])
    projected = select("seqpoint", three).project([10.0, 20.0, 30.0])
    assert projected.total == 70.0
    assert projected.mean == 70.0 / 4


def test_single_iterations_by_hand() -> None:
    five = run([1, 2, 2, 3, 9], [1.0, 2.0, 2.0, 3.0, 9.0])
    assert select("frequent", five).lengths.tolist() == [2]
    assert select("median", five).lengths.tolist() == [2]
    assert select("worst", five).lengths.tolist() == [9]
    assert select("worst", five).error == pytest.approx(9 * 5 / 17 - 1)
    assert select("median", five).project([2.0]).interval() is None


def test_prior_takes_consecutive_iterations_after_the_warm_up() -> None:
    chosen = select("prior", noisy(500, 1), size=50, warm_up=30)
    assert chosen.indices.tolist() == list(range(30, 80))
    assert chosen.weights.tolist() == [10.0] * 50


def test_prior_fails_on_a_sorted_epoch_and_its_interval_with_it() -> None:
    epoch = noisy(1000, 2)
    order = np.argsort(epoch.lengths, kind="stable")
    ascending = Iterations(epoch.lengths[order], epoch.known_times[order])
    chosen = select("prior", ascending)
    assert chosen.error < -0.3
    low, high = chosen.project(chosen.times).interval(0.9) or (0, 0)
    assert not low <= ascending.total <= high


def test_savings_are_ratios_of_measured_time() -> None:
    four = run([1, 2, 2, 5], [1.0, 2.0, 2.0, 5.0])
    chosen = select("seqpoint", four)
    assert chosen.saving_serial == pytest.approx(10 / 8)
    assert chosen.saving_parallel == pytest.approx(10 / 5)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_weights_count_the_run_and_indices_lie_in_it(method: str) -> None:
    epoch = noisy(300, 3)
    chosen = select(method, epoch)
    assert chosen.weights.sum() == pytest.approx(300)
    assert (chosen.weights > 0).all()
    assert len(set(chosen.indices.tolist())) == len(chosen)
    np.testing.assert_array_equal(chosen.lengths, epoch.lengths[chosen.indices])
    assert hash(chosen) == hash(select(method, epoch))


@given(
    st.lists(st.integers(1, 60), min_size=12, max_size=80),
    st.floats(1e-3, 10.0),
    st.floats(0.0, 1.0),
)
def test_calibrated_weights_reproduce_any_line_in_the_length(lengths: list[int], each: float, step: float) -> None:
    # what another machine makes of an iteration and of a step is projected without error where times are a line
    base = Iterations(np.array(lengths, dtype=float), 1.0 + 0.1 * np.array(lengths))
    chosen = select("stratified", base, size=10)
    other = each + step * base.lengths
    if chosen.predictors is not None:
        assert chosen.project(other[chosen.indices]).total == pytest.approx(float(other.sum()), rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.2, 5.0))
def test_projection_is_linear_and_follows_the_unit_of_time(seed: int, factor: float) -> None:
    epoch = noisy(200, seed)
    for method in ("seqpoint", "stratified", "uniform", "k-means"):
        chosen = select(method, epoch)
        one = chosen.project(chosen.times)
        scaled = chosen.project(chosen.times * factor)
        assert scaled.total == pytest.approx(one.total * factor)
        assert one.standard_error is not None
        assert scaled.standard_error == pytest.approx(one.standard_error * factor)


def test_all_iterations_measured_leave_no_error() -> None:
    epoch = noisy(60, 4)
    chosen = select("uniform", epoch, size=60)
    projected = chosen.project(epoch.known_times[chosen.indices])
    assert projected.total == pytest.approx(epoch.total)
    assert projected.standard_error == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    "method", ["uniform", "stratified", "seqpoint", pytest.param("k-means", marks=pytest.mark.slow)]
)
def test_intervals_cover_another_machine_as_often_as_they_say(method: str) -> None:
    # 200 epochs, each projected onto a machine with another slope and noise of its own
    hits = widths = 0.0
    for seed in range(200):
        base = noisy(400, seed)
        generator = np.random.default_rng(seed + 10_000)
        other = (0.02 + 3e-4 * base.lengths) * np.exp(0.05 * generator.standard_normal(400))
        settings_ = {"seed": seed, "size": 20} if method in ("uniform", "stratified") else {}
        chosen = select(method, base, **settings_)
        low, high = chosen.project(other[chosen.indices]).interval(0.9) or (0.0, 0.0)
        hits += low <= other.sum() <= high
        widths += (high - low) / other.sum()
    assert hits / 200 >= 0.85
    assert widths / 200 < {"uniform": 0.15, "stratified": 0.05, "seqpoint": 0.12, "k-means": 0.06}[method]


def test_repeats_narrow_the_interval() -> None:
    epoch = noisy(400, 5, noise=0.1)
    chosen = select("seqpoint", epoch, error=0.001)
    generator = np.random.default_rng(6)
    once = chosen.project(chosen.times).standard_error
    again = chosen.project(chosen.times[:, None] * np.exp(0.02 * generator.standard_normal((len(chosen), 16))))
    assert once is not None and again.standard_error is not None
    assert again.standard_error < 0.6 * once


def test_optimal_allocation_draws_where_it_scatters() -> None:
    generator = np.random.default_rng(7)
    lengths = np.repeat([10.0, 100.0], 500)
    times = lengths * np.where(lengths > 50, np.exp(0.3 * generator.standard_normal(1000)), 1.0)
    chosen = select("stratified", Iterations(lengths, times), size=40)
    assert np.count_nonzero(chosen.lengths > 50) > 25


def test_noise_is_the_scatter_around_a_line() -> None:
    generator = np.random.default_rng(8)
    lengths = generator.integers(10, 100, 4000).astype(float)
    exact = 1 + 0.01 * lengths
    assert line_noise(lengths, exact, np.zeros(4000, dtype=np.int64), 1)[0] == 0.0
    scattered = exact + 0.05 * exact.mean() * generator.standard_normal(4000)
    assert line_noise(lengths, scattered, np.zeros(4000, dtype=np.int64), 1)[0] == pytest.approx(0.05, rel=0.05)


def test_durations_as_lengths_tell_no_noise_unless_repeats_are_known() -> None:
    times = np.random.default_rng(9).lognormal(0, 0.3, 100)
    bare = Iterations(times, times, proxy="duration")
    assert select("seqpoint", bare).project(select("seqpoint", bare).times).interval() is None
    known = Iterations(times, times, proxy="duration", noise=0.05)
    assert select("seqpoint", known).project(select("seqpoint", known).times).interval() is not None
    with pytest.raises(InputError, match="give a size"):
        select("stratified", bare)


def test_times_of_other_lengths_follow_the_run() -> None:
    base = run([float(v) for v in range(1, 201)], [0.5 + 0.1 * v for v in range(1, 201)])
    np.testing.assert_allclose(times_by_length(base, np.array([50.0, 120.5, 260.0])), [5.5, 12.55, 26.5], rtol=1e-9)


def test_unique_lengths_are_grouped_with_the_first_of_equals() -> None:
    grouped = by_length(run([3, 1, 3, 1, 3], [2.0, 1.0, 4.0, 1.0, 3.0]))
    assert grouped.values.tolist() == [1, 3]
    assert grouped.counts.tolist() == [2, 3]
    assert grouped.times.tolist() == [1.0, 3.0]
    assert grouped.closest.tolist() == [1, 4]


def test_values_are_found_by_index_or_by_length() -> None:
    base = run([1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0])
    chosen = select("seqpoint", base)
    values, found = values_from(chosen, base, run([1, 2, 3, 4], [2.0, 4.0, 6.0, 8.0]))
    assert (values.tolist(), found) == ([2.0, 4.0, 6.0, 8.0], "by index")
    values, found = values_from(chosen, base, run([4, 3, 2, 1, 1], [8.0, 6.0, 4.0, 1.0, 3.0]))
    assert (values.tolist(), found) == ([2.0, 4.0, 6.0, 8.0], "by length")
    with pytest.raises(InputError, match="no iteration of length 4"):
        values_from(chosen, base, run([1, 2, 3], [1.0, 1.0, 1.0]))


@pytest.mark.timed
@pytest.mark.parametrize("unique", [300, 1_000_000])
@pytest.mark.parametrize("method", ["seqpoint", "stratified", "uniform"])
def test_a_million_iterations_are_selected_within_a_second(method: str, unique: int) -> None:
    generator = np.random.default_rng(10)
    lengths = np.rint(generator.lognormal(3, 0.6, 1_000_000) * unique / 100) + 1
    epoch = Iterations(lengths, 0.01 + 1e-3 * lengths)
    begun = time.process_time()
    select(method, epoch)
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize(
    ("method", "settings_", "words"),
    [
        ("seqpoints", {}, "did you mean 'seqpoint'"),
        ("seqpoint", {"bin": 5}, "did you mean 'bins'"),
        ("seqpoint", {"error": 0.0}, "0 < error < 1"),
        ("uniform", {"size": 0}, "size = 0: want 1 to 300"),
        ("k-means", {"size": 301}, "want 1 to 300"),
        ("stratified", {"error": 2.0}, "between 0 and 1"),
        ("prior", {"warm_up": -1}, "warm_up >= 0"),
    ],
)
def test_bad_settings_are_named(method: str, settings_: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        select(method, noisy(300, 11), **settings_)


def test_bad_values_are_named() -> None:
    chosen = select("seqpoint", run([1, 2], [1.0, 2.0]))
    with pytest.raises(InputError, match="2 representatives"):
        chosen.project([1.0])
    with pytest.raises(InputError, match="finite"):
        chosen.project([1.0, float("nan")])
    with pytest.raises(InputError, match="have no times"):
        select("seqpoint", Iterations(np.array([1.0, 2.0])))
