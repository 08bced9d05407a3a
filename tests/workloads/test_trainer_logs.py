"""Logs of trainers: what a line of Megatron-LM and the state of the Hugging Face Trainer say of a step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.experiments.replay.read_files import read_any
from slipstick.workloads.importers.iteration_logs import read_log
from slipstick.workloads.importers.mllog.trainer_logs import is_training_log, read_training_log
from tests.runs_made import MEGATRON_LOG, TRAINER_STATE


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, on one line."""
    return " ".join(capsys.readouterr().out.split())


def test_megatron_says_layout_and_steps(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(MEGATRON_LOG)
    log = read_training_log(path)
    assert (log.settings["devices"], log.settings["tensor"], log.settings["pipeline"]) == (64, 4, 2)
    assert (log.batch, log.sequence, dict(log.words)) == (512, 4096, {"precision": "bf16", "recompute": "selective"})
    assert [(each.count, each.seconds) for each in log.steps] == [(10, pytest.approx(9.0)), (10, pytest.approx(9.2))]
    assert "20 steps, median 9 s" in read_any(str(path)).line
    assert len(read_log(path).lengths) == 20


def test_steps_of_megatron_have_the_numbers_of_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines of iterations 20 and 30 are steps 11 to 20 and 21 to 30; a run that began again is counted from 0."""
    path = tmp_path / "run.log"
    path.write_text(MEGATRON_LOG)
    assert [step.step for step in read_training_log(path).profiles()] == [20, 30]
    assert read_log(path).first == 11
    assert run(["phases", str(path)]) == 0
    assert "lines of the log here: 2, each the mean of its steps, with the log's number of the last" in said(capsys)
    assert run(["seqpoint", str(path), "--format", "json", "--warm-up", "keep"]) == 0
    assert {one["iteration"] for one in json.loads(capsys.readouterr().out)[0]["selected"]} <= set(range(11, 31))
    again = MEGATRON_LOG.replace("iteration       30/", "iteration        5/")
    path.write_text(again)
    assert [step.step for step in read_training_log(path).profiles()] == [0, 1] and read_log(path).first == 0


def test_the_first_line_of_megatron_stands_alone_where_it_is_the_only_one(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(MEGATRON_LOG.split("\n [2024-05-01 12:05")[0])
    assert read_training_log(path).step_seconds == pytest.approx(31.0)


def test_evaluations_are_no_part_of_a_step(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps(TRAINER_STATE))
    log = read_training_log(path)
    assert log.step_seconds == pytest.approx((110.0 - 10.0) / 500)
    assert log.batch == 8
    results = tmp_path / "train_results.json"
    results.write_text(json.dumps({"train_runtime": 100.0, "train_steps_per_second": 5.0, "train_loss": 1.0}))
    assert read_training_log(results).step_seconds == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"log_history": TRAINER_STATE["log_history"][:2]}, "has ended"),
        ({"log_history": 3}, "want a list"),
        ({"log_history": [{"step": 5, "train_runtime": "a"}]}, "train_runtime = 'a'"),
        ({"log_history": [{"step": -5, "train_runtime": 3.0}]}, "steps = -5"),
        ({"log_history": [{"eval_loss": 1.0, "eval_runtime": 9.0}, {"step": 5, "train_runtime": 3.0}]}, "evaluations"),
    ],
)
def test_broken_states_are_refused(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({**TRAINER_STATE, **change}))
    with pytest.raises(InputError, match=words):
        read_training_log(path)


def test_lines_without_a_time_and_other_files(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(MEGATRON_LOG.replace("31000.0", "1e99"))
    with pytest.raises(InputError, match=r"run.log: line \d+: elapsed time per iteration = 1e\+99 ms lies outside"):
        read_training_log(path)
    path.write_text("no log\n")
    assert not is_training_log(path)
    with pytest.raises(InputError, match="no log of MLPerf training"):
        read_training_log(path)
