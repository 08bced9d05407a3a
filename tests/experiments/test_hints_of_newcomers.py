"""What newcomers typed, and what they are told."""

from __future__ import annotations

import json

import pytest

import slipstick as ss
from slipstick.experiments.commands.cli import run

DRAFTS = ("whatif", "llama-3.1-8b", "--on", "h100-sxm", "--vary", "run.draft_tokens=0,1,3")


@pytest.mark.parametrize("known", ["23.4", "3", "1e-3"])
def test_a_time_without_its_unit_is_asked_for_one(known: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "resnet50", "--on", "a100-sxm-80gb", "--known", known]) == 2
    assert f"a time without its unit: {known}ms or {known}s?" in capsys.readouterr().err


def test_a_machine_that_is_no_text_is_refused_by_a_sentence() -> None:
    for given in (None, 3, ["h100-sxm"]):
        with pytest.raises(ss.InputError, match=r"machine: .*: want a name such as 'h100-sxm'"):
            ss.machine(given)  # type: ignore[arg-type]


def test_guessing_no_token_is_a_point_of_a_sweep_over_guessed_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    """A step makes (1 - a^(k+1)) / (1 - a) tokens (Leviathan et al., 2023), less what drafting and checking cost."""
    assert run([*DRAFTS, "--set", "run.acceptance=0.7", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["run.draft_tokens"] for row in rows] == [0, 1, 3]
    ratios = [row["output_ratio"] for row in rows]
    assert ratios[0] == pytest.approx(1) and 1 < ratios[1] < 1.7 and ratios[1] < ratios[2] < 1 + 0.7 + 0.49 + 0.343
    assert run([*DRAFTS]) == 0
    assert "run.acceptance=0.7" in capsys.readouterr().out
