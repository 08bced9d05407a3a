"""A measurement of one's own: all of its file is read, and what contradicts the model or the data sheet is said."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.serving.llama_cpp_run import Local

TABLE = """
| model                  |     size | params | backend | ngl |  test |             t/s |
| ---------------------- | -------: | -----: | ------- | --: | ----: | --------------: |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | {backend} |  99 | pp512 | {prompt} ± 10.20 |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | {backend} |  99 | tg128 |   101.62 ± 0.30 |
"""
"""As llama-bench prints it."""


def _local(tmp_path: Path, backend: str = "CUDA", prompt: float = 2300.0) -> Local:
    path = tmp_path / "bench.md"
    path.write_text(TABLE.format(backend=backend, prompt=prompt))
    answer = ss.serve_locally("llama-3.1-8b", "rtx-4090", dtype="q4_k_m", measured=str(path))
    assert isinstance(answer, Local)
    return answer


def test_the_prompt_of_a_llama_bench_moves_prompts(tmp_path: Path) -> None:
    (plain,) = ss.serve_locally("llama-3.1-8b", "rtx-4090", dtype="q4_k_m").rows()
    slow, fast = (_local(tmp_path, prompt=rate).row() for rate in (5000.0, 9000.0))
    assert slow["prompt_tokens_per_s"] == pytest.approx(5000, rel=0.1)
    assert fast["prompt_tokens_per_s"] == pytest.approx(9000, rel=0.1)
    for row in (slow, fast):
        width = row["prompt_high_tokens_per_s"] / row["prompt_low_tokens_per_s"]
        assert width < plain["prompt_high_tokens_per_s"] / plain["prompt_low_tokens_per_s"]
    assert slow["output_tokens_per_s"] == fast["output_tokens_per_s"]


def test_the_backend_of_a_llama_bench_answers(tmp_path: Path) -> None:
    named = {name: _local(tmp_path, name) for name in ("CUDA", "Vulkan", "ROCm,RPC")}
    assert [one.backend for one in named.values()] == ["cuda", "vulkan", "rocm"]
    assert len({one.token_seconds for one in named.values()}) == 3
    with pytest.raises(InputError, match="a run of llama.cpp on cpu: GeForce RTX 4090 runs it on cuda"):
        _local(tmp_path, "CPU")


def test_a_prompt_faster_than_the_peak_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a prompt of llama-3-8b q4_k_m at 90000 tokens/s: .* computes at most"):
        _local(tmp_path, prompt=90_000.0)


def test_prompts_may_take_what_a_further_token_leaves_no_decode_step() -> None:
    """9 ms a token of 16 users with long prompts: a decode step as long as the data sheet asks, and a word."""
    words = {"engine": "sglang", "input_tokens": 4096, "concurrency": 16}
    near = ss.serve("llama-3.1-8b", "h100-sxm", measured="9ms", **words)  # type: ignore[call-overload]
    far = ss.serve("llama-3.1-8b", "h100-sxm", measured="40ms", **words)  # type: ignore[call-overload]
    assert [len(one.deployment.contradictions) for one in (near, far)] == [1, 0]
    assert near.served.quantiles("tpot")["mean"] >= 0.009
    with pytest.raises(InputError, match=r"a measured further token of 5 ms, 16 users .* needs at least"):
        ss.serve("llama-3.1-8b", "h100-sxm", measured="5ms", **words)  # type: ignore[call-overload]


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "said"), [(1.2, 0), (4.49, 1)])
def test_a_training_step_far_outside_its_band_is_no_quiet_trust(factor: float, said: int) -> None:
    (plain,) = ss.plan_training("llama-3.1-8b", "h100-dgx", devices=64, batch=128, rows=1, trainer="megatron").estimates
    half = math.log(plain.interval()[1] / plain.time)  # type: ignore[index]
    assert (math.log(factor) > 2 * half) == bool(said)
    measured = f"{plain.time * factor:g}s@devices=64,tp=1"
    plan = ss.plan_training("llama-3.1-8b", "h100-dgx", devices=64, batch=128, measured=measured, trainer="megatron")
    assert len(plan.remarks) == said == len(plan.estimates[0].doubts)
    assert any(line.startswith("beware: the measured time") for line in plan.heads) == bool(said)
