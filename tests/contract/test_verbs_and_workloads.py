"""What one verb takes all take: every kind of workload goes through every verb that asks about one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.experiments.cli.cli import run
from slipstick.workloads.catalog import workload, workload_names
from slipstick.workloads.language_catalog import language_model_names

MACHINE = "h100-sxm"
OWN = """
import torch

def small():
    return torch.nn.Linear(64, 10), (torch.zeros(8, 64),)
"""
CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 1000,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "torch_dtype": "bfloat16",
}  # fmt: skip
JOB = """
name: mine
steps: 20
stages:
  - {name: load, service: 10 ms, variation: 0.3}
  - {name: train, service: 20 ms}
"""
MATRIX = "%%MatrixMarket matrix coordinate real general\n4 4 6\n1 1 1\n2 2 1\n3 3 1\n4 4 1\n1 2 1\n3 4 1\n"
KINDS = {
    "built in": "mlp",
    "imported": "imported/srcnn",
    "step of serving": "decode:qwen3-0.6b",
    "its older name": "qwen3-0.6b-decode",
    "prompt": "prompt:qwen3-0.6b",
    "model's configuration": "model/config.json",
    "program": "mine.py:small",
    "graph": "net.json",
    "matrix": "grid.mtx",
    "pagerank": "pagerank:grid.mtx",
}
OPEN_IN = {name: KINDS[name] for name in ("step of serving", "program", "pagerank")}
"""Kinds whose names have to survive a file of a study: a colon, a path, code."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with one file of every kind."""
    made = tmp_path_factory.mktemp("mine")
    (made / "model").mkdir()
    (made / "model" / "config.json").write_text(json.dumps(CONFIG))
    (made / "mine.py").write_text(OWN)
    (made / "grid.mtx").write_text(MATRIX)
    (made / "job.yaml").write_text(JOB)
    (made / "times.csv").write_text("time_s,machine.clock\n0.001,1 GHz\n0.0008,1.5 GHz\n0.0007,1.9 GHz\n")
    ss.workload("mlp").save(made / "net.json")
    return made


@pytest.fixture
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a verb prints; it has to succeed."""
    code = run(list(words))
    shown = capsys.readouterr()
    assert code == 0, shown.err
    return shown.out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("there")
def test_questions_take_every_workload(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    if kind == "program":
        pytest.importorskip("torch")
    name, plain = KINDS[kind], ("--estimator", "roofline")
    answer = asked(capsys, "estimate", name, "--on", MACHINE, *plain)
    called = answer.partition(" on H100")[0].splitlines()[-1]
    again = asked(capsys, "whatif", name, "--on", MACHINE, "--vary", "machine.clock=1GHz,1.9GHz", *plain)
    assert again.startswith(f"today: {called} on H100")
    assert called in asked(capsys, "explain", name, "--on", MACHINE, *plain, "--rows", "2")


@pytest.mark.parametrize("kind", OPEN_IN)
@pytest.mark.usefixtures("there")
def test_measurements_and_studies_take_every_workload(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    if kind == "program":
        pytest.importorskip("torch")
    name = KINDS[kind]
    fitted = ("--measured", "times.csv", "--fit", "operation.compute_efficiency", "--fit", "operation.overhead")
    study = f"studies/{kind.split()[0]}.toml"
    Path("studies").mkdir(exist_ok=True)
    vary = ("--vary", "machine.clock=1GHz,1.9GHz", "--estimator", "roofline", "--save", study)
    answer = asked(capsys, "whatif", name, "--on", MACHINE, *vary, *fitted)
    assert "model: roofline; operation.compute_efficiency, operation.overhead fitted to times.csv" in answer
    trusted = ("--allow-code", name) if kind == "program" else ()
    assert f"slipstick study run {study}{' '.join(('', *trusted))}" in answer
    assert "2 parameters fitted to 3 measurements" in asked(capsys, "calibrate", study, *trusted)
    assert "2 points" in asked(capsys, "study", "run", study, *trusted, "--folder", f"out-{kind.split()[0]}")


@pytest.mark.usefixtures("there")
def test_a_study_runs_code_only_where_the_user_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("theirs.toml").write_text(
        'schema = "slipstick-study-1"\nname = "theirs"\nworkloads = ["mine.py:small"]\nmachines = ["t4"]\n'
        '[vary]\n"machine.clock" = ["1 GHz"]\n'
    )
    assert run(["study", "run", "theirs.toml"]) == 2
    assert "workload = 'mine.py:small' would import your or somebody's code" in capsys.readouterr().err


@pytest.mark.usefixtures("there")
def test_questions_take_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    """By formula 20 steps of 20 ms behind a first example of 10 ms; one worker in four makes a load of 40 ms."""
    assert "410 ms by formula" in asked(capsys, "estimate", "job.yaml")
    rows = json.loads(asked(capsys, "whatif", "job.yaml", "--vary", "job.load.service=10ms,40ms", "--format", "json"))
    assert [row["time_s"] for row in rows] == [pytest.approx(0.41), pytest.approx(0.82)]
    assert rows[1]["time_ratio"] == pytest.approx(2)
    (why,) = json.loads(asked(capsys, "explain", "job.yaml", "--format", "json"))
    assert why["stages"][0]["stage"] == "train"
    assert why["changes"][0]["quantity"] == "job.train.service"
    assert why["changes"][0]["at_twice"] == pytest.approx(2, rel=0.05)


def test_a_name_that_is_printed_is_accepted() -> None:
    """Whatever ships is called by the name that it is found by."""
    steps = [f"{kind}:{model}" for model in language_model_names()[:3] for kind in ("decode", "prompt")]
    names = [name for name in workload_names() if not name.startswith(("imported/", "gpt2-", "bert-l", "megatron"))]
    for name in [*names, "imported/srcnn", *steps]:
        assert workload(name).name == name
    assert workload("qwen3-32b-decode") == workload("decode:qwen3-32b")
    assert workload("srcnn") == workload("imported/srcnn")
    assert workload("resnet50-training").name == "resnet50"
    assert os.sep not in workload("llama-3-8b-decode").name, "a network of that name goes before a step of serving"
