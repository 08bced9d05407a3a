"""Runs under a power limit: laws, limits of the formula, and published behaviour."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.power.power_limit import PowerLimit
from slipstick.experiments.cli.cli import run
from slipstick.experiments.methods.power.power_plan import power_plan

WATTS = st.floats(40.0, 300.0)


@given(WATTS, st.floats(90.0, 300.0), st.floats(90.0, 300.0))
def test_a_lower_limit_is_never_faster_and_never_draws_more(power: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    time, drawn = PowerLimit().ratios(power, [low, high], 300.0)
    assert time[0] >= time[1] * (1 - 1e-12) >= 1 - 1e-9
    assert drawn[0] <= drawn[1] * (1 + 1e-12) and drawn[1] <= 1 + 1e-9
    assert drawn[0] * power <= max(low, power) * (1 + 1e-9)


def test_what_never_reaches_the_limit_is_left_alone() -> None:
    time, drawn = PowerLimit().ratios(40.0, 200.0, 250.0)
    assert time == pytest.approx(1.0) and drawn == pytest.approx(1.0)


def test_all_of_the_time_busy_and_on_the_clock_is_the_closed_form() -> None:
    model = PowerLimit(idle=0.1, knee=0.05, clock_share=1.0, duty_slope=0.0, duty_start=8.0)
    time, drawn = model.ratios(250.0, 125.0, 250.0)
    assert time == pytest.approx(((1.0 - 0.1) / (0.5 - 0.1)) ** (1 / 3), rel=1e-3)  # clock = cube root of dynamic power
    assert drawn == pytest.approx(0.5, rel=1e-3)


def test_the_plan_keeps_the_loss_and_saves() -> None:
    found = power_plan(240.0, 230.0, 250.0, loss=0.05)
    chosen = next(row for row in found.rows() if row["chosen"])
    assert chosen["time_ratio"] <= 1.05 and chosen["energy_ratio"] < 1
    # a limit makes no run faster
    assert all(1 <= row["low_ratio"] <= row["time_ratio"] < row["high_ratio"] for row in found.rows())
    assert chosen["energy_J"] == pytest.approx(chosen["time_s"] * chosen["power_W"])
    assert power_plan(240.0, 60.0, 250.0, loss=0.0).best >= 200.0  # nothing to gain: the limit is not reached


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"power": -1.0}, "power = -1"),
        ({"rated": 0.0}, "rated power = 0"),
        ({"loss": float("nan")}, "loss = nan"),
        ({"limits": [400.0]}, "limit 400 W: want above 0 and at most the rated power, 250 W"),
        ({"power": 400.0}, "mean power = 400 W: above the board's rated power, 250 W"),
    ],
)
def test_wrong_numbers_are_refused(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        power_plan(**{"time": 100.0, "power": 200.0, "rated": 250.0, **arguments})  # type: ignore[arg-type]


def test_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["plan", "power-limit", "--time", "4 min", "--power", "230W", "--rated", "0.25 kW"]
    assert run([*command, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0]["limit_W"] == 250.0 and sum(row["chosen"] for row in rows) == 1
    assert np.isclose(rows[0]["time_s"], 240.0, rtol=0.05)
    assert run(["plan", "power-limit", "--time", "4 apples", "--power", "230W", "--rated", "250W"]) == 2
    assert "--time" in capsys.readouterr().err


@pytest.mark.parametrize("share", [0.8, 0.5, 0.45, 0.4])
def test_no_band_under_a_cap_passes_the_peak_at_the_clock_that_it_leaves(share: float) -> None:
    """Below half of its power an H100's kernels are held back one by one: that bound holds there as well."""
    sizes = {f"workload.{axis}": 8192 for axis in "mnk"}
    board = ss.machine("h100-sxm")
    capped = {**sizes, "machine.power.cap": (board.power.cap or 0.0) * share}
    answer = ss.estimate("gemm", "h100-sxm", settings=capped, dtype="bf16")
    (held,) = (text for text in answer.assumptions if "holds the clock at about" in text)
    clock = float(held.partition("about ")[2].partition(" GHz")[0]) * 1e9
    interval = answer.interval()
    assert interval is not None
    assert interval[0] >= 0.998 * 2 * 8192**3 / board.using({"clock": clock}).peak("matrix", "bfloat16")
