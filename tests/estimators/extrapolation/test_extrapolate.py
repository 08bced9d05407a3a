"""Extrapolation: known laws are continued, answers are formulas, and laws of the verb hold."""

import pickle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import nnls

from slipstick.estimators.scaling import KINDS, Series, extrapolate, extrapolate_many
from slipstick.estimators.scaling.laws.nonnegative_fits import fit_prefixes
from slipstick.estimators.scaling.laws.terms import FAMILIES, SharedIssue
from slipstick.estimators.scaling.series import Certainty, verdicts
from slipstick.hwmodels.machine import Machine

DOUBLINGS = np.array([1.0, 2, 4, 8, 16, 32, 64])
SIZES = np.array([100.0, 200, 400, 800, 1600, 3200])


def test_amdahl_is_recovered() -> None:
    # Amdahl 1967: T(p) = T1 (f + (1 - f) / p)
    law = lambda p: 100 * (0.02 + 0.98 / p)  # noqa: E731
    answer = extrapolate(Series.of(DOUBLINGS, law(DOUBLINGS), "threads"), [128, 256], family="amdahl")
    assert answer.value == pytest.approx(law(np.array([128.0, 256.0])), rel=1e-9)


def test_the_universal_scalability_law_is_recovered() -> None:
    # Gunther 1993: C(p) = p / (1 + alpha (p - 1) + beta p (p - 1)); T = T1 / C
    law = lambda p: 10 * (1 + 0.03 * (p - 1) + 1e-4 * p * (p - 1)) / p  # noqa: E731
    answer = extrapolate(Series.of(DOUBLINGS, law(DOUBLINGS), "threads"), [256], family="usl")
    assert answer.value[0] == pytest.approx(law(256.0), rel=1e-9)


@pytest.mark.parametrize(
    ("family", "law"),
    [
        ("size", lambda n: 0.1 + 2e-3 * n),
        ("size-bends", lambda n: 0.1 + 2e-3 * n),
        ("nlogn", lambda n: 1.0 + 1e-3 * n * np.log2(n)),
        ("n^2", lambda n: 1.0 + 1e-6 * n**2),
        ("constant-log", lambda n: 0.3 + 0.2 * np.log2(n)),
    ],
)
def test_growth_laws_are_recovered(family: str, law: object) -> None:
    answer = extrapolate(Series.of(SIZES, law(SIZES), "n"), [51_200], family=family)  # type: ignore[operator]
    assert answer.value[0] == pytest.approx(law(51_200.0), rel=1e-6)  # type: ignore[operator]


@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0, 2.5, 3.0])
def test_steep_growth_is_found_without_being_named(exponent: float) -> None:
    generator = np.random.default_rng(0)
    law = lambda n: 0.01 + 1e-6 * n**exponent  # noqa: E731
    errors = []
    for _ in range(20):
        times = law(SIZES) * generator.lognormal(sigma=0.02, size=6)
        answer = extrapolate(Series.of(SIZES, times, "n"), [12_800], level=None)
        errors.append(abs(answer.value[0] / law(12_800.0) - 1))
    assert np.median(errors) < 0.10


def test_an_upturn_is_continued() -> None:
    # beyond the best number of threads the coherence term decides
    law = lambda p: 1 + 100 / p + 0.2 * p  # noqa: E731
    answer = extrapolate(Series.of(DOUBLINGS, law(DOUBLINGS), "threads"), [256], "strong")
    assert answer.value[0] == pytest.approx(law(256.0), rel=0.10)


def test_a_saturated_bandwidth_stays_saturated() -> None:
    # STREAM-like: time = work / min(p x 10 GB/s, 40 GB/s)
    p = np.array([1.0, 2, 3, 4, 5, 6, 7, 8])
    answer = extrapolate(Series.of(p, 100 / np.minimum(10 * p, 40), "threads"), [16, 64], family="bandwidth")
    assert answer.value == pytest.approx((2.5, 2.5), rel=0.01)
    assert 4.0 in answer.change_points


def test_a_full_cache_is_found_as_a_change_point() -> None:
    n = np.array([1.0, 2, 4, 8, 16, 24, 32, 48, 64]) * 100
    time = 1e-3 * n + 4e-3 * np.maximum(n - 1600, 0)
    answer = extrapolate(Series.of(n, time, "n"), [25_600])
    assert answer.value[0] == pytest.approx(25.6 + 4e-3 * 24_000, rel=0.02)
    assert 1600.0 in answer.change_points


