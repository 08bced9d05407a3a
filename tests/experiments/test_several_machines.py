"""Remarks on several machines stand once each; a comparison of data sheets says what it does not show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstick.estimators.base.estimate import Estimate, Spread
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.facts import bounds
from slipstick.experiments.question.question import question
from slipstick.experiments.report.machine_comparison import shared, surely_faster


def test_remarks_that_differ_in_a_factor_are_one_line() -> None:
    texts = {"A": ["type X has 8 x the peak", "no caches"], "B": ["type X has 16 x the peak"], "C": []}
    assert shared(texts) == ["beware, A, B: type X has 8 to 16 x the peak", "beware, A: no caches"]


def test_a_remark_on_all_names_none() -> None:
    assert shared({"A": ["no caches"], "B": ["no caches"]}) == ["beware: no caches"]


def test_a_comparison_says_what_its_numbers_leave_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["machines", "compare", "h100-sxm", "rtx-5060-ti"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "float32 products run on the vector engine" in text
    assert "beware, GeForce RTX 5060 Ti 16 GB: kernels were not measured there" in text
    page = tmp_path / "both.html"
    assert run(["machines", "compare", "h100-sxm", "rtx-5060-ti", "--format", "json", "--report", str(page)]) == 0
    assert "kernels were not measured there" in page.read_text()
    rows = json.loads(capsys.readouterr().out)
    assert {"quantity", "unit"} <= set(rows[0]) and not any("beware" in str(row) for row in rows)


def test_products_with_odd_rows_are_named_where_no_compiler_pads_them(capsys: pytest.CaptureFixture[str]) -> None:
    line = "16-bit products with rows of 50,257, no multiple of 8"
    sizes = ["--batch", "16", "--seq-len", "256"]  # short sequences: the vocabulary's products take a seventh
    command = ["estimate", "gpt2", "--on", "a100-sxm-80gb", *sizes, "--dtype", "bfloat16", "--verbose"]
    assert run(command) == 0
    assert line in capsys.readouterr().out
    assert run([*command, "--mode", "compiled"]) == 0
    assert line not in capsys.readouterr().out


def test_sources_of_a_machine_stand_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["machines", "show", "h100-sxm"]) == 0
    text = capsys.readouterr().out
    assert text.count("NVIDIA H100 data sheet: 900 GB/s") == 1 and "[1] " in text


def test_a_format_that_a_machine_does_not_multiply_is_named_beside_those_that_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["estimate", "llama-3-8b-decode", "--on", "h100-sxm,a100-sxm-80gb", "--dtype", "fp8"]
    assert run(command) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "weights alone" in line]
    assert line.startswith("beware, A100 SXM4 80 GB: weights alone in float8, widened and multiplied in bfloat16")


def test_what_waits_for_the_host_is_bound_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Shares of the time: what the device idles is the host's, and a replayed graph leaves it nothing."""
    command = ["estimate", "mlp-inference", "--on", "h100-sxm", "--dtype", "bf16"]
    assert run(command) == 0
    eager = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("bound by: "))
    assert run([*command, "--mode", "graphs"]) == 0
    replayed = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("bound by: "))
    assert eager.startswith("bound by: host ") and "host" not in replayed
    wanted = question("mlp-inference", "h100-sxm", dtype="bfloat16")
    shares = dict(bounds(wanted.answer()))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["host"] == pytest.approx(1 - wanted.answer().metrics["device_busy"])


def test_errors_of_two_machines_count_as_independent(capsys: pytest.CaptureFixture[str]) -> None:
    """Log scatters of .3 and .4 are .5 together: 1.5 times as fast is log(1.5) / .5 of them, 79.1 % of a normal law."""
    first, second = (Estimate(time=time, spread=Spread(residual=width)) for time, width in ((1.0, 0.3), (1.5, 0.4)))
    assert surely_faster(first, second) == pytest.approx(0.7913, abs=1e-4)
    assert run(["estimate", "gemm", "--on", "h100-sxm,t4", "--verbose"]) == 0
    assert "taken as independent" in capsys.readouterr().out


def test_a_toss_up_has_no_winner(capsys: pytest.CaptureFixture[str]) -> None:
    """The same machine under two names: nobody is faster."""
    assert run(["estimate", "gemm", "--on", "h100-sxm,h100-dgx"]) == 0
    assert "no clear winner: " in capsys.readouterr().out
    assert run(["estimate", "gemm", "--on", "h100-sxm,t4", "--set", "workload.m=4096"]) == 0
    assert "fastest: H100" in capsys.readouterr().out


def test_several_machines_name_the_sizes_that_nobody_chose(capsys: pytest.CaptureFixture[str]) -> None:
    """As the answer of one machine does: a batch that was never said decides every throughput."""
    assert run(["estimate", "bert-large", "--on", "h100-sxm,l4", "--batch", "8"]) == 0
    assert "default: seq_len 128\n" in capsys.readouterr().out
    assert run(["estimate", "bert-large", "--on", "h100-sxm,l4", "--batch", "8", "--seq-len", "128"]) == 0
    assert "default:" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("network", "on", "bounds"),
    [
        ("data-parallel-mlp", "tpu-v5e,tpu-v6e,tpu-v7", ["infeed"] * 3),
        ("resnet50", "tpu-v5e,tpu-v7", ["infeed", "memory"]),
        ("mlp", "trainium2,tpu-v6e,h100-sxm", ["array", "memory", "compute"]),
        ("all-reduce", "h100-sxm,tpu-v6e", ["link", "link"]),
        ("mlp-inference", "h100-sxm,b200-sxm", ["host", "host"]),
    ],
)
def test_every_row_says_what_bounds_it(
    network: str,
    on: str,
    bounds: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    batch = ["--batch", "1"] if network == "mlp-inference" else []
    assert run(["estimate", network, "--on", on, *batch]) == 0
    lines = capsys.readouterr().out.splitlines()
    head = next(index for index, line in enumerate(lines) if "bound by" in line)
    place = lines[head].index("bound by")
    assert [line[place:].split()[0] for line in lines[head + 1 : head + 1 + len(bounds)]] == bounds
