"""Several parameters: published laws are found, bands cover, and what is asked badly is refused."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.scaling import Series, extrapolate
from slipstick.estimators.scaling.surfaces import extrapolate_surface

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
THREADS = [1.0, 2, 4, 8, 16]
SIZES = [1000.0, 2000, 4000, 8000, 16000]


def grid(*levels: list[float]) -> FloatArray:
    """All combinations of levels."""
    return np.array(np.meshgrid(*levels, indexing="ij"), dtype=float).reshape(len(levels), -1).T


EXACT = (0.0, 0.02)
"""No noise, and how near the median of errors is then."""
TWO = [
    ("all pairs", lambda p, n: 1e-9 * n**2 / p),
    ("dense products", lambda p, n: 1e-3 + 1e-10 * n**3 / p),
    ("Amdahl x linear", lambda p, n: 1e-6 * n * (0.02 + 0.98 / p)),
    ("sample sort", lambda p, n: 2e-9 * n * np.log2(n) / p + 1e-5 * p),
    ("halo exchange and reduction", lambda p, n: 5e-9 * n / p + 2e-7 * np.log2(p) + 3e-7),
]


@pytest.mark.parametrize(
    ("name", "law", "noise", "tolerance"),
    [
        pytest.param(*law, *noise, marks=pytest.mark.slow if noise == EXACT and at % 2 else ())
        for at, law in enumerate(TWO)
        for noise in (EXACT, (0.03, 0.08))
    ],
)
def test_laws_of_two_parameters_are_continued(name: str, law: object, noise: float, tolerance: float) -> None:
    x = grid(THREADS, SIZES)
    errors, inside = [], []
    to = np.array([[64.0, 16000], [16, 64000], [32, 32000]])
    truth = law(*to.T)  # type: ignore[operator]
    for seed in range(2):
        times = law(*x.T) * np.random.default_rng(seed).lognormal(sigma=noise, size=len(x))  # type: ignore[operator]
        found = extrapolate_surface(x, times, ["threads", "n"], to)
        errors += [abs(one.time / t - 1) for one, t in zip(found.answers, truth, strict=True)]
        inside += [one.low <= t <= one.high for one, t in zip(found.answers, truth, strict=True)]  # type: ignore[operator]
    assert np.median(errors) < tolerance
    assert np.mean(inside) >= 0.5


def test_a_sparse_design_is_enough() -> None:
    # two lines through the space, not the full grid
    points = np.array([(t, 100.0) for t in (1, 2, 4, 8)] + [(1.0, n) for n in (200, 400, 800)] + [(8.0, 800.0)])
    law = lambda x: x[:, 1] * (0.02 + 1 / x[:, 0])  # noqa: E731
    found = extrapolate_surface(points, law(points), ["threads", "size"], [(64, 3200)])
    assert found.kinds == ("strong", "problem_size")
    far = np.array([[64.0, 3200.0]])
    assert found.answers[0].time == pytest.approx(law(far)[0], rel=0.05)
    said = found.answers[0].law.formula.evaluate({"threads": 64.0, "size": 3200.0})
    assert said == pytest.approx(found.answers[0].time, rel=1e-4)


def test_more_threads_are_as_uncertain_as_the_laws_of_threads_and_larger_sizes_are_not() -> None:
    """The variance of a mixture of two models alike is at least half of either's."""
    x, to = grid(THREADS, SIZES), np.array([[64.0, 16000], [16, 64000]])
    noise = np.random.default_rng(3).lognormal(sigma=0.03, size=len(x))
    times = 1e-6 * x[:, 1] * (0.02 + 0.98 / x[:, 0]) * noise
    more, larger = extrapolate_surface(x, times, ["threads", "n"], to).answers
    series = Series.of(x[x[:, 1] == 16000, 0], times[x[:, 1] == 16000], "threads")
    (low,), (high,) = (extrapolate(series, [64]).low or (), extrapolate(series, [64]).high or ())
    wide, tight = (np.log(one.high / one.low) for one in (more, larger))  # type: ignore[operator]
    assert wide >= np.log(high / low) / np.sqrt(2) - 1e-9
    assert tight < wide


def test_a_setting_acts_with_a_power_of_its_own() -> None:
    # Barnes and Hut 1986: the cost of a tree code grows as theta^-3 where the opening angle is small
    x = grid([1.0, 2, 4, 8], [0.2, 0.3, 0.4, 0.5])
    times = x[:, 1] ** -3 * (1 + 10 / x[:, 0])
    found = extrapolate_surface(x, times, ["processes", "theta"], [(16, 0.1)])
    assert found.kinds == ("strong", "setting")
    assert found.answers[0].time == pytest.approx(1000 * (1 + 10 / 16), rel=0.05)