def test_the_machine_gives_the_change_points(phi: Machine) -> None:
    p = np.array([1.0, 15, 30, 61, 122, 183, 244])
    cpi = np.array([1, 1, 1, 1, 1, 1.5, 2])
    times = 3.0 + 1000 * cpi / p + 1e-3 * p
    answer = extrapolate(Series.of(p, times, "threads"), [488], "strong", phi)
    assert "cycles per instruction of the machine's shared cores: 100 % likely" in answer.assumptions
    assert any("borders" in line for line in answer.assumptions)
    assert answer.verdicts[0].word != "trust" and "border of the machine" in answer.verdicts[0].reason
    term = SharedIssue(phi.cores, tuple(phi.cycles_per_instruction))
    # Viebke et al. 2019, Table III: 1, 1, 1.5, 2 cycles per instruction for 1, 2, 3, 4 threads on a core
    assert term.values(p) * p == pytest.approx(cpi)


def test_clean_scaling_is_trusted_near_and_refused_far() -> None:
    generator = np.random.default_rng(1)
    times = (2 + 100 / DOUBLINGS) * generator.lognormal(sigma=0.01, size=7)
    near, far = extrapolate(Series.of(DOUBLINGS, times, "threads"), [96, 64_000]).verdicts
    assert near.word == "trust"
    assert far.word == "do not trust" and "ratio too large" in far.reason


@pytest.mark.filterwarnings("ignore:overflow|invalid value")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("times", [(100, 1e200, 28, 1e-200, 5), (100, 1e308, 28, 1e-308, 5)])
def test_what_is_not_finite_is_never_trusted(kind: str, times: tuple[float, ...]) -> None:
    # made by hand: Series.of refuses such times
    broken = Series((1.0, 2.0, 4.0, 8.0, 16.0), times, (1,) * 5, None, "threads")
    answer = extrapolate(broken, [32, 64], kind)
    assert [verdict.word for verdict in answer.verdicts] == ["do not trust"] * 2


def test_a_certainty_that_is_no_number_is_refused_with_its_reason() -> None:
    series = Series.of(DOUBLINGS, 100 / DOUBLINGS, "threads")
    low, high = np.array([0.9, 0.9, np.nan]), np.full(3, 1.1)
    certainty = Certainty(np.ones(3), low, high, ("", "", ""))
    words = verdicts(series, certainty, np.full(3, 96.0), np.array([1.0, np.nan, 1.0]))
    assert [verdict.word for verdict in words] == ["trust", "do not trust", "do not trust"]
    assert words[1].reason.startswith("no finite answer: nan s")
    assert words[2].reason.startswith("no finite answer: 1 s, 80 % band nan")


TIMES = st.lists(st.floats(0.01, 100.0), min_size=4, max_size=9)


def test_a_verdict_is_the_probability_of_being_within_20_percent() -> None:
    series = Series.of(DOUBLINGS, 100 / DOUBLINGS, "threads")
    within, low, high = np.array([0.84, 0.79, 0.14, 0.9]), np.full(4, 0.9), np.full(4, 1.1)
    to = np.array([96.0, 96.0, 96.0, 64.0 * 32])
    words = verdicts(series, Certainty(within, low, high, ("why",) * 4), to, np.ones(4))
    assert [word.word for word in words] == ["trust", "wide", "do not trust", "wide"]
    assert words[0].reason == "within 20 %: 84 % sure" and words[0].probability == 0.84
    assert words[1].reason == "within 20 %: 79 % sure; why"
    # 32 times where 16 is confirmed: half as sure, in the probability and in the word alike
    assert words[3].probability == pytest.approx(0.45) and "confirmed up to 16 times" in words[3].reason


@given(TIMES, st.sampled_from(KINDS))
def test_the_laws_named_are_those_of_the_formula(times: list[float], kind: str) -> None:
    # 0.5 x + 1.5 beside "n^3 20 %": a family of which no cube is left is named as the line that it is
    x = 2.0 ** np.arange(len(times))
    answer = extrapolate(Series.of(x, times, "x"), [x[-1] * 4], kind)
    for name, power in (("nlogn", "x log2"), ("n^1.5", "x^1.5"), ("n^2", "x^2"), ("n^3", "x^3")):
        assert answer.shares.get(name, 0.0) < 0.02 or power in answer.law.text("x", x[-1] * 4)


