"""A power cap and a clock of a server: laws of the board's rated power, and of whole answers."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.power.serving_power import MOST, ServingPower, ServingWork
from slipstick.experiments.cli.cli import run
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.hwmodels.catalog import machine

SHARE = st.floats(0.0, 1.0)
CLOCK = st.floats(0.2e9, 4e9)
H100 = machine("h100-sxm")
PROMPTS = "--input-tokens 4096 --output-tokens 16 --concurrency 64 --num-requests 96"
DECODES = "--input-tokens 128 --output-tokens 256 --concurrency 16 --num-requests 48"
SHARED = 0.005
"""Slower steps gather more prompts each, so that a run may make this much more at a lower clock; no step is faster."""


@given(SHARE, SHARE, st.floats(200.0, 1500.0), st.floats(200.0, 1500.0))
def test_a_lower_cap_never_leaves_a_higher_clock_or_more_power(read: float, flop: float, a: float, b: float) -> None:
    law, work = ServingPower.of(H100), ServingWork(read, flop)
    watts, clocks = [], []
    for cap in sorted((a, b)):
        capped = H100.using({"power.cap": cap})
        clocks.append(law.held_clock(capped, work))
        watts.append(law.watts(capped.using({"clock": clocks[-1]}), work))
        assert watts[-1] <= min(cap, MOST * 700) * (1 + 1e-9) or cap >= 700
        assert clocks[-1] <= H100.clock
    assert clocks[0] <= clocks[1] and watts[0] <= watts[1] * (1 + 1e-9)
    assert watts[1] <= law.watts(H100, work) * (1 + 1e-9)


@given(SHARE, SHARE, CLOCK, CLOCK)
def test_a_lower_clock_never_draws_more_at_the_same_work(read: float, flop: float, a: float, b: float) -> None:
    low, high = sorted((a, b))
    work = ServingWork(read, flop)
    less, more = (ServingPower.of(H100).watts(H100.using({"clock": clock}), work) for clock in (low, high))
    assert 105 - 1e-9 <= less <= more * (1 + 1e-9) <= MOST * 700 * (1 + 2e-9)


def test_a_cap_that_idle_power_reaches_is_refused() -> None:
    with pytest.raises(InputError, match=r"power.cap = 100 W: want more than 105 W"):
        ServingPower.of(H100).held_clock(H100.using({"power.cap": "100 W"}), ServingWork(0.0, 0.5))


def test_a_changed_machine_still_knows_what_its_file_states() -> None:
    assert H100.stated is H100
    twice = H100.using({"power.cap": 300.0}).using(clock="1 GHz")
    assert twice.stated == H100 and twice.power.cap == 300


@given(CLOCK, CLOCK, st.integers(0, 256), st.integers(1, 8192), st.integers(0, 8192))
def test_no_step_is_faster_at_a_lower_clock(a: float, b: float, decodes: int, context: int, prompt: int) -> None:
    """A step of decodes and of a prompt's tokens, each or together, one at least."""
    whole = float(prompt)
    work = Batch(float(max(decodes, prompt == 0)), float(context), whole, chunk=whole, finished=float(prompt > 0))
    low, high = (
        ServingOptions("llama-3.1-8b", "h100-sxm", changes={"clock": f"{clock} Hz"}).deployment().step.seconds(work)
        for clock in sorted((a, b))
    )
    assert low >= high * (1 - 1e-9)


def answers(name: str, values: list[str], traffic: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, float]]:
    rows = []
    for value in values:
        words = f"serve llama-3.1-8b --on h100-sxm {traffic} --format json"
        changed = ["--set", f"machine.{name}={value}"] if value else []
        assert run([*words.split(), *changed]) == 0
        rows += json.loads(capsys.readouterr().out)
    return rows


@pytest.mark.parametrize("traffic", [pytest.param(PROMPTS, marks=pytest.mark.slow), DECODES])
def test_a_server_under_a_cap_is_slower_and_draws_no_more_than_it(
    traffic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    caps = ["200W", "350W", "500W", "700W", "1000W"]
    rows = answers("power.cap", [*caps, ""], traffic, capsys)
    for less, more in pairwise(rows):
        assert less["output_tokens_per_s"] <= more["output_tokens_per_s"] * (1 + SHARED)
        assert less["power_W"] <= more["power_W"] * (1 + 1e-9)
    for cap, row in zip(caps, rows, strict=False):
        assert row["power_W"] <= min(float(cap.removesuffix("W")), 700) * (1 + 1e-9)
    (line,) = (text for text in rows[-2]["assumptions"] if text.startswith("a cap above the board's rated 700 W"))
    assert "raises no clock" in line
    rated, above, stated = ({**row, "remarks": [], "conditions": []} for row in rows[-3:])
    assert rated == stated
    words = [text for text in rows[-2]["assumptions"] if not line.startswith(text)]
    assert {**above, "assumptions": words} == stated  # all but what says that the cap is above the rated one


def test_half_the_power_costs_a_server_that_reads_prompts_a_fifth_to_two_fifths(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The clock falls to between a half (V held) and 0.5^(1/3) = 0.79 (V as f), further by static power."""
    half, full = answers("power.cap", ["350W", ""], PROMPTS, capsys)
    assert 0.5 < half["output_tokens_per_s"] / full["output_tokens_per_s"] < 0.79


@pytest.mark.parametrize("traffic", [PROMPTS, pytest.param(DECODES, marks=pytest.mark.slow)])
def test_a_server_at_a_lower_clock_is_slower_and_draws_less(traffic: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = answers("clock", ["500MHz", "1GHz", "1.5GHz", "1.98GHz", "2.5GHz"], traffic, capsys)
    for less, more in pairwise(rows):
        assert less["output_tokens_per_s"] <= more["output_tokens_per_s"] * (1 + SHARED)
        assert less["power_W"] <= more["power_W"] * (1 + 1e-9)


def test_the_text_says_that_the_cap_holds_the_clock(capsys: pytest.CaptureFixture[str]) -> None:
    words = f"serve llama-3.1-8b --on h100-sxm {PROMPTS} --set machine.power.cap=350W"
    assert run(words.split()) == 0
    assert "beware: the power cap of 350 W holds the clock at 1." in capsys.readouterr().out
    assert run(words.replace("350W", "90W").split()) == 2


def test_prompts_read_faster_than_large_products_are_marked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slipstick.experiments.serve.serving_text.LARGE_PRODUCT", 0.3)
    words = "serve llama-3.1-8b --on h100-sxm"
    for traffic, marked in ((PROMPTS, True), (DECODES, False)):
        assert run([*words.split(), *traffic.split()]) == 0
        assert ("beware: prompts are read at" in capsys.readouterr().out) == marked
