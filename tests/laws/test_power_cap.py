"""One law of the power cap: of its formula, of estimates and of their tables, by hypothesis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.composition.energy_and_cost import EXCESS, HELD
from slipstick.estimators.power.power_cap import BusyPower, stretched
from slipstick.estimators.power.voltage import clock_share, dynamic_share
from slipstick.estimators.user_measured.measured_time import MeasuredTime
from slipstick.experiments.cli.cli import run
from slipstick.experiments.explain.evaluator import Evaluator
from slipstick.experiments.question.question import question
from slipstick.experiments.studies.whatif import whatif
from slipstick.hwmodels.catalog import machine

WATTS, SHARE, KNEE = st.floats(50.0, 900.0), st.floats(0.0, 1.0), st.floats(0.3, 3.0)
H100 = "h100-sxm"


@given(st.floats(0.01, 1.0), KNEE)
def test_the_clock_of_a_share_of_dynamic_power_is_its_inverse(clock: float, knee: float) -> None:
    assert float(clock_share(dynamic_share(clock, knee), knee)) == pytest.approx(clock, rel=1e-9)


@given(WATTS, SHARE, KNEE, WATTS, WATTS, SHARE)
def test_a_lower_cap_never_shortens_and_never_draws_more(
    drawn: float, read: float, knee: float, one: float, other: float, follows: float
) -> None:
    power = BusyPower.of(drawn, 100.0, 700.0, read)
    low, high = sorted((one, other))
    clocks = power.clock([low, high], knee)
    times, watts = stretched(clocks, follows), power.watts(clocks, knee)
    assert times[0] >= times[1] >= 1 - 1e-12 and watts[0] <= watts[1] * (1 + 1e-12)
    assert watts[1] <= max(high, float(power.watts(0.15, knee))) * (1 + 1e-9)  # no board goes below its least clock
    if high >= max(drawn, 100.0):
        assert clocks[1] == pytest.approx(1, rel=1e-12) and times[1] == pytest.approx(1, rel=1e-12)


def test_above_the_knee_the_clock_is_the_cube_root_and_below_it_is_in_proportion() -> None:
    power = BusyPower.of(600.0, 100.0, 700.0, 0.0)
    assert float(power.clock(350.0, 0.1)) == pytest.approx(0.5 ** (1 / 3))
    assert float(power.clock(350.0, 1.0)) == pytest.approx(0.5)


@settings(max_examples=4, deadline=None)
@given(st.floats(150.0, 1200.0), st.floats(150.0, 1200.0))
def test_an_estimate_under_a_lower_cap_is_no_faster_and_keeps_the_cap(one: float, other: float) -> None:
    rated = question("gpt2", H100, "tiled-roofline").answer()
    answers = [question("gpt2", H100, "tiled-roofline", {"machine.power.cap": cap}).answer() for cap in (one, other)]
    for cap, answer in zip((one, other), answers, strict=True):
        assert (answer.energy or 0.0) <= min(cap, 700.0) * answer.time * (1 + 1e-9)
        assert answer.time >= rated.time * (1 - 1e-9)
        if cap >= 700:
            assert answer.time == rated.time and answer.energy == rated.energy
    less, more = answers if one <= other else answers[::-1]
    assert less.time >= more.time * (1 - 1e-9)
    assert (less.energy or 0) / less.time <= (more.energy or 0) / more.time * (1 + 1e-9)


def test_a_clock_above_the_rated_one_needs_more_voltage_than_the_cap_allows() -> None:
    """Times of measured kernels are those that a cap has left, which explains no clock above the data sheet's."""
    rated, raised = (question("gpt2", H100, settings={"machine.clock": clock}).answer() for clock in ("1x", "2x"))
    assert not any(text.startswith(EXCESS) for text in rated.assumptions)
    assert any(text.startswith(EXCESS) and "cap 700 W" in text for text in raised.assumptions)


@pytest.mark.parametrize("estimator", [None, "tiled-roofline", "roofline"])
def test_a_table_over_caps_is_that_of_each_estimate(estimator: str | None) -> None:
    caps = [200.0, 350.0, 500.0, 700.0, 1000.0]
    frame = whatif("gpt2", H100, {"machine.power.cap": caps}, estimator=estimator).frame
    for cap, seconds, joules in zip(caps, frame.time_s, frame.energy_J, strict=True):
        one = question("gpt2", H100, estimator, {"machine.power.cap": cap}).answer()
        assert seconds == pytest.approx(one.time, rel=1e-9) and joules == pytest.approx(one.energy, rel=1e-9)
        assert joules <= cap * seconds * (1 + 1e-9)
    if estimator != "roofline":  # whose time is that of the clock as it is
        assert np.all(np.diff(frame.time_s) <= 1e-12) and frame.time_s[0] > 1.3 * frame.time_s[3]


