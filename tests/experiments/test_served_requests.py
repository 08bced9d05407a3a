"""Requests to a language model's server as a question like all others: every verb answers alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.serving.request_estimator import RequestEstimator
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.question import question
from slipstick.workloads.language.language_requests import Requests, requests_to
from slipstick.workloads.runs.requests import Request
from tests.printed import printed

QUESTIONS = {
    "one user": ("llama-3.1-8b", "h100-sxm", []),
    "sixteen": ("llama-3-8b", "h100-sxm", ["--concurrency", "16"]),
    "stored in fp8": ("llama-3.1-8b", "h200-sxm", ["--dtype", "fp8", "--concurrency", "8"]),
    "two devices": ("qwen3-14b", "h100-sxm", ["--tp", "2", "--concurrency", "8"]),
    "experts": ("qwen3-30b-a3b", "h100-sxm", ["--dtype", "fp8", "--tp", "2", "--ep", "2"]),
    "long prompts": (
        "llama-3.2-1b",
        "l40s",
        ["--input-tokens", "4000", "--output-tokens", "16", "--concurrency", "4"],
    ),
    "a stream": ("llama-3.1-8b", "h100-sxm", ["--rate", "3", "--burstiness", "2", "--num-requests", "80"]),
    "half of prompts cached": ("qwen3-8b", "a100-sxm-80gb", ["--prefix-hit-rate", "0.5", "--concurrency", "4"]),
    "a price and less power": (
        "llama-3.1-8b",
        "h100-sxm",
        ["--set", "machine.price=2.5", "--set", "machine.power.cap=400W", "--concurrency", "8"],
    ),
    "an engine": (
        "gpt-oss-20b",
        "h100-sxm",
        ["--set", "machine.runtime.library=sglang 0.5.9", "--concurrency", "8", "--num-requests", "40"],
    ),
}
KEYS = ("output_tokens_per_s", "requests_per_s", "power_W", "energy_J_per_token", "cost_usd_per_million_tokens")


def by_key(row: dict[str, Any]) -> dict[str, tuple[float, float | None, float | None]]:
    """Value and ends of the quantities of an estimate, by the keys of other rows."""
    suffix = {"tokens/s": "tokens_per_s", "requests/s": "per_s", "J/token": "J_per_token", "byte": "B", "1": ""}
    suffix |= {"s": "s", "W": "W", "J": "J", "$/Mtoken": "usd_per_million_tokens"}
    return {
        f"{one['quantity']}_{suffix[one['unit']]}".rstrip("_"): (one["value"], one["low"], one["high"])
        for one in row["quantities"]
    }


LONG = ("sixteen", "stored in fp8", "long prompts", "an engine")
"""Questions of a kind that another one has."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in sorted(QUESTIONS)]
)
def test_serve_estimate_and_whatif_print_the_same_figures(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, on, options = QUESTIONS[name]
    served = printed(["serve", model, "--on", on, *options], capsys)
    estimated = printed(["estimate", model, "--on", on, *options], capsys)
    known = by_key(estimated)
    assert estimated["devices"] == served["devices"] and estimated["headline"] == "output"
    ends = {"output_tokens_per_s": "tokens_per_s"}  # what `serve` calls the ends of its rate
    for key in KEYS:
        if served[key] is None:
            assert key not in known
            continue
        low, high = (served.get(f"{end}_{ends.get(key, key)}") for end in ("low", "high"))
        assert known[key] == (pytest.approx(served[key]), pytest.approx(low), pytest.approx(high)), key
    for one in served["measures"]:
        key = f"{one['measure']}_s" if one["statistic"] == "mean" else f"{one['measure']}_{one['statistic']}_s"
        assert known[key] == (pytest.approx(one["value_s"]), pytest.approx(one["low_s"]), pytest.approx(one["high_s"]))
    clock = ss.machine(on).clock
    swept = printed(["whatif", model, "--on", on, *options, "--vary", f"machine.clock={clock:.0f}Hz"], capsys)
    assert swept["output_ratio"] == pytest.approx(1.0)
    for key, figures in known.items():
        assert (swept[key], swept[f"low_{key}"], swept[f"high_{key}"]) == tuple(map(pytest.approx, figures)), key


def test_users_are_requests_a_second_times_their_time() -> None:
    """Little's law (J. D. C. Little, Operations Research 9, 1961) of a closed loop, but for its start and its end."""
    table = ss.whatif("llama-3.1-8b", "h100-sxm", {"run.concurrency": [1, 4, 16]}, settings={"run.num_requests": 400})
    frame = table.to_frame()
    users = frame["requests_per_s"] * frame["latency_s"]
    assert users.tolist() == pytest.approx(frame["run.concurrency"].tolist(), rel=0.03)
    assert frame["output_tokens_per_s"].is_monotonic_increasing and frame["tpot_s"].is_monotonic_increasing
    assert (frame["low_output_ratio"] <= frame["output_ratio"]).all()
    assert (frame["output_ratio"] <= frame["high_output_ratio"]).all()


def test_points_that_do_not_fit_say_why() -> None:
    table = ss.whatif("llama-3.1-70b", "h100-sxm", {"run.tensor_parallel": [1, 4]}, settings={"run.tensor_parallel": 4})
    first, second = table.rows()
    assert first["output_tokens_per_s"] is None and "does not fit" in first["refused"]
    assert second["output_ratio"] == 1.0 and second["refused"] == ""


def test_parts_of_a_time_are_what_it_goes_to() -> None:
    settings = {"run.concurrency": 16}
    whole = question("llama-3.1-8b", "h100-sxm", settings=settings).answer()
    assert sum(part.contribution for part in whole.parts) == pytest.approx(whole.time)
    first = question("llama-3.1-8b", "h100-sxm", settings=settings, quantity="ttft").answer()
    assert (first.name, first.time) == ("ttft", whole.quantities["ttft"].value)
    assert sum(part.contribution for part in first.parts) == pytest.approx(first.time)
    assert first.interval() == pytest.approx(whole.quantities["ttft"].band)


def test_explain_says_what_a_first_token_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "explain",
        "llama-3.1-8b",
        "--on",
        "h100-sxm",
        "--concurrency",
        "4",
        "--num-requests",
        "40",
        "--quantity",
        "ttft",
    ]
    row = printed([*words, "--vary", "run.concurrency", "--vary", "machine.memory.HBM3.bandwidth"], capsys)
    slopes = {one["quantity"]: one["elasticity"] for one in row["elasticities"]}
    assert slopes["run.concurrency"] > 0 >= slopes["machine.memory.HBM3.bandwidth"]
    assert {one["bound_by"] for one in row["bottlenecks"]} == {"before the first step", "reading the prompt"}
    assert run([*words[:-1], "power"]) == 2
    assert "--quantity power is no time; times of this answer: latency, ttft" in capsys.readouterr().err


