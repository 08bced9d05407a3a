"""What a measurement stands for: the question that was put, on the machine as it stands; a change of either is a ratio.

Relations between neighbouring questions, with the measurement and without.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import slipstick as ss
from slipstick.estimators.serving.serving_answer import Serving
from slipstick.estimators.user_measured.measured_time import MeasuredTime
from slipstick.experiments.calibrate.calibrated import read_calibration
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.question import Question
from slipstick.experiments.question.unused_inputs import examined
from slipstick.experiments.studies.study import Study
from slipstick.hwmodels.catalog import machine
from tests.runs_made import SERVED

WORK, BOARD = "mlp-inference", "a100-sxm-80gb"
CAP = "machine.power.cap"


def _held(seconds: float = 2e-3, **settings: str | float) -> Question:
    return ss.question(WORK, BOARD, settings=settings, calibration=MeasuredTime(seconds))


@pytest.mark.parametrize(
    "change",
    [{"run.batch": 512}, {"dtype": "bfloat16"}, {"machine.clock": 1e9}, {"machine.runtime.mode": "graph_replay"}],
    ids=str,
)
def test_a_question_changed_since_is_the_measured_time_times_its_ratio(change: dict[str, str | float]) -> None:
    dtype = str(change["dtype"]) if "dtype" in change else None
    settings = {name: value for name, value in change.items() if name != "dtype"}
    today = _held()
    plain = (
        ss.question(WORK, BOARD).answer().time,
        ss.question(WORK, BOARD, settings=settings, dtype=dtype).answer().time,
    )
    moved = ss.question(WORK, BOARD, settings=settings, dtype=dtype, calibration=today.calibration).answer()
    assert today.answer().time == pytest.approx(2e-3)
    assert moved.time / today.answer().time == pytest.approx(plain[1] / plain[0])
    assert moved.provenance == "calibrated" and "a what-if of" in moved.assumptions[-1]


def test_moves_of_an_explanation_keep_their_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    """Moves that change the graph, its type or its software took the measured time itself, and were left out."""

    def ratios(*known: str) -> dict[str, float]:
        assert run(["explain", WORK, "--on", BOARD, *known, "--format", "json"]) == 0
        row = json.loads(capsys.readouterr().out)[0]
        return {move["move"]: move["ratio"] for move in row["moves"]}

    plain = ratios()
    assert any("batch" in name or "dtype" in name for name in plain)
    assert ratios("--measured", "2ms") == pytest.approx(plain)


def test_what_is_set_is_read_where_a_time_was_measured() -> None:
    """Without the batch the same time was taken for measured at another batch, as if it bound nothing."""
    query = _held(**{"run.batch": 512, CAP: "300 W"})
    answer = examined(query)
    assert not answer.not_used
    batch = next(one for one in answer.conditions if one.name == "run.batch")
    assert batch.origin == "given" and not batch.note
    assert any(one.name == CAP for one in answer.conditions)


def test_rows_of_a_table_are_as_sure_as_the_same_questions_alone(tmp_path: Path) -> None:
    """Today's row had the band of the measured machine although today's clock was changed."""
    path = tmp_path / "times.csv"
    path.write_text("batch,time_s\n64,0.0011\n128,0.002\n256,0.0041\n")
    for known, settings, vary in (
        (MeasuredTime(2e-3), {"machine.clock": 1e9}, {"machine.clock": [1e9, 1.41e9]}),
        (read_calibration(None, str(path), BOARD), {"run.batch": 128}, {"run.batch": [64, 70, 256, 300]}),
    ):
        query = ss.question(WORK, BOARD, settings=settings, calibration=known)
        rows = ss.whatif(WORK, BOARD, vary, settings=settings, calibration=known).frame
        for _, row in rows.iterrows():
            point = {name: float(row[name]) for name in vary}
            alone = query.estimator.estimate_at(query.workload, query.machine, query.run, point)
            low, high = alone.interval() or (np.nan, np.nan)
            assert row.time_s == pytest.approx(alone.time)
            assert (row.low_s, row.high_s) == pytest.approx((low, high), rel=0.02)


def test_a_step_of_training_was_measured_on_the_machine_as_it_stands() -> None:
    """A machine of half the bandwidth took as long as the measured one, by whatever its time was."""
    bandwidth = "machine.memory.HBM3.bandwidth"
    slow = machine("h100-dgx").get("memory.HBM3.bandwidth") / 2
    ask = "train:llama-3.1-8b", "h100-dgx"
    known = MeasuredTime(60.0)
    today, twice = ss.question(*ask, calibration=known), {"run.batch": 128}
    for change, calibration in (({bandwidth: slow}, known), (twice, today.calibration)):
        held, plain = (
            ss.question(*ask, settings=change, calibration=one).answer().time
            / ss.question(*ask, calibration=one).answer().time
            for one in (calibration, None)
        )
        assert held == pytest.approx(plain, rel=0.05) and plain > 1.01


SERVER, LIGHT = "llama-3.1-8b", {"output_tokens": 64, "num_requests": 24}


def _answered(**more: object) -> Serving:
    return ss.serve(SERVER, BOARD, **{"concurrency": 8, **LIGHT, **more})  # type: ignore[arg-type, return-value]


def _tpot(**more: object) -> float:
    return _answered(**more).band("tpot", "mean")[0]


def test_a_cap_that_is_set_is_a_what_if_of_the_measured_server() -> None:
    """The measured time was taken for one under the cap. Slower steps of as much work draw less: a cap costs less."""
    cap = {CAP: "200 W"}
    measured = 1.3 * _tpot(engine="vllm")
    known = f"{measured * 1e3:.6f}ms"
    plain = _tpot(engine="vllm", settings=cap) / _tpot(engine="vllm")
    assert _tpot(engine="vllm", measured=known) == pytest.approx(measured, rel=0.03)
    held = _tpot(engine="vllm", measured=known, settings=cap) / measured
    assert 1.05 < held < plain


def test_times_over_loads_move_a_server_as_they_move_its_requests(tmp_path: Path) -> None:
    """`estimate` took such a table, `serve` wanted a column step of it."""
    path = tmp_path / "loads.csv"
    times = {users: 1.2 * _tpot(concurrency=users, engine="vllm") for users in (2, 8)}
    path.write_text("concurrency,time_s\n" + "".join(f"{users},{time!r}\n" for users, time in times.items()))
    settings = {f"run.{name}": float(value) for name, value in {**LIGHT, "concurrency": 8}.items()}
    asked = ss.question(
        SERVER, BOARD, settings=settings, calibration=read_calibration(None, str(path), BOARD), quantity="tpot"
    )
    tpot = _tpot(measured=str(path))
    assert tpot == pytest.approx(asked.answer().time, rel=0.02)
    assert tpot == pytest.approx(times[8], rel=0.02)


@pytest.mark.parametrize("engine", ["", "vllm"])
def test_a_server_and_its_requests_know_their_own_run(engine: str, tmp_path: Path) -> None:
    """Steps were made under a library and served without one: no run matched, and the band of a repeat was lost."""
    path = tmp_path / "bench.json"
    fewer = {"num_prompts": 80, "completed": 80, "total_input_tokens": 81920, "total_output_tokens": 10240}
    fewer["duration"] = 14  # a fifth of the run
    path.write_text(json.dumps({**SERVED, **fewer, "tp": 1}))
    load = {"concurrency": 16, "output_tokens": 128, "num_requests": 64}
    made = ss.serve(SERVER, BOARD, engine=engine, measured=str(path), **load)  # type: ignore[arg-type]
    settings: dict[str, str | float] = {f"run.{name}": float(value) for name, value in load.items()}
    settings |= {"machine.runtime.library": engine} if engine else {}
    asked = ss.question(SERVER, BOARD, settings=settings, calibration=read_calibration(None, str(path), BOARD)).answer()
    for name, far in (("ttft", 0.1), ("tpot", 0.04)):
        one = asked.quantities[name]
        assert made.band(name, "mean") == pytest.approx((one.value, one.low, one.high), rel=1e-3)  # type: ignore[arg-type]
        assert math.log(made.band(name, "mean")[2] / one.value) == pytest.approx(1.2816 * far, rel=0.1)


def test_a_table_of_one_load_is_of_that_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was taken for one user's where none was asked, refused at another load, and a plan took one without a load."""
    path = tmp_path / "load.csv"
    path.write_text("concurrency,time_s\n8,0.020\n8,0.0205\n")
    for users in (1, 16):
        asked = {"concurrency": users, "num_requests": None}
        table, words = (_answered(**asked, measured=known) for known in (str(path), "20.25ms@concurrency=8"))
        assert table.band("tpot", "mean") == pytest.approx(words.band("tpot", "mean"))
    path.write_text("time_s\n0.020\n0.0205\n")
    assert run(["plan", "serving", SERVER, "--on", BOARD, "--devices", "1", "--measured", str(path)]) == 2
    assert "say at which it was measured" in capsys.readouterr().err