def test_a_higher_clock_under_a_cap_that_was_set_is_no_slower() -> None:
    """What the work draws at the stated clock says at which clock the cap holds it, whatever clock was allowed."""
    clocks, sizes = [1.0e9, 1.41e9, 1.8e9, 2.8e9], {f"workload.{name}": 4096.0 for name in "mnk"}
    cap = {"machine.power.cap": 150.0, **sizes}
    frame = whatif("gemm", "a100-sxm-80gb", {"machine.clock": clocks}, settings=cap, dtype="bfloat16").frame
    assert np.all(np.diff(frame.time_s) <= 1e-12)
    alone = question("gemm", "a100-sxm-80gb", None, {**cap, "machine.clock": clocks[-1]}, dtype="bfloat16").answer()
    assert alone.time == pytest.approx(frame.time_s.iloc[-1], rel=1e-9)


def test_a_cap_beside_an_idle_power_is_another_boards_rating() -> None:
    """An H100 PCIe with the clock, cores, bandwidth and power of an SXM5 (data sheets: 756, 989 TFLOP/s) is faster."""
    sizes = {f"workload.{name}": 8192.0 for name in "mnk"}
    board = {
        "clock": 1.98e9,
        "cores": 132.0,
        "memory.HBM2e.bandwidth": 3.352e12,
        "power.cap": 700.0,
        "power.idle": 105.0,
    }
    there = {f"machine.{path}": value for path, value in board.items()}
    ranges = {name: [value] for name, value in there.items()}
    row = whatif("gemm", "h100-pcie", ranges, settings=sizes, dtype="bfloat16").frame.iloc[0]
    alone = question("gemm", "h100-pcie", None, {**sizes, **there}, dtype="bfloat16").answer()
    assert row.time_ratio == pytest.approx(756 / 989, rel=0.1)
    assert Evaluator.of(question("gemm", "h100-pcie", settings=sizes)).ratio("machine.power.cap", 2.0) == 1.0
    assert (alone.time, alone.energy) == pytest.approx((row.time_s, row.energy_J), rel=1e-9)


@given(st.floats(100.0, 900.0), st.sampled_from([40.0, 52.5, 105.0]))
def test_no_order_of_cap_and_idle_power_matters(cap: float, idle: float) -> None:
    """350 W and 52.5 W idle of an H100 PCIe: another idle power makes it a board of another rating."""
    on = machine("h100-pcie")
    ways = [on.using({"power.cap": cap}).using({"power.idle": idle}), on.using({"power.idle": idle, "power.cap": cap})]
    for made in (*ways, on.using({"power.idle": idle}).using({"power.cap": cap})):
        assert made.stated.power.cap == (350.0 if idle == 52.5 else max(cap, 350.0))
        assert made.stated.power == ways[0].stated.power


@pytest.mark.parametrize("cap", [250.0, 700.0])
def test_a_boards_idle_power_restated_changes_nothing(cap: float) -> None:
    caps, sizes = {"machine.power.cap": cap}, {f"workload.{name}": 8192.0 for name in "mnk"}
    answers = [
        question("gemm", "h100-pcie", None, {**sizes, **caps, **idle}, dtype="bfloat16").answer()
        for idle in ({}, {"machine.power.idle": 52.5})
    ]
    assert (answers[0].time, answers[0].energy) == (answers[1].time, answers[1].energy)
    assert (answers[1].energy or 0.0) <= min(cap, 350.0) * answers[1].time * (1 + 1e-9)


def test_a_die_of_another_rating_keeps_its_share_of_the_price() -> None:
    die = machine("mi300x").using({"dies.count": 1, "power.cap": 800.0, "power.idle": 30.0})
    assert die.stated.price == die.price and die.stated.power.cap == 800.0
    usual = machine("mi300x").using({"power.cap": 900.0, "power.idle": 112.5})
    assert usual.stated.power.cap == 750.0  # its file states no idle power: 0.15 of the rated one


