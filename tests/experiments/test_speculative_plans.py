"""Speculation varies from none on, by every verb that serves."""

from __future__ import annotations

import json

import pytest

import slipstick as ss
from slipstick.experiments.cli.cli import run

SERVER = ["llama-3.1-8b", "--on", "h100-sxm"]


def test_whatif_varies_guessed_tokens_from_none(capsys: pytest.CaptureFixture[str]) -> None:
    vary = ["--concurrency", "2", "--set", "run.acceptance=0.7", "--vary", "run.draft_tokens=0,1,3", "--format", "json"]
    assert run(["whatif", *SERVER, *vary]) == 0
    rows = json.loads(capsys.readouterr().out)
    ratios = [row["output_ratio"] for row in rows]
    assert ratios[0] == pytest.approx(1) and 1 < ratios[1] < 1.7 < 2.533  # at most the tokens that a step makes


def test_a_chance_must_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", *SERVER, "--concurrency", "2", "--draft-tokens", "3"]) == 2
    assert "run.acceptance=0.7" in capsys.readouterr().err


def test_a_plan_speculates(capsys: pytest.CaptureFixture[str]) -> None:
    tpot = []
    for guesses in ([], ["--draft-tokens", "3", "--acceptance", "0.7"]):
        assert run(["plan", "serving", *SERVER, "--devices", "1", "--format", "json", *guesses]) == 0
        (plan,) = json.loads(capsys.readouterr().out)
        tpot.append(min(row["tpot_s"] for row in plan["front"]))
    assert run(["plan", "serving", *SERVER, "--devices", "1", *guesses]) == 0
    assert "3 tokens guessed ahead, 70 % of them kept" in " ".join(capsys.readouterr().out.split())
    assert (one := ss.plan_serving("llama-3.1-8b", "h100-sxm", devices=1, draft_tokens=3, acceptance=0.7)).notes
    assert min(c.tpot for c in one.front) == pytest.approx(tpot[1])
    kept = 1 + 0.7 + 0.7**2 + 0.7**3  # Leviathan et al., ICML 2023, equation 1
    assert tpot[0] / kept < tpot[1] < tpot[0]