def test_a_study_over_machines_tensor_ranks_and_types(tmp_path: Path) -> None:
    path = tmp_path / "servers.toml"
    path.write_text(
        'schema = "slipstick-study-1"\nname = "servers"\nworkloads = ["llama-3.1-8b"]\n'
        'machines = ["h100-sxm", "a100-sxm-80gb"]\ndtype = ["bf16", "int4"]\n'
        '[set]\n"run.concurrency" = 4\n"run.num_requests" = 40\n[vary]\n"run.tensor_parallel" = [1, 2]\n'
    )
    frame = ss.run_study(ss.load_study(path), tmp_path / "out").frame()
    assert len(frame) == 8 and set(frame["dtype"]) == {"bf16", "int4"}
    cases = {(row["machine"], row["dtype"], row["run.tensor_parallel"]): row for row in frame.to_dict("records")}
    for (on, dtype, ranks), row in cases.items():
        settings = {"run.concurrency": 4, "run.num_requests": 40, "run.tensor_parallel": ranks}
        answer = question("llama-3.1-8b", on, settings=settings, dtype=dtype).answer()
        assert row["output_tokens_per_s"] == pytest.approx(answer.headline.value)
        assert row["high_ttft_s"] == pytest.approx(answer.quantities["ttft"].high)


def test_a_benchmark_of_the_server_calibrates_its_pace(tmp_path: Path) -> None:
    """Times that a server 1.3 x as slow would show; the fit finds it, and its answers are within their band."""
    slow, runs = RequestEstimator(pace=1.3, quantity="tpot"), []
    for users in (2, 8):
        load = {"concurrency": users, "input_tokens": 500, "output_tokens": 100, "length_range": 0, "num_requests": 20}
        seconds = slow.estimate(ss.workload("llama-3.1-8b"), ss.machine("h100-sxm"), load).time
        runs.append(
            {"completed": 20, "max_concurrency": users, "duration": 5, "total_input_tokens": 10_000, "model_id": "m",
             "total_output_tokens": 2_000, "output_throughput": 400, "mean_tpot_ms": 1e3 * seconds}
        )  # fmt: skip
    (tmp_path / "bench.json").write_text(json.dumps(runs))
    path = tmp_path / "fit.toml"
    path.write_text(
        'schema = "slipstick-study-1"\nname = "mine"\nworkloads = ["llama-3.1-8b"]\nmachines = ["h100-sxm"]\n'
        'quantity = "tpot"\n[fit]\nmeasured = "bench.json"\nparameters = ["estimator.pace"]\n'
    )
    assert run(["calibrate", str(path), "--out", str(tmp_path / "mine.json")]) == 0
    fitted = ss.read_calibration(str(tmp_path / "mine.json"), None, "h100-sxm")
    answer = question("llama-3.1-8b", "h100-sxm", settings={"run.concurrency": 8}, calibration=fitted).answer()
    plain = question("llama-3.1-8b", "h100-sxm", settings={"run.concurrency": 8}, quantity="tpot").answer()
    assert answer.name == "tpot" and answer.time / plain.time == pytest.approx(1.3, rel=0.02)


