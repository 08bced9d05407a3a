"""The ten tasks of a stranger (examples/tasks.txt): one command each, of at most 100 characters."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from slipstick.experiments.cli.cli import run
from slipstick.experiments.cli.typed_numbers import rewritten
from slipstick.experiments.question.settings import today_and_varied

LINES = (Path(__file__).parents[2] / "examples" / "tasks.txt").read_text().splitlines()
TASKS = [tuple(part.strip() for part in line.split("=>")) for line in LINES if line.startswith("slipstick ")]


def test_there_are_ten_short_ones() -> None:
    assert len(TASKS) == 10 and all(len(command) <= 100 for command, _ in TASKS)


@pytest.mark.parametrize(("command", "said"), TASKS)
def test_task(command: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split(command)[1:]) == 0
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("args", [["--batch", "8", "gpt2"], ["gpt2", "--batch", "8"], ["gpt2", "--batch=8"]])
def test_sizes_stand_before_and_after_the_workload(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", *args, "--on", "t4", "--format", "json"]) == 0
    assert '"rate_unit": "tokens"' in capsys.readouterr().out


def test_a_misspelt_option_lists_both_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "gpt2", "--on", "t4", "--bach", "8"]) == 2
    said = capsys.readouterr().err
    assert "did you mean --batch?" in said and "--seq-len" in said
    assert run(["estimate", "gpt2", "--on", "t4", "--dtyp", "bf16"]) == 2
    assert "did you mean --dtype?" in capsys.readouterr().err


def test_own_options_win() -> None:
    assert rewritten(["--set", "a=1", "--rows", "3", "x"], ["--set", "--rows"]) == ["--set", "a=1", "--rows", "3", "x"]
    assert rewritten(["--", "--batch", "8"], []) == ["--", "--batch", "8"]


def test_a_size_may_be_set_and_vary() -> None:
    settings, vary = today_and_varied(["workload.batch=8", "machine.clock=1GHz"], ["workload.batch=1,2"])
    assert settings == ["run.batch=8", "machine.clock=1GHz"] and vary == ["run.batch=1,2"]
