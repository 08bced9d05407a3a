"""A slip in a table of what was measured is named and does not move the answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slipstick as ss
from slipstick.estimators.base.protocols import Fitted
from slipstick.estimators.engine_steps.measured_steps import with_measured
from slipstick.estimators.fitting.user_rows import lone_rows, slips_of_repeats
from slipstick.estimators.serving.serving_answer import serve
from slipstick.estimators.user_measured.measured_serving import TimedServerRun
from slipstick.experiments.calibrate.measured_steps import read_measured_steps
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.workloads.runs.traffic import Traffic


@given(st.integers(5, 30), st.integers(0, 10_000), st.sampled_from((1e-3, 1e3, 60.0)), st.booleans())
def test_a_wrong_unit_is_the_one_row_far_off(count: int, seed: int, unit: float, by_size: bool) -> None:
    logs = np.random.default_rng(seed).uniform(-0.15, 0.15, count)
    assert lone_rows(logs, 0.1, sorted_rows=by_size) == ({}, list(range(count)))
    logs[seed % count] += np.log(unit)
    words, kept = lone_rows(logs, 0.1, sorted_rows=by_size)
    assert list(words) == [seed % count]
    assert kept == [place for place in range(count) if place != seed % count]


@pytest.mark.parametrize("logs", [[0.0, 7.0], [1.1, 1.1, 0.4, 0.0, 0.0], [2.0, 1.0, 0.0, -1.0], [0.0, 0.0, 7.0, 7.0]])
def test_rows_that_differ_or_agree_with_another_accuse_none(logs: list[float]) -> None:
    assert lone_rows(np.array(logs), 0.05, sorted_rows=True)[0] == {}


@pytest.mark.parametrize(("logs", "kept"), [([0.0, 0.0, 2.7, 0.0], [0, 1, 3]), ([2.7, 0.0, 0.0, 0.0], [0, 1, 2, 3])])
def test_a_row_between_two_that_agree_does_not_count_and_one_at_the_end_does(
    logs: list[float], kept: list[int]
) -> None:
    words, counted = lone_rows(np.array(logs), 0.1, sorted_rows=True)
    assert list(words) == [logs.index(2.7)]
    assert counted == kept


def test_small_sizes_bound_by_launches_are_the_users_to_say(tmp_path: Path) -> None:
    """A sum whose launches take 9 us, where the model says 3: both such rows are right."""
    path = tmp_path / "sums.csv"
    rows = {1e3: 9e-6, 1e4: 9e-6, 1e6: 15e-6, 1e8: 1.33e-3, 3e8: 4e-3}
    path.write_text("elements,time_s\n" + "".join(f"{size:g},{seconds}\n" for size, seconds in rows.items()))
    known = ss.read_calibration(None, measured=str(path), machine="a100-sxm-80gb")
    query = ss.question("vector-sum", "a100-sxm-80gb", settings={"workload.elements": 1e3}, calibration=known)
    answer = query.answer()
    assert answer.time == pytest.approx(9e-6, rel=0.05)
    assert not any("does not count" in line for line in answer.doubts)


def test_a_time_in_milliseconds_among_seconds_is_named_and_left_out(tmp_path: Path) -> None:
    """Products that take 1.2 times as long as the model says, one of them written in milliseconds."""

    def asked(m: float, known: Fitted | None = None) -> ss.Estimate:
        sizes = {"workload.m": m, "workload.n": 4096.0, "workload.k": 4096.0}
        return ss.question("gemm", "a100", settings=sizes, calibration=known).answer()

    path = tmp_path / "slip.csv"
    times = {m: 1.2 * asked(m).time * (1000 if m == 4096 else 1) for m in (1024, 2048, 4096, 8192)}
    path.write_text("m,time_s\n" + "".join(f"{m},{time}\n" for m, time in times.items()))
    answer = asked(3000, ss.read_calibration(None, measured=str(path), machine="a100"))
    assert answer.time == pytest.approx(1.2 * asked(3000).time, rel=0.1)
    assert any("slip.csv" in line and "m = 4096" in line and "does not count" in line for line in answer.doubts)


def test_a_batch_that_does_not_count_leaves_the_answer_as_without_it(tmp_path: Path) -> None:
    """ResNet-50's batches, one 15 times too long: the band there is no narrower than where it was not measured."""
    path, slip = tmp_path / "batches.csv", 64.0

    def at(batch: float, known: Fitted | None = None) -> ss.Estimate:
        return ss.question("resnet50", "a100", settings={"workload.batch": batch}, calibration=known).answer()

    times = {batch: 1.2 * at(batch).time for batch in (1.0, 4.0, 16.0, slip, 256.0)}
    answers = []
    for rows in ({**times, slip: 15 * times[slip]}, {b: time for b, time in times.items() if b != slip}):
        path.write_text("batch,time_s\n" + "".join(f"{batch},{time}\n" for batch, time in rows.items()))
        answers.append(at(slip, ss.read_calibration(None, measured=str(path), machine="a100")))
    assert answers[0].time == pytest.approx(answers[1].time, rel=1e-3)
    assert answers[0].spread.total == pytest.approx(answers[1].spread.total, rel=0.01)
    assert any("batch = 64" in line and "does not count" in line for line in answers[0].doubts)


