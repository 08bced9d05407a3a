"""What-ifs judged: which fields differ, figures of ratios by hand, and laws of the band of a ratio."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

import slipstick as ss
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.ratio_band import RatioBand
from slipstick.experiments.scoreboards.whatif.machine_pairs import changes, difference
from slipstick.experiments.scoreboards.whatif.ratio_fit import RatioRows
from slipstick.experiments.scoreboards.whatif.ratios import Ratios, together
from slipstick.experiments.scoring.score import Scored
from slipstick.hwmodels.catalog import machine
from slipstick.operations import dense

logs = st.floats(-3, 3)
spreads = st.floats(0, 1)


def test_an_h200_is_an_h100_with_another_memory() -> None:
    """NVIDIA's data sheets: 3.35 and 4.8 TB/s, 80 and 141 GB, the same chip."""
    before, after = machine("h100-sxm"), machine("h200-sxm")
    assert changes(before, after) == {"memory.HBM3.capacity": 141e9, "memory.HBM3.bandwidth": 4.8e12}
    assert difference(before, after) == (
        "memory.HBM3.capacity 80 GB -> 141 GB, memory.HBM3.bandwidth 3.352 TB/s -> 4.8 TB/s"
    )
    assert changes(before, before) == {}


def test_figures_of_four_ratios_by_hand() -> None:
    measured = np.array([1.0, 0.5, 2.0, 0.8])
    one = Ratios("case", "B", "clock", measured, np.array([1.0, 0.55, 0.9, 0.8]), np.full(4, 0.1), np.log(2))
    scored, coverage = list(one.judged("part"))
    assert isinstance(scored, Scored)
    rows = {row.metric: row for row in scored.rows("part")}
    assert rows["median error of the ratio"].ours == pytest.approx(5.0)
    assert rows["median error of the ratio"].goal == pytest.approx(45 * np.median(np.abs(1 / measured - 1)))
    assert rows["wrong direction"].ours == pytest.approx(100 / 3), "of the three that have one"
    assert rows["wrong direction"].baselines["no change"] == 100
    assert rows["which part bounds is wrong"].ours == pytest.approx(25), "the third doubles, predicted: hardly moves"
    assert getattr(coverage, "interval_coverage") == 0.75  # noqa: B009 - a row or scores


def test_cases_count_alike_together() -> None:
    small = Ratios("a", "B", "x", np.array([2.0]), np.array([2.0]), np.array([0.1]), 0.0)
    large = Ratios("b", "B", "y", np.full(4, 1.01), np.full(4, 1.0), np.full(4, 0.1), 0.0)
    whole = together("both", [small, large])
    assert len(whole.measured) == 8
    assert int(whole._clear.sum()) == 4


@given(logs, spreads, spreads)
def test_what_both_times_share_cancels(ratio: float, residual: float, today: float) -> None:
    """No field and no time changed: nothing is unsure; two times that err independently are the most."""
    band = RatioBand(0.1)
    assert band.half(0.0, 0.0, 0.0, residual, today) == 0
    most = RatioBand(0.1, kept=1e-9).half(ratio, 0.0, 0.0, residual, today)
    assert band.half(ratio, 0.0, 0.0, residual, today) <= most + 1e-12


@given(st.floats(0, 2), st.floats(0, 2), logs, spreads)
def test_more_change_is_less_sure(less: float, more: float, ratio: float, residual: float) -> None:
    low, high = sorted((less, more))
    band = RatioBand(0.1)
    assert band.half(ratio, low, 0.0, residual) <= band.half(ratio, high, 0.0, residual) + 1e-12


@given(logs, spreads, spreads, spreads)
def test_what_all_answers_have_alike_cancels(ratio: float, own: float, common: float, share: float) -> None:
    """An unknown library is the same in both times, however far they are apart; where it runs a share of one alone, so
    much of it stays: the standard deviation of (1 - share) z, by hand."""
    band = RatioBand(0.1, kept=0.3)
    both = np.hypot(own, common)
    assert band.half(ratio, 0.5, 0.0, both, both, common, common) == pytest.approx(
        float(band.half(ratio, 0.5, 0.0, own, own))
    )
    alone = RatioBand(0.0).half(0.0, 0.0, 0.0, common, share * common, common, share * common)
    assert alone == pytest.approx(1.2816 * (1 - share) * common, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize(("kept", "other"), [(0.3, 0.05), (1.0, 0.1), (4.0, 0.3)])
def test_a_law_that_made_ratios_is_found_again(kept: float, other: float) -> None:
    """Ratios drawn from the law of the band: the fitted number is that of the law, as far as 4,000 draws say."""
    drawn = np.random.default_rng(3)
    ratio, scale = drawn.uniform(0.05, 2, 4000), drawn.uniform(0.1, 0.5, 4000)
    names = ["kernels"] * 4000, ["chip"] * 4000
    sizes = 0.78 * scale * np.sqrt(1 - np.exp(-ratio / kept)) * drawn.normal(size=4000)
    found = RatioRows(np.array([sizes, np.zeros(4000), scale, ratio]), *names)
    assert np.mean(np.abs(sizes) <= found.half(kept=found.kept())) == pytest.approx(0.8, abs=1e-3)
    assert found.half(kept=found.kept()) == pytest.approx(found.half(kept=kept), rel=0.15)
    boards = RatioRows(np.array([other * drawn.normal(size=4000), 0 * scale, 1.2816 + 0 * scale, ratio]), *names)
    assert boards.other() == pytest.approx(other, rel=0.1)


def test_how_sure_a_ratio_is_hangs_on_no_count_of_operations() -> None:
    """Two products once had the band of a kernel, three that of a network: 9.4 times as wide for the same ratio."""
    halves = []
    for count in (2, 3):
        layers = [dense(f"d{place}", sp.Symbol("batch"), 4096, 4096) for place in range(count)]
        program = ss.Workload("products", tuple(layers), defaults=FrozenDict({"batch": 2048}))
        frame = ss.whatif(program, "h100-sxm", {"workload.batch": [4096]}, dtype="bfloat16").frame
        halves.append(math.log(frame.high_ratio.iloc[-1] / frame.time_ratio.iloc[-1]))
    assert halves[0] == pytest.approx(halves[1], rel=0.1)


def test_a_change_that_the_model_finds_without_effect_is_not_certain() -> None:
    """A product that compute bounds, with an H200's bandwidth: measured pairs differ, so the band has width."""
    product = ss.workload("gemm").bind(m=8192, n=8192, k=8192)
    answer = ss.whatif(product, "h100-sxm", {"machine.memory.HBM3.bandwidth": [3.352e12, 4.8e12]}, dtype="bfloat16")
    today, then = answer.rows()
    assert today["low_ratio"] == today["high_ratio"] == 1
    assert then["time_ratio"] == pytest.approx(1, abs=0.05)
    assert then["low_ratio"] < 0.95 and then["high_ratio"] > 1.05


@pytest.mark.parametrize(("count", "shown"), [(4, False), (8, True)])
def test_the_coverage_of_enough_groups_is_given_with_its_error(count: int, shown: bool) -> None:
    """Half of the groups lie in the band: with few groups the share says little, and with eight it is no sure 50 %."""
    groups = [str(at) for at in range(count) for _ in range(10)]
    ours = np.where([int(group) % 2 == 0 for group in groups], 1.0, 2.0)
    (row, *_) = Scored("case", "groups", np.ones(len(groups)), ours, half=0.2, groups=groups).rows("data")
    assert row.interval_coverage == 0.5
    assert row.groups == count
    assert (row.coverage_low, row.coverage_high) == ((0.25, 0.75) if shown else (None, None))
