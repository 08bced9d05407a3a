"""One law of a step: `estimate`, `whatif`, `serve` and `plan serving` give the same number and band."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.engine_steps.engines import cache_for
from slipstick.estimators.engine_steps.fitted_steps import engine_on
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.engine_steps.step_graph import group_of
from slipstick.estimators.roofline.physical_bound import PhysicalBound
from slipstick.estimators.serving.deployment import Deployment
from slipstick.estimators.serving.serving_answer import serve
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.serve.llama_cpp import local
from slipstick.experiments.serve.plan_serving import Search
from slipstick.experiments.studies.sweep import sweep, task
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.footprint import resident_bytes
from slipstick.workloads.language.language_step import in_stored_type, language_step
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import stored_as
from slipstick.workloads.language_catalog import language_model
from slipstick.workloads.runs.traffic import Traffic

ASKED = [
    ("llama-3.1-8b", "h100-sxm", "fp8", 16, 1000),
    ("llama-3.1-70b", "h200-sxm", "fp8", 4, 1152),
    ("llama-3.1-70b", "b200-sxm", "nvfp4", 1, 1024),
    ("gpt-oss-120b", "h200-sxm", None, 64, 3000),
    ("qwen3-30b-a3b", "a100-sxm-80gb", "bf16", 8, 512),
    ("llama-2-7b", "rtx-4090", "int4", 1, 1024),
    ("llama-3.1-8b", "mi300x", "bf16", 32, 2048),
]


def decode(model: str, on: str, dtype: str | None, users: int, context: int, library: str = "") -> Question:
    """The question of `estimate decode:MODEL`."""
    sizes: dict[str, float | str] = {"workload.decodes": users, "workload.context": context}
    return question(
        f"decode:{model}", on, None, sizes | ({"machine.runtime.library": library} if library else {}), dtype
    )


@pytest.mark.parametrize(("model", "on", "dtype", "users", "context"), ASKED)
def test_an_estimate_is_the_step_of_a_server(model: str, on: str, dtype: str | None, users: int, context: int) -> None:
    one = language_model(model)
    server = Deployment(one, machine(on), Layout(), stored_as(one, dtype))
    batch = Batch(users, context)
    answer = decode(model, on, dtype, users, context).answer()
    assert answer.time == pytest.approx(server.step.seconds(batch), rel=1e-9)
    half = math.exp(server.half_width(batch))
    low, high = answer.interval() or (0.0, 0.0)
    assert low == pytest.approx(server.step.scaled(1 / half).seconds(batch), rel=0.02)
    assert high == pytest.approx(server.step.scaled(half).seconds(batch), rel=1e-9)


def test_requests_served_one_by_one_take_the_step_of_an_estimate() -> None:
    """A user's 256 tokens after 896: every further token is a step whose context is 1,024 at the mean."""
    one = language_model("llama-3.1-70b")
    server = Deployment(one, machine("h200-sxm"), Layout(), "fp8")
    served = serve(server, Traffic(896, 256, users=1, length_range=0.0, num_requests=4))
    answer = decode("llama-3.1-70b", "h200-sxm", "fp8", 1, 1024).answer()
    middle, low, high = served.band("tpot", "mean")
    assert middle == pytest.approx(answer.time, rel=1e-3)
    assert (low, high) == pytest.approx(answer.interval(), rel=2e-3)
    plan = Search("llama-3.1-70b", ("h200-sxm",), ("fp8",), 896, 256, devices=1).run()
    alone = next(c for c in plan.candidates if c.users == 1)
    assert alone.tpot == pytest.approx(answer.time, rel=0.02)  # the steady loop reads a prompt now and then


@pytest.mark.parametrize("on", ["rtx-4090", "apple-m2-ultra", "rx-7900-xtx"])
def test_an_estimate_is_the_token_of_llama_cpp(on: str) -> None:
    alone = local("llama-2-7b", machine(on), "q4_k_m", 896, 256, None)
    answer = decode("llama-2-7b", on, "q4_k_m", 1, 1024).answer()
    assert answer.time == pytest.approx(alone.token_seconds, rel=1e-9)
    row, (low, high) = alone.row(), answer.interval() or (0.0, 0.0)
    assert (1 / high, 1 / low) == pytest.approx((row["low_tokens_per_s"], row["high_tokens_per_s"]), rel=1e-9)
    prompt = question("prompt:llama-2-7b", on, None, {"workload.prompt": 896, "workload.chunk": 896}, "q4_k_m").answer()
    assert prompt.time == pytest.approx(896 * alone.prompt_seconds, rel=1e-9)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b"])
