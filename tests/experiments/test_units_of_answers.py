"""Answers stand in the units of the question, and the user's own prints do not spoil them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.facts import facts
from slipstick.experiments.question.question import question
from tests.printed import rows

OWN = """
import torch
from torch import nn

print("a line of the module")


def images():
    print("a line of the function")
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()), (torch.zeros(8, 3, 16, 16),)


def words():
    return nn.Sequential(nn.Embedding(100, 8), nn.Linear(8, 100)), (torch.zeros(4, 32, dtype=torch.int64),)


def rows():
    return nn.Linear(8, 8), (torch.zeros(6, 8),)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        chosen, made = self.gate(x).argmax(-1), torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            mine = torch.nonzero(chosen == index).squeeze(-1)
            made[mine] = expert(x[mine])
        return made


def experts():
    return Experts()
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    pytest.importorskip("torch")
    path = tmp_path / "programs_of_mine.py"
    path.write_text(OWN)
    return str(path)


@pytest.mark.parametrize(
    ("name", "unit", "items"), [("images", "images", 8), ("words", "tokens", 4 * 32), ("rows", "samples", 6)]
)
def test_own_programs_have_the_unit_of_their_first_input(
    own: str, name: str, unit: str, items: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what the module prints stands on standard error: the answer is JSON alone."""
    (row,) = rows(capsys, "estimate", f"{own}:{name}", "--on", "H100")
    assert row["rate_unit"] == unit
    assert row["rate_per_s"] == pytest.approx(items / float(str(row["time_s"])))


def test_a_fixed_batch_is_named_by_the_option_that_opens_it(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", f"{own}:images", "--on", "H100", "--batch", "16"]) == 2
    assert "name it: --input batch,3,16,16 --batch 16" in capsys.readouterr().err


def test_experts_take_equal_shares_of_the_tokens(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Four experts of 256 tokens: 64 each, and half as many again where one says so; the gate sees all."""
    words = ("estimate", f"{own}:experts", "--on", "H100", "--input", "tokens,8", "--tokens", "256")
    even, loaded = (rows(capsys, *words, *more)[0] for more in ((), ("--expert-load", "1.5")))
    assert even["rate_unit"] == "tokens"
    from slipstick.common.trusted_code import TrustedName
    from slipstick.experiments.question.user_code import own_program

    graph = own_program(TrustedName(f"{own}:experts"), ["tokens,8"])
    assert graph.defaults["expert_load"] == 1.0 and not any(name.startswith("u") for name in graph.symbols)
    products = [op for op in graph.bind(tokens=256, expert_load=1).operations if op.kind == "gemm"]
    assert sorted(float(op.dims["n"]) for op in products) == [64, 64, 64, 64, 256]
    assert float(str(loaded["time_s"])) >= float(str(even["time_s"]))


def test_products_and_streams_have_rates_of_work() -> None:
    product = question("gemm", "h100-sxm", None, {"workload.m": 4096, "workload.n": 4096, "workload.k": 4096}, "bf16")
    answer = product.answer()
    made = facts(product, answer).throughput
    assert made is not None and (made.unit, made.items) == ("FLOP", 2 * 4096**3)
    assert made.rate == pytest.approx(2 * 4096**3 / answer.time)
    stream = question("stream-triad", "h100-sxm")
    moved = facts(stream, stream.answer()).throughput
    assert moved is not None and moved.unit == "byte" and moved.rate < 3.352e12


def test_a_price_is_a_price_of_what_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "bert-base-inference", "--on", "ec2-c5-xlarge"]) == 0
    assert "$ per million tokens at 0.17 $/h" in capsys.readouterr().out
    assert run(["estimate", "resnet18-inference", "--on", "ec2-c5-xlarge"]) == 0
    assert "$ per 1,000 images at 0.17 $/h" in capsys.readouterr().out


def test_a_calibration_stands_for_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """No line of the default answer, which it replaces; one of what it was fitted to."""
    (row,) = rows(capsys, "estimate", "gemm", "--on", "H100", "--calibration", "gpus")
    assert row["why"] is None and any(str(text).startswith("calibrated on") for text in row["assumptions"])  # type: ignore[attr-defined]


def test_what_was_typed_is_shown_with_its_digits(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["whatif", "stream-triad", "--on", "A100", "--vary", "machine.memory.HBM2e.bandwidth=1728GB/s,2TB/s"]
    assert run(words) == 0
    out = capsys.readouterr().out
    assert "1.728 TB/s" in out and "2 TB/s" in out
    assert "gives no price" not in out  # nobody wanted a cost


def test_an_extrapolation_is_printed_a_line_a_target() -> None:
    import slipstick as ss

    made = ss.extrapolate(ss.Series.of([1, 2, 4, 8, 16], [16.0, 8.2, 4.3, 2.4, 1.5], "threads"), [32, 64])
    lines = str(made).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["threads = 32", "threads = 64"]
    assert all(len(line) < 80 for line in lines)
