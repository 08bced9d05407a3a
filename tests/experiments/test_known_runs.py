"""A run of one's own corrects a server's answer: a benchmark's file, or one time in words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.engine_steps.first_token import FirstParts, FirstToken
from slipstick.estimators.serving.serving_answer import serve
from slipstick.experiments.calibrate.calibrated import read_calibration
from slipstick.experiments.calibrate.measured_files import runs_of
from slipstick.experiments.cli.cli import run
from slipstick.experiments.serve.measured_runs import traffic_of
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.experiments.serve.user_runs import steps_of_runs
from slipstick.workloads.importers.serving.llama_bench import read_llama_bench
from slipstick.workloads.importers.serving.vllm_bench import read_vllm_bench
from slipstick.workloads.runs.traffic import Traffic
from tests.runs_made import LLAMA_TABLE, SERVED

WANTED = ServingOptions("Qwen/Qwen3-8B", "h100-sxm", engine="vllm 0.19.0")
LOAD = Traffic(512, 64, 8, None, 1.0, 0.0, 0.0, 24)


def answered(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints."""
    assert run(words) == 0
    return capsys.readouterr().out


def _band(wanted: ServingOptions) -> tuple[float, float, float]:
    return serve(wanted.deployment(), LOAD).band("tpot", "mean")


def test_one_time_moves_the_answer_to_it_and_narrows_the_band() -> None:
    before = _band(WANTED)
    measured = 1.25 * before[0]
    after = _band(replace(WANTED, steps=steps_of_runs(f"{measured * 1e3:.4f}ms", WANTED, LOAD)))
    assert abs(math.log(after[0] / measured)) < 0.5 * abs(math.log(before[0] / measured))
    assert math.log(after[2] / after[1]) < 0.75 * math.log(before[2] / before[1])
    assert after[1] < measured < after[2]


def test_a_benchmark_of_another_model_teaches_less(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(SERVED))
    before = _band(WANTED)
    (step,) = steps_of_runs(str(path), WANTED, LOAD)
    assert step.step.model.name == "llama-3.1-8b"
    after = _band(replace(WANTED, steps=(step,)))
    assert after[2] / after[1] < before[2] / before[1]


def test_a_benchmark_of_the_same_sizes_under_another_name_is_of_this_model(tmp_path: Path) -> None:
    """A config.json in a folder is named by the folder; what was measured of the model held for another one only."""
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(SERVED))
    plain = replace(WANTED, model="llama-3.1-8b")
    own = replace(plain.deployment(), model=replace(plain.deployment().model, name="my-folder", context=4096))
    (run_of_file,) = runs_of(str(path))
    assert run_of_file.step(own, LOAD).step.model.name == "my-folder"
    (other,) = steps_of_runs(str(path), WANTED, LOAD)
    said = replace(WANTED, steps=(other,)).deployment().assumptions()
    assert "measured with llama-3.1-8b: less is known of " + WANTED.deployment().model.name in said


def test_a_benchmarks_first_token_moves_the_answer_to_it(tmp_path: Path) -> None:
    """Further tokens as long as ours, first tokens 1.6 x: these come nearer, with a narrower band; those stay."""
    wanted = replace(WANTED, model="llama-3.1-8b", engine="vllm")
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(SERVED))
    load = traffic_of(read_vllm_bench(path)[0])
    before = serve(wanted.deployment(), load)
    timed = {"mean_tpot_ms": 1e3 * before.band("tpot", "mean")[0]}
    bare = {key: value for key, value in SERVED.items() if not key.endswith("_ms")}
    measured = 1.6 * before.band("ttft", "p50")[0]
    answers = []
    for more in ({}, {"median_ttft_ms": 1e3 * measured}):
        path.write_text(json.dumps({**bare, **timed, **more}))
        steps = steps_of_runs(str(path), wanted, load)
        answers.append(serve(replace(wanted, steps=steps).deployment(), load))
    first = [answer.band("ttft", "p50") for answer in answers]
    assert abs(math.log(first[1][0] / measured)) < 0.6 * abs(math.log(first[0][0] / measured))
    assert first[1][2] / first[1][1] < 0.8 * first[0][2] / first[0][1]
    assert answers[1].band("tpot", "mean") == pytest.approx(answers[0].band("tpot", "mean"), rel=0.05)  # other phases


def test_a_first_token_below_its_prompts_arithmetic_is_refused(tmp_path: Path) -> None:
    """1,024 tokens x 8.03e9 parameters (a tenth less in products) x 2 flop at H100's 989 Tflop/s: 15 ms or more."""
    wanted = replace(WANTED, model="llama-3.1-8b", engine="vllm")
    path = tmp_path / "bench.json"
    for first, possible in ((12.0, False), (25.0, True)):
        path.write_text(json.dumps({**SERVED, "median_ttft_ms": first, "mean_ttft_ms": first}))
        load = traffic_of(read_vllm_bench(path)[0])
        if not possible:
            with pytest.raises(InputError, match=r"first token of 12 ms: .* at least 1\d\.\d+ ms"):
                steps_of_runs(str(path), wanted, load)
            continue
        answer = serve(replace(wanted, steps=steps_of_runs(str(path), wanted, load)).deployment(), load)
        assert answer.band("ttft", "p50")[1] >= 2 * 7.0e9 * 1024 / 989.4e12