def test_a_table_over_idle_powers_and_caps_is_that_of_each_estimate() -> None:
    """A100: 400 W and 60 W idle."""
    sizes = {f"workload.{name}": 4096.0 for name in "mnk"}
    ranges = {"machine.power.idle": [40.0, 60.0, 100.0], "machine.power.cap": [200.0, 400.0, 500.0]}
    rows = whatif("gemm", "a100-sxm-80gb", ranges, settings=sizes, dtype="bfloat16").rows()
    for row in rows:
        there = {name: float(row[name]) for name in ranges}
        alone = question("gemm", "a100-sxm-80gb", None, {**sizes, **there}, dtype="bfloat16").answer()
        assert (row["time_s"], row["energy_J"]) == pytest.approx((alone.time, alone.energy), rel=1e-9), there
    with pytest.raises(InputError, match="power.cap = 200 W: want more than 250 W"):
        whatif("gemm", "a100-sxm-80gb", {"machine.power.idle": [60.0, 250.0]}, settings={"machine.power.cap": 200.0})


def test_a_measured_time_moves_by_the_ratio_of_the_answers_under_a_cap() -> None:
    """As a table and as one answer, which says what the machine was when it was measured."""
    cap = {"machine.power.cap": 150.0}
    plain = [question("resnet18-inference", "a100-sxm-80gb", None, some).answer().time for some in ({}, cap)]
    held = question("resnet18-inference", "a100-sxm-80gb", None, cap, calibration=MeasuredTime(0.03)).answer()
    caps = {"machine.power.cap": [150.0]}
    frame = whatif("resnet18-inference", "a100-sxm-80gb", caps, calibration=MeasuredTime(0.03)).frame
    assert held.time == pytest.approx(0.03 * plain[1] / plain[0], rel=1e-9)
    assert frame.time_s[0] == pytest.approx(held.time, rel=1e-9)
    assert any("which had 400 W power.cap" in text for text in held.assumptions)


@pytest.mark.parametrize("today", [350.0, 400.0])
def test_a_cap_that_raises_no_clock_gives_the_ratio_that_the_rated_one_gives(today: float) -> None:
    """It is the same board at the same clock: a ratio of exactly 1, without a band."""
    name, caps = "machine.power.cap", [250.0, 350.0, 400.0]
    frame = whatif("gemm", "h100-pcie", {name: caps}, settings={name: today}, dtype="bfloat16").frame
    assert frame.loc[1:, ["time_ratio", "low_ratio", "high_ratio"]].to_numpy().tolist() == [[1.0] * 3] * 2
    assert frame.low_ratio[0] == 1 < frame.high_ratio[0]


def test_times_of_a_held_clock_are_not_said_to_grow(capsys: pytest.CaptureFixture[str]) -> None:
    """Measured kernels ran at the clock that the cap left: by its flop a large product would draw more at that, too."""
    sizes = {f"workload.{name}": 8192.0 for name in "mnk"}
    held = question("gemm", "h100-pcie", None, sizes, dtype="bfloat16").answer().assumptions
    assert any(text.startswith(HELD) and "cap 350 W" in text for text in held)
    assert not any("time grow" in text for text in held)
    plain = question("gemm", "h100-pcie", "roofline", sizes, dtype="bfloat16").answer().assumptions
    assert any(text.startswith(EXCESS) and "time grow" in text for text in plain)
    words = ["whatif", "gemm", "--on", "h100-pcie", "--dtype", "bf16", "--m", "8192", "--n", "8192", "--k", "8192"]
    for estimator, begins in (("tiled-roofline", HELD), ("roofline", EXCESS)):
        assert run([*words, "--estimator", estimator, "--vary", "machine.power.cap=250W,350W"]) == 0
        assert capsys.readouterr().out.count(begins) == 1


def test_the_answer_says_that_the_cap_holds_the_clock() -> None:
    held = question("gpt2", H100, None, {"machine.power.cap": "300 W"}).answer()
    assert any(text.startswith("the power cap of 300 W holds the clock at about") for text in held.assumptions)
    assert not any(text.startswith("above the power cap") for text in held.assumptions)
    above = question("gpt2", H100, None, {"machine.power.cap": "900 W"}).answer()
    assert any("raises no clock" in text for text in above.assumptions)


