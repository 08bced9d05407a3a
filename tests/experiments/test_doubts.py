"""Warnings are those with which answers were measured to be worse; every answer for machines carries them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.dtype_domain import remarks
from slipstick.experiments.question.question import question
from slipstick.experiments.question.warnings import LEAST, MOST, SEPARATION, kind_of, warning_lines, warnings_among
from slipstick.experiments.report.output import line_width

FAR = "shapes beyond the measured, wider band: norm.float32 groups 2,048 (4,096..4,194,304)"
ROWS = "16-bit products with rows of 50,257, no multiple of 8 (12% of the time): wider band"
SERVED = ("serve", "llama-3.1-8b")
VECTOR = "float32 products run on the vector engine: --dtype bfloat16 has 128 x the peak on the matrix engine"


def test_what_does_not_separate_is_no_warning() -> None:
    assert warnings_among([ROWS, VECTOR]) == ()
    assert warnings_among([ROWS, FAR, VECTOR]) == (FAR,)
    assert len(warnings_among([FAR] * 5)) == MOST
    assert warning_lines([ROWS, VECTOR, FAR], verbose=False) == [f"beware: {FAR}", f"hint: {VECTOR}"]
    assert f"note: {ROWS}" in warning_lines([ROWS, FAR], verbose=True)


def test_shapes_are_said_to_widen_the_band_where_they_do() -> None:
    """A vocabulary of 30,522 numbers lies an octave beyond the softmaxes that were timed: the band grows by .1 %."""
    sizes = ("workload.batch=64", "workload.seq_len=384")
    near = remarks(question("bert-base", "a100-sxm-80gb", None, sizes, "float16"))
    assert any(text.startswith("shapes beyond the measured: softmax") for text in near)
    assert warnings_among(near) == ()
    far = question("gemm", "h100-sxm", None, ("workload.m=16", "workload.n=2097152", "workload.k=64"))
    assert warnings_among(remarks(far))[0].startswith("shapes beyond the measured, wider band: gemm.float32 n")


def test_every_remark_of_the_defaults_is_of_a_known_kind() -> None:
    for machine, dtype in (
        ("h100-sxm", None),
        ("a100-sxm-80gb", "bfloat16"),
        ("ec2-c5-xlarge", None),
        ("gaudi2", None),
    ):
        for text in remarks(question("bert-base-inference", machine, None, (), dtype)):
            assert kind_of(text), text


@pytest.mark.slow
def test_the_measured_separations_are_those_of_the_board() -> None:
    from slipstick.experiments.scoreboards.defaults.remarks_board import BOARD

    rows = {row.case: row for row in BOARD.rows()}
    if "any warning" not in rows:
        pytest.skip("the public measurements are not here")
    for kind, ratio in SEPARATION.items():
        if ratio is not None and kind in rows:
            assert (rows[kind].ours >= LEAST) is (ratio >= LEAST), kind


@pytest.mark.parametrize(
    "words",
    [
        ("estimate", "gemm", "--on", "H100"),
        ("whatif", "gemm", "--on", "H100", "--vary", "workload.m=256,512"),
        ("explain", "gemm", "--on", "H100"),
        (
            *SERVED,
            "--on",
            "H100",
            "--input-tokens",
            "64",
            "--output-tokens",
            "8",
            "--concurrency",
            "1",
            "--num-requests",
            "4",
        ),
        (*SERVED, "--on", "rtx-4090", "--engine", "llama.cpp", "--dtype", "q4_0"),
        ("plan", "training", "qwen3-0.6b", "--on", "H100", "--devices", "1", "--batch", "8", "--seq-len", "128"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_json_carries_remarks(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--format", "json"]) == 0, capsys.readouterr().err
    rows = json.loads(capsys.readouterr().out)
    assert rows and all(isinstance(row["remarks"], list) for row in rows)


def test_flat_times_are_said_to_be_read_as_weak_scaling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "flat.csv"
    path.write_text("threads,time_s\n1,10.1\n2,10.0\n4,10.2\n8,10.1\n16,10.0\n")
    assert run(["extrapolate", str(path), "--to", "64"]) == 0
    assert "beware: times do not change with threads" in capsys.readouterr().out
    assert run(["extrapolate", str(path), "--to", "64", "--kind", "weak"]) == 0
    assert "beware" not in capsys.readouterr().out


@pytest.mark.parametrize(("stated", "width"), [("80", 80), ("132", 132), ("", 200), ("wide", 200), ("3", 200)])
def test_columns_are_honoured_where_they_are_set(stated: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", stated)
    assert line_width() == width
    monkeypatch.delenv("COLUMNS")
    assert line_width() == 200


def test_lines_of_several_verbs_keep_the_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in (
        ["estimate", "resnet18-inference", "--on", "H100,A100"],
        ["whatif", "gemm", "--on", "H100", "--vary", "workload.m=256,512"],
        ["explain", "gemm", "--on", "H100"],
        ["machines", "show", "H100"],
    ):
        assert run(words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80, words