@given(TIMES, st.sampled_from(KINDS), st.floats(1.01, 1e4))
def test_one_word_follows_the_probability_for_every_kind_and_distance(
    times: list[float], kind: str, reach: float
) -> None:
    x = 2.0 ** np.arange(len(times))
    (verdict,) = extrapolate(Series.of(x, times, "threads"), [x[-1] * reach], kind).verdicts
    said = round(verdict.probability or 0.0, 2)
    assert verdict.word == ("trust" if said >= 0.80 else "wide" if said >= 0.15 else "do not trust")


def test_one_jump_of_the_last_point_is_an_outlier_before_it_is_a_law() -> None:
    # weak scaling: three points are level, and only the fourth is not
    answer = extrapolate(Series.of([1, 2, 4, 8], [1.0, 0.88, 0.99, 1.69], "nodes"), [16], "weak")
    assert answer.value[0] < 1.3 and answer.verdicts[0].word != "trust"
    assert answer.low is not None and answer.high is not None and answer.low[0] < 1.0 and answer.high[0] > 1.69
    # a size: both readings lie in the band
    answer = extrapolate(Series.of(SIZES[:5], [1.0, 2.0, 4.0, 8.0, 28.0], "n"), [3200], "problem_size")
    assert answer.low is not None and answer.high is not None and answer.low[0] < 32 and answer.high[0] > 56
    assert answer.verdicts[0].word != "trust"


@pytest.mark.parametrize("kind", ["weak", "problem_size"])
def test_noise_of_repeats_widens_bands_of_medians_and_takes_the_trust(kind: str) -> None:
    x = np.repeat(SIZES, 3)
    level = np.ones_like(x) if kind == "weak" else x * 1e-3
    widths, words = [], []
    for noise in (0.005, 0.5):
        spread = np.exp(noise * np.tile([-1.0, 0.0, 1.0], len(SIZES)))
        answer = extrapolate(Series.of(x, level * spread, "nodes" if kind == "weak" else "n"), [6400], kind)
        assert answer.low is not None and answer.high is not None
        widths.append(answer.high[0] / answer.low[0])
        words.append(answer.verdicts[0].word)
    # of three runs that differ by 50 % each median is known to 36 %
    assert widths[1] > 1.5 * widths[0] and words == ["trust", "wide"]


def test_three_points_are_answered_without_a_band() -> None:
    answer = extrapolate(Series.of([1, 2, 4], [4.0, 2.1, 1.1], "threads"), [8])
    assert answer.low is None and answer.verdicts[0].word == "do not trust"
    assert "too few points: 3" in answer.verdicts[0].reason


def test_kinds_are_detected_and_said() -> None:
    strong = extrapolate(Series.of(DOUBLINGS, 100 / DOUBLINGS, "cores"), [128])
    weak = extrapolate(Series.of(DOUBLINGS, 1 + 0.1 * np.log2(DOUBLINGS), "MPI ranks"), [128])
    size = extrapolate(Series.of(SIZES, SIZES * 1e-3, "matrix_size"), [6400])
    assert (strong.kind, weak.kind, size.kind) == ("strong", "weak", "problem_size")
    assert "taken from the name 'cores'" in strong.assumptions[0]
    assert "(given)" in extrapolate(Series.of(SIZES, SIZES, "n"), [6400], "collective").assumptions[0]


def test_a_constant_series_stays_constant() -> None:
    for kind in ("weak", "problem_size", "collective", "strong"):
        answer = extrapolate(Series.of(DOUBLINGS, np.full(7, 3.0), "x"), [128, 1024], kind)
        assert answer.value == pytest.approx((3.0, 3.0), rel=0.1)


def test_many_answer_as_one_by_one() -> None:
    generator = np.random.default_rng(5)
    series = [
        Series.of(DOUBLINGS[:n], (1 + 50 / DOUBLINGS[:n]) * generator.lognormal(sigma=0.1, size=n), "threads", f"s{i}")
        for i, n in enumerate((4, 5, 5, 6, 7, 7))
    ]
    for many, one in zip(extrapolate_many(series, [200]), [extrapolate(s, [200]) for s in series], strict=True):
        assert many.value == pytest.approx(one.value, rel=1e-9) and many.verdicts == one.verdicts
        assert hash(many) == hash(pickle.loads(pickle.dumps(many)))
        assert pickle.loads(pickle.dumps(many)) == many


