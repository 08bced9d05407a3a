"""A whole training run in days and dollars, by the plan of its steps."""

import json
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.experiments.methods.training_plan.whole_run import tokens_of
from tests.experiments.test_plan_training import CONFIG

DAY = 86_400.0


def test_a_strangers_run_in_days_and_dollars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A step's seconds times the number of steps; dollars are the devices' hours at the stated price, bands alike."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    asked = ["plan", "training", str(tmp_path / "config.json"), "--on", "h100-dgx", "--devices", "64"]
    asked += ["--batch", "256", "--seq-len", "4096", "--tokens", "1T", "--set", "machine.price=2.5", "--rows", "2"]
    assert run(asked) == 0
    assert "run of 1 T tokens, 954,000 steps: " in capsys.readouterr().out  # 1e12 / (256 x 4096)
    assert run([*asked, "--format", "json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        for end, step in (("", "step_s"), ("low_", "low_s"), ("high_", "high_s")):
            days = row[step] * 1e12 / (256 * 4096) / DAY
            assert row[f"{end}run_days"] == pytest.approx(days, rel=1e-12)
            assert row[f"{end}run_cost_usd"] == pytest.approx(days * 24 * row["devices"] * 2.5, rel=1e-12)
        dollars = row["cost_usd_per_million_tokens"] * 1e6
        assert row["run_cost_usd"] == pytest.approx(dollars, rel=1e-9)  # a million times a million tokens


def test_without_a_price_there_are_days_alone() -> None:
    plan = ss.plan_training("llama-3.1-8b", "h100-dgx", devices=16, batch=32, rows=1, tokens="15T")
    assert plan.rows()[0]["run_cost_usd"] is None
    assert plan.rows()[0]["run_days"] > 15e12 * plan.flop / (16 * plan.peak) / DAY  # no run is above the peak
    assert any("dollars not known (no price" in line for line in plan.heads)


@pytest.mark.parametrize("text", ["1Q", "0", "-3T", "1e30", "T", "nan", "1 000", "9" * 80])
def test_no_count_of_tokens(text: str) -> None:
    with pytest.raises(InputError, match="want a count of 1 to 1e18, such as 300B"):
        tokens_of(text)