def test_far_beyond_the_data_is_not_trusted_and_near_is() -> None:
    x = grid(THREADS, SIZES)
    found = extrapolate_surface(x, 1e-9 * x[:, 1] ** 2 / x[:, 0], ["threads", "n"], [(32, 32000), (1e6, 1e9)])
    near, far = (one.verdict for one in found.answers)
    assert near is not None and near.word == "trust"
    assert far is not None and far.word == "do not trust" and "threads = 1e+06" in far.reason


def test_few_points_have_a_wide_band_and_say_so() -> None:
    points = [(1, 1), (2, 1), (1, 2), (2, 2)]
    (one,) = extrapolate_surface(points, [1.0, 0.5, 2.0, 1.0], ["threads", "n"], [(4, 4)]).answers
    assert one.low is not None and one.high is not None and one.high > 2 * one.low
    assert one.verdict is not None and one.verdict.word != "trust"
    assert "points left out were tried up to 1 times" in one.verdict.reason and one.time > 0


def test_nodes_and_cells_that_grow_together_are_answered_along_their_line_and_wider_off_it() -> None:
    nodes = 2.0 ** np.arange(6)
    points, times = np.column_stack([nodes, 1000 * nodes]), 10 * (1 + 0.05 * np.log2(nodes))
    found = extrapolate_surface(points, times, ["nodes", "cells"], [(64, 64_000), (64, 32_000)])
    along, off = found.answers
    alone = extrapolate(Series.of(nodes, times, "nodes"), [64], "weak")
    assert (along.time, along.low, along.high) == pytest.approx((alone.value[0], alone.low[0], alone.high[0]))
    # half the cells: anything between the time of all of them, half of it and twice it fits the points as well
    assert off.low is not None and off.high is not None and off.low < along.time / 2 and off.high > 2 * along.time
    assert off.verdict is not None and off.verdict.word == "wide" and "grew together" in off.verdict.reason
    assert "cells: weak (grows with nodes: their effects are not separated)" in found.assumptions


@pytest.mark.parametrize(
    ("points", "times", "to", "kinds", "words"),
    [
        ([(1, 1), (2, 1), (1, 2)], [1.0, 2.0, 3.0], [(4, 4)], None, "3 different points; want 4"),
        ([(1, 1), (2, 1), (1, 2), (2, 0)], [1.0, 2, 3, 4], [(4, 4)], None, "finite numbers > 0"),
        ([(1, 1), (2, 1), (1, 2), (2, 2)], [1.0, 2, 3, 4], [(4, 4, 4)], None, "each with 2 parameters"),
        ([(1, 1), (2, 1), (1, 2), (2, 2)], [1.0, 2, 3, 4], [(4, 4)], {"a": "week"}, "unknown kind of scaling 'week'"),
        ([(1, 1), (2, 1), (1, 2), (2, 2)], [1.0, 2, 3, 4], [(4, 4)], {"c": "weak"}, "unknown parameter 'c'"),
    ],
)
def test_bad_input_is_refused(points: object, times: object, to: object, kinds: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        extrapolate_surface(points, times, ["a", "b"], to, kinds)  # type: ignore[arg-type]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0.01, 100.0), min_size=9, max_size=9), st.integers(-20, 20))
@example([10.0, 0.5, 8.0, 8.0, 7.0, 19.0, 12.0, 13.0, 19.0], 0)  # a band without end
def test_answers_are_positive_and_scale_with_the_unit(times: list[float], power: int) -> None:
    factor = 2.0**power  # exact: rounding decides between laws that explain noise equally well
    x = grid([1.0, 2, 4], [1.0, 2, 4])
    to = [(8, 8), (2, 2), (0.5, 8)]
    plain = extrapolate_surface(x, times, ["threads", "n"], to)
    scaled = extrapolate_surface(x, np.array(times) * factor, ["threads", "n"], to)
    for one, other in zip(plain.answers, scaled.answers, strict=True):
        assert one.time >= 0 and np.isfinite(one.time)
        assert other.time == pytest.approx(one.time * factor, rel=1e-3, abs=1e-9 * factor)
        if one.low is not None and one.high is not None:
            assert one.low <= one.time <= one.high
