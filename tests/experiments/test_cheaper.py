"""How sure a plan is that one machine costs less than another: laws of a probability, and what cancels."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from slipstick.common.records import FrozenDict
from slipstick.experiments.cli.cli import run
from slipstick.experiments.serve.plan_serving import Search, ServingChoice, chance_cheaper


@pytest.fixture(scope="module")
def candidates() -> tuple[ServingChoice, ...]:
    prices = FrozenDict({"h100-sxm": 2.99, "h200-sxm": 3.79, "l40s": 0.86})
    return Search("llama-3.1-8b", tuple(prices), devices=1, prices=prices).run().candidates


def _of(candidates: tuple[ServingChoice, ...], name: str) -> ServingChoice:
    return next(one for one in candidates if one.machine == name and one.users == 8)


def test_both_ways_sum_to_one_and_equal_prices_are_even(candidates: tuple[ServingChoice, ...]) -> None:
    one, other = _of(candidates, "h100-sxm"), _of(candidates, "h200-sxm")
    forth, back = chance_cheaper(one, other), chance_cheaper(other, one)
    assert forth is not None and back is not None and forth + back == pytest.approx(1)
    assert chance_cheaper(one, replace(other, dollars=one.dollars)) == pytest.approx(0.5)
    surer = chance_cheaper(one, replace(other, dollars=2 * (other.dollars or 0.0)))
    assert surer is not None and surer > forth
    assert chance_cheaper(one, replace(other, dollars=None)) is None


@pytest.mark.parametrize("name", ["h200-sxm", "l40s"])
def test_what_both_miss_alike_cancels(candidates: tuple[ServingChoice, ...], name: str) -> None:
    one, other = _of(candidates, "h100-sxm"), _of(candidates, name)
    assert one.served and other.served
    apart = one.served.half_width_over(other.served)
    assert 0 < apart < math.hypot(one.half_width, other.half_width)
    assert apart == pytest.approx(other.served.half_width_over(one.served))


def test_a_machine_of_an_unknown_generation_is_less_sure(candidates: tuple[ServingChoice, ...]) -> None:
    one, near, far = (_of(candidates, name).served for name in ("h100-sxm", "h200-sxm", "l40s"))
    assert one and near and far
    assert one.half_width_over(near) < one.half_width_over(far)


def test_the_plan_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "serving", "llama-3.1-8b", "--on", "h100-sxm,h200-sxm", "--devices", "1", "--limit", "tpot=30ms"]
    assert run([*words, "--price", "h100-sxm=2.99,h200-sxm=3.79"]) == 0
    assert "cheaper than 1 x h100-sxm" in capsys.readouterr().out  # by 8 %: either may be the pick of another fit


def test_a_plan_of_which_one_price_is_missing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Dollars of one machine alone cannot choose: the pick has most tokens/s, and each price its source."""
    assert run(["plan", "serving", "llama-3.1-8b", "--on", "a10g,l40s", "--devices", "1", "--dtype", "fp8"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "pick (most tokens/s a device; no price of l40s: --price)" in said
    assert "price of a10g: 1.006 $/h a device (Amazon EC2 on-demand" in said
    assert "months ago: prices change" in said


@pytest.mark.slow
def test_the_pick_is_simulated_as_the_plan_says(capsys: pytest.CaptureFixture[str]) -> None:
    """More requests together than `serve` allows unless told: with the named limit its median is the plan's."""
    words = ["qwen2.5-7b", "--on", "h100-sxm", "--format", "json"]
    assert run(["plan", "serving", *words[:-2], "--devices", "1"]) == 0
    said = capsys.readouterr().out
    assert "first token: the median" in said and "serve --max-num-seqs 512 simulates it" in said
    assert run(["plan", "serving", *words, "--devices", "1"]) == 0
    best = json.loads(capsys.readouterr().out)[0]["best"]
    assert best["users"] == 512
    assert run(["serve", *words, "--concurrency", "512", "--max-num-seqs", "512"]) == 0
    measures = json.loads(capsys.readouterr().out)[0]["measures"]
    first = next(m["value_s"] for m in measures if (m["measure"], m["statistic"]) == ("ttft", "p50"))
    assert first == pytest.approx(best["ttft_s"], rel=0.15)
    assert run(["plan", "serving", *words[:-2], "--devices", "1", "--limit", "tpot=15ms"]) == 0
    assert "--max-num-seqs" not in capsys.readouterr().out
