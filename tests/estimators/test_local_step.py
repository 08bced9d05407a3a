"""The laws of llama.cpp: which rate of products counts, what a long prompt adds, how sure an answer is."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.estimators.engine_steps.fitted_steps import local_fit, local_groups_on
from slipstick.estimators.engine_steps.llama_cpp_step import (
    LocalWork,
    PromptWork,
    backend_of,
    narrowing,
    product_type,
)
from slipstick.estimators.serving.llama_cpp_run import as_stored
from slipstick.experiments.scoreboards.local_llm.local_rows import processor
from slipstick.experiments.serve.llama_cpp import local
from slipstick.hwmodels.catalog import machine, machine_names
from slipstick.workloads.language.weight_types import weight_bytes, weight_type
from slipstick.workloads.language_catalog import language_model


@pytest.mark.parametrize(
    ("on", "tera"),
    [("rtx-3090", 142.3), ("rtx-4090", 330.3), ("a6000", 154.8), ("a100-sxm-80gb", 312.0), ("v100-sxm", 125.0)],
)
def test_prompts_run_at_the_rate_of_sums_in_16_bits(on: str, tera: float) -> None:
    """Peak FP16 tensor TFLOP/s with FP16 accumulate (GA102, Ada and Volta whitepapers, A100 data sheet)."""
    unit, name, counted = product_type(machine(on))
    assert counted * machine(on).peak(unit, name) == pytest.approx(1e12 * tera, rel=0.01)


def test_a_card_without_fast_half_precision_multiplies_in_single() -> None:
    unit, name, _ = product_type(machine("titan-xp"))
    assert machine("titan-xp").peak(unit, name) == pytest.approx(12.15e12, rel=0.01)  # its FP16 is 1/64 of that


@given(tokens=st.floats(1, 1e6))
def test_a_longer_prompt_needs_more_arithmetic_a_token(tokens: float) -> None:
    """Scores and their product with values: 4 x width x layers x half of the prompt, each token."""
    one, on, kind = language_model("llama-2-7b"), machine("rtx-4090"), weight_type("q4_k_m")
    work, longer = (PromptWork.of(one, kind, on, many) for many in (tokens, 2 * tokens))
    assert work.scores * 330.3e12 == pytest.approx(4 * 4096 * 32 * (tokens + 1) / 2, rel=1e-3)
    assert longer.products <= work.products


@given(tokens=st.floats(16, 512), batch=st.sampled_from([256.0, 512.0, 2048.0]))
def test_a_batch_of_a_prompt_reads_and_launches_once(tokens: float, batch: float) -> None:
    one, on, kind = language_model("llama-2-7b"), machine("rtx-4090"), weight_type("q4_k_m")
    short, many = (PromptWork.of(one, kind, on, n, batch=batch) for n in (tokens, 8192.0))
    assert short.read == pytest.approx(many.read * batch / min(tokens, batch), rel=0.02)  # the head is read once
    assert short.layers == pytest.approx(many.layers * batch / min(tokens, batch))


@pytest.mark.parametrize("on", ["rtx-5090", "dgx-spark", "rtx-4090", "mi355x", "strix-halo"])
def test_blackwells_tensor_cores_multiply_experts_in_fp4(on: str) -> None:
    """Twice as fast as int8 by the data sheets (RTX Blackwell whitepaper), under CUDA alone (llama.cpp 17906)."""
    expected = 0.5 if on in ("rtx-5090", "dgx-spark") else 1.0
    assert narrowing(machine(on), "mxfp4_gguf") == pytest.approx(expected)
    assert narrowing(machine(on), "q4_k_m") == 1


def test_every_machine_has_one_backend() -> None:
    named = {backend_of(machine(name).family) for name in machine_names()}
    assert named == {"cuda", "metal", "rocm", "cpu", "vulkan"}
    assert backend_of(machine("ryzen-9-7950x").family) == "cpu"
    assert backend_of(machine("arc-b580").family) == backend_of(machine("gaudi3").family) == "vulkan"


def test_a_processors_prompts_are_measured_and_its_generation_is_not() -> None:
    fitted = local_fit("cpu")
    assert fitted.prompting.of_backend
    assert not fitted.generating.of_backend
    known = processor("AMD Ryzen 9 7900X 12-Core Processor (znver4)")
    assert known is not None
    assert (known.cores, known.clock) == (12, 4.7e9)
    assert processor("Intel Xeon Platinum 8259CL CPU @ 2.50GHz (skylake-avx512)") is None
    (condition,) = local("llama-3.1-8b", machine("ryzen-9-9950x"), "q4_0", 512, 128, None).conditions
    assert condition.value == "no measured row is of this backend" and condition.band_factor > 1


def test_a_backend_without_rows_is_the_least_sure() -> None:
    model, stored = language_model("llama-3.1-8b"), weight_type("q4_k_m")
    for phase in ("generating", "prompting"):
        half = {}
        for on in ("arc-b580", "rtx-4070", "apple-m4"):
            at = machine(on)
            prompt = phase == "prompting"
            work = PromptWork.of(model, stored, at, 512.0) if prompt else LocalWork.of(model, stored, at)
            fitted = getattr(local_fit(backend_of(at.family)), phase)
            half[on] = fitted.half_width(work, local_groups_on(at, "q4_k_m"))
        assert half["arc-b580"] > half["rtx-4070"]
        assert half["arc-b580"] > half["apple-m4"]


def test_a_kind_of_memory_that_a_backend_never_had_makes_new_tokens_less_sure() -> None:
    """No measured row of CUDA reads LPDDR, as a GB10 does; other Blackwell boards without rows read GDDR."""
    model, stored, half = language_model("llama-3.1-8b"), weight_type("q4_k_m"), {}
    for on in ("dgx-spark", "rtx-5090", "rtx-5060-ti"):
        at = machine(on)
        half[on] = local_fit("cuda").generating.half_width(
            LocalWork.of(model, stored, at), local_groups_on(at, "q4_k_m")
        )
    assert half["dgx-spark"] > 1.1 * max(half["rtx-5090"], half["rtx-5060-ti"])
    (condition,) = local("llama-3.1-8b", machine("dgx-spark"), "q4_k_m", 512, 128, None).conditions
    assert condition.value == "no measured row is of this memory"


def test_routed_experts_are_the_bytes_of_those_that_a_token_visits() -> None:
    """Qwen3-30B-A3B: 8 experts of 3 x 2,048 x 768 weights in each of 48 layers."""
    on, kind = machine("strix-halo"), weight_type("bf16")
    work = LocalWork.of(language_model("qwen3-30b-a3b"), kind, on)
    assert work.experts == pytest.approx(2 * 48 * 8 * 3 * 2048 * 768 / 256e9, rel=1e-6)
    assert LocalWork.of(language_model("llama-3.1-8b"), kind, on).experts == 0 < work.experts < work.memory


def test_a_prompts_rate_on_a_card_of_the_fit_is_that_of_its_runs() -> None:
    """RTX A6000, LLaMA 3 8B, 1,024 tokens: 3,622 (Q4_K_M) and 4,315 (F16) tokens/s (XiongjieDai's runs of 2024)."""
    for stored, rate in (("q4_k_m", 3621.8), ("fp16", 4315.2)):
        row = local("llama-3-8b", machine("a6000"), stored, 1024, 128, None).row()
        assert row["prompt_low_tokens_per_s"] < rate < row["prompt_high_tokens_per_s"]


@given(share=st.floats(0.1, 1.0))
def test_a_lower_clock_slows_what_no_bytes_explain_and_leaves_the_memory_its_rate(share: float) -> None:
    """Latencies are a number of cycles: seconds fall as a straight line of one over the clock, down to the bytes'."""
    on = machine("rx-7900-xt")
    fitted = local_fit("rocm").parameters(local_groups_on(on, "q4_k_m"))
    full, half, some = (
        LocalWork.of(language_model("smollm2-1.7b"), weight_type("q4_k_m"), on.using(clock=on.clock * part))
        for part in (1.0, 0.5, share)
    )
    assert full.memory == half.memory == some.memory
    first, second, third = (float(work.token_seconds(fitted)) for work in (full, half, some))
    assert third == pytest.approx(first + (second - first) * (1 / share - 1), rel=1e-9)
    assert second - first < first


@given(tokens=st.floats(1, 1e5))
def test_every_batch_of_a_prompt_reads_its_experts_once(tokens: float) -> None:
    """Of 128 experts a layer 512 tokens visit all: all weights over the bandwidth, a 512th of it each token."""
    one, on, kind = language_model("qwen3-30b-a3b"), machine("rtx-3090"), weight_type("q4_k_m")
    work = PromptWork.of(one, kind, on, tokens)
    whole = weight_bytes(one, kind) / 936e9
    assert work.read <= whole / min(tokens, 512) * (1 + 1e-3)
    if tokens > 512:
        assert work.read == pytest.approx(whole / 512, rel=0.02)  # of the embedding only some rows


@pytest.mark.parametrize(
    ("model", "on", "stored", "key", "rate"),
    [
        ("gpt-oss-20b", "rtx-3090", None, "prompt", 4_941),  # 1,024 tokens, without its experts' bytes 7,500
        ("llama-3.1-8b", "rx-7900-xt", "q4_k_m", "output", 116),  # llamafile's kernels on AMD made it 50
        ("qwen2.5-14b", "rx-7900-xt", "q4_k_m", "output", 64.4),
        ("qwen3-30b-a3b", "strix-halo", "q4_k_m", "output", 68.3),
        ("smollm2-1.7b", "rx-7900-xt", "q4_k_m", "output", 325),  # with other boards' fixed seconds a layer: 160
    ],
)
def test_runs_of_llama_cpp_of_2026_lie_in_their_band(model: str, on: str, stored: str, key: str, rate: float) -> None:
    """Users' runs that llmfit collected (AlexsJones/llmfit at 3f44fd3); of the Strix Halo that of its guide at ROCm
    (hogeheer499-commits/strix-halo-guide at 3aa373c)."""
    row = local(model, machine(on), as_stored(language_model(model), stored), 1024, 128, None).row()
    low = {"prompt": "prompt_low_tokens_per_s", "output": "low_tokens_per_s"}[key]
    assert row[low] < rate < row[low.replace("low", "high")]


def test_a_cap_holds_prompts_before_it_holds_a_token() -> None:
    """A prompt draws more than a token that waits for memory: a lower cap takes more of the prompt."""
    free = machine("rtx-4090")
    runs = [
        local("llama-3.1-8b", one, "q4_k_m", 1024, 256, None)
        for one in (free, *(free.using({"power.cap": cap}) for cap in (450.0, 350.0, 250.0, 150.0)))
    ]
    assert runs[0].quantities == runs[1].quantities
    for more, less in pairwise(runs[1:]):
        token, prompt = less.token_seconds / more.token_seconds, less.prompt_seconds / more.prompt_seconds
        assert 1 <= token < prompt
