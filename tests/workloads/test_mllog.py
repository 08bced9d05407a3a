"""Logs of MLPerf training: steps, blocks and evaluations by their times, and every error with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.experiments.methods.iterations.step_logs import read_steps
from slipstick.workloads.importers.iteration_logs import read_log
from slipstick.workloads.importers.mllog.mllog_reader import is_mllog, read_mllog


def line(time_ms: float, key: str, value: object = None, rank: str = "", **metadata: object) -> str:
    event = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", "key": key, "value": value}
    return f"{rank}:::MLLOG {json.dumps({**event, 'metadata': metadata})}\n"


def blocks(benchmark: str = "llama31_405b") -> list[str]:
    """Two blocks of 40 steps of 10 s and 10.1 s, each before an evaluation of 20 s."""
    return [
        "0: Sun Nov 22 some text of the launcher\n",
        line(1000, "submission_benchmark", benchmark, rank="0: "),
        line(1000, "global_batch_size", 1152),
        line(1000, "max_sequence_length", 8192),
        line(2000, "init_start"),
        line(62000, "init_stop"),
        line(62000, "run_start"),
        line(62000, "block_start", samples_count=0),
        line(462000, "block_stop", samples_count=46080),
        line(462000, "eval_start"),
        line(482000, "eval_stop"),
        line(482000, "block_start", samples_count=46080),
        line(886000, "block_stop", samples_count=92160),
        line(886000, "eval_start"),
        line(906000, "eval_stop"),
        line(906000, "run_stop", status="success"),
    ]


def written(folder: Path, lines: list[str], name: str = "result_0.txt") -> Path:
    path = folder / name
    path.write_text("".join(lines))
    return path


def test_blocks_give_steps_and_evaluation_is_apart(tmp_path: Path) -> None:
    log = read_mllog(written(tmp_path, blocks()))
    assert (log.batch, log.sequence, log.benchmark, log.status) == (1152, 8192, "llama31_405b", "success")
    assert log.seconds == pytest.approx(844)
    assert [(each.count, each.seconds) for each in log.steps] == [(40, pytest.approx(10.0)), (40, pytest.approx(10.1))]
    assert log.step_seconds == pytest.approx(10.0)
    assert sum(span.seconds for span in log.spans if span.kind == "evaluation") == pytest.approx(40)
    assert log.steps_from == "blocks"


def test_losses_say_more_than_blocks_and_statistics_more_than_losses(tmp_path: Path) -> None:
    losses = [line(62000 + 50500 * i, "train_loss", 2.0, samples_count=5760 * i) for i in range(8)]
    log = read_mllog(written(tmp_path, blocks()[:8] + losses))
    assert log.steps_from == "losses" and {each.count for each in log.steps} == {5}
    assert log.step_seconds == pytest.approx(10.1) and log.seconds is None
    more = [line(70000 + 9000 * i, "tracked_stats", {"train_step_time": 9.5}) for i in range(3)]
    log = read_mllog(written(tmp_path, blocks()[:8] + losses + more))
    assert log.steps_from == "statistics of steps" and log.step_seconds == 9.5


def test_losses_around_an_evaluation_do_not_count_it(tmp_path: Path) -> None:
    lines = [
        *blocks()[:9],
        line(462000, "train_loss", 2.0, samples_count=46080),
        line(462000, "eval_start"),
        line(482000, "eval_stop"),
        line(582000, "train_loss", 2.0, samples_count=57600),
    ]
    assert read_mllog(written(tmp_path, lines)).step_seconds == pytest.approx(10.0)


def test_gpt3_counts_tokens_and_others_count_passes(tmp_path: Path) -> None:
    head = [line(0, "global_batch_size", 1536), line(0, "max_sequence_length", 2048)]
    block = [line(0, "block_start", epoch_num=0), line(90000, "block_stop", epoch_num=1536 * 2048 * 30)]
    log = read_mllog(written(tmp_path, [line(0, "submission_benchmark", "gpt3"), *head, *block]))
    assert log.step_seconds == pytest.approx(3.0)
    head = [line(0, "submission_benchmark", "resnet"), line(0, "global_batch_size", 1000)]
    block = [line(0, "epoch_start", epoch_num=0), line(50000, "epoch_stop", epoch_num=1)]
    log = read_mllog(written(tmp_path, [*head, line(0, "train_samples", 100000), *block]))
    assert (log.steps[0].count, log.step_seconds) == (100, pytest.approx(0.5))


def test_phases_and_seqpoint_read_it_by_its_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, blocks())
    assert is_mllog(path) and not is_mllog(written(tmp_path, ["no log\n"], "other.txt"))
    steps, notes = read_steps(path, "x")
    assert [step.label for step in steps] == ["initialisation", "training", "evaluation", "training", "evaluation"]
    assert any("40 s of evaluation" in note for note in notes)
    assert len(read_log(path).lengths) == 80
    assert run(["read", str(path)]) == 0
    assert "MLPerf training, log" in capsys.readouterr().out
    assert run(["phases", str(path)]) == 0
    assert run(["seqpoint", str(path), "--method", "median"]) == 0
    assert "evaluation" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([line(0, "a"), ":::MLLOG {broken\n"], "line 2: not JSON"),
        ([line(0, "a"), ":::MLLOG [1]\n"], "line 2: "),
        ([':::MLLOG {"time_ms": 1, "value": 2}\n'], "line 1: an event without a key"),
        ([':::MLLOG {"time_ms": "soon", "key": "a"}\n'], "line 1: time_ms = 'soon'"),
        ([line(0, "block_stop")], "line 1: block_stop without a block_start"),
        ([line(5000, "eval_start"), line(4000, "eval_stop")], "line 2: eval_stop 1 s before its eval_start"),
        ([line(0, "block_start"), line(0, "block_start")], "line 2: block_start again; the one of line 1"),
        ([line(0, "run_start"), line(1, "run_stop"), line(2, "run_start")], "line 3: a second run begins"),
        ([line(0, "run_stop")], "line 1: run_stop without a run_start"),
        (["text\n"], "no line holds :::MLLOG"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, lines: list[str], words: str) -> None:
    with pytest.raises(InputError) as error:
        read_mllog(written(tmp_path, lines))
    assert words in str(error.value)
