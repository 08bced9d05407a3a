"""One name is a model, one option says what is done of it: the same answers as the names that say both."""

from __future__ import annotations

from pathlib import Path

import pytest

import slipstick as ss
from slipstick.experiments.cli.cli import run
from slipstick.workloads.catalog import works

NAMES = [
    *[
        (name, work, {"train": name, "forward": f"{name}-inference"}[work])
        for name in ("gpt2", "bert-large", "resnet50", "vgg16", "gnmt", "deepspeech2", "mlp")
        for work in ("train", "forward")
    ],
    *[
        (name, work, f"{before}:{name}")
        for name in ("llama-3.1-8b", "llama-3-8b", "qwen3-8b", "mixtral-8x7b", "Qwen/Qwen3-8B")
        for work, before in (("train", "train"), ("prefill", "prompt"), ("decode", "decode"))
    ],
    ("llama-3-8b", "forward", "llama-3-8b-inference"),
    ("llama-7b", "decode", "llama-7b-decode"),
    ("llama-7b", "forward", "llama-7b-inference"),
    ("gpt2-inference", "forward", "gpt2-inference"),
    ("GPT-2", "forward", "gpt2-inference"),
    ("serve:llama-3.1-8b", "decode", "decode:llama-3.1-8b"),
    ("decode:llama-3.1-8b", "decode", "decode:llama-3.1-8b"),
    ("imported/resnet18", "train", "imported/resnet18"),
    ("gpt2-data-parallel", "train", "gpt2-data-parallel"),
]


@pytest.mark.parametrize(("name", "work", "same"), NAMES)
def test_a_name_and_a_work_are_the_name_that_says_both(name: str, work: str, same: str) -> None:
    assert works(name)[work] == same
    assert ss.workload(name, work=work).identity == ss.workload(same).identity


@pytest.mark.parametrize(
    ("name", "work", "words"),
    [
        ("gpt2", "decode", r"'gpt2' has no work 'decode' \(work\): it has forward, train"),
        ("llama-3.1-8b", "forward", "it has decode, prefill, train"),
        ("llama-3-70b-decode", "train", "it has decode"),
        ("train:llama-3.1-8b", "decode", "it has train"),
        ("gemm", "train", "it is one piece of work: leave it out"),
        ("all-reduce", "forward", "it is one piece of work: leave it out"),
        ("gpt2", "inference", "unknown work 'inference'"),
        ("nosuchnetwork", "train", "unknown workload 'nosuchnetwork'"),
    ],
)
def test_a_work_that_a_model_has_not_is_refused_with_those_that_it_has(name: str, work: str, words: str) -> None:
    with pytest.raises(ss.InputError, match=words):
        ss.estimate(name, "h100-sxm", work=work)
    assert run(["estimate", name, "--on", "h100-sxm", "--work", work]) == 2


def test_verbs_take_the_work_as_an_option_and_as_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    vary = {"machine.clock": ["1 GHz"]}
    assert ss.estimate("gpt2", "h100", work="forward").time == ss.estimate("gpt2-inference", "h100").time
    assert ss.question("gpt2", "h100", work="train").answer().time == ss.estimate("gpt2", "h100").time
    assert ss.whatif("gpt2", "h100", vary, work="forward").rows() == ss.whatif("gpt2-inference", "h100", vary).rows()
    why = ss.explain("llama-3.1-8b", "h100", work="decode")
    assert why.rows() == ss.explain("decode:llama-3.1-8b", "h100").rows()
    for verb in (["estimate"], ["whatif", "--vary", "machine.clock=1GHz"], ["explain"]):
        texts = []
        for words in (["llama-3.1-8b", "--work", "decode"], ["decode:llama-3.1-8b"]):
            assert run([verb[0], *words, "--on", "h100-sxm", *verb[1:]]) == 0
            texts.append(capsys.readouterr().out)
        assert texts[0] == texts[1]
    with pytest.raises(ss.InputError, match="what is given is one graph"):
        ss.estimate(ss.workload("gpt2"), "h100", work="train")


def test_a_program_trains_by_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    Path("trains.py").write_text("import torch\n\ndef build():\n    return torch.nn.Linear(64, 64)\n")
    outputs = []
    for words in (["--work", "train"], ["--train", "sgd"], ["--work", "forward"], []):
        assert run(["estimate", "trains.py:build", "--on", "h100", "--input", "8,64", *words]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2] == outputs[3]
    for words in (["--work", "forward", "--train", "sgd"], ["--work", "decode"]):
        assert run(["estimate", "trains.py:build", "--on", "h100", "--input", "8,64", *words]) == 2
    assert "it has forward, train" in capsys.readouterr().err
