"""Tasks of a stranger, one command each at the first try: typed names, own files, one own measurement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstick.estimators.fitting.calibration_file import save
from slipstick.experiments.cli.cli import run
from slipstick.hwmodels.machine_file import save_machine
from tests.experiments.test_known_everywhere import TRACE
from tests.experiments.test_probe import faked_probe
from tests.runs_made import LLAMA_TABLE, SERVED, TRAINER_STATE

CONFIG = {
    "model_type": "qwen3", "hidden_size": 2048, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 6144, "vocab_size": 151936,
}  # fmt: skip
FEWER = {"duration": 2.8, "total_input_tokens": 16 * 1024, "total_output_tokens": 16 * 128}
FEW = "--concurrency 2 --num-requests 6 --output-tokens 32"
TASKS = {
    "a model by its name on the hub, 8-bit": (f"serve Qwen/Qwen3-32B-FP8 --on H100 {FEW}", "dtype fp8"),
    "an ollama name on a gaming card": ("serve llama3.1:8b-instruct-q4_K_M --on 'RTX 5060 Ti'", "llama.cpp on cuda"),
    "a box under the name on it": (
        f"serve openai/gpt-oss-20b --on 'DGX Spark' {FEW}",
        "engine not named",
    ),
    "a Mac": ("serve meta-llama/Llama-3.2-3B-Instruct --on 'M5 Max'", "llama.cpp on metal"),
    "a configuration of one's own": (f"serve config.json --on h200 {FEW}", "memory: fits"),
    "its folder": (f"serve mine --on h200 {FEW}", "memory: fits"),
    "which machine": ("plan serving Qwen/Qwen3-30B-A3B-FP8 --on H100,L40S --devices 1", "pick"),
    "corrected by one time": (f"serve Qwen/Qwen3-8B --on H100 {FEW} --measured 8.5ms", "1 measured step (x"),
    "corrected by a benchmark": (f"serve Qwen/Qwen3-8B --on H100 {FEW} --measured bench.json", "1 measured step (x"),
    "corrected by llama-bench": ("serve qwen3-8b:q4_k_m --on 'RTX 4090' --measured bench.md", "anchored to"),
    "an AWQ checkpoint": (f"serve Qwen/Qwen3-8B-AWQ --on 'RTX 4090' {FEW}", "dtype int4"),
    "a plan by its own benchmark": (
        "plan serving Qwen/Qwen3-8B --on H100 --devices 1 --measured bench.json",
        "; calibrated",
    ),
    "a training log": ("estimate gpt2 --on H100 --measured trainer_state.json", "; measured"),
    "a trace": ("estimate gpt2 --on H100 --measured trace.json", "; measured"),
    "a training run of one's own": (
        "plan training llama-3.1-8b --on H100 --devices 8 --batch 64 --measured 30s@devices=8,tp=8",
        "; calibrated",
    ),
    "days and dollars of a run": (
        "plan training config.json --on H100 --devices 8 --batch 64 --tokens 20B --set machine.price=2",
        "restarts, checkpoints and evaluation apart",
    ),
    "what a plan's prices are": ("plan serving config.json --on H100,H200 --devices 1", "price of H200: 4.59 $/h"),
    "what a probe wrote": ("estimate mlp-inference --batch 64 --on host.yaml --calibration host.json", "; calibrated"),
    "guessing ahead": (
        "whatif llama-3.1-8b --on H100 --concurrency 2 --set run.acceptance=0.7 --vary run.draft_tokens=0,1",
        "output over today's",
    ),
}


@pytest.mark.parametrize("task", TASKS)
def test_a_stranger_gets_an_answer_at_the_first_try(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import shlex

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    for name in ("config.json", "mine/config.json"):
        (tmp_path / name).write_text(json.dumps(CONFIG))
    (tmp_path / "bench.json").write_text(
        json.dumps({**SERVED, "max_concurrency": 8, "completed": 16, "num_prompts": 16, **FEWER})
    )
    (tmp_path / "bench.md").write_text(LLAMA_TABLE)
    (tmp_path / "trainer_state.json").write_text(json.dumps(TRAINER_STATE))
    (tmp_path / "trace.json").write_text(json.dumps(TRACE))
    if "host.yaml" in TASKS[task][0]:
        made = faked_probe()
        save_machine(made.machine, tmp_path / "host.yaml")
        save(made.calibration, "cpu-kinds", tmp_path / "host.json")
    command, words = TASKS[task]
    code = run(shlex.split(command))
    said = capsys.readouterr()
    assert code == 0, said.err
    assert words in " ".join(said.out.split())
