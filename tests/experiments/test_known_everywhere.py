"""``--measured`` on every verb: a user's time, log, trace or benchmark corrects the answer, and the answer says so."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.user_measured.measured_time import MeasuredTime
from slipstick.estimators.user_measured.size_law import SizeLaw
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
    assert any("qwen2.5-7b q4_k_m" in line and " at 142.2 tokens/s" in line for line in held.assumptions)


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


OWN = "batch,time_s\n2,0.0652\n4,0.118\n8,0.221\n16,0.431\n32,0.86\n"


def _at_batch(batch: int, known: str | None) -> Estimate:
    calibration = None if known is None else read_calibration(None, known, "h100-sxm")
    return ss.question("gpt2", "h100-sxm", batch=batch, calibration=calibration).answer()


@pytest.mark.slow
@pytest.mark.parametrize("head", ["batch", "run.batch", "workload.batch"])
def test_own_times_over_sizes_need_no_name_of_what_is_fitted(tmp_path: Path, head: str) -> None:
    """Each measured size is answered as it was measured, and one beside them no wider than without."""
    path = tmp_path / "own.csv"
    path.write_text(OWN.replace("batch", head))
    for line in OWN.splitlines()[1:]:
        batch, seconds = line.split(",")
        answer = _at_batch(int(batch), str(path))
        low, high = answer.interval() or (0.0, 0.0)
        assert low < float(seconds) < high and answer.provenance == "measured"
    plain, held = _at_batch(64, None).interval(), _at_batch(64, str(path)).interval()
    assert plain and held and held[1] / held[0] < plain[1] / plain[0]


def test_a_sweep_over_measured_sizes_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(OWN)
    calibration = read_calibration(None, str(path), "h100-sxm")
    frame = ss.whatif("gpt2", "h100-sxm", {"run.batch": [4, 8, 32]}, calibration=calibration).frame
    for batch, seconds in zip(frame["run.batch"], frame.time_s, strict=True):
        assert seconds == pytest.approx(_at_batch(int(batch), str(path)).time)


def test_rows_of_one_size_that_differ_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own.csv"
    path.write_text(OWN + "8,0.45\n")
    assert run(["estimate", "gpt2", "--on", "h100-sxm", "--verbose", "--measured", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"own.csv, line {len(OWN.splitlines()) + 1}: 450 ms) at batch = 8 is x" in said and "does not count" in said


def _planted(files: int) -> tuple[float, float]:
    """Shares of planted tables: left-out sizes no worse than without; repeats of measured points in their bands.

    A fourth of the tables is as the model says, others have a level, a level and a slope, and a course beside these.
    """
    draw, sizes = np.random.default_rng(47), np.array([2.0, 4.0, 8.0, 16.0, 32.0])
    logs, good, held = np.log(sizes) - np.log(sizes).mean(), [], []
    for number in range(files):
        kind, noise = number % 4, (0.01, 0.028, 0.05)[number % 3]
        truth = draw.normal(0, 0.17) * (kind > 0) + draw.normal(0, 0.12) * logs * (kind > 1)
        truth = truth + (kind > 2) * draw.normal(0, 0.1) * np.cos(1.3 * logs + draw.uniform(0, 6))
        rows, again = (truth + draw.normal(0, noise, 5) for _ in range(2))

        def law(keep: list[int], rows: np.ndarray = rows) -> SizeLaw:
            return SizeLaw.fitted([{"batch": sizes[i]} for i in keep], [rows[i] for i in keep], 0.17)

        middle, deviation = law([0, 1, 2, 3, 4]).at({"batch": sizes})
        held += list(np.abs(again - middle) < 1.2816 * deviation)
        left_out = [law([i for i in range(5) if i != out]).at({"batch": sizes[out]})[0] for out in range(5)]
        good.append(np.abs(rows - np.array(left_out).ravel()).mean() <= np.abs(rows).mean() + noise)
    return float(np.mean(good)), float(np.mean(held))


@pytest.mark.parametrize("files", [24, pytest.param(200, marks=pytest.mark.slow)])
def test_left_out_sizes_of_a_table_are_no_worse_and_bands_hold_a_repeat(files: int) -> None:
    good, held = _planted(files)
    assert good >= 0.95
    assert 0.78 <= held <= 0.90


def test_three_own_steps_of_training_lie_in_their_bands(tmp_path: Path) -> None:
    """Beside what the law cannot follow no band may be narrower than what it misses."""
    path = tmp_path / "own.csv"
    path.write_text("batch,time_s\n128,3.2\n256,5.2\n512,9.4\n")
    inside = []
    for batch, seconds in ((128, 3.2), (256, 5.2), (512, 9.4)):
        layout = {"tensor_parallel": 4, "pipeline_parallel": 2, "data_parallel": 8, "batch": batch}
        calibration = read_calibration(None, str(path), "h100-dgx")
        settings = {f"run.{name}": value for name, value in layout.items()}
        answer = ss.question("train:llama-3.1-8b", "h100-dgx", settings=settings, calibration=calibration).answer()
        low, high = answer.interval() or (0.0, 0.0)
        inside.append(low < seconds < high)
    assert sum(inside) >= 2
