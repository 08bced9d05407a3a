"""What an answer says of itself: remarks that widen its band, each with its factor, and one word for how sure it is."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.estimators.base.conditions import LEAST_WIDENING, Condition, widening
from slipstick.estimators.base.sureness import HOPELESS, SURE, sureness, within_near, word_of
from slipstick.estimators.cpu import cpu_step
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.gpu import gpu_bands, step_of_kernels
from slipstick.estimators.gpu.programs.program_kernels import programs_scatter
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.cautions import hints, remarks
from slipstick.experiments.question.defaults import gpu_kernels
from slipstick.experiments.question.precision import in_type
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.report.output import line_width
from slipstick.workloads.language_catalog import language_model

SERVED = ("serve", "llama-3.1-8b")
HINT = "products run on the vector engine"
ASKED: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("gemm", "h100-sxm", {"workload.m": 16, "workload.n": 2_097_152, "workload.k": 64}),
    ("bert-base", "a100-sxm-80gb", {"workload.batch": 64, "workload.seq_len": 384, "dtype": "float16"}),
    ("bert-base-inference", "mi300x", {"dtype": "bfloat16", "workload.batch": 64}),
    ("resnet50", "mi250x-gcd", {}),
    ("resnet50-inference", "rtx-3090", {"dtype": "float16"}),
    ("llama-2-7b-inference", "h100-sxm", {}),
    ("llama-2-7b-inference", "b200-sxm", {"dtype": "float8"}),
    ("gpt2", "a100-sxm-80gb", {"dtype": "bfloat16", "workload.batch": 8}),
    ("resnet18", "epyc-7452", {}),
    ("bert-base-inference", "ec2-c5-xlarge", {"dtype": "bfloat16"}),
    ("bert-base-inference", "gaudi2", {}),
    ("resnet50", "tpu-v2-8", {}),
    ("decode:llama-3.1-8b", "h100-sxm", {"machine.runtime.library": "vllm 0.2"}),
    ("decode:llama-3.1-8b", "h100-sxm", {"machine.runtime.library": "vllm 0.19.0"}),
    ("decode:llama-3.1-8b", "mi300x", {}),
    ("decode:glm-5", "b300-sxm", {}),
    ("decode:llama-3.1-8b", "apple-m2-max", {}),
    ("train:llama-3.1-8b", "mi300x", {}),
    ("train:llama-3.1-8b", "h100-sxm", {"machine.runtime.library": "megatron 24.07"}),
    ("train:glm-5", "h100-dgx", {"run.data_parallel": 512, "workload.batch": 512}),
    ("serve:llama-3.1-8b", "h100-sxm", {}),
    ("serve:glm-5", "b200-sxm", {"run.tensor_parallel": 8, "run.num_requests": 4}),
)
"""Workload, machine and settings: of all kinds of answer, inside and outside of what was measured."""


def _question(workload: str, machine: str, given: dict[str, object]) -> Question:
    settings = {name: value for name, value in given.items() if name != "dtype"}
    return ss.question(workload, machine, settings=settings, dtype=given.get("dtype"))  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", ASKED, ids=lambda one: f"{one[0]} on {one[1]}")
def test_each_remark_widens_the_band_by_the_factor_that_it_says(asked: tuple[str, str, dict[str, object]]) -> None:
    query = _question(*asked)
    answer = query.answer()
    said = remarks(query)
    widening = [one for one in answer.conditions if one.band_factor != 1]
    assert len(said) == len(widening) and all(one.band_factor >= 1 + LEAST_WIDENING for one in widening)
    assert all(f"band x{one.band_factor:.3g} wider" in text for one, text in zip(widening, said, strict=True))
    assert all(one.widens for one in answer.conditions if one.origin == "unmeasured")
    texts = [*answer.assumptions, *hints(query), *(one.note for one in answer.conditions)]
    assert not [text for text in texts if "wider band" in text or "band wider" in text]


def test_factors_multiply_to_the_width_over_that_without() -> None:
    """Of parts that add in squares, in whatever order they are named; one of 1 % is not named."""
    parts = {Condition(name, name, "unmeasured"): size for name, size in (("a", 0.3), ("b", 0.01), ("c", 0.4))}

    def width(without: object) -> float:
        return math.hypot(0.5, *(size for one, size in parts.items() if one not in without))  # type: ignore[operator]

    for order in (list(parts), list(parts)[::-1]):
        made = widening(order, width)
        assert sorted(one.name for one in made) == ["a", "c"]
        assert math.prod(one.band_factor for one in made) == pytest.approx(width(()) / math.hypot(0.5, 0.01), rel=1e-4)


@pytest.mark.parametrize(
    ("workload", "machine", "dtype"),
    [
        ("gemm", "h100-sxm", None),
        ("bert-base", "a100-sxm-80gb", "float16"),
        ("gpt2", "a100-sxm-80gb", "bfloat16"),
        ("llama-2-7b-inference", "h100-sxm", None),
    ],
)
def test_a_gpus_factors_are_its_width_over_that_with_all_measured(
    workload: str, machine: str, dtype: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same step where no shape, row, library, maker or second model is outside of what was measured."""
    graph, on = in_type(ss.workload(workload), ss.machine(machine), dtype), ss.machine(machine)
    graph = graph.bind(m=16, n=2_097_152, k=64) if workload == "gemm" else graph.bind(batch=64)

    def step() -> tuple[Calibration, tuple[Condition, ...]]:
        return step_of_kernels.step_of_kernels(gpu_kernels(), on, graph)

    made = step()
    monkeypatch.setattr(gpu_bands, "beyond", lambda op: None)
    monkeypatch.setattr(step_of_kernels, "UNEVEN", 0.0)
    monkeypatch.setattr(gpu_bands, "spread_beyond", lambda op: 0.0)
    monkeypatch.setattr(step_of_kernels, "_by_programs", lambda *_: None)
    monkeypatch.setattr(step_of_kernels, "programs_spread", lambda known, *_: programs_scatter(known.programs))
    inside = step()
    product, left = (math.prod(one.band_factor for one in each[1] if one.widens) for each in (made, inside))
    width, plain = (each[0].residual_std or math.nan for each in (made, inside))
    assert product > 1.05
    assert product == pytest.approx(width / (plain / left), rel=0.06)  # what widens by less than 5 % is not named