@pytest.mark.parametrize("milliseconds", [6.8, 15.0, 40.0])
def test_one_own_time_lies_inside_the_answer_that_it_moves(
    milliseconds: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that the law alone would call impossible: no second row of its own contradicts it."""
    words = ["serve", "llama-3.1-8b", "--on", "h100-sxm", "--concurrency", "4", "--input-tokens", "512"]
    words += ["--output-tokens", "64", "--num-requests", "24", "--format", "json", "--measured", f"{milliseconds}ms"]
    document = json.loads(answered(words, capsys))[0]
    band = next(m for m in document["measures"] if (m["measure"], m["statistic"]) == ("tpot", "mean"))
    assert band["low_s"] <= milliseconds / 1e3 <= band["high_s"]


def test_a_plan_and_a_server_give_one_first_token(capsys: pytest.CaptureFixture[str]) -> None:
    """The median of a closed loop, for the same lengths and users on the same device."""
    words = ["llama-3.1-8b", "--on", "h100-sxm", "--input-tokens", "1024", "--output-tokens", "128", "--format", "json"]
    plan = json.loads(answered(["plan", "serving", *words, "--devices", "1"], capsys))[0]
    for one in plan["front"]:
        if one["users"] in (1, 16):
            made = json.loads(answered(["serve", *words, "--concurrency", str(one["users"])], capsys))[0]
            first = next(m for m in made["measures"] if (m["measure"], m["statistic"]) == ("ttft", "p50"))
            assert first["value_s"] == pytest.approx(one["ttft_s"], rel=0.1)  # phases of few users jump


def test_a_user_alone_waits_for_no_step_of_others() -> None:
    """Then the first token is its prompt and the host; with others waits for their steps and prompts come on top."""
    plain = FirstToken()
    alone = FirstParts(0.02, 0.0, 0.0, 0.0, 0.02, 0.01, 1.0, decoding=1.0)
    assert plain.seconds(alone) == pytest.approx(plain.constant + 0.02 * plain.prompt + plain.user)
    crowd = replace(alone, together=0.32, users=16.0)
    waited = plain.seconds(crowd) - plain.seconds(alone) - 15 * plain.user
    queue = 0.32 * plain.prompt * 0.32 / (0.32 + 2 * 16 * 1.0)
    assert waited == pytest.approx(15 / 16 * (queue + plain.steps * 0.01))


def test_a_prompt_waits_as_a_server_with_one_service_says() -> None:
    """Pollaczek and Khinchine at a small load; in a closed loop never more than all users' prompts."""
    plain, parts = FirstToken(prompt=1.0), FirstParts(0.02, 0.0, 0.0, 0.0, 0.02 * 100, 0.0, 100.0, decoding=200.0)
    busy = parts.together / (parts.together + parts.decoding)
    waited = plain.seconds(parts) - plain.seconds(replace(parts, together=0.0))
    assert waited == pytest.approx(0.99 * 0.02 * busy / (2 * (1 - busy)), rel=1e-3)
    full = replace(parts, decoding=0.0)
    assert plain.seconds(full) - plain.seconds(replace(parts, together=0.0)) == pytest.approx(0.99 * parts.together)


def test_a_short_prompt_takes_as_long_as_the_host_launches_it() -> None:
    """Kernels of a prompt are launched one by one: where they are short, the device waits for the host."""
    plain = FirstToken(constant=1e-4, user=1e-6)
    short, long = FirstParts(1e-3, 0.0, 0.0, 4e-3, 1e-3, 0.0, 1.0), FirstParts(1.0, 0.0, 0.0, 4e-3, 1.0, 0.0, 1.0)
    assert plain.seconds(short) == pytest.approx(plain.launches * 4e-3, rel=0.02)
    assert plain.seconds(long) == pytest.approx(plain.prompt, rel=0.02)


def test_the_command_says_by_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "Qwen/Qwen3-8B", "--on", "h100-sxm", "--concurrency", "8", "--input-tokens", "512"]
    assert run([*words, "--output-tokens", "64", "--num-requests", "24", "--measured", "9.5 ms"]) == 0
    assert "1 measured step (x" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("known", "words"),
    [("1us", "by its data sheet"), ("9.5 bananas", "bananas"), ("missing.json", "no such file|cannot be read|missing")],
)
def test_what_cannot_be_is_refused(known: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        _band(replace(WANTED, steps=steps_of_runs(known, WANTED, LOAD)))


def test_a_benchmark_without_further_tokens_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({key: value for key, value in SERVED.items() if "tpot" not in key}))
    with pytest.raises(InputError, match="no run has a mean_tpot_ms"):
        steps_of_runs(str(path), WANTED, LOAD)


