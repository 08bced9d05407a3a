"""Numbers that are well formed and cannot be: each made an answer of inf or NaN, an exception, or an endless run."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.estimate import estimate
from slipstick.workloads.importers.iteration_logs import read_log
from tests.attack.test_budgets import SOON, cpu_seconds


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a command refuses its input with."""
    assert run(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "defect" not in error
    return error


def test_recorded_requests_are_refused_by_their_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    """20,000 requests of 1 to 100,000 tokens took 44 s, each number being within its bounds."""
    draw = random.Random(0)
    lines = [
        {"input_tokens": draw.randint(1, 5000), "output_tokens": draw.randint(1, 100_000), "arrival_s": i * 0.01}
        for i in range(20_000)
    ]
    read, made = (sum(int(line[name]) for line in lines) for name in ("input_tokens", "output_tokens"))
    Path("r.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = ["serve", "llama-3.1-8b", "--on", "h100-sxm", "--requests", "r.jsonl"]
    assert cpu_seconds(lambda: run(words)) < SOON
    error = capsys.readouterr().err
    assert f"20,000 requests of {read:,} input + {made:,} output tokens = {read + made:,} tokens" in error
    assert "at most 500,000,000" in error and error.count("\n") == 1


def test_prompts_that_are_read_a_few_tokens_a_step_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("slipstick.estimators.serving.batching.request_record.MOST_STRETCHES", 1000)
    line = {"input_tokens": 100_000, "output_tokens": 1, "arrival_s": 0}
    Path("r.jsonl").write_text("\n".join([json.dumps(line)] * 10))
    words = ["serve", "llama-3.1-8b", "--on", "h100-sxm", "--requests", "r.jsonl", "--max-batched-tokens", "300"]
    assert "10 requests: more than 1,000 steps that differ, after" in refused(words, capsys)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"seq_len": 1, "time_s": 1e308}, {"seq_len": 2, "time_s": 1e308}], "iteration 0: time = 1e+308 s"),
        ([{"seq_len": 1, "time_s": 1}, {"seq_len": 1.5e308, "time_s": 1}], "iteration 1: seq_len = 1.5e+308: want 0"),
        ([{"seq_len": 1, "time_s": 1}, {"seq_len": 2, "time_s": 5e-324}], "iteration 1: time = 4.94066e-324 s: want"),
        ([{"time_s": 1}, {"time_s": 1e10}], "iteration 1: time = 1e+10 s: want 1e-09 to 1e+09 s"),
    ],
)
@pytest.mark.parametrize("form", ["json", "csv"])
def test_iterations_beyond_what_runs_take(
    form: str, rows: list[dict[str, float]], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if form == "json":
        Path("log.json").write_text(json.dumps({"iterations": rows}))
    else:
        cells = [",".join(str(value) for value in row.values()) for row in rows]
        Path("log.csv").write_text("\n".join([",".join(rows[0]), *cells]) + "\n")
    assert message in refused(["seqpoint", f"log.{form}"], capsys)


def test_milliseconds_of_json_are_milliseconds() -> None:
    Path("log.json").write_text('[{"seq_len": 1, "time_ms": 2}]')
    assert read_log("log.json").times.tolist() == [0.002]  # type: ignore[union-attr]


@pytest.mark.parametrize("cell", ["..... ± 1", "1.2.3 ± 1", "10 ± ...", "1" * 400, "nan ± 1", "² ± 1"])
def test_a_rate_of_llama_bench_that_is_no_number(cell: str, capsys: pytest.CaptureFixture[str]) -> None:
    head = "| model | size | params | backend | threads | test | t/s |\n| - | - | - | - | - | - | - |\n"
    Path("l.md").write_text(f"{head}| llama 7B Q4_K - Medium | 3.80 GiB | 6.74 B | CPU | 8 | pp512 | {cell} |\n")
    error = refused(["extrapolate", "l.md", "--to", "64"], capsys)
    assert f"l.md: line 3: t/s = {cell[:40]!r}: want tokens/s" in error


@pytest.mark.parametrize(
    ("time", "to", "message"),
    [
        ("1e308", "64", "line 2: time_s = 1e+308 s lies outside [1e-12, 1e+12]"),
        ("5e-324", "64", "line 2: time_s = 4.94066e-324 s lies outside [1e-12, 1e+12]"),
        ("1", "1e300", "target (--to) 1e+300: want at most 1e+15"),
    ],
)
def test_series_and_targets_beyond_what_is_measured(
    time: str, to: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.csv").write_text("p,time_s\n" + "".join(f"{p},{time}\n" for p in (1, 2, 4, 8, 16)))
    assert message in refused(["extrapolate", "s.csv", "--to", to], capsys)


def test_trust_is_a_list_of_names() -> None:
    with pytest.raises(InputError, match=r"estimate: allow_code = True: want several"):
        estimate("evil.py:f", "h100-sxm", allow_code=True)  # type: ignore[arg-type]