@pytest.mark.parametrize(("workload", "library"), [("decode:glm-5", "vllm 0.19.0"), ("train:glm-5", "megatron 26.02")])
def test_what_a_file_leaves_out_widens_by_the_factor_that_is_said(workload: str, library: str) -> None:
    """The model without `omits:` has the band of the answer over the factors of what it leaves out."""
    model = language_model("glm-5")
    answer = ss.question(workload, "b200-sxm", settings={"machine.runtime.library": library}).answer()
    widening = [one for one in answer.conditions if one.widens]
    assert model.omitted and {one.name for one in widening} == {"not counted"}
    total = 1.2815515655446004 * (answer.spread.residual or 0.0)
    inner = math.sqrt(total**2 - model.unmeasured**2)
    assert math.prod(one.band_factor for one in widening) == pytest.approx(total / inner, rel=1e-3)


def test_a_cpus_other_uses_widen_by_the_factor_that_is_said() -> None:
    plain = cpu_step.cpu_step(ss.machine("epyc-7452").using({"runtime.mode": "compiled"}))
    training, (use,) = cpu_step.cpu_step(ss.machine("epyc-7452"), ss.workload("resnet18"))
    assert plain[1] == () and use.band_factor == pytest.approx(training.residual_std / (plain[0].residual_std or 0.0))  # type: ignore[operator]


def test_one_probability_has_one_word_in_every_verb() -> None:
    """The word follows what is printed: 80 % is trusted, 79 % is not."""
    shares = [index / 1000 for index in range(1001)]
    words = [word_of(share) for share in shares]
    assert list(dict.fromkeys(words)) == ["do not trust", "wide", "trust"]
    by_text = {sureness(share): word for share, word in zip(shares, words, strict=True)}
    assert all(by_text[sureness(share)] == word for share, word in zip(shares, words, strict=True))
    assert word_of(SURE) == "trust" and word_of(HOPELESS) == "wide"


