"""Measured steps at few device counts calibrate a plan: a run made of known factors is found again, and its band."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from slipstick.estimators.schedule.pipelines.training_known import KnownStep, calibrated, moved
from slipstick.estimators.schedule.pipelines.training_parts import TrainingTerms
from slipstick.estimators.schedule.pipelines.training_step import TrainingStep
from slipstick.experiments.commands.cli import run
from slipstick.experiments.subjects.training_plan.known_runs import read_known
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.errors import InputError
from slipstick.workloads.language.training_layout import TrainingLayout
from slipstick.workloads.language_catalog import language_model

START = TrainingTerms()
MODEL, AT = language_model("llama-3.1-8b"), machine("h100-dgx")


def layout(devices: int) -> TrainingLayout:
    return TrainingLayout(tensor=4, pipeline=2, data=devices // 8)


def made(devices: int, logs: tuple[float, float, float]) -> KnownStep:
    """A step of a stack whose compute, network and stragglers differ by these logarithms."""
    terms = moved(START, np.array(logs))
    seconds = TrainingStep(MODEL, AT, 8192, "bf16", devices, terms).step(layout(devices), 2 * devices).seconds
    return KnownStep(layout(devices), 2 * devices, 8192, "bf16", seconds)


def test_a_stack_of_known_factors_is_found_again() -> None:
    logs = (0.2, 0.3, -0.2)
    fit = calibrated(MODEL, AT, [made(n, logs) for n in (8, 16, 32, 64)], START)
    far = made(1024, logs)
    plain = TrainingStep(MODEL, AT, 8192, "bf16", 1024).step(far.layout, far.batch).seconds
    ours = fit.step(far.layout, far.batch, 8192, "bf16").seconds
    assert abs(ours / far.seconds - 1) < 0.03 < abs(plain / far.seconds - 1)
    assert fit.spread(far.layout, far.batch, 8192, "bf16") < 0.1


def test_a_step_that_was_measured_is_met_and_what_is_far_is_less_sure() -> None:
    fit = calibrated(MODEL, AT, [made(16, (0.4, 0.0, 0.0))], START)
    one = fit.known[0]
    assert fit.step(one.layout, one.batch, 8192, "bf16").seconds == pytest.approx(one.seconds, rel=1e-6)
    spreads = [fit.spread(layout(n), 2 * n, 8192, "bf16") for n in (16, 64, 512)]
    assert spreads == sorted(spreads) and spreads[0] < 0.03 < spreads[-1]
    other = TrainingLayout(tensor=8, data=2)
    assert fit.spread(other, 32, 8192, "bf16") > spreads[0]


def test_more_measured_sizes_never_widen_the_band() -> None:
    steps = [made(n, (0.1, 0.2, 0.0)) for n in (8, 16, 32, 64)]
    far = made(512, (0.1, 0.2, 0.0))
    widths = [
        calibrated(MODEL, AT, steps[4 - count :], START).spread(far.layout, far.batch, 8192, "bf16")
        for count in (1, 2, 4)
    ]
    assert widths == sorted(widths, reverse=True)


def test_a_plan_from_ones_own_csv_and_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The stranger's path: a CSV, one size of which lies in a log of MLPerf training."""
    events = [
        ("global_batch_size", 64, 0, {}), ("block_start", None, 0, {"samples_count": 0}),
        ("block_stop", None, 40_000, {"samples_count": 64 * 20}), ("submission_benchmark", "llama31_8b", 0, {}),
    ]  # fmt: skip
    lines = [
        ":::MLLOG " + json.dumps({"key": key, "value": value, "time_ms": time, "metadata": notes})
        for key, value, time, notes in (events[3], *events[:3])
    ]
    (tmp_path / "big.log").write_text("\n".join(lines) + "\n")
    (tmp_path / "run.csv").write_text(
        "gpus,step_s,log,tp,pp,batch,sequence_length\n8,2.4,,4,2,16,8192\n16,2.5,,4,2,32,8192\n32,,big.log,4,2,,8192\n"
    )
    known = read_known(tmp_path / "run.csv")
    assert [(s.layout.devices, s.batch, s.seconds) for s in known] == [(8, 16, 2.4), (16, 32, 2.5), (32, 64, 2.0)]
    words = ["plan", "training", "llama-3.1-8b", "--on", "h100-dgx", "--devices", "64", "--batch", "128"]
    assert run([*words, "--known", str(tmp_path / "run.csv"), "--rows", "2"]) == 0
    said = capsys.readouterr().out
    assert "calibrated on 3 measured steps at 8, 16, 32 devices: compute x" in said
    assert "as measured, with more data ranks: tp 4, pp 2, dp 8" in said
    assert run([*words, "--engine", "fsdp", "--rows", "1", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["layout"].startswith("tp 1, dp ") and "ZeRO 3" in row["layout"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("devices,step_s\n8,fast\n", "line 2: step_s = 'fast' is no number"),
        ("devices,step_s,tp\n12,1.0,8\n", "line 2: devices = 12: want a multiple of"),
        ("devices,step_s,tensr\n8,1.0,8\n", "unknown column"),
        ("devices,step_s\n", "has no rows"),
        ("devices\n8\n", "line 2: want step_s or log, one of them"),
        ("devices,step_s,recompute\n8,1.0,all\n", "recompute"),
        ("devices,step_s,gpus\n8,1.0,8\n", "two columns say the same"),
        ("devices,log\n8,../x.log\n", "want a file beside the CSV"),
        ("devices,step_s,ep\n8,1.0,3\n", "line 2: training layout: 3 expert ranks"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "run.csv").write_text(text)
    with pytest.raises(InputError) as error:
        read_known(tmp_path / "run.csv", 16, 4096)
    assert words in str(error.value)


def test_a_measured_step_is_a_time() -> None:
    with pytest.raises(InputError, match="measured step = inf s"):
        KnownStep(layout(8), 16, 8192, "bf16", math.inf)


def test_a_step_faster_than_the_peak_is_refused() -> None:
    known = KnownStep(layout(8), 32, 8192, "bf16", 1e-9)
    with pytest.raises(InputError, match="measured step = 1e-09 s on 8 x .*: want at least .* s, the model's flop"):
        calibrated(MODEL, AT, [known], START)