def test_a_machine_beside_every_row_is_the_one_that_was_measured(tmp_path: Path) -> None:
    """Rows at another bandwidth than the machine's counted as measured at its own."""
    path, name = tmp_path / "slow.csv", "machine.clock"
    today: dict[str, str | float] = {"run.batch": 16384}
    stated, slow = (ss.question(WORK, BOARD, settings=today | more).answer().time for more in ({}, {name: 0.7e9}))
    path.write_text(f"{name},time_s\n" + f"0.7e9,{slow!r}\n" * 2)
    answer = ss.question(WORK, BOARD, settings=today, calibration=read_calibration(None, str(path), BOARD)).answer()
    assert answer.time == pytest.approx(stated, rel=0.02) and slow > 1.3 * stated
    assert answer.provenance == "calibrated"


def test_a_slip_among_repeats_of_one_point_is_named_and_does_not_count(tmp_path: Path) -> None:
    times, path = [0.002, 0.00201, 0.00199], tmp_path / "times.csv"
    answers = []
    for rows in (times, [*times, 0.12]):
        path.write_text("time_s\n" + "".join(f"{one}\n" for one in rows))
        answers.append(ss.question(WORK, BOARD, calibration=read_calibration(None, str(path), BOARD)).answer())
    assert answers[1].interval() == pytest.approx(answers[0].interval())
    assert any("line 5: 120 ms) is x59.9" in one and "does not count" in one for one in answers[1].doubts)