@given(TIMES, st.sampled_from(KINDS), st.floats(1e-6, 1e6))
@example([1.0, 8.0, 1.0, 1.0], "problem_size", 3.0)
@example([61.0, 45.0, 1.625, 0.01171875], "strong", 2.0)  # two ranges of the candidates are equally short
def test_seconds_or_hours_make_no_difference(times: list[float], kind: str, factor: float) -> None:
    x = 2.0 ** np.arange(len(times))
    plain = extrapolate(Series.of(x, times), [1000.0], kind)
    scaled = extrapolate(Series.of(x, np.array(times) * factor), [1000.0], kind)
    assert scaled.value == pytest.approx(np.array(plain.value) * factor, rel=1e-5)
    assert scaled.high == pytest.approx(np.array(plain.high) * factor, rel=1e-4)


@given(TIMES, st.sampled_from(KINDS), st.floats(1.01, 50.0))
def test_answers_are_positive_inside_bands_that_widen(times: list[float], kind: str, reach: float) -> None:
    x = 2.0 ** np.arange(len(times))
    series = Series.of(x, times)
    targets = [x[-1] * reach, x[-1] * reach * 2]
    narrow, wide = (extrapolate(series, targets, kind, level=level) for level in (0.5, 0.9))
    for i in range(2):
        assert 0 < wide.low[i] < narrow.low[i] < narrow.value[i] < narrow.high[i] < wide.high[i]


@given(TIMES, st.sampled_from(KINDS), st.floats(1e-6, 0.5))
def test_values_below_one_give_no_negative_times(times: list[float], kind: str, first: float) -> None:
    x = first * 2.0 ** np.arange(len(times))
    answer = extrapolate(Series.of(x, times), [x[0], x[-1] * 3], kind)
    assert answer.value[0] >= 0 and answer.value[1] > 0
    said = answer.formula.evaluate({"x": np.array(answer.x)})
    assert np.broadcast_to(said, 2) == pytest.approx(answer.value, rel=1e-4, abs=1e-9)


@given(TIMES, st.sampled_from(KINDS))
def test_the_formula_is_the_answer(times: list[float], kind: str) -> None:
    x = 2.0 ** np.arange(len(times))
    answer = extrapolate(Series.of(x, times, "threads"), [x[-1] * 3, x[-1] * 7], kind, level=None)
    said = answer.formula.evaluate({"threads": np.array(answer.x)})
    # its coefficients are printed with six digits
    assert np.broadcast_to(said, 2) == pytest.approx(answer.value, rel=1e-4)


@given(st.permutations(range(12)), TIMES)
def test_order_and_repeats_make_no_difference(order: list[int], times: list[float]) -> None:
    x = np.repeat(2.0 ** np.arange(4), 3)
    y = np.repeat(times[:4], 3)
    assert extrapolate(Series.of(x, y), [99.0], "strong").value == pytest.approx(
        extrapolate(Series.of(x[order], y[order]), [99.0], "strong").value, rel=1e-9
    )


@given(
    st.sampled_from([family for family in FAMILIES.values() if family.bends == "none"]),
    st.lists(st.floats(0.01, 100.0), min_size=3, max_size=8),
)
def test_subsets_are_non_negative_least_squares(family: object, times: list[float]) -> None:
    x, y = 2.0 ** np.arange(len(times)), np.array(times)
    found = fit_prefixes(family, x[None], y[None], np.empty((1, 0)), (len(times),))[0, 0]  # type: ignore[arg-type]
    matrix = family.matrix(x, np.empty(0)) / y[:, None]  # type: ignore[attr-defined]
    if family.through_last:  # type: ignore[attr-defined]
        scale = y[-1] / (family.matrix(x, np.empty(0))[-1] @ nnls(matrix, np.ones(len(y)))[0])  # type: ignore[attr-defined]
        found = found / scale
    best = nnls(matrix, np.ones(len(y)))[1]
    assert np.all(found >= 0)
    assert np.linalg.norm(matrix @ found - 1) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0, 3.0])
