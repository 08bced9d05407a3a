"""Disaggregated serving by every door: the command, Python, what-if; what is refused says what to write."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.serving.serving_answer import serve as answered
from slipstick.experiments.cli.cli import run
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.workloads.runs.traffic import Traffic

SERVER = ["serve", "llama-3.1-8b", "--on", "h100-sxm", "--concurrency", "16", "--num-requests", "64"]
POOL = ["--prefill-workers", "2", "--replicas", "4"]


def test_the_command_and_python_give_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "llama-3.1-8b", "--on", "h100-sxm", "--concurrency", "16", *POOL, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    answer = ss.serve("llama-3.1-8b", "h100-sxm", concurrency=16, replicas=4, prefill_workers=2)
    assert row["devices"] == answer.summary()["devices"] == 6
    assert row["output_tokens_per_s"] == pytest.approx(answer.served.output_rate)
    numbers = {"run.concurrency": 16, "run.replicas": 4, "run.prefill_workers": 2}
    assert ss.estimate("llama-3.1-8b", "h100-sxm", settings=numbers).headline.value == pytest.approx(
        answer.served.output_rate
    )


def test_the_answer_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SERVER, *POOL]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 prefill workers of tp 1 beside 4 decode workers" in said
    assert "first tokens of 102 public rows took 1.6 x as long" in said
    assert "cache sent at 450 GB/s a device (nvswitch) once the prompt is read" in said
    assert "prefill workers busy" in said


def test_bytes_are_those_of_the_prompts_cache() -> None:
    """Llama 3.1 8B: 32 layers x 2 x 8 heads x 128 x 2 bytes = 131,072 bytes a token, over tensor ranks."""
    for tensor in (1, 2):
        many = {"devices": 2 * tensor, "prefill_workers": 1, "link_bandwidth": 1e9}
        link = ss.serve("llama-3.1-8b", "h100-sxm", concurrency=1, output_tokens=4, **many).deployment.kv_transfer  # type: ignore[call-overload]
        assert link.seconds(1000) == pytest.approx(131_072 * 1000 / tensor / 1e9)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prefill-workers", "2", "--replicas", "8"], "no link joins the 10 devices of all workers"),
        (["--prefill-tp", "2"], "no worker reads prompts apart: say how many"),
        (["--link-bandwidth", "50GB/s"], "--prefill-workers 2"),
        (["--prefill-workers", "2", "--output-tokens", "1"], "requests of one token"),
        (["--prefill-workers", "1", "--replicas", "2", "--devices", "4"], "prefill workers are replicas too"),
        (["--prefill-workers", "1", "--prefill-tp", "3"], "32 heads on 3 tensor ranks"),
    ],
)
def test_what_cannot_be_is_a_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SERVER, *words]) == 2
    assert said in capsys.readouterr().err


def test_one_run_of_ones_own_corrects_serve() -> None:
    plain = ss.serve("llama-3.1-8b", "h100-sxm", concurrency=16)
    known = ss.serve("llama-3.1-8b", "h100-sxm", concurrency=16, measured="9ms")
    assert known.provenance == "calibrated" and plain.provenance == "estimated"
    assert abs(known.band("tpot", "mean")[0] - 9e-3) < abs(plain.band("tpot", "mean")[0] - 9e-3)
    with pytest.raises(InputError, match="is for llama.cpp"):
        ss.serve("llama-3.1-8b", "h100-sxm", concurrency=16, measured="llama-3.1-8b:q4_k_m=100")


@settings(max_examples=12, deadline=None)
@given(
    tokens=st.integers(64, 30_000),
    engine=st.sampled_from(["vllm 0.19.0", "sglang", "trtllm"]),
    machine=st.sampled_from(["h100-sxm", "a100-sxm-80gb", "b200-sxm"]),
    tensor=st.sampled_from([1, 4]),
)
def test_a_user_alone_waits_as_a_rare_request_and_for_the_transfer_besides(
    tokens: int, engine: str, machine: str, tensor: int
) -> None:
    """Whoever is alone waits for the prompt: in a loop of one user, in a stream, and apart plus the cache's way."""
    deployment = ServingOptions("llama-3.1-8b", machine, engine=engine, tensor=tensor).deployment()
    apart = ServingOptions("llama-3.1-8b", machine, engine=engine, tensor=tensor, prefill_workers=1).deployment()
    loop = Traffic(tokens, 8, users=1, length_range=0.0, num_requests=4)
    rare = Traffic(tokens, 8, rate=1e-3, burstiness=0.0, length_range=0.0, num_requests=4)
    alone, seldom, sent, sent_seldom = (
        answered(one, load).served.ttft.mean() for one in (deployment, apart) for load in (loop, rare)
    )
    assert seldom == pytest.approx(alone, rel=0.03)  # the share that a correction of first tokens leaves
    assert alone >= deployment.least_first(tokens)
    assert sent - seldom == pytest.approx(apart.kv_transfer.seconds(tokens), rel=1e-3)
    assert sent_seldom == pytest.approx(sent, rel=1e-6)


