"""`slipstick COMMAND --help`: options by section, and two examples each, which are typed as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from slipstick.experiments.cli.cli import run
from slipstick.experiments.cli.command_help import EXAMPLES
from slipstick.experiments.cli.vocabulary import SECTIONS
from tests.files_made import nsys
from tests.pasted import CPUINFO
from tests.programs_made import STABLEHLO
from tests.verbs_there import verbs

MODELS = """
import torch

def network():
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
"""
JOB = """
name: a job
steps: 20
stages:
  - {name: decode, service: 10 ms, workers: 2, buffer: 4, variation: 0.2}
  - {name: step, service: 20 ms}
"""
FIT = """
schema = "slipstick-study-1"
name = "phi-fit"
workloads = ["phi-cnn-small"]
machines = ["xeon-phi-7120p"]
estimator = "phi-a"
[fit]
measured = "measured.csv"
parameters = ["operation.operation_factor"]
"""
MATRIX = "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 1.0\n2 2 2.0\n3 1 1.0\n3 3 3.0\n"
TEXTS = {
    "runs.csv": "threads,time_s\n1,400\n2,205\n4,107\n8,58\n16,34\n",
    "log.csv": "seq_len,time_s\n5,0.10\n5,0.10\n7,0.14\n9,0.18\n",
    "run.csv": "step,operation,duration_s\n1,mm,0.10\n2,mm,0.10\n3,mm,0.14\n4,mm,0.18\n5,save,0.90\n",
    "my_models.py": MODELS,
    "job.yaml": JOB,
    "steps.csv": "step_s\n" + "0.021\n0.022\n0.020\n0.025\n" * 5,
    "matrix.mtx": MATRIX,
    "fit.toml": FIT,
    "measured.csv": "run.threads,time_s\n15,400\n30,205\n60,107\n120,58\n240,34\n",
    "kerncraft.yml": (Path(__file__).parents[1] / "data" / "kerncraft_cod.yml").read_text(),
    "cpuinfo.txt": CPUINFO,
    "step.mlir": STABLEHLO,
    "my-host.yaml": "extends: xeon-gold-6148\nname: my-host\n",
}
MEASURES = (
    "mcp --allow",
    "measure ",
    "probe",
    "spmv calibrate",
    "spmv train",
    "spmv validate",
    "bricks ",
    "tune",
    "validate",
    "data get",
)
"""Commands that time this host, read public data or need what those have measured: their examples are parsed alone."""

COMPARES = ("reproduce", "workloads diff")
"""Commands that exit with 1 where two things differ."""


def every_example() -> list[str]:
    return [f"{command} {example}".strip() for command, examples in EXAMPLES.items() for example in examples]


def test_every_command_has_examples() -> None:
    assert sorted(EXAMPLES) == sorted(verbs()) and all(len(one) == 2 for one in EXAMPLES.values())


def test_the_help_shows_sections_and_examples(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command, examples in EXAMPLES.items():
        assert run([*command.split(), "--help"]) == 0
        said = capsys.readouterr().out
        assert max(map(len, said.splitlines())) <= 80, command
        titles = [title for title in re.findall(r"^(\S.*):$", said, re.M) if title in SECTIONS]
        assert titles == [title for title in SECTIONS if title in titles], command
        joined = re.sub(r" \\\n +", " ", said)
        assert all(f"  slipstick {command} {example}".rstrip() in joined for example in examples), command


def test_an_example_has_no_unknown_option() -> None:
    """Those that `test_the_examples_run` leaves out are at least spelled right; sizes of a workload are any."""
    sizes = {"--m"}
    for command, parameters in verbs().items():
        known = {name for one in parameters for name in (*one.opts, *one.secondary_opts)}
        for example in EXAMPLES[command]:
            assert {word for word in shlex.split(example) if word.startswith("--")} <= known | sizes, example


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In order, from a folder with the files that they name: what one writes, the next may read."""
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        Path(name).write_text(text)
    nsys(Path("profile.sqlite"))
    failed = {}
    for typed in every_example():
        if not typed.startswith(MEASURES):
            code = run(shlex.split(typed))
            said = capsys.readouterr().err
            if code not in ((0, 1) if typed.startswith(COMPARES) else (0,)):
                failed[typed] = f"{code}: {said}"
    assert failed == {}, failed