def test_clean_powers_are_trusted_inside_a_narrow_band(exponent: float) -> None:
    times = 1e-6 * SIZES**exponent * np.random.default_rng(3).lognormal(sigma=0.01, size=6)
    answer = extrapolate(Series.of(SIZES, times, "n"), [6400])
    assert answer.verdicts[0].word == "trust"
    assert answer.low is not None and answer.high is not None
    assert answer.low[0] < 1e-6 * 6400**exponent < answer.high[0] < 1.4 * answer.low[0]


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
def test_contention_that_grows_unseen_is_covered_or_refused(noise: float) -> None:
    # 64 ranks show 0.04 of 1.6 s of it; at 4,096 it is 99 % of the time
    times = (100 / DOUBLINGS + 1e-3 * DOUBLINGS) * np.random.default_rng(0).lognormal(sigma=noise, size=7)
    answer = extrapolate(Series.of(DOUBLINGS, times, "ranks"), [4096])
    assert answer.low is not None and answer.high is not None
    truth = 100 / 4096 + 4.096
    assert answer.low[0] <= truth <= answer.high[0]
    assert noise == 0 or answer.verdicts[0].word == "do not trust"


def test_far_below_the_data_is_distrusted_as_far_above() -> None:
    series = Series.of([64, 128, 256, 512, 1024], 100 / np.array([64, 128, 256, 512, 1024.0]), "ranks")
    near, far = extrapolate(series, [32, 1e-4]).verdicts
    assert near.word == "trust"
    assert far.word == "do not trust" and "below the first value" in far.reason


def test_an_overhead_below_the_data_is_seen_by_predicting_the_first_points() -> None:
    sizes = SIZES[1:]
    answer = extrapolate(Series.of(sizes, 0.05 / sizes + 1e-4 * sizes, "n"), [12.5])
    assert answer.low is not None and answer.high is not None
    assert answer.low[0] < 0.05 / 12.5 + 1e-4 * 12.5 < answer.high[0]


def test_work_that_grows_with_the_workers_is_no_law_of_ours_and_still_within_what_is_promised() -> None:
    # Calotoiu et al. 2013: p t = c0 + c1 p^i log^j p
    law = lambda p: (100 + 3 * p**0.5) / p  # noqa: E731
    series = Series.of(DOUBLINGS, law(DOUBLINGS), "ranks")
    ours, amdahl = (extrapolate(series, [128], family=family).value[0] for family in (None, "amdahl"))
    assert abs(ours / law(128.0) - 1) < 0.20 and abs(ours / law(128.0) - 1) < abs(amdahl / law(128.0) - 1)


@pytest.mark.parametrize("overhead", ["log", "usl", "sqrt"])
def test_each_overhead_is_told_from_the_others_by_clean_points(overhead: str) -> None:
    growth = {"log": np.log2, "usl": lambda p: p - 1, "sqrt": lambda p: np.sqrt(p) - 1}[overhead]
    law = lambda p: 10 / p + 0.2 + 0.1 * growth(p)  # noqa: E731
    answer = extrapolate(Series.of(DOUBLINGS, law(DOUBLINGS), "ranks"), [256])
    name = overhead if overhead == "usl" else f"amdahl-{overhead}"
    assert answer.shares[name] > 0.9 and answer.value[0] == pytest.approx(law(256.0), rel=0.02)


def test_a_run_three_times_slower_is_named_and_hardly_counts() -> None:
    x, noise = np.repeat(DOUBLINGS, 3), np.random.default_rng(4).lognormal(sigma=0.02, size=21)
    times = (2 + 100 / x) * noise
    slow = times.copy()
    slow[10] *= 3
    plain, answer = (extrapolate(Series.of(x, some, "nodes"), [256]) for some in (times, slow))
    assert answer.value[0] == pytest.approx(plain.value[0], rel=0.03)
    assert any(
        line.startswith("measurement 11 (nodes = 8, ") and "hardly counts" in line for line in answer.assumptions
    )


def test_a_point_that_is_off_is_named_where_nothing_repeats() -> None:
    times = 2 + 100 / DOUBLINGS
    times[3] *= 2
    answer = extrapolate(Series.of(DOUBLINGS, times, "nodes"), [256])
    assert answer.value[0] == pytest.approx(2 + 100 / 256, rel=0.05)
    assert any("nodes = 8 (29 s) is an outlier" in line for line in answer.assumptions)