@given(st.integers(3, 12), st.integers(0, 10_000), st.floats(2.0, 1e3), st.booleans())
def test_a_slip_among_repeats_is_the_one_off_their_median(count: int, seed: int, factor: float, shorter: bool) -> None:
    """Wherever the point lies beside others: repeats are judged by each other alone."""
    logs = np.random.default_rng(seed).uniform(-0.05, 0.05, count + 2)
    points = [1, *([2] * count), 3]
    assert slips_of_repeats(points, logs + np.array(points)) == {}
    at = 1 + seed % count
    logs[at] += -np.log(factor) if shorter else np.log(factor)
    assert list(slips_of_repeats(points, logs + np.array(points))) == [at]


@pytest.mark.parametrize("slip", [10.0, 0.1])
@pytest.mark.parametrize(("size", "repeats"), [(16.0, 3), (16.0, 2), (64.0, 2)])
def test_a_slip_among_repeats_of_a_size_leaves_the_answer_as_without_it(
    size: float, repeats: int, slip: float, tmp_path: Path
) -> None:
    """One of two repeats made the middle of both the time of their size, and nobody was told which line."""

    def at(known: Fitted | None = None, **sizes: float) -> ss.Estimate:
        return ss.question("mlp-inference", "a100", settings=sizes or {"run.batch": size}, calibration=known).answer()

    path = tmp_path / "repeats.csv"
    rows = [(batch, 1.2 * at(**{"run.batch": batch}).time) for batch in (4.0, 16.0, 32.0, 64.0) for _ in range(repeats)]
    answers = []
    for wrong in (slip, None):
        place = next(place for place, (batch, _) in enumerate(rows) if batch == size)
        if wrong:
            rows[place] = size, wrong * rows[place][1]
        else:
            rows.pop(place)
        path.write_text("batch,time_s\n" + "".join(f"{batch},{time!r}\n" for batch, time in rows))
        answers.append(at(ss.read_calibration(None, measured=str(path), machine="a100")))
    assert answers[0].time == pytest.approx(answers[1].time, rel=1e-9)
    assert answers[0].spread.total == pytest.approx(answers[1].spread.total)
    (doubt,) = [line for line in answers[0].doubts if "does not count" in line]
    assert f"repeats.csv, line {place + 2}: " in doubt and not answers[1].doubts


def test_a_slip_among_repeats_of_a_step_is_named_by_its_line(tmp_path: Path) -> None:
    """It counted: the band of a step grew from x1.2 to x3.6."""
    path = tmp_path / "steps.csv"
    lines = ["16,2048,0.0150", "16,2048,0.0151", "16,2048,0.151", "64,2048,0.022"]
    made = []
    for some in (lines, [one for one in lines if not one.endswith("0.151")]):
        path.write_text("step,decodes,context,time_s\n" + "".join(f"decode:llama-3.1-8b,{one}\n" for one in some))
        made.append(with_measured(read_measured_steps(path, ss.machine("a100"), "vllm")))
    assert "steps.csv: line 4: time_s = 0.151 s) is x10 of the median of its repeats" in made[0].slips[0]
    assert made[0].factors == made[1].factors and made[0].half == made[1].half


