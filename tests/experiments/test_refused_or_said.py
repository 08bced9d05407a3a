"""What was once taken in silence: words that an answer cannot read are refused, what it leaves unread is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.experiments.calibrate.calibrated import read_calibration
from slipstick.experiments.cli.cli import run

BENCH = """\
| model                  |     size | params | backend | ngl |  test |           t/s |
| ---------------------- | -------: | -----: | ------- | --: | ----: | ------------: |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA    |  99 | pp512 | 5000.00 ± 10.0 |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA    |  99 | tg128 |  120.00 ± 0.50 |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | Vulkan  |  99 | tg128 |   95.00 ± 0.50 |
"""
H100 = ("--on", "h100-dgx")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["estimate", "train:llama-3.1-8b", *H100, "--attention", "flash"], "answered by the law of whole measured"),
        (["explain", "decode:llama-3.1-8b", *H100, "--attention", "parts"], "is one kernel; want flash"),
        (["estimate", "gemm", *H100, "--report", ""], "--report: its value is empty"),
        (["estimate", "gemm", *H100, "--set="], "--set: its value is empty"),
        (["estimate", "gemm", *H100, "--report", "page.pdf"], "a report is a page; want FILE.html"),
        (["estimate", "gemm", *H100, "--set", "machine.name=mine"], "is no quantity"),
        (["estimate", "gpt2", *H100, "--trainer", "fsdp"], "a trainer is of train:MODEL"),
        (
            ["serve", "llama-3.1-8b", *H100, "--engine", "llama.cpp", "--set", "machine.runtime.library=vllm"],
            "llama.cpp answers here; give one of --engine and --set",
        ),
    ],
)
def test_a_word_that_cannot_be_read_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(words) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_attention_is_asked_alike_on_the_command_line_and_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "gpt2-inference", "--on", "h100-sxm", "--attention", "flash", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    flash = ss.estimate("gpt2-inference", "h100-sxm", attention="flash")
    assert isinstance(flash, ss.Estimate)
    assert row["time_s"] == flash.time != ss.estimate("gpt2-inference", "h100-sxm").time


def test_llama_cpp_says_what_of_the_machine_it_does_not_read() -> None:
    answer = ss.serve(
        "llama-3.1-8b", "rtx-4090", engine="llama.cpp", settings=["machine.runtime.streams=4", "machine.clock=1 GHz"]
    )
    assert [one["name"] for one in answer.depends["not_used"]] == ["machine.runtime.streams"]
    assert "machine.clock" in {one["name"] for one in answer.depends["conditions"]}


def test_a_table_of_llama_bench_means_llama_cpp_and_its_other_tests_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bench.md"
    path.write_text(BENCH)
    assert run(["serve", "llama-3.1-8b", "--on", "rtx-4090", "--measured", str(path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "on cuda at 120 tokens/s" in text
    assert "not read: 1 further test (llama 8B Q4_K - Medium q4_k_m Vulkan)" in text


@pytest.mark.parametrize("seconds", [8.32])
@pytest.mark.parametrize(
    ("trainer", "machine"), [("fsdp", "h100-dgx"), ("megatron", "h100-dgx"), ("fsdp", "mi300x"), ("megatron", "gaudi3")]
)
def test_a_measured_step_is_one_of_the_trainer_that_is_named(trainer: str, machine: str, seconds: float) -> None:
    """The step was once taken for one that shares no weights, and made a maker known of whom nothing was measured."""
    known = read_calibration(None, f"{seconds} s", machine)
    settings = {"run.data_parallel": 8, "machine.runtime.library": trainer}
    answer = ss.question("train:llama-2-7b", machine, settings=settings, calibration=known).answer()
    low, high = answer.interval() or (0.0, 0.0)
    assert low < seconds < high and answer.time == pytest.approx(seconds, rel=0.05)


def test_steps_of_many_lengths_stand_for_their_lengths(tmp_path: Path) -> None:
    """No median of short sequences is the time of a long one: the question's length is answered beyond them."""
    rows = [(step, 20 + 7 * step % 101) for step in range(202)]
    text = "".join(f"{step},{length},{0.02 + 0.0007 * length}\n" for step, length in rows)
    (tmp_path / "log.csv").write_text(f"iteration,seq_len,time_s\n{text}")
    known = read_calibration(None, str(tmp_path / "log.csv"), "a100-sxm-80gb")

    def at(length: int) -> ss.Estimate:
        return ss.question("gpt2", "a100-sxm-80gb", settings={"workload.seq_len": length}, calibration=known).answer()

    for length in (30, 64, 110):
        assert at(length).time == pytest.approx(0.02 + 0.0007 * length, rel=0.08)
    assert at(1024).provenance == "calibrated"
    assert at(1024).time > 4 * at(110).time


def test_a_target_asks_for_no_part_of_an_item(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "gpt2", "--on", "h100-sxm", "--target", "0.5", "--format", "json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    needed = {row["quantity"]: row["needed"] for row in document["changes"]}
    counts = [needed[name] for name in ("run.batch", "run.seq_len", "machine.cores") if needed.get(name)]
    assert counts
    assert all(value >= 1 and value == int(value) for value in counts)


def test_what_does_not_fit_is_not_told_how_sure_its_time_is(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["train:llama-2-70b", *H100, "--trainer", "fsdp"], ["gpt2", "--on", "v100-sxm", "--batch", "64"]):
        assert run(["estimate", *words]) == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert "but it does not fit in memory" in first
        assert "sure" not in first
