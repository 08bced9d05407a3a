"""Serving from a user's own config.json: the commands of the tutorial, memory, bounds, bad input."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.fitting.fitted_model import UNGROUPED
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.deployment import Deployment
from slipstick.estimators.serving.serving_answer import serve
from slipstick.experiments.cli.cli import run
from slipstick.experiments.serve.llama_cpp import local
from slipstick.experiments.serve.plan_serving import Search
from slipstick.experiments.serve.serving_question import ServingOptions, traffic
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language_catalog import language_model
from tests.printed import printed as answer

CONFIG = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 14336, "num_hidden_layers": 32, "vocab_size": 128256,
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A config.json of one's own."""
    path = tmp_path / "my-8b" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(CONFIG))
    return str(path)


def test_own_model_on_a_machine(config: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out, trace, page = (str(tmp_path / name) for name in ("requests.parquet", "steps.json", "page.html"))
    common = ["serve", config, "--on", "h100-sxm", "--devices", "1", "--dtype", "fp8", "--concurrency", "16"]
    found = answer([*common, "--limit", "tpot=30ms", "--out", out, "--timeline", trace, "--report", page], capsys)
    keys = ("low_tokens_per_s", "output_tokens_per_s", "high_tokens_per_s")
    low, rate, high = (float(str(found[key])) for key in keys)
    assert low < rate < high
    assert found["meeting_limits"] == 1.0
    frame = pd.read_parquet(out)
    assert len(frame) == 200
    assert (frame.first_token_s > frame.arrival_s).all()
    assert json.loads(Path(trace).read_text())["traceEvents"]
    assert "Serving my-8b" in Path(page).read_text()
    assert run(common) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "16 users in a closed loop" in lines[0] and lines[1].startswith("output: ")
    assert any("engine not named" in line for line in lines)


def test_a_plan_of_three_machines(config: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    limits = ["--limit", "ttft=1s,tpot=15ms", "--devices", "2"]
    three = ["--on", "h100-sxm,mi300x,b200-sxm", "--price", "h100-sxm=2.5,mi300x=2,b200-sxm=5"]
    found = answer(["plan", "serving", config, *three, "--dtype", "bf16,fp8", *limits], capsys)
    best = found["best"]
    assert isinstance(best, dict)
    assert best["keeps_limits"] >= 0.9
    assert best["tpot_s"] < 0.015
    page = str(tmp_path / "plan.html")
    assert run(["plan", "serving", config, "--on", "h100-sxm", *limits, "--report", page]) == 0
    assert "cheapest that keeps the limits" in Path(page).read_text()  # the catalogue has its price
    assert "pick" in capsys.readouterr().out


def test_prices_decide() -> None:
    search = Search("llama-3.1-8b", ("h100-sxm", "b200-sxm"), output_tokens=32, devices=1)
    dear = replace(search, prices=FrozenDict({"h100-sxm": 1.0, "b200-sxm": 1000.0})).run()
    cheap = replace(search, prices=FrozenDict({"h100-sxm": 1000.0, "b200-sxm": 1.0})).run()
    assert dear.best is not None and dear.best.machine == "h100-sxm"
    assert cheap.best is not None and cheap.best.machine == "b200-sxm"


def deployment(model: str, on: str, devices: int, stored: str) -> Deployment:
    """With tensor ranks on all devices."""
    return Deployment(language_model(model), machine(on), Layout(devices), stored)


def test_405b_fits_eight_h200_and_not_eight_h100() -> None:
    with pytest.raises(InputError, match="does not fit"):
        deployment("llama-3.1-405b", "h100-sxm", 8, "bf16").cache_tokens  # noqa: B018
    assert deployment("llama-3.1-405b", "h200-sxm", 8, "bf16").cache_tokens > 100_000


def test_vllm_blocks_of_an_8b_model_on_an_rtx_4090() -> None:
    """vLLM 0.19: 2,588 blocks of 16 tokens (casys-kaist/LLMServingSim, 5daddb2); one constant was fitted to it."""
    own = machine("rtx-4090").using({"memory.GDDR6X.capacity": 25_250_627_584})
    rules = Scheduler(token_budget=2048, max_num_seqs=256)
    one = Deployment(language_model("llama-3.1-8b"), own, Layout(), "bf16", rules=rules)
    assert one.cache_tokens == 2588 * 16


def test_70b_from_one_to_eight_devices() -> None:
    """A dashboard's H200, FP8, four users, 1k + 1k: TensorRT-LLM 20.1 to 6.3 ms, vLLM 21.5 to 7.9 ms a token."""
    for engine, measured in (("trtllm", (20.1e-3, 6.3e-3)), ("vllm", (21.5e-3, 7.9e-3))):
        for devices, seconds in zip((1, 8), measured, strict=True):
            at, layout = machine("h200-sxm"), Layout(devices)
            one = Deployment(language_model("llama-3.1-70b"), at, layout, "fp8", engine=engine, source=UNGROUPED)
            assert one.step.seconds(Batch(4, 1383.0)) == pytest.approx(seconds, rel=0.25)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--concurrency", "4", "--rate", "2"], "give one of --concurrency"),
        (["--concurrency", "4", "--devices", "3"], "heads on 3 tensor ranks"),
        (["--concurrency", "4", "--dtype", "fp7"], "unknown type of weights"),
        (["--concurrency", "4", "--engine", "tgi"], "unknown serving engine"),
        (["--concurrency", "4", "--limit", "tpot=fast"], "limit tpot"),
        (["--concurrency", "4", "--limit", "p99=1s"], "unknown limited measure"),
        (["--rate", "-1"], "--rate -1: want a finite number of requests/s > 0"),
        (["--concurrency", "4", "--ep", "2"], "want a divisor of tensor x data"),
        (["--engine", "llama.cpp", "--concurrency", "32", "--tp", "2"], "--concurrency, --tp: not used: llama.cpp"),
        (["--concurrency", "4", "--measured", "llama-3.1-8b:q4_k_m=103"], "--measured: not used"),
        (["--concurrency", "4", "--vary", "machine.clock=1GHz", "--limit", "ttft=1s"], "--limit: not used: --vary"),
    ],
)
def test_bad_input_is_one_line(config: str, more: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", config, "--on", "h100-sxm", *more]) == 2
    text = capsys.readouterr().err
    assert words in text and text.count("\n") == 1


def test_one_users_model_on_ones_own_machine(capsys: pytest.CaptureFixture[str]) -> None:
    common = ["serve", "llama-3.1-8b", "--on", "rtx-4090", "--engine", "llama.cpp", "--dtype", "q4_k_m"]
    found = answer(common, capsys)
    low, rate, high = (float(str(found[f"{end}tokens_per_s"])) for end in ("low_", "output_", "high_"))
    assert low < rate < high < 223
    assert low < 128 < high  # llama.cpp itself: 128 tokens/s (XiongjieDai/GPU-Benchmarks-on-LLM-Inference)
    anchored = answer([*common, "--measured", "llama-3.2-1b:q4_k_m=200"], capsys)
    assert float(str(anchored["output_tokens_per_s"])) < rate
    assert found["latency_s"] == pytest.approx(float(str(found["ttft_s"])) + 255 / rate)  # 256 tokens: the first, 255
    assert run([*common, "--measured", "llama-3.2-1b"]) == 2
    assert run(["serve", "llama-3.1-70b", "--on", "rtx-4090", "--engine", "llama.cpp", "--dtype", "fp16"]) == 2
    assert "use a smaller type of weights" in capsys.readouterr().err


def test_an_anchor_faster_than_the_bandwidth_is_refused() -> None:
    with pytest.raises(InputError, match=r"anchor qwen2.5-7b q4_k_m at 12800 tokens/s: GeForce RTX 4090 reads"):
        local("llama-3.1-8b", machine("rtx-4090"), "q4_k_m", 512, 128, "qwen2.5-7b:q4_k_m=12800")


def test_the_table_of_a_plan_holds_the_pick_and_only_what_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "serving", "llama-3.1-8b", "--on", "h100-sxm", "--dtype", "bf16", "--devices", "1"]
    assert run([*words, "--limit", "tpot=20ms", "--price", "h100-sxm=2.5"]) == 0
    table = capsys.readouterr().out
    assert "h100-sxm  *     " in table and "keeps" in table and "$/Mtoken" in table
    assert run([*words[:4], "h100-dgx", *words[5:]]) == 0  # of which the catalogue has no price
    table = capsys.readouterr().out
    assert "keeps" not in table and "$/M" not in table


