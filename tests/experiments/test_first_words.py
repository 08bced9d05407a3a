"""What a stranger types first: names as people write them, a file of their own, all errors of a file at once."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.hwmodels.catalog import machine

BLOCK = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.inside = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.inside(x).chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

def fits():
    return Attention(), (torch.randn(8, 128, 64),)

def too_wide():
    return Attention(), (torch.randn(8, 128, 65),)

def floats_for_indices():
    return nn.Embedding(10, 4), (torch.randn(8, 16),)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "meant"),
    [("c5.2xlarge", "ec2-c5-2xlarge"), ("TPUv2", "tpu-v2"), ("tpu v4", "tpu-v4"), ("h100", "h100-sxm")],
)
def test_machines_as_people_write_them(name: str, meant: str) -> None:
    assert machine(name) == machine(meant)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("estimate gpt2-train --on H100", "did you mean 'gpt2' (training step)"),
        ("estimate qwen3-32b --on H100 --devices 4", "did you mean --tensor-parallel (ranks of one server)"),
        ("estimate llama-3-9b --on H100", "did you mean 'llama-3-8b-decode'"),
        ("estimate resnet50 --on c5.3xlarge", "known: slipstick machines list)"),
        ("estimate resnet50 --on laptop.yaml --dtype int8", "--dtype float32"),
        ("estimate resnet50 --on wrong.yaml", "(3) memory.DRAM.bandwidth = '45 furlongs'"),
    ],
)
def test_errors_name_the_mend(command: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = "name: laptop\nclock: 3 GHz\ncores: 8\nengines: {vector: {flop_per_cycle: {float32: 32}}}\n"
    sound += "memory: {DRAM: {capacity: 64 GiB, bandwidth: 45 GB/s}}\nsources: {clock: data sheet}\n"
    wrong = sound.replace("3 GHz", "3 GBz").replace("cores: 8", "cores: eight").replace("45 GB/s", "45 furlongs")
    (folder / "laptop.yaml").write_text(sound)
    (folder / "wrong.yaml").write_text(wrong)
    assert run(shlex.split(command)) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error) < 1000


def test_a_size_of_the_layout_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split("estimate megatron-175b --on a100-80-dgx --pipeline-parallel 16 --format csv")) == 0
    option = capsys.readouterr().out
    assert run(shlex.split("estimate megatron-175b --on a100-80-dgx --set run.pipeline_parallel=16 --format csv")) == 0
    assert capsys.readouterr().out == option
    where = "whatif megatron-175b --on a100-80-dgx --vary workload.pipeline_parallel=8,16 --format csv"
    assert run(shlex.split(where)) == 0
    (_, deeper) = capsys.readouterr().out.strip().splitlines()[1:]
    assert float(deeper.split(",")[4]) == pytest.approx(float(option.splitlines()[1].split(",")[2]), rel=1e-9)


def test_a_program_in_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    (folder / "block_of_mine.py").write_text(BLOCK)
    for verb in ("estimate {} --on H100", "whatif {} --on H100 --vary machine.clock=1GHz,2GHz", "explain {} --on L4"):
        assert run(shlex.split(verb.format("block_of_mine.py:fits"))) == 0, capsys.readouterr().err
        assert "fits on" in capsys.readouterr().out
    assert run(shlex.split("estimate block_of_mine.py:too_wide --on H100")) == 2
    assert "block_of_mine.py:11: q, k, v = self.inside(x)" in capsys.readouterr().err
    assert run(shlex.split("estimate block_of_mine.py:floats_for_indices --on H100")) == 2
    assert ":int64" in capsys.readouterr().err


def test_no_such_file() -> None:
    from slipstick.workloads.importers.torch.named_program import build_by_name

    with pytest.raises(InputError, match="no file missing.py"):
        build_by_name("missing.py:f")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("estimate resnet50 --on H100 --batch abc", "workload.batch: 'abc' is no quantity: want a number\n"),
        ("estimate resnet50 --on H100 --bach 8", "did you mean --batch?"),
    ],
)
def test_a_wrong_number_is_named(command: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split(command)) == 2
    assert expected in capsys.readouterr().err


def test_a_serving_step_has_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split("estimate decode:llama-3.1-8b --on A100 --batch 16 --format csv")) == 0
    batch = capsys.readouterr().out
    assert run(shlex.split("estimate decode:llama-3.1-8b --on A100 --decodes 16 --format csv")) == 0
    assert capsys.readouterr().out == batch


@pytest.mark.parametrize("machine_name", ["xeon-gold-6148", "epyc-7451"])
def test_threads_of_a_stream_are_an_option(machine_name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A line of the first page: --threads resembles --train, and is a number of the run all the same."""
    assert run(["estimate", "stream-triad", "--on", machine_name, "--threads", "1"]) == 0
    one = capsys.readouterr().out
    assert run(["estimate", "stream-triad", "--on", machine_name, "--threads", "8"]) == 0
    assert capsys.readouterr().out != one


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ("--compile", "did you mean --mode compiled?"),
        ("--compile --dtype bf16", "did you mean --mode compiled?"),
        ("--training", "did you mean --train adamw?"),
        ("--thread 8", "did you mean --threads?"),
    ],
)
def test_options_that_people_expect_name_those_that_are(
    options: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["estimate", "resnet18", "--on", "h100-sxm", *options.split()]) == 2
    assert hint in capsys.readouterr().err