def test_the_table_that_llama_bench_prints(tmp_path: Path) -> None:
    path = tmp_path / "bench.md"
    path.write_text(LLAMA_TABLE)
    prompt, made = read_llama_bench(path)
    assert (prompt.prompt, prompt.seconds, prompt.stored) == (512, pytest.approx(0.05), "q4_k_m")
    assert (made.generated, made.depth, made.threads) == (128, 512, 8)
    assert made.rate == pytest.approx(142.22)
    path.write_text(LLAMA_TABLE.replace("pp512", "what"))
    with pytest.raises(InputError, match="n_prompt"):
        read_llama_bench(path)


def _of_users(users: int, path: Path | None = None) -> Estimate:
    calibration = None if path is None else read_calibration(None, str(path), "h100-sxm")
    load = {"concurrency": users, "input_tokens": 1024, "output_tokens": 128, "num_requests": 200}
    settings = {f"run.{name}": value for name, value in load.items()}
    return ss.question("llama-3.1-8b", "h100-sxm", settings=settings, calibration=calibration).answer()


def _benchmark(path: Path, users: int, times: Mapping[str, float]) -> Path:
    """A benchmark of 200 requests whose lengths are the question's at the mean."""
    bare = {key: value for key, value in SERVED.items() if not key.endswith("_ms")}
    made = {"max_concurrency": users, "tp": 1, "num_prompts": 200, "completed": 200, "request_throughput": 200 / 70}
    made |= {"total_input_tokens": 184_320, "total_output_tokens": 23_040, "output_throughput": 23_040 / 70}
    names = {"tpot": "mean_tpot_ms", "ttft": "mean_ttft_ms", "ttft_p50": "median_ttft_ms"}
    path.write_text(json.dumps({**bare, **made, **{names[name]: 1e3 * value for name, value in times.items()}}))
    return path


def _repeats(files: int, folder: Path) -> tuple[dict[str, list[bool]], dict[str, list[float]]]:
    """Planted servers, each measured twice: whether the second lies in the band, and log of the answer over the first.

    Two runs differ by 4 % in further tokens and by 10 % in first ones.
    """
    draw, scatter = np.random.default_rng(47), {"tpot": 0.04, "ttft": 0.1, "ttft_p50": 0.1}
    plain = {users: _of_users(users).quantities for users in (2, 16, 64)}
    held: dict[str, list[bool]] = {name: [] for name in scatter}
    off: dict[str, list[float]] = {name: [] for name in scatter}
    for number in range(files):
        users = (2, 16, 64)[number % 3]
        first = draw.normal(0.15, 0.3)
        factors = {"tpot": abs(draw.normal(0, 0.15)), "ttft": first, "ttft_p50": first + draw.normal(0, 0.1)}
        runs = [
            {
                n: plain[users][n].value * math.exp(factors[n] + draw.normal(0, s / math.sqrt(2)))
                for n, s in scatter.items()
            }
            for _ in range(2)
        ]
        answer = _of_users(users, _benchmark(folder / "bench.json", users, runs[0])).quantities
        for name in scatter:
            held[name].append((answer[name].low or 0.0) <= runs[1][name] <= (answer[name].high or math.inf))
            off[name].append(abs(math.log(answer[name].value / runs[0][name])))
    return held, off


@pytest.mark.parametrize("files", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_a_benchmark_is_met_through_its_simulated_run(files: int, tmp_path: Path) -> None:
    """Median and mean of the first token together, and the further token; a second run lies in the band."""
    held, off = _repeats(files, tmp_path)
    for name, values in off.items():
        assert np.median(values) < 0.03, name
        if files > 10:
            assert 0.70 <= np.mean(held[name]) <= 0.97, name  # two standard errors of 60 below and above
    assert files < 10 or 0.78 <= np.mean([one for values in held.values() for one in values]) <= 0.90


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"output_throughput": 1462.9, "request_throughput": 11.429, "duration": 35.0}, "get at most"),
        ({"mean_e2el_ms": 9000.0}, "9 s a request"),
    ],
)
def test_a_contradiction_inside_a_benchmark_is_said(
    changed: dict[str, float], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """16 users whose requests take 2.7 s get no 1,463 tokens/s, and 127 times 20 ms are no 9 s."""
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({**SERVED, **changed}))
    asked = ["llama-3.1-8b", "--on", "a100-sxm-80gb", "--concurrency", "16", "--num-requests", "32"]
    for verb in (["serve"], ["estimate", "--verbose"]):
        said = " ".join(answered([*verb, *asked, "--measured", str(path)], capsys).split())
        assert "contradicts itself" in said and words in said