def test_a_machine_without_measured_rows_is_a_caution(capsys: pytest.CaptureFixture[str]) -> None:
    from slipstick.experiments.cli.cli import run

    for on, warned in (("h100-sxm", False), ("mi300x", True)):
        assert run(["plan", "serving", "llama-3.1-8b", "--on", on, "--devices", "1"]) == 0
        assert ("no measured row is of " in capsys.readouterr().out) == warned


def test_prompts_beyond_the_context_of_the_model_are_a_caution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"max_position_embeddings": 4096}))
    common = [
        "serve",
        str(path),
        "--on",
        "h100-sxm",
        "--concurrency",
        "2",
        "--output-tokens",
        "96",
        "--length-range",
        "0",
    ]
    assert run([*common, "--input-tokens", "4001"]) == 0
    assert "beware: the longest request has 4,097 tokens, beyond the 4,096" in capsys.readouterr().out
    assert run([*common, "--input-tokens", "4000"]) == 0
    assert "the longest request" not in capsys.readouterr().out


def test_what_no_machine_takes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Arrivals beyond what a float tells apart, a token's time beyond any machine; the file and its line are named."""
    requests, words = tmp_path / "r.jsonl", ["serve", "llama-3.1-8b", "--on", "h100-sxm"]
    line = '{"input_tokens": 100, "output_tokens": 10, "arrival_s": %s}\n'
    requests.write_text(line % "0" + line % "1e300")
    assert run([*words, "--requests", str(requests)]) == 2
    assert "r.jsonl: line 2: request: arrival = 1e+300 s" in capsys.readouterr().err
    for seconds in ("1e300s", "1e-9s"):
        assert run([*words, "--concurrency", "4", "--measured", seconds]) == 2
        assert f"--measured {seconds}: a token takes" in capsys.readouterr().err
    times = tmp_path / "operations.csv"
    times.write_text("kind,dtype,m,n,k,time_s\ngemm,bfloat16,64,64,64,1e300\n")
    assert run(["estimate", "llama-3-8b", "--on", "h100-sxm", "--measured", str(times)]) == 2
    assert "line 2: time_s = 1e+300 lies outside" in capsys.readouterr().err


