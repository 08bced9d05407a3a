"""Names of language models as people type them: hub names in any case, endings, ways of storing weights, files."""

import json
import os
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.workloads.catalog import workload
from slipstick.workloads.language_catalog import language_model, language_model_names, shipped_name
from slipstick.workloads.language_names import plain

TYPED = {
    "Qwen/Qwen3-32B": ("qwen3-32b", "bf16"),
    "qwen/QWEN3-32b-fp8": ("qwen3-32b", "fp8"),
    "meta-llama/Meta-Llama-3.1-8B-Instruct": ("llama-3.1-8b", "bf16"),
    "llama3.1:8b": ("llama-3.1-8b", "bf16"),
    "llama3.1:8b-instruct-q4_K_M": ("llama-3.1-8b", "q4_k_m"),
    "meta-llama/Llama-3.3-70B-Instruct": ("llama-3.1-70b", "bf16"),
    "mistralai/Mistral-7B-Instruct-v0.3": ("mistral-7b-v0.3", "bf16"),
    "TheBloke/Mistral-7B-Instruct-v0.2-AWQ": ("mistral-7b", "int4"),
    "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4": ("qwen2.5-72b", "int4"),
    "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8": ("qwen2.5-72b", "int8"),
    "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M": ("llama-3.1-8b", "q4_k_m"),
    "bartowski/Qwen3-8B-GGUF:Q6_K": ("qwen3-8b", "q6_k"),
    "unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL": ("qwen3-8b", "q4_k_m"),
    "RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16": ("llama-3.1-70b", "int4"),
    "neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8-dynamic": ("llama-3.1-8b", "fp8"),
    "nvidia/Llama-3.1-8B-Instruct-NVFP4": ("llama-3.1-8b", "nvfp4"),
    "deepseek-ai/DeepSeek-R1-0528": ("deepseek-v3", "fp8"),
    "Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8": ("qwen3-30b-a3b", "fp8_block"),
    "Qwen/Qwen3-235B-A22B-Thinking-2507": ("qwen3-235b-a22b", "bf16"),
    "openai/gpt-oss-120b": ("gpt-oss-120b", "mxfp4"),
    "google/gemma-3-27b-it": ("gemma-3-27b", "bf16"),
    "microsoft/phi-4": ("phi-4", "bf16"),
}


@pytest.mark.parametrize(("name", "meant"), TYPED.items())
def test_what_was_typed_is_found(name: str, meant: tuple[str, str]) -> None:
    model = language_model(name)
    assert (model.name, model.weights) == meant


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("glm-4.6", "glm-4.5"),
        ("meta-llama/Llama-3.3-70B-Instruct-FP8", "llama-3.1-70b"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", ""),
        ("zai-org/GLM-4.5-FP8", ""),
        ("llama3.1:8b-instruct-q4_K_M", ""),
    ],
)
def test_a_model_that_answers_for_another_says_so(name: str, entry: str) -> None:
    model = language_model(name)
    assert model.stands_for == (f"{name} by the numbers of {entry}, whose shapes it shares" if entry else "")


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "glm-4.6", "--devices", "8", "--dtype", "fp8"],
        ["serve", "deepseek-r1-distill-llama-8b", "--engine", "llama.cpp"],
        ["plan", "serving", "llama-3.3-70b", "--devices", "1", "--dtype", "fp8"],
        ["estimate", "decode:mixtral", "--dtype", "fp8"],
        ["estimate", "serve:llama-3.3-70b", "--dtype", "fp8"],
        ["estimate", "train:llama-3.3-70b"],
        ["plan", "training", "llama-3.3-70b", "--devices", "8", "--batch", "64", "--seq-len", "2048"],
    ],
)
def test_every_verb_says_whose_numbers_answer(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--on", "h200-sxm"]) == 0
    assert "by the numbers of" in " ".join(capsys.readouterr().out.split())


def test_the_question_takes_the_weights_that_the_name_says() -> None:
    assert ServingOptions("Qwen/Qwen3-32B-FP8", "h100-sxm").deployment().stored == "fp8"
    assert ServingOptions("Qwen/Qwen3-32B-FP8", "h100-sxm", dtype="bf16").deployment().stored == "bf16"


def test_forty_models_and_no_two_that_are_written_alike() -> None:
    names = language_model_names()
    assert len(names) >= 40
    assert len({plain(name) for name in names}) == len(names)
    assert all(shipped_name(name.upper()) == name for name in names)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Qwen/Qwen9-32B", r"unknown language model 'Qwen/Qwen9-32B'; did you mean 'qwen3-32b'.*hf download Qwen"),
        ("foo/bar", r"unknown language model 'foo/bar'\. Any other: its config.json"),
        ("./nothing", r"\./nothing: no such file or folder"),
        ("a/../b", "unknown language model"),
        ("", "unknown language model"),
        ("\x1b[2J", r"unknown language model '\\\\x1b"),
    ],
)  # fmt: skip
def test_unknown_names_say_the_way_on(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        language_model(name)


CONFIG = {
    "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 151936,
    "tie_word_embeddings": True, "quantization_config": {"quant_method": "fp8"},
}  # fmt: skip


def test_a_configuration_that_the_hub_left_here_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    for age, (commit, layers) in enumerate({"aaaa": 27, "bbbb": 28}.items()):
        folder = tmp_path / "models--Acme--Own-1B" / "snapshots" / commit
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": layers}))
        os.utime(folder / "config.json", (age, age))
    model = language_model("acme/own-1b")
    assert (model.name, model.layers, model.weights) == ("own-1b", 28, "fp8")
    with pytest.raises(InputError, match="unknown language model 'acme/other'"):
        language_model("acme/other")


def test_a_shipped_model_does_not_depend_on_what_lies_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--Qwen--Qwen3-32B" / "snapshots" / "a"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    assert language_model("Qwen/Qwen3-32B").layers == 64


def test_requests_to_a_model_are_a_workload_under_its_name_on_the_hub() -> None:
    assert workload("Qwen/Qwen3-32B-FP8").name == "Qwen/Qwen3-32B-FP8"
    assert workload("Qwen/Qwen3-32B").metadata == workload("qwen3-32b").metadata