def test_the_probability_of_being_near_is_that_of_the_band() -> None:
    """A band that ends at 20 % on both sides holds 80 %; a wider one less; a factor of ten about as `HOPELESS` says."""
    assert within_near(1.0, 1 / 1.2, 1 / 0.8) == pytest.approx(0.8)
    widths = [within_near(5.0, 5.0 / wide, 5.0 * wide) for wide in (1.01, 1.1, 1.5, 3.0, 10.0)]
    assert all(one > other for one, other in pairwise(widths)) and widths[0] == pytest.approx(1.0)
    assert within_near(1.0, 1.0, 1.0) == 1.0


def test_a_measured_time_ends_what_was_not_measured() -> None:
    """Nobody measured such a matrix; who measured it has the band of a second run, with no remark."""
    known = ss.read_calibration(None, "300us", "h100-sxm")
    asked = ASKED[0]
    answer = ss.question(asked[0], asked[1], settings=asked[2], calibration=known).answer()  # type: ignore[arg-type]
    assert not [one for one in answer.conditions if one.widens]


def test_hints_are_of_the_question() -> None:
    assert [text for text in hints(question("gemm", "a100-sxm-80gb", "roofline", [])) if HINT in text]
    assert not hints(question("gemm", "a100-sxm-80gb", "roofline", [], "bfloat16"))


@pytest.mark.parametrize(
    "words",
    [
        ("estimate", "gemm", "--on", "H100"),
        ("whatif", "gemm", "--on", "H100", "--vary", "workload.m=256,512"),
        ("explain", "gemm", "--on", "H100"),
        (
            *SERVED,
            "--on",
            "H100",
            "--input-tokens",
            "64",
            "--output-tokens",
            "8",
            "--concurrency",
            "1",
            "--num-requests",
            "4",
        ),
        (*SERVED, "--on", "rtx-4090", "--engine", "llama.cpp", "--dtype", "q4_0"),
        ("plan", "training", "qwen3-0.6b", "--on", "H100", "--devices", "1", "--batch", "8", "--seq-len", "128"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_json_carries_remarks(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--format", "json"]) == 0, capsys.readouterr().err
    rows = json.loads(capsys.readouterr().out)
    assert rows and all(isinstance(row["remarks"], list) for row in rows)


def test_flat_times_are_said_to_be_read_as_weak_scaling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "flat.csv"
    path.write_text("threads,time_s\n1,10.1\n2,10.0\n4,10.2\n8,10.1\n16,10.0\n")
    assert run(["extrapolate", str(path), "--to", "64"]) == 0
    assert "beware: times do not change with threads" in capsys.readouterr().out
    assert run(["extrapolate", str(path), "--to", "64", "--kind", "weak"]) == 0
    assert "beware" not in capsys.readouterr().out


@pytest.mark.parametrize(("stated", "width"), [("80", 80), ("132", 132), ("", 200), ("wide", 200), ("3", 200)])
def test_columns_are_honoured_where_they_are_set(stated: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", stated)
    assert line_width() == width
    monkeypatch.delenv("COLUMNS")
    assert line_width() == 200


def test_lines_of_several_verbs_keep_the_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in (
        ["estimate", "resnet18-inference", "--on", "H100,A100"],
        ["whatif", "gemm", "--on", "H100", "--vary", "workload.m=256,512"],
        ["explain", "gemm", "--on", "H100"],
        ["machines", "show", "H100"],
    ):
        assert run(words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80, words


@pytest.mark.parametrize(
    ("workload", "machine", "sizes"),
    [
        ("gpt2", "a100-sxm-80gb", {"workload.batch": 8.0}),
        ("gemm", "h100-sxm", {"workload.m": 4096.0, "workload.n": 4096.0, "workload.k": 4096.0}),
        ("bert-base-inference", "h100-sxm", {}),
    ],
)
def test_tf32_is_named_where_it_would_move_the_time(workload: str, machine: str, sizes: dict[str, float]) -> None:
    """Where products in TF32 take less than 1 / 1.5 of the time; not where the host or the memory bounds."""
    plain, other = (ss.question(workload, machine, settings=sizes, dtype=name).answer() for name in (None, "tfloat32"))
    assert ("TF32 off" in plain.work) == (plain.time > 1.5 * other.time)
    assert "TF32" not in other.work
