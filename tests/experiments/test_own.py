"""Your own estimator by MODULE:ATTRIBUTE: run where the user names it, never because a file does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.cli import run
from slipstick.experiments.studies.runner import plan
from slipstick.experiments.studies.study import load_study

OWN = """
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential

print("my code runs")
half = ComposedEstimator(Roofline(compute_efficiency=0.5, memory_efficiency=0.5), Sequential(), "half of every peak")

def make():
    return half

nothing = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path


@pytest.mark.parametrize("name", ["mine:half", "mine:make"])
def test_an_own_estimator_answers_and_its_import_is_said(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["gemm", "--on", "v100-sxm", "--format", "json"]
    assert run(["estimate", *where, "--estimator", "roofline"]) == 0
    (plain,) = json.loads(capsys.readouterr().out)
    assert run(["estimate", *where, "--estimator", name]) == 0
    said = capsys.readouterr()
    (own,) = json.loads(said.out.partition("\n")[2] if said.out.startswith("my code") else said.out)
    assert f"imports mine and runs its code ({name})" in said.err
    assert own["time_s"] > 1.5 * plain["time_s"]


def test_an_error_of_an_own_estimator_is_the_users(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 with file and line; 3 is for errors of ours, which one inside of us stays."""
    (folder / "mine.py").write_text(
        "from slipstick.estimators.base.estimator_base import EstimatorBase\n\n\n"
        "class Table(EstimatorBase):\n    def estimate(self, workload, machine, run=None):\n"
        "        raise ValueError('no such size')\n\n\ntable = Table()\n"
    )
    assert run(["estimate", "gemm", "--on", "v100-sxm", "--estimator", "mine:table"]) == 2
    assert "your own code: ValueError: no such size at mine.py:6" in capsys.readouterr().err


def test_a_file_called_like_a_module_of_python_is_not_taken_for_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "token.py").write_text("def network(): ...\n")
    assert run(["estimate", "token.py:network", "--on", "v100-sxm"]) == 2
    assert "token.py: Python has a module 'token' of its own: give the file another name" in capsys.readouterr().err


def test_a_study_from_somebody_else_does_not_import_silently(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["gemm", "--on", "v100-sxm", "--estimator", "mine:half", "--vary", "machine.clock=1GHz,1.5GHz"]
    assert run(["whatif", *asked, "--save", "s.toml"]) == 0
    sys.modules.pop("mine")
    capsys.readouterr()
    for verb in (["study", "run"], ["study", "report"], ["calibrate"]):
        assert run([*verb, "s.toml"]) == 2
        said = capsys.readouterr()
        assert "if you trust it, add --allow-code mine:half" in said.err and "my code runs" not in said.out
    assert "mine" not in sys.modules
    assert run(["study", "run", "s.toml", "--allow-code", "mine:make"]) == 2  # another name is not this one
    assert run(["study", "run", "s.toml", "--allow-code", "mine:half"]) == 0
    assert "report s.toml --allow-code mine:half" in capsys.readouterr().out


def test_other_code_is_another_study(folder: Path) -> None:
    asked = ["gemm", "--on", "v100-sxm", "--estimator", "mine:half", "--vary", "machine.clock=1GHz,1.5GHz"]
    assert run(["whatif", *asked, "--save", "s.toml"]) == 0
    first = plan(load_study("s.toml", ["mine:half"])).fingerprint
    assert plan(load_study("s.toml", ["mine:half"])).fingerprint == first
    (folder / "mine.py").write_text(OWN + "\n# changed\n")
    assert plan(load_study("s.toml", ["mine:half"])).fingerprint != first


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mine:other", "has no attribute 'other'"),
        ("nowhere:x", "No module named 'nowhere'"),
        ("mine:nothing", r"a int has no estimate\(workload, machine, run\)"),
        ("mine:Roofline", r"a Roofline has no estimate"),
        ("mine:ComposedEstimator", "is the class ComposedEstimator; want one of it"),
    ],
)
def test_what_is_no_estimator_is_said(name: str, words: str) -> None:
    from slipstick.experiments.question.registry import named_estimator

    with pytest.raises(InputError, match=words):
        named_estimator(TrustedName(name))


def test_a_program_on_several_machines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each machine gets the estimator that it would get alone."""
    pytest.importorskip("torch", reason="reading a torch program needs slipstick[torch]")
    (folder / "net_of_mine.py").write_text(
        "import torch\n\n\ndef f():\n    return torch.nn.Linear(64, 64), (torch.randn(8, 64),)\n"
    )
    times = {}
    for on in ("L4", "A100", "L4,A100"):
        assert run(["estimate", "net_of_mine.py:f", "--on", on, "--format", "json"]) == 0
        times[on] = [row["time_s"] for row in json.loads(capsys.readouterr().out)]
    assert times["L4,A100"] == [*times["L4"], *times["A100"]]


@pytest.mark.parametrize("words", ["gone.py:f --on L4", "mine.py:f --on rtx-4099", "mine.py:f --on rtx-4099,h1000"])
def test_no_code_is_run_for_a_wrong_file_or_machine(
    words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mine.py").write_text("raise SystemExit('it ran')\n")
    assert run(["estimate", *words.split()]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and ("no file gone.py" in text or "unknown machine" in text)


@pytest.mark.parametrize(
    ("given", "number", "words"),
    [
        (
            "",
            "--batch 32",
            "--batch 32: the inputs of net_of_mine.py:f have fixed sizes; name it: --input batch,64 --batch 32",
        ),
        ("--input x=8,64:int64", "--batch=4", "name it: --input x=batch,64:int64 --batch 4"),
    ],
)
def test_a_batch_that_the_inputs_fix_is_given_with_them(
    given: str, number: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="reading a torch program needs slipstick[torch]")
    (folder / "net_of_mine.py").write_text(
        "import torch\n\n\ndef f():\n    return torch.nn.Linear(64, 64), (torch.randn(8, 64),)\n"
    )
    common = ["estimate", "net_of_mine.py:f", "--on", "L4"]
    assert run([*common, *given.split(), *number.split()]) == 2
    assert words in capsys.readouterr().err
    assert run([*common, "--input", "batch,64", *number.split()]) == 0


def test_a_named_size_is_that_of_the_example(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The function returns 48 rows: --input batch,64 answers for 48, and --batch for others."""
    pytest.importorskip("torch", reason="reading a torch program needs slipstick[torch]")
    (folder / "net_of_48_rows.py").write_text(
        "import torch\n\n\ndef f():\n    return torch.nn.Linear(64, 64), (torch.randn(48, 64),)\n"
    )
    common = ["estimate", "net_of_48_rows.py:f", "--on", "L4", "--format", "json", "--input"]
    times = {}
    for words in ("48,64", "batch,64", "batch,64 --batch 10000000"):
        assert run([*common, *words.split()]) == 0
        times[words] = json.loads(capsys.readouterr().out)[0]["time_s"]
    assert times["batch,64"] == pytest.approx(times["48,64"], rel=1e-9)
    assert times["batch,64 --batch 10000000"] > times["batch,64"]
    assert run(["estimate", "net_of_48_rows.py:f", "--on", "L4", "--input", "batch,64"]) == 0
    assert "batch 48" in capsys.readouterr().out
