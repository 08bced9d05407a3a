"""The time of a server's step as simulators call it: equal to what `serve` simulates with, and to its band."""

import math
from pathlib import Path

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.serving.batching.server import simulate
from slipstick.estimators.serving.serving_answer import serve
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.workloads.runs.requests import Request
from slipstick.workloads.runs.traffic import Traffic

CASES = {
    "dense": ServingOptions("llama-3.1-8b", "h100-sxm", engine="vllm 0.19.0"),
    "windows": ServingOptions("gpt-oss-20b", "mi300x"),
    "latent, data parallel": ServingOptions("deepseek-v3", "h200", tensor=1, data=8, expert=8, dtype="fp8"),
    "pipeline": ServingOptions("llama-3.1-70b", "h100-sxm", tensor=2, pipeline=4),
    "linear": ServingOptions("qwen3.5-397b-a17b", "b200", devices=4),
}


def _batches(count: int) -> np.ndarray:
    rng = np.random.default_rng(36)
    decodes, prompt = rng.integers(0, 300, count), rng.integers(0, 5000, count) * (rng.random(count) < 0.5)
    context, past = rng.uniform(1, 40_000, count), rng.uniform(0, 9000, count) * (rng.random(count) < 0.5)
    chunk = prompt / rng.integers(1, 5, count)
    return np.column_stack([decodes, context, prompt, past * (prompt > 0), chunk, prompt > 0]).astype(float)


@pytest.mark.parametrize("case", CASES)
def test_arrays_and_single_calls_are_the_step_of_serve(case: str) -> None:
    deployment = CASES[case].deployment()
    rows = _batches(300)
    decodes, context, prompt, past, chunk, finished = rows.T
    many = deployment.oracle(decodes, context, prompt, past=past, chunk=chunk, finished=finished)
    for place, row in enumerate(rows.tolist()):
        one = deployment.oracle(*row[:3], past=row[3], chunk=row[4], finished=row[5])
        assert one.seconds == pytest.approx(deployment.step.seconds(Batch(*row)), rel=1e-9)
        assert [column[place] for column in many] == pytest.approx(list(one), rel=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_the_band_read_off_the_grid_is_the_band_of_serve(case: str) -> None:
    deployment = CASES[case].deployment()
    ratios = []
    for row in _batches(60).tolist():
        batch = Batch(*row)
        one = deployment.oracle(*row[:3], past=row[3], chunk=row[4], finished=row[5])
        ratios.append(math.log(one.high / one.seconds) / deployment.half_width(batch))
        edge = deployment.step.scaled(one.seconds / one.high).seconds(batch)
        assert one.low == pytest.approx(edge, rel=1e-9), "the fast edge of serve"
    assert np.median(ratios) == pytest.approx(1, abs=0.02)
    assert min(ratios) > 0.85 and max(ratios) < 1.15


def test_a_simulator_of_ten_lines_agrees_with_serve() -> None:
    """Closed loop: every user asks again at once; prompts are read as soon as they come, whole."""
    users, prompt, output, requests = 4, 300, 40, 12
    step = ss.oracle("llama-3.1-8b", "h100-sxm", "vllm 0.19.0")

    running: list[int] = []
    ends: list[float] = []
    now, waiting = 0.0, requests
    while waiting or running:
        new = min(users - len(running), waiting)
        waiting -= new
        tokens = [(1, prompt + made) for made in running] + [(prompt, 0)] * new
        now += step.of_requests(tokens).seconds
        running = [made + 1 for made in running] + [1] * new
        ends += [now] * running.count(output)
        running = [made for made in running if made < output]

    deployment = CASES["dense"].deployment()
    asked = [Request(prompt, output)] * requests
    served = simulate(asked, deployment.step.seconds, deployment.scheduler, users, 1, 1, 0.0)
    # serve takes the times of decode steps between two events as a straight line, the simulator each by itself.
    assert sorted(ends) == pytest.approx(sorted(served.last), rel=1e-4)


def test_the_oracle_of_an_answer_repeats_its_steps() -> None:
    answer = serve(CASES["dense"].deployment(), Traffic(200, 20, users=3, num_requests=6))
    oracle = answer.deployment.oracle
    again = simulate(
        answer.traffic.requests, lambda batch: _asked(oracle, batch), answer.deployment.scheduler, 3, 1, 1, 0.0
    )
    steps = simulate(answer.traffic.requests, answer.deployment.step.seconds, answer.deployment.scheduler, 3, 1, 1, 0.0)
    assert again.last == pytest.approx(steps.last, rel=1e-9)


def _asked(oracle: ss.records.StepTimePredictor, batch: Batch) -> float:
    return oracle(
        batch.decodes, batch.context, batch.prompt, past=batch.past, chunk=batch.chunk, finished=batch.finished
    ).seconds


def test_requests_are_summed_up_as_serve_sums_them() -> None:
    step = ss.oracle("llama-3.1-8b", "h100-sxm")
    listed = step.of_requests([(1, 99), (1, 199), (512, 0), (256, 1024)])
    squares = 512 * 512 + 256 * 256
    assert listed == step(2, 150.0, 768, past=256 * 1024 / 768, chunk=squares / 768, finished=2)
    with pytest.raises(InputError, match="request of 0 new tokens, 5 in the cache: want at least 1"):
        step.of_requests([(0, 5)])


def test_a_table_has_every_combination() -> None:
    frame = ss.oracle("llama-3.1-8b", "h100-sxm").to_frame([1, 8], [1024, 4096, 8192], [0, 512])
    assert list(frame) == ["decodes", "context_tokens", "prompt_tokens", "time_s", "low_s", "high_s"]
    assert len(frame) == 12
    assert (frame.low_s < frame.time_s).all() and (frame.time_s < frame.high_s).all()


def test_more_work_takes_no_less_time() -> None:
    step = ss.oracle("qwen3-30b-a3b", "h200")
    numbers = np.arange(1.0, 500.0)
    for column in (step(numbers, 1000.0), step(numbers * 0 + 4, numbers * 50), step(numbers * 0 + 4, 1000.0, numbers)):
        assert (np.diff(column.seconds) > 0).all()


@pytest.mark.parametrize("step", [(-3, 100, 0), (1, -1, 0), (1, 1, -1), (float("nan"), 1, 1)])
def test_a_step_of_less_than_nothing_is_refused(step: tuple[float, float, float]) -> None:
    oracle = ss.oracle("llama-3.1-8b", "h100-sxm")
    with pytest.raises(InputError, match="want numbers of at least 0"):
        oracle(*step)
    with pytest.raises(InputError, match="want numbers of at least 0"):
        oracle(*(np.array([number]) for number in step))


def test_own_measured_steps_move_it(tmp_path: Path) -> None:
    """Every second step of a server a third slower than the law is given: the others come nearer by more than half."""
    plain = ss.oracle("llama-3.1-8b", "h100-sxm", "vllm 0.19.0")
    sizes = [(users, context) for users in (1.0, 8.0, 64.0) for context in (256.0, 4096.0)]
    lines = [f"decode:llama-3.1-8b,{n:g},{c:g},{1.3 * plain(n, c).seconds!r}" for n, c in sizes[::2]]
    (tmp_path / "steps.csv").write_text("\n".join(["step,decodes,context,time_s", *lines]))
    moved = ss.oracle("llama-3.1-8b", "h100-sxm", "vllm 0.19.0", measured=str(tmp_path / "steps.csv"))
    for step in sizes[1::2]:
        assert moved(*step).seconds / plain(*step).seconds == pytest.approx(1.3, rel=0.13)
