"""``--measured`` on every verb: a user's time, log, trace or benchmark corrects the answer, and the answer says so."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.user_measured.measured_time import MeasuredTime
from slipstick.experiments.calibrate.calibrated import read_calibration
from slipstick.experiments.cli.cli import run
from tests.runs_made import LLAMA_TABLE, MEGATRON_LOG, SERVED, TRAINER_STATE

TRACE = {
    "traceEvents": [
        {"ph": "X", "name": f"ProfilerStep#{at}", "ts": 1000 * at * 200, "dur": 200_000, "pid": 1, "tid": 1}
        for at in range(3)
    ]
}
FILES = {
    "trainer_state.json": json.dumps(TRAINER_STATE),
    "steps.csv": "step,time_s\n" + "".join(f"{at},{0.2 + 0.001 * (at % 3 - 1)}\n" for at in range(30)),
    "trace.json": json.dumps(TRACE),
}


def _answer(known: str, **more: float) -> Estimate:
    calibration = read_calibration(None, known, "h100-sxm")
    return ss.question(
        "gpt2", "h100-sxm", settings={f"run.{k}": v for k, v in more.items()}, calibration=calibration
    ).answer()


@pytest.mark.parametrize("name", ["200ms", *FILES])
def test_a_measured_step_of_this_question_is_its_answer(tmp_path: Path, name: str) -> None:
    if name in FILES:
        (tmp_path / name).write_text(FILES[name])
    plain = ss.question("gpt2", "h100-sxm").answer()
    held = _answer(str(tmp_path / name) if name in FILES else name)
    assert held.time == pytest.approx(0.2)
    low, high = held.interval() or (0.0, 0.0)
    before = plain.interval() or (0.0, 0.0)
    assert low < held.time < high < 1.1 * low * math.exp(0.1)
    assert high / low < before[1] / before[0]
    assert any("held to what was measured" in line for line in held.assumptions)
    assert sum(part.contribution for part in held.parts) / held.time == pytest.approx(
        sum(part.contribution for part in plain.parts) / plain.time
    )


def test_other_points_keep_their_ratio_and_are_no_wider_than_without() -> None:
    calibration = MeasuredTime(0.2)
    vary = {"run.batch": [4, 8, 16], "machine.memory.HBM3.bandwidth": [3.352e12, 4e12]}
    plain = ss.whatif("gpt2", "h100-sxm", vary).frame
    held = ss.whatif("gpt2", "h100-sxm", vary, calibration=calibration).frame
    assert held.time_ratio.to_numpy() == pytest.approx(plain.time_ratio.to_numpy())
    width, before = (frame.high_s / frame.time_s for frame in (held, plain))
    repeat = math.exp(1.2816 * 0.04)
    assert (width <= before * repeat + 1e-9).all()
    assert width[(held["run.batch"] == 8)].min() == pytest.approx(repeat, rel=1e-3)
    query = ss.question("gpt2", "h100-sxm", calibration=calibration)
    for batch in (4, 16):
        alone = query.estimator.estimate_at(query.workload, query.machine, query.run, {"run.batch": batch})
        row = held[(held["run.batch"] == batch) & (held["machine.memory.HBM3.bandwidth"] < 3.4e12)]
        assert alone.time == pytest.approx(float(row.time_s.iloc[0]))


def test_an_explanation_is_of_the_measured_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "gpt2", "--on", "h100-sxm", "--measured", "220ms"]) == 0
    assert "220 ms" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ("23.4ms", "needs at least 105 ms by its data sheet"),
        ("9 bananas", "bananas"),
        ("0ms", "above 0"),
        ("5ms@users=3", "leave out @users=3"),
        ("missing.json", "no such file"),
    ],
)
def test_what_cannot_be_is_refused(known: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        _answer(known)


def test_a_time_far_from_the_estimate_is_doubted() -> None:
    doubts = " ".join(_answer("2s").doubts)
    assert "x10.4 of the model's answer" in doubts and "one execution" in doubts
    assert not _answer("200ms").doubts


def test_a_time_far_from_the_estimate_is_a_warning_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "gpt2", "--on", "h100-sxm", "--measured", "23.4s"]) == 0
    factor = 23.4 / ss.question("gpt2", "h100-sxm").answer().time
    assert f"beware: the measured time (23.4s) is x{factor:.3g} of the model's answer" in capsys.readouterr().out


def test_a_trace_of_another_machine_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**TRACE, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}))
    with pytest.raises(InputError, match="was recorded on NVIDIA A100"):
        _answer(str(path))


def test_requests_and_plans_take_a_servers_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({**SERVED, "tp": 1}))
    calibration = read_calibration(None, str(path), "a100-sxm-80gb")
    settings = {"run.concurrency": 16, "run.num_requests": 32}
    plain = ss.question("llama-3.1-8b", "a100-sxm-80gb", settings=settings).answer()
    held = ss.question("llama-3.1-8b", "a100-sxm-80gb", settings=settings, calibration=calibration).answer()
    slower = held.quantities["tpot"].value / plain.quantities["tpot"].value
    assert slower > 1 and held.quantities["tpot"].value < 1.2 * 20e-3
    words = ["plan", "serving", "llama-3.1-8b", "--on", "a100-sxm-80gb", "--devices", "1", "--measured"]
    for known in (str(path), "20ms@concurrency=16"):
        assert run([*words, known]) == 0
        assert "1 measured step (x" in capsys.readouterr().out
    assert run([*words, "20ms"]) == 2
    assert "20ms@concurrency=16,tp=1" in capsys.readouterr().err


def test_llama_bench_moves_a_step(tmp_path: Path) -> None:
    path = tmp_path / "bench.md"
    path.write_text(LLAMA_TABLE)
    calibration = read_calibration(None, str(path), "rtx-4090")
    plain, held = (
        ss.question("decode:llama-3.1-8b", "rtx-4090", dtype="q4_k_m", calibration=one).answer()
        for one in (None, calibration)
    )
    ends, before = held.interval(), plain.interval()
    assert ends and before and ends[1] / ends[0] < before[1] / before[0]
    assert any("qwen2.5-7b q4_k_m at 142.2 tokens/s" in line for line in held.assumptions)


def test_a_plan_of_training_takes_a_log_or_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.log"
    path.write_text(MEGATRON_LOG)
    words = ["plan", "training", "llama-3.1-8b", "--on", "h100-dgx", "--devices", "64", "--batch", "512", "--measured"]
    for known in (str(path), "9s@devices=64,tp=4,pp=2"):
        assert run([*words, known]) == 0
        assert "calibrated at 64 devices: 1 measured step" in " ".join(capsys.readouterr().out.split())
    assert run([*words, "9s"]) == 2
    assert "on how many devices" in capsys.readouterr().err
    state = tmp_path / "trainer_state.json"
    state.write_text(json.dumps(TRAINER_STATE))
    assert run([*words, str(state)]) == 2
    assert "log, devices, tp, pp" in capsys.readouterr().err
    rows = tmp_path / "run.csv"
    rows.write_text("log,devices,tp,sequence\ntrainer_state.json,8,1,512\n")
    assert run([*words, str(rows)]) == 0


def test_a_study_keeps_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("steps.csv").write_text(FILES["steps.csv"])
    Path("studies").mkdir()
    for known in ("220ms", "steps.csv"):
        words = ["whatif", "gpt2", "--on", "h100-sxm", "--vary", "run.batch=4,8", "--measured", known]
        assert run([*words, "--save", "studies/mine.toml"]) == 0
        assert ss.load_study("studies/mine.toml").question("gpt2", "h100-sxm").answer().time == pytest.approx(
            0.2, rel=0.11
        )


def test_training_of_a_language_model_moves_to_its_step(tmp_path: Path) -> None:
    layout = {"tensor_parallel": 4, "pipeline_parallel": 2, "data_parallel": 8, "batch": 512, "seq_len": 4096}
    settings = {f"run.{name}": value for name, value in layout.items()}
    plain = ss.question("train:llama-3.1-8b", "h100-dgx", settings=settings).answer()
    measured = 1.2 * plain.time
    path = tmp_path / "run.log"
    path.write_text(MEGATRON_LOG.replace("9000.0", str(1e3 * measured)).replace("9200.0", str(1e3 * measured)))
    for known in (str(path), f"{measured}s"):
        calibration = read_calibration(None, known, "h100-dgx")
        held = ss.question("train:llama-3.1-8b", "h100-dgx", settings=settings, calibration=calibration).answer()
        assert abs(math.log(held.time / measured)) < 0.5 * math.log(1.2)
        ends, before = held.interval(), plain.interval()
        assert ends and before and ends[1] / ends[0] < before[1] / before[0]