@settings(max_examples=12, deadline=None)
@given(
    tokens=st.integers(2_000, 30_000),
    cached=st.sampled_from([0.25, 0.5, 0.9, 0.99]),
    users=st.sampled_from([1, 8]),
    machine=st.sampled_from(["h100-sxm", "l40s"]),
)
@example(tokens=14_742, cached=0.25, users=8, machine="h100-sxm")
@example(tokens=24_098, cached=0.25, users=8, machine="h100-sxm")
def test_what_is_in_the_cache_is_not_read_again(tokens: int, cached: float, users: int, machine: str) -> None:
    """A prompt in the cache but for a share of it takes at least that share by itself and at most the whole prompt.

    Of one user that is the wait for the first token. Prompts of eight users share chunks, so that their order changes
    with what is read and the median wait may grow where less is (by 8 % at 24,098 tokens with a quarter of them known,
    while the mean shrinks by 1 % and the run by 11 %): there the law is that of the whole run.
    """
    deployment = ServingOptions("llama-3.2-1b", machine).deployment()

    def took(length: int, prefix: float, **of: float) -> float:
        ways = {"rate": of["rate"], "burstiness": 0.0} if of else {"users": users}
        load = Traffic(length, 64, length_range=0.0, num_requests=4 * users, prefix_hit_rate=prefix, **ways)
        served = answered(deployment, load).served
        return float(np.median(served.ttft)) if users == 1 else float(served.last.max())

    whole, rest = took(tokens, 0.0), took(round(tokens * (1 - cached)), 0.0)
    known = took(tokens, cached)
    assert rest / 1.03 <= known <= whole * 1.03  # the share that a correction of first tokens leaves
    if users == 1:
        assert took(tokens, cached, rate=1e-3) == pytest.approx(known, rel=0.03)
        own = deployment.machine.peak("matrix", "bfloat16")
        left = 4 * tokens * tokens * (1 - cached) * 2048 * 16 / own  # scores and values of the rest, over all tokens
        assert known <= rest + 3 * left + 0.02 * whole


@pytest.mark.parametrize("stages", [2, 4])
def test_a_pipeline_shortens_no_prompt_that_is_one_chunk(stages: int) -> None:
    """One chunk passes the stages one after the other, on one device at a time; those of a long prompt overlap."""
    whole = ServingOptions("llama-3.1-8b", "h100-sxm").deployment()
    staged = ServingOptions("llama-3.1-8b", "h100-sxm", tensor=1, pipeline=stages).deployment()
    for ways in ({"users": 1}, {"rate": 1e-3, "burstiness": 0.0}):
        one, long = (Traffic(tokens, 8, length_range=0.0, num_requests=4, **ways) for tokens in (8192, 8 * 8192))
        alone = answered(staged, one).served.ttft.mean()
        assert alone == pytest.approx(answered(whole, one).served.ttft.mean(), rel=0.05)
        assert alone > 2 * 6.9e9 * 8192 / 989e12  # the products of one device
        share = (8 + stages - 1) / (8 * stages)
        left = answered(staged, long).served.ttft.mean() / answered(whole, long).served.ttft.mean()
        assert left == pytest.approx(share, rel=0.05)
    assert staged.least_first(8192) == pytest.approx(whole.least_first(8192), rel=1e-3)