def test_a_training_plan_under_a_lower_cap_is_slower_and_keeps_the_cap() -> None:
    import slipstick as ss

    plans = []
    for cap in (250.0, 400.0, 550.0, 700.0, 1000.0):
        on = ss.machine("h100-dgx").using({"power.cap": cap})
        plans.append(ss.plan_training("llama-3.1-8b", on, devices=8, batch=8, rows=1))
        row = plans[-1].rows()[0]
        assert row["power_W"] <= min(cap, 700.0) * row["devices"] * (1 + 1e-9)
        assert row["energy_J_per_token"] * row["tokens_per_s"] <= cap * row["devices"] * (1 + 1e-9)
        assert row["high_power_W"] <= min(cap, 700.0) * row["devices"] * (1 + 1e-9)  # a band holds no power above it
    seconds = [plan.rows()[0]["step_s"] for plan in plans]
    assert seconds == sorted(seconds, reverse=True) and seconds[0] > 1.2 * seconds[-1]
    assert seconds[-1] == seconds[-2] and "holds the clock" in plans[0].outside[0] and not plans[-2].outside
    assert "raises no clock" in plans[-1].outside[0]


def test_a_cap_that_idle_power_reaches_is_refused_by_every_answer() -> None:
    import slipstick as ss

    want = "power.cap = 100 W: want more than 105 W, which it draws idle"
    for name in ("gemm", "gpt2"):
        with pytest.raises(InputError, match=want):
            question(name, H100, None, {"machine.power.cap": 100.0}).answer()
    with pytest.raises(InputError, match=want):
        whatif("gpt2", H100, {"machine.power.cap": [100.0, 400.0, 700.0]})
    with pytest.raises(InputError, match=want):
        ss.plan_training("llama-3.1-8b", ss.machine("h100-dgx").using({"power.cap": 100.0}), devices=8, batch=8)


def test_a_step_that_the_cap_is_said_to_hold_draws_the_cap() -> None:
    """H100: 700 W. Dynamic power goes with f V^2, so that a raised clock draws more in the same time."""
    drawn = []
    for clock in ("1x", "1.1x", "1.3x", "1.6x"):
        answer = question("llama-3-8b-decode", "h100-sxm", None, {"machine.clock": clock}).answer()
        drawn.append((answer.energy or 0.0) / answer.time)
        said = any(text.startswith((EXCESS, HELD)) for text in answer.assumptions)
        assert said == (drawn[-1] == pytest.approx(700.0)), (clock, drawn)
    assert drawn == sorted(drawn) and drawn[0] < drawn[1] < drawn[-1] < 700.1


MEMORY, MATRIX = "machine.memory.HBM3.bandwidth", "machine.engines.matrix.flop_per_cycle.bfloat16"


@pytest.mark.parametrize(
    ("workload", "dtype", "path", "values", "run"),
    [
        ("llama-3-8b-decode", "bfloat16", MEMORY, "0.7x,1x,1.5x,2x", {}),
        ("jacobi-3d-7pt", None, MEMORY, "0.7x,1x,1.5x,2x", {}),
        pytest.param(
            "llama-3-8b-decode",
            "bfloat16",
            "machine.cores",
            "66,132,264,528",
            {"workload.batch": 128.0},
            marks=pytest.mark.slow,
        ),
        ("llama-3-8b-decode", "bfloat16", MATRIX, "1x,2x,4x", {"workload.batch": 128.0}),
    ],
)
def test_a_faster_board_saves_time_and_no_joules_of_a_byte_or_a_flop(
    workload: str, dtype: str | None, path: str, values: str, run: dict[str, float]
) -> None:
    """E = static power x t + joules of the same work: less time saves at least idle power, and the mean rises."""
    frame = whatif(workload, H100, [f"{path}={values}"], settings=run, dtype=dtype).frame
    frame = frame.sort_values("time_s", ascending=False)
    times, joules = frame.time_s.to_numpy(), frame.energy_J.to_numpy()
    watts, saved = joules / times, np.diff(joules) / np.diff(times)
    assert np.all(np.diff(times) < 0) and np.all(np.diff(watts) > 0)
    assert np.all(saved >= 105.0) and np.all(saved <= watts[:-1])
    alone = question(workload, H100, None, {path: frame[path].iloc[-1], **run}, dtype=dtype).answer()
    assert (alone.time, alone.energy) == pytest.approx((times[-1], joules[-1]), rel=1e-9)