def test_a_token_of_llama_cpp_reads_its_context(model: str) -> None:
    """Bytes of weights and cache: 32 layers x 8 heads x 128 x 2 (keys, values) x 2 B = 131,072 B a token of Llama."""
    near, far = (local(model, machine("rtx-4090"), "q4_k_m", tokens, 256, None) for tokens in (896, 99872))
    per_token = {"llama-3.1-8b": 32 * 8 * 128 * 4, "gpt-oss-20b": 12 * 8 * 64 * 4}[model]  # half of its layers: 128
    added = per_token * 98976 / 1.008e12
    assert far.floor - near.floor == pytest.approx(added, rel=1e-6)
    slower = far.token_seconds - near.token_seconds
    assert added <= slower <= added * near.token_seconds / near.floor  # the bandwidth, and all of a short token's loss
    answer = decode(model, "rtx-4090", "q4_k_m", 1, 100000, "llama.cpp").answer()
    assert answer.time == pytest.approx(far.token_seconds, rel=1e-9)
    assert far.token_seconds >= far.floor


@pytest.mark.parametrize("on", ["rtx-4090", "mi300x"])
def test_no_band_of_a_sweep_ends_below_what_physics_needs(on: str) -> None:
    """Each point's band is that of the question with its value set; it stops at bytes over bandwidth."""
    name, stops = f"machine.memory.{machine(on).main_memory}.bandwidth", 0
    values = [machine(on).bandwidth(machine(on).main_memory) * factor for factor in (1.0, 0.8, 0.5)]
    rows = sweep(task(question("decode:llama-3.1-8b", on, None, vary={name: values})))
    for value, low, high in zip(values, rows["low_s"], rows["high_s"], strict=True):
        answer = question("decode:llama-3.1-8b", on, None, {name: value}).answer()
        assert low >= answer.least * (1 - 1e-9)
        stops += low == pytest.approx(answer.least, rel=1e-9)
        if value == values[0]:
            assert (low, high) == pytest.approx(answer.interval(), rel=1e-6)
    assert stops == 3 if on == "rtx-4090" else stops < 3


@pytest.mark.parametrize(
    ("engine", "weights", "said", "expected"),
    [
        ("vllm 0.12.0", "fp8", ("fp8", "modelopt"), "bf16"),
        ("vllm 0.13.0", "fp8", ("fp8", "modelopt"), "fp8"),
        ("vllm 0.13.0", "fp8", ("fp8", "compressed-tensors"), "bf16"),
        ("vllm", "fp8", ("fp8", "compressed-tensors"), "fp8"),
        ("sglang 0.5.9", "nvfp4", ("fp8", "modelopt"), "fp8"),
        ("sglang 0.5.9", "fp8", ("fp8", "compressed-tensors"), "bf16"),
        ("trtllm 0.16.0", "fp8", ("fp8", "modelopt"), "fp8"),
        ("trtllm 1.0", "fp8", ("bf16", "modelopt"), "bf16"),
        ("TensorRT-LLM 1.0", "nvfp4", ("", ""), "fp8"),
        ("trtllm", "bf16", ("", ""), "bf16"),
        ("vllm", "fp8", ("", ""), "bf16"),
    ],
)
def test_the_cache_is_what_the_engine_makes_of_the_checkpoint(
    engine: str, weights: str, said: tuple[str, str], expected: str
) -> None:
    one = replace(language_model("llama-3.1-8b"), weights=weights, cache=said[0], quantiser=said[1])
    kind, why = cache_for(one, weights, engine)
    assert kind == expected
    assert bool(why) == (said[0] == "fp8" or expected == "fp8")
    assert cache_for(one, weights, engine, "int8") == ("int8", "")
    other = cache_for(one, "int4", engine)  # weights that the file does not hold: what it says is of another checkpoint
    assert other == ("bf16", "")


