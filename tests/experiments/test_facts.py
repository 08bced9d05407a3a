"""What follows from an answer says the same as the data sheet's peaks and the answer's own parts."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.estimators.base.shipped_estimator import ShippedEstimator
from slipstick.experiments.cli.cli import run
from slipstick.experiments.explain.explanation import bottleneck_rows
from slipstick.experiments.question.facts import bounds, facts
from slipstick.experiments.question.question import question
from slipstick.experiments.question.shipped_estimators import SHIPPED
from tests.printed import printed

A100_PEAKS = {"tfloat32": 156e12, "float32": 19.5e12}
"""NVIDIA A100 data sheet: flop/s of the tensor cores in TF32, and of the vector units in FP32."""


def test_products_of_two_types_are_held_against_the_peaks_of_both_and_the_words_say_so() -> None:
    """PyTorch's default: convolutions in TF32, the last linear layer in float32."""
    asked = question("resnet50", "a100-sxm-80gb")
    answer = asked.answer()
    known = facts(asked, answer)
    graph = asked.workload.bind_known(asked.workload.defaults)
    seconds = math.fsum(
        float(op.cost.get(f"flop.matrix.{dtype}", 0.0) * op.times) / peak
        for op in graph
        for dtype, peak in A100_PEAKS.items()
    )
    assert known.mfu == pytest.approx(seconds / answer.time, rel=0.01)
    assert known.mfu_of == "the peaks of its types (tfloat32, float32)"


def test_products_of_one_type_are_held_against_its_peak() -> None:
    asked = question("resnet50", "a100-sxm-80gb", dtype="bfloat16")
    assert facts(asked, asked.answer()).mfu_of == "the bfloat16 peak"


def test_shares_sum_to_the_time_and_kernels_that_a_host_hides_take_their_own_time() -> None:
    """The host bounds five small layers; of a large network it takes nothing."""
    small, large = question("mlp-inference", "h100-sxm", dtype="bfloat16"), question("resnet50", "a100-sxm-80gb")
    for asked in (small, large):
        answer = asked.answer()
        known = facts(asked, answer)
        assert sum(share for _, share in known.bounds) == pytest.approx(1.0)
        left = math.fsum(answer.remainder.values())
        assert math.fsum(group.time for group in known.groups) + left == pytest.approx(answer.time)
        assert all(part.contribution == pytest.approx(part.time * part.times) for part in answer.parts)
        assert not {"fixed", "side by side"} & set(answer.remainder)
    waiting = small.answer().remainder["waiting"] / small.answer().time
    assert dict(facts(small, small.answer()).bounds)["host"] == pytest.approx(waiting) and waiting > 0.5
    assert bottleneck_rows(small.answer())[0] == {"bound_by": "host", "share": pytest.approx(waiting), "operations": 1}


@pytest.mark.parametrize("board", ["tpu-v3", "tpu-v2-8"])
def test_what_bounds_a_board_of_tpus_is_all_of_its_time(board: str) -> None:
    """Normalisations have measured rates and no bound: they stand under their kind, and what overlaps by its name."""
    answer = question("resnet50", board).answer()
    shares = dict(bounds(answer))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares.get("overlap", 0.0) == pytest.approx(answer.remainder.get("overlap", 0.0) / answer.time)