def test_a_cap_above_the_boards_own_says_that_it_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "llama-3.1-8b", "--on", "h100-sxm"]
    assert run([*words, "--set", "machine.power.cap=5kW"]) == 0
    assert "a cap above the board's rated 700 W raises no clock" in capsys.readouterr().out
    assert run(words) == 0
    assert "raises no clock" not in capsys.readouterr().out


def test_a_server_takes_the_share_of_memory_that_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    """Half of 80 GB less 16 GB of weights holds far fewer tokens than nine tenths, and a tenth holds not even these."""
    words = [
        "serve",
        "llama-3.1-8b",
        "--on",
        "h100-sxm",
        "--concurrency",
        "2",
        "--num-requests",
        "20",
        "--format",
        "json",
    ]
    held = {}
    for share in ("0.5", "0.9"):
        assert run([*words, "--memory-share", share]) == 0
        answer = json.loads(capsys.readouterr().out)[0]
        held[share] = answer["cache_tokens"]
        (said,) = [one for one in answer["conditions"] if one["name"] == "run.memory_share"]
        assert (said["value"], said["origin"]) == (share, "given" if share == "0.5" else "default")
    per_token = 2 * 32 * 8 * 128 * 2  # bytes: keys and values of 32 layers, 8 heads of 128, in 16 bits
    assert held["0.9"] - held["0.5"] == pytest.approx(0.4 * 80e9 / per_token, rel=0.05)
    assert run([*words, "--memory-share", "0.1"]) == 2
    assert "does not fit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "on"),
    [
        *(("llama-2-13b", on) for on in ("h100-sxm", "l4", "tpu-v5e")),
        *(("mixtral-8x7b", on) for on in ("h100-sxm", "tpu-v5e")),
        pytest.param("mixtral-8x7b", "l4", marks=pytest.mark.slow),
    ],
)
def test_plan_and_serve_agree_on_which_layouts_exist(name: str, on: str) -> None:
    """13B has 40 heads: 16 ranks divide them on no GPU, and a compiler of arrays adds heads until they do."""
    planned = {one.layout for one in Search(name, (on,), devices=16, memory_share=0.95).run().candidates}
    experts = name == "mixtral-8x7b"
    for tensor, stages, data in itertools.product((1, 2, 16), (1, 2), (1, 2, 8) if experts else (1,)):
        if tensor * stages * data > 16 or (stages > 1 and data > 1):
            continue
        for expert in {1, tensor * data} if experts else {1}:
            wanted = ServingOptions(
                name, on, tensor=tensor, pipeline=stages, data=data, expert=expert, memory_share=0.95
            )
            load = traffic(input_tokens=1024, output_tokens=256, users=data, rate=None, num_requests=2 * data)
            try:
                serves = bool(serve(wanted.deployment(), load))
            except InputError:
                serves = False
            assert serves == (Layout(tensor, stages, data, expert) in planned), wanted