@pytest.mark.parametrize("model", ["decode:llama-3.1-70b", "llama-3-70b-decode"])
def test_a_step_under_tensorrt_llm_reads_an_eight_bit_cache_everywhere(model: str) -> None:
    """A token leaves 2 x 8 heads x 128 x 80 layers = 163,840 numbers, one byte each beside FP8 weights."""
    sizes = {"batch": 64.0, "seq_len": 8000.0} if model.endswith("-decode") else {"decodes": 64.0, "context": 8000.0}
    settings = {f"workload.{name}": value for name, value in sizes.items()}
    asked = question(model, "h200-sxm", None, {**settings, "machine.runtime.library": "trtllm"}, "fp8")
    one = language_model("llama-3.1-70b")
    server = Deployment(one, machine("h200-sxm"), Layout(), "fp8", engine="trtllm")
    assert server.shares.token_cache_bytes == 163_840
    assert replace(server, cache_type="bf16").shares.token_cache_bytes == 2 * 163_840
    assert asked.answer().time == pytest.approx(server.step.seconds(Batch(64, 8000)), rel=1e-3)
    assert "cache fp8" in asked.why
    assert any((one.name, one.value, bool(one.note)) == ("cache_dtype", "fp8", True) for one in server.conditions)
    held = resident_bytes(asked.workload)
    assert held == pytest.approx(server.shares.held_bytes + 64 * 8000 * 163_840, rel=0.01)
    plan = Search("llama-3.1-70b", ("h200-sxm",), ("fp8",), devices=1, engine="trtllm").run()
    assert any("cache fp8" in line for line in plan.notes)


def test_experts_of_four_bits_are_counted_as_their_file_stores_them() -> None:
    """gpt-oss-20b as GGUF is a file of 12.1 GB (ggml-org/gpt-oss-20b-GGUF); a token reads its 3.6e9 active weights."""
    alone = local("gpt-oss-20b", machine("rtx-3090"), None, 896, 256, None)
    assert alone.weights_bytes == pytest.approx(12.1e9, rel=0.01)
    assert 1 / alone.floor > 180.42  # measured there (localmaxxing.com, as cached by AlexsJones/llmfit)
    answer = decode("gpt-oss-20b", "rtx-3090", None, 1, 1024, "llama.cpp").answer()
    assert answer.time == pytest.approx(alone.token_seconds, rel=1e-6)


def test_the_decoder_of_the_catalogue_is_the_model_of_its_shape(capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for words in ("decode:llama-3.1-70b", "llama-3-70b-decode"):
        assert run(["estimate", words, "--on", "h200-sxm", "--dtype", "fp8", "--format", "json"]) == 0
        rows += json.loads(capsys.readouterr().out)
    assert rows[0]["time_s"] == pytest.approx(rows[1]["time_s"], rel=1e-3)
    assert rows[0]["high_s"] == pytest.approx(rows[1]["high_s"], rel=1e-3)


def test_engine_and_version_belong_to_the_runtime() -> None:
    times = {
        name: decode("llama-3.1-70b", "h200-sxm", "fp8", 4, 1383, name).answer().time
        for name in ("vllm", "sglang", "trtllm", "vllm 0.19.0")
    }
    assert len(set(times.values())) == len(times)
    one = language_model("llama-3.1-70b")
    own = machine("h200-sxm").using({"runtime.library": "vllm 0.19.0"})
    assert Deployment(one, own, Layout(), "fp8").step.seconds(Batch(4, 1383)) == pytest.approx(times["vllm 0.19.0"])
    with pytest.raises(InputError, match="unknown serving engine 'cutlass'"):
        decode("llama-3.1-70b", "h200-sxm", "fp8", 4, 1383, "cutlass")
    with pytest.raises(InputError, match="answers for one sequence, not for 4"):
        decode("llama-3.1-70b", "h200-sxm", "fp8", 4, 1383, "llama.cpp")
    assert engine_on(machine("gaudi2"), "bf16") == "vllm"  # its library is no engine
    assert engine_on(machine("h200-sxm"), "q4_k_m") == "llama.cpp"


def test_a_sweep_is_its_points() -> None:
    free = ("workload.decodes", "machine.memory.HBM3e.bandwidth")
    asked = question("decode:gpt-oss-120b", "h200-sxm")
    function = asked.estimator.compile(asked.workload, asked.machine, free, asked.run)
    assert function.vectorised
    users, rates = np.array([1.0, 16.0, 256.0]), np.array([4.8e12, 3e12, 8e12])
    times = function(dict(zip(free, (users, rates), strict=True)))
    for user, rate, time in zip(users.tolist(), rates.tolist(), times.tolist(), strict=True):
        settings = {"workload.decodes": user, "machine.memory.HBM3e.bandwidth": rate}
        assert question("decode:gpt-oss-120b", "h200-sxm", settings=settings).answer().time == pytest.approx(time)


@pytest.mark.parametrize("on", ["h100-sxm", "b200-sxm", "mi355x", "rtx-4090", "l40s"])
@pytest.mark.parametrize("name", ["decode:llama-3.1-8b", "prompt:llama-3.1-8b", "decode:gpt-oss-20b"])
def test_no_step_and_no_band_passes_the_physical_bound(name: str, on: str) -> None:
    for size in (1, 4096):
        asked = question(name, on, settings={f"workload.{'decodes' if 'decode' in name else 'prompt'}": size})
        answer = asked.answer()
        bound = PhysicalBound(asked.machine)
        bindings = {**asked.workload.defaults, **asked.run}
        least = sum(
            float(op.times) * bound.least(op)[0] for op in asked.workload.bind_known(bindings).bound() if group_of(op)
        )
        assert answer.time >= least * (1 - 1e-9)
        low, _ = answer.interval() or (0.0, 0.0)
        assert low >= least * (1 - 1e-9)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "deepseek-v3", "qwen3.5-397b-a17b"])