@pytest.mark.slow
def test_a_step_of_a_server_in_milliseconds_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    lines = ["1,512,0.0105", "4,512,0.0108", "16,512,11.5", "64,512,0.0145"]
    path.write_text("step,decodes,context,time_s\n" + "".join(f"decode:llama-3.1-8b,{one}\n" for one in lines))
    measured = with_measured(read_measured_steps(path, ss.machine("a100"), "vllm"))
    assert len(measured.slips) == 1
    assert "steps.csv: line 4: time_s" in measured.slips[0]
    assert len(measured.factors) == 3


def test_every_step_of_a_server_counts_or_is_named(tmp_path: Path) -> None:
    """Two that agree may be right, whatever the others say."""
    path = tmp_path / "steps.csv"
    sizes = (1, 2, 4, 8, 16, 64)
    machine = ss.machine("a100")
    head = "step,decodes,context,time_s\n"
    path.write_text(head + "".join(f"decode:llama-3.1-8b,{size},512,1\n" for size in sizes))
    factors = np.array(with_measured(read_measured_steps(path, machine, "vllm")).factors)
    times = np.exp([0.0, 0.0, 0.1, 2.0, 2.1, 9.0]) / factors
    path.write_text(
        head + "".join(f"decode:llama-3.1-8b,{n},512,{time}\n" for n, time in zip(sizes, times, strict=True))
    )
    measured = with_measured(read_measured_steps(path, machine, "vllm"))
    assert len(measured.steps) + len(measured.slips) == len(measured.factors) + 1 == len(sizes)
    assert "line 7: time_s" in measured.slips[0]


def test_a_run_of_a_server_that_does_not_count_narrows_no_band() -> None:
    base = ServingOptions("llama-3.1-8b", "a100-sxm-80gb", engine="vllm").deployment()
    loads = {users: Traffic(512, 64, users, None, 1.0, 0.0, 0.0, 2 * users + 8) for users in (1, 4, 16, 64)}
    times = {users: 1.1 * serve(base, load).band("tpot", "mean")[0] for users, load in loads.items()}
    times[16] *= 1000
    runs = [TimedServerRun(times[n], load, where="runs.csv").step(base, load) for n, load in loads.items()]
    good, every = (serve(replace(base, known=tuple(known)), loads[16]) for known in ([*runs[:2], runs[3]], runs))
    assert every.band("tpot", "mean") == pytest.approx(good.band("tpot", "mean"))
    (slip,) = every.deployment.contradictions
    assert f"runs.csv: {times[16]:.4g} s a further token" in slip
    assert "16 users" in slip


HALF = "arc-b580,gemm,float16,1,4096,4096,4096,2.8e-3\n"


def _source(folder: Path, text: str) -> str:
    path = folder / "ops.csv"
    path.write_text("machine,kind,dtype,batch,m,n,k,time_s\n" + text)
    known = ss.read_calibration(None, measured=str(path), machine="arc-b580")
    query = ss.question("gpt2-inference", "arc-b580", dtype="bfloat16", batch=8, calibration=known)
    return " ".join(query.answer().assumptions)


def test_operations_of_a_type_that_no_fit_knows_are_refused(tmp_path: Path) -> None:
    """Products in float16 were dropped in silence: kernels stand in for them that were fitted in bfloat16."""
    with pytest.raises(ss.InputError, match=r"ops\.csv: 1 rows of gemm\.float16 move nothing: want .*gemm\.bfloat16"):
        _source(tmp_path, HALF)


@pytest.mark.slow
def test_operations_that_no_fit_knows_are_named_beside_others(tmp_path: Path) -> None:
    named = _source(tmp_path, HALF.replace("float16", "bfloat16") + HALF)
    assert "not used: ops.csv: 1 rows of gemm.float16" in named