def test_requests_are_known_by_their_content() -> None:
    model = ss.language_model("llama-3.2-1b")
    plain = requests_to(model)
    given = requests_to(model, given=(Request(10, 20), Request(30, 40)))
    same = requests_to(model, given=(Request(10, 20), Request(30, 40)))
    assert given.identity == same.identity != plain.identity
    assert requests_to(model, "fp8").identity != plain.identity
    bound = plain.bind(input_tokens=100, output_tokens=10)
    assert isinstance(bound, Requests) and dict(bound.lengths) == {"input_tokens": 100, "output_tokens": 10}
    by_run = question(plain, "h100-sxm", settings={"workload.input_tokens": 100, "workload.output_tokens": 10})
    assert question(bound, "h100-sxm").answer().time == by_run.answer().time


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown number of the run .* 'run.user'"):
        question("llama-3.1-8b", "h100-sxm", settings={"run.user": 4})
    with pytest.raises(InputError, match=r"run.concurrency \(users of a closed loop\) and run.rate .*: give one"):
        question("llama-3.1-8b", "h100-sxm", settings={"run.concurrency": 4, "run.rate": 2}).answer()
    with pytest.raises(InputError, match="serves requests to a language model: serve:NAME"):
        question("gpt2", "h100-sxm", "serving").answer()
    with pytest.raises(InputError, match="unknown quantity of this answer 'speed'"):
        question("llama-3.1-8b", "h100-sxm", quantity="speed").answer()
    with pytest.raises(InputError, match="does not fit"):
        question("llama-3.1-405b", "h100-sxm").answer()


@pytest.mark.parametrize("kind", ["serve", "decode", "prompt"])
def test_a_configuration_of_ones_own_has_each_kind_of_work(kind: str, tmp_path: Path) -> None:

    file = tmp_path / "my-model.json"
    shape = {"num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8}
    family = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    file.write_text(json.dumps({**family, **shape, **heads}))
    name = {"serve": "llama-3.1-8b"}.get(kind, f"{kind}:llama-3.1-8b")
    mine, shipped = (ss.question(one, "h100-sxm").answer().time for one in (f"{kind}:{file}", name))
    assert mine == pytest.approx(shipped, rel=0.02)


def test_the_page_of_a_whatif_begins_with_what_the_terminal_does() -> None:
    """The ratio is that of the output, not of a request's latency: more users are better there."""
    from slipstick.experiments.report.whatif_page import cards, ratio_chart

    answer = ss.whatif("llama-3.1-8b", "h100-sxm", {"run.concurrency": [1, 16]})
    first, today = cards(answer)
    assert first.value == f"{answer.frame.output_ratio.max():.3g} x today" and "run.concurrency = 16" in first.meaning
    assert today.value.endswith("tokens/s")
    assert list(ratio_chart(answer).lines[0].y) == sorted(answer.frame.output_ratio)