def test_a_library_that_is_set_is_the_engine_that_was_measured() -> None:
    """The usual engine took its place, and the one that was set counted as not read."""
    answer = _answered(settings={"machine.runtime.library": "sglang"}, measured="20ms")
    assert answer.deployment.runs_under == "sglang" and not answer.not_used
    assert any(one.name == "machine.runtime.library" and one.value == "sglang" for one in answer.given)
    assert answer.band("tpot", "mean")[0] == pytest.approx(_tpot(engine="sglang", measured="20ms"))


def test_a_bandwidth_that_is_set_is_a_what_if_of_the_measured_llama_cpp() -> None:
    def rate(**more: object) -> float:
        return ss.serve(SERVER, "rtx-4090", dtype="q4_k_m", engine="llama.cpp", **more).quantities[0].value  # type: ignore[call-overload, no-any-return]

    slow = {"machine.memory.GDDR6X.bandwidth": machine("rtx-4090").get("memory.GDDR6X.bandwidth") / 2}
    known = f"{SERVER}:q4_k_m={1.2 * rate():g}"
    held, plain = (rate(measured=one, settings=slow) / rate(measured=one) for one in (known, None))
    assert held == pytest.approx(plain, rel=0.05) and plain < 0.8


def test_a_metered_run_is_of_its_own_question(tmp_path: Path) -> None:
    """A step of twice the batch took the metered time as well, so that an explanation advised it."""
    path = tmp_path / "run.csv"
    path.write_text("time_s,power_W\n100,350\n")
    query = ss.question(WORK, BOARD, settings={CAP: "250 W"}, calibration=read_calibration(None, str(path), BOARD))
    again = ss.question(WORK, BOARD, settings={CAP: "300 W"}, calibration=query.calibration)
    assert 100 < again.answer().time < query.answer().time
    with pytest.raises(ss.InputError, match="a run that was metered says"):
        ss.question(WORK, BOARD, settings={"run.batch": 512}, calibration=query.calibration)
    capped = machine(BOARD).using({"power.cap": 250.0})
    assert ss.question(WORK, capped, calibration=query.calibration).answer().time == query.answer().time
    with pytest.raises(ss.InputError, match="a run that was metered says"):
        ss.question(WORK, "h100-sxm", calibration=query.calibration)


def test_a_time_that_a_study_names_is_of_its_first_case() -> None:
    """Every machine and every data type took the measured time."""
    cases: dict[str, object] = {
        "machines": [BOARD, "v100-sxm"],
        "dtype": ["float32", "float16"],
        "vary": {"machine.clock": [1e9]},
    }
    cases["set"] = {"run.batch": 16384}
    fields = {"schema": "slipstick-study-1", "name": "measured", "workloads": [WORK], **cases}
    plain, held = (Study.model_validate({**fields, **more}) for more in ({}, {"measured": "0.2s"}))
    times = [[one.question(*case).answer().time for case in one.cases()] for one in (plain, held)]
    assert times[1][0] == pytest.approx(0.2) and len(set(times[0])) == 4
    assert np.divide(*times) == pytest.approx(np.full(4, times[0][0] / 0.2))
    other = Study.model_validate({**fields, "workloads": [WORK, "gemm"], "set": {}, "measured": "2ms"})
    with pytest.raises(ss.InputError, match="is a time of mlp-inference alone"):
        other.question("gemm", BOARD)
    trained: dict[str, object] = {"workloads": ["train:llama-3.1-8b", "train:llama-2-70b"], "machines": ["h100-dgx"]}
    trained |= {"set": {"run.tensor_parallel": 8}, "dtype": None, "measured": "90s"}
    with pytest.raises(ss.InputError, match="is a time of .* alone"):
        Study.model_validate({**fields, **trained}).question("train:llama-2-70b", "h100-dgx")