def test_a_what_if_says_where_the_host_bounds_it_and_an_answer_how_fast_it_issues(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """torch.compile joins kernels, not the host's work on them: each operation of the graph before fusion is issued."""
    compiled = ["llama-3-8b-decode", "--on", "h100-sxm", "--mode", "compiled"]
    count = len([op for op in question("llama-3-8b-decode", "h100-sxm").workload if op.kind != "view"])
    assert run(["whatif", *compiled, "--vary", "run.seq_len=128,1024,400000"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"the host bounds 2 of 3 points: {count} operations of the graph before fusion x 27 µs to issue" in text
    assert f"the host issues {count} operations of the graph before fusion in 27 µs each: the device is" in text
    assert run(["whatif", *compiled, "--mode", "graphs", "--vary", "run.seq_len=128,1024,400000"]) == 0
    assert "the host" not in capsys.readouterr().out.partition("model:")[0]


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["mi300x", "h100-sxm", "v100-sxm", "t4"])
def test_a_narrower_type_is_never_slower_but_where_the_host_issues_more_casts(machine: str) -> None:
    """The same graph moves and computes less; a training step under autocast is another graph, with its casts."""
    for name in ("resnet50-inference", "bert-base-inference", "resnet50", "bert-base"):
        for batch in (1, 64):
            wide, narrow = (
                question(name, machine, dtype=dtype, settings={"workload.batch": batch})
                for dtype in ("float32", "float16")
            )
            if narrow.answer().time <= wide.answer().time:
                continue
            assert not name.endswith("inference") and len(narrow.workload.bound()) > len(wide.workload.bound())
            assert narrow.answer().metrics["device_busy"] < 1
            assert any("casts are operations too" in text for text in narrow.answer().assumptions)


@pytest.mark.parametrize("machine", ["apple-m2-pro", "h100-sxm", "xeon-gold-6148"])
@pytest.mark.parametrize("name", ["llama-3-70b-decode", "decode:llama-3.1-8b", "gpt2"])
def test_seconds_of_operations_and_what_is_left_make_the_time(name: str, machine: str) -> None:
    """One operation after the other: each as often as it is done, at the seconds that are shown."""
    answer = question(name, machine).answer()
    left = math.fsum(answer.remainder.values())
    assert math.fsum(part.time * part.times for part in answer.parts) + left == pytest.approx(answer.time)
    assert answer.to_frame()["total_s"].sum() + left == pytest.approx(answer.time)


@pytest.mark.parametrize("machine", ["tpu-v3", "tpu-v2-8", "a100-80-dgx", "xeon-phi-7120p"])
def test_seconds_of_the_whole_and_what_is_left_make_the_time(machine: str) -> None:
    """Also where lanes and devices overlap, or threads share an operation."""
    name, run = ("megatron-22b", {}) if machine == "a100-80-dgx" else ("resnet50", {"run.threads": 60})
    answer = question(name, machine, settings=run if machine == "xeon-phi-7120p" else {}).answer()
    left = math.fsum(answer.remainder.values())
    assert answer.to_frame()["total_s"].sum() + left == pytest.approx(answer.time)


def _made(one: ShippedEstimator) -> tuple[float, float, str]:
    """Items of an estimator's example, their rate times the time, and the line that says what the time is for."""
    assert one.example is not None
    asked = question(
        one.example.workload, one.example.machine, one.name, {f"run.{name}": value for name, value in one.example.run}
    )
    answer = asked.answer()
    made = facts(asked, answer).throughput
    return (made.items, made.rate * answer.time, answer.work) if made else (0.0, 0.0, answer.work)


@pytest.mark.parametrize("one", [one for one in SHIPPED if one.example], ids=lambda one: one.name)
def test_a_rate_times_the_time_is_what_the_time_is_for(one: ShippedEstimator) -> None:
    """A run of threads takes in its images as often as it has epochs, every other example the batch of a step."""
    assert one.example is not None
    items, made, work = _made(one)
    run, network = dict(one.example.run), one.example.workload
    assert made == pytest.approx(items) and work
    graph = question(network, one.example.machine, one.name, {f"run.{k}": v for k, v in run.items()}).workload
    if "images" in {*run, *graph.defaults}:
        numbers = {**graph.defaults, "epochs": 1, **graph.defaults, **run}
        assert items == numbers["images"] * numbers["epochs"] and "training run" in work
    elif "batch" in {*run, *graph.defaults} and items:
        sizes = {"seq_len": 1.0, **graph.defaults, **run}
        assert items == sizes["batch"] * sizes["seq_len"]  # images and samples have no length


def test_a_longer_run_makes_more_at_about_the_same_rate(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten times as many images, or steps, are ten times as many items, in nearly ten times the time."""
    mlp = ("estimate", "mlp", "--on", "xeon-phi-7120p", "--estimator", "threads-counted", "--threads", "60")
    board = ("estimate", "data-parallel-mlp", "--on", "tpu-v2-8", "--set", "run.sessions=1")
    for words, name, counts in ((mlp, "images", (6000, 60000)), (board, "steps", (100_000, 1_000_000))):
        few, many = (printed([*words, f"--{name}", str(count)], capsys) for count in counts)
        assert many["rate_per_s"] * many["time_s"] == pytest.approx(10 * few["rate_per_s"] * few["time_s"])
        assert many["rate_per_s"] == pytest.approx(few["rate_per_s"], rel=0.05)


def test_a_thread_takes_one_image_and_no_batch(capsys: pytest.CaptureFixture[str]) -> None:
    """A batch that was put into the operations made each image of a run as long as the batch."""
    assert run(["estimate", "resnet18", "--on", "xeon-phi-7120p", "--threads", "240", "--batch", "8"]) == 2
    assert "run.batch" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "work"),
    [
        (["gpt2", "--on", "h100"], "training step, 8 x 1,024 tokens, float32, eager, TF32 off"),
        (["gpt2", "--on", "h100", "--batch", "4", "--dtype", "bf16", "--mode", "graphs"],
         "training step, 4 x 1,024 tokens, bfloat16, graphs, autocast"),
        (["bert-base-inference", "--on", "a100"], "forward pass, 1 x 128 tokens, float32, eager"),
        (["resnet50", "--on", "tpu-v3", "--steps", "100"], "training run, 100 steps of batch 64, float32, compiled"),
        (["llama-3-8b-decode", "--on", "apple-m2-pro"],
         "decode step, batch 1, 1,024 tokens in cache, bfloat16, graphs"),
        (["prompt:llama-3.1-8b", "--on", "h100"], "prefill, 1,024 tokens, bf16 weights, graphs"),
        pytest.param(
            ["llama-3.1-8b", "--on", "h100"],
            "requests, 1,024 + 256 tokens each, 1 user, bf16 weights",
            marks=pytest.mark.slow,
        ),
        (["megatron-22b", "--on", "a100-80-dgx"], "training step, 4 x 2,048 tokens, float16, eager, 8 devices"),
        (["phi-cnn-small", "--on", "xeon-phi-7120p", "--threads", "60"],
         "training run, 60,000 images x 70 epochs, 60 threads"),
        (["gemm", "--on", "h100"], "kernel, m 512, n 512, k 512, float32"),
    ],
)  # fmt: skip
def test_every_answer_says_what_its_time_is_for(
    words: list[str], work: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terminal, JSON, page and notebook have the same line, which fits a narrow terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    page = tmp_path / "page.html"
    assert run(["estimate", *words, "--report", str(page)]) == 0
    assert f"\nwork: {work}\n" in capsys.readouterr().out
    assert printed(["estimate", *words], capsys)["work"] == work
    assert f"work: {work}" in page.read_text()


def test_a_notebook_and_an_explanation_say_it_too() -> None:
    shown = ss.estimate("gpt2", "h100")._repr_html_()
    assert "work: training step, 8 x 1,024 tokens, float32, eager" in shown
    assert "work: training step" in ss.explain("gpt2", "h100").heads[1]