@pytest.mark.parametrize("dtype", ["fp8", "nvfp4", "q4_k_m", "int4"])
def test_weights_stored_otherwise_are_the_step_written_down_so(name: str, dtype: str) -> None:
    sizes = {"decodes": 3, "context": 100, "prompt": 100, "past": 0, "chunk": 50, "finished": 1}
    sizes |= dict.fromkeys(("tensor", "data", "expert", "pipeline"), 1)
    model = language_model(name)
    wanted = language_step(model, stored_as(model, dtype)).bind_known(sizes).bound()
    made = in_stored_type(language_step(model, "bf16"), dtype)
    assert made is not None and FrozenDict(made.metadata) == wanted.metadata
    for one, other in zip(wanted, made.bind_known(sizes).bound(), strict=True):
        assert (one.name, one.dtype, one.dims) == (other.name, other.dtype, other.dims)
        assert dict(one.cost) == pytest.approx(dict(other.cost))


@pytest.mark.parametrize(("gpu", "bandwidth"), [("t4", 320e9), ("v100-sxm", 900e9), ("rtx-2080-ti", 616e9)])
def test_a_gpu_without_bfloat16_runs_a_step_in_float16(gpu: str, bandwidth: float) -> None:
    words = 2 * 3.21e9  # bytes: 3.21e9 numbers (model card), the table of words shared with the head
    decode = ss.estimate("decode:llama-3.2-3b", gpu, dtype="fp16").time
    assert words / bandwidth < decode < 2 * words / bandwidth
    assert ss.estimate("prompt:llama-3.2-3b", gpu, dtype="fp16").time > decode


def test_float16_takes_a_gpu_that_has_both_the_time_of_bfloat16() -> None:
    for name in ("decode:llama-3.2-3b", "prompt:llama-3.2-3b"):
        times = {dtype: ss.estimate(name, "a100-sxm-80gb", dtype=dtype).time for dtype in ("fp16", "bf16")}
        assert times["fp16"] == pytest.approx(times["bf16"])


@pytest.mark.parametrize("machine", ["h100-sxm", "a100-sxm-80gb", "l40s"])
def test_an_unnamed_engine_is_no_surer_than_any_that_was_measured(machine: str) -> None:
    """Under none that is known: the mean of their bands was narrower than that of vLLM, the least sure of them."""

    def scatter(engine: str | None) -> float:
        settings = {"workload.decodes": "8"} | ({} if engine is None else {"machine.runtime.library": engine})
        return ss.question("decode:llama-3.1-8b", machine, settings=settings).answer().spread.total or 0.0

    assert scatter(None) >= max(scatter("vllm"), scatter("sglang"))


@pytest.mark.parametrize(
    ("workload", "at"), [("decode:glm-5", "b200-sxm"), ("glm-5", "b200-sxm"), ("train:glm-5", "h100-dgx")]
)
def test_what_a_model_leaves_out_is_a_condition_and_in_the_band(workload: str, at: str) -> None:
    """The indexer of GLM-5's attention is not counted: public decode steps took 1.39 times its answer."""
    settings = {"run.tensor_parallel": 8} if workload == "glm-5" else {}
    answer = ss.question(workload, at, settings=settings).answer()
    assert any(one.name == "not counted" and "indexer" in one.value and one.note for one in answer.conditions)
    low, high = answer.interval() or (1.0, 1.0)
    assert low * 1.39 < answer.time < high / 1.39
