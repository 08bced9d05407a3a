"""One user's model under llama.cpp: `serve`, `estimate`, `whatif` and `explain` print the same figures."""

from __future__ import annotations

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from tests.printed import printed

QUESTIONS = {
    "its engine is named": ("llama-3.1-8b", "rtx-4090", ["--set", "machine.runtime.library=llama.cpp"]),
    "stored as GGUF": ("llama-3.1-8b", "rtx-3090", ["--dtype", "q4_k_m"]),
    "a Mac": ("qwen3-8b", "M5 Max", ["--input-tokens", "4000"]),
    "its file is a GGUF": ("gpt-oss-20b", "M5 Max", []),
}
KEYS = {"output": "output_tokens_per_s", "prompt": "prompt_tokens_per_s", "ttft": "ttft_s", "latency": "latency_s"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_every_verb_prints_what_serve_prints(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, on, options = QUESTIONS[name]
    words = [model, "--on", on, *options]
    served, estimated = printed(["serve", *words], capsys), printed(["estimate", *words], capsys)
    known = {one["quantity"]: one for one in estimated["quantities"]}
    assert estimated["headline"] == "output" and served["backend"] in ("cuda", "metal")
    for quantity, key in KEYS.items():
        assert known[quantity]["value"] == pytest.approx(served[key], rel=1e-12)
    ends = (served["low_tokens_per_s"], served["high_tokens_per_s"])
    assert (known["output"]["low"], known["output"]["high"]) == pytest.approx(ends, rel=1e-12)
    clock = ss.machine(on).clock
    swept = printed(["whatif", *words, "--vary", f"machine.clock={clock:.0f}Hz"], capsys)
    assert swept["output_ratio"] == pytest.approx(1.0)
    assert swept["output_tokens_per_s"] == pytest.approx(served["output_tokens_per_s"])
    explained = printed(["explain", *words, "--quantity", "ttft"], capsys)
    assert explained["time_s"] == pytest.approx(served["ttft_s"])
    slopes = {row["quantity"]: row["elasticity"] for row in explained["elasticities"]}
    assert slopes["machine.clock"] < 0 < slopes["run.input_tokens"]


def test_several_users_are_a_servers_and_refused_of_llama_cpp() -> None:
    of_server = ss.estimate("llama-3.1-8b", "rtx-4090", settings={"run.concurrency": 4}, dtype="q4_k_m")
    assert any("vllm" in one.value + one.note for one in of_server.conditions)
    both = {"machine.runtime.library": "llama.cpp"}
    with pytest.raises(InputError, match=r"run.concurrency = 4: llama.cpp answers for one user on one device"):
        ss.estimate("llama-3.1-8b", "rtx-4090", settings={**both, "run.concurrency": 4})
    with pytest.raises(InputError, match=r"llama-3.1-70b \(fp16\) needs 14[0-9.]+ GB with its cache, GeForce RTX 4090"):
        ss.estimate("llama-3.1-70b", "rtx-4090", settings=both, dtype="fp16")


def test_a_server_of_one_slot_is_one_user(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "llama-3.1-8b", "--on", "rtx-4090"]
    alone = printed([*words, "--engine", "llama.cpp"], capsys)
    one = ["--concurrency", "1", "--max-num-seqs", "1", "--devices", "1", "--tp", "1", "--length-range", "0"]
    assert printed([*words, "--engine", "llama.cpp", *one], capsys) == alone
    runtime = ["--set", "machine.runtime.library=llama.cpp"]
    assert printed([*words, *runtime, "--concurrency", "1"], capsys) == alone
    assert run([*words, *runtime, "--concurrency", "2", "--tp", "1"]) == 2
    assert "--concurrency: not used: llama.cpp answers for one user on one device" in capsys.readouterr().err


def test_numbers_that_vary_compare_servers_with_servers() -> None:
    table = ss.whatif("llama-3.2-1b", "rtx-4090", {"run.concurrency": [1, 2]}, dtype="q4_k_m")
    assert table.to_frame()["output_ratio"].tolist()[0] == pytest.approx(1.0)
