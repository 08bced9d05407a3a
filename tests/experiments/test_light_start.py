"""What a command does not need it does not import: no clock is noisy here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slipstick.hwmodels.files.kept_files import VARIABLE

HEAVY = frozenset("sympy networkx scipy pint pandas simpy torch sklearn xarray matplotlib numba".split())  # noqa: SIM905
CHILD = """
import sys, contextlib, io
from slipstick.experiments.commands.cli import run
with contextlib.redirect_stdout(io.StringIO()):
    code = run(sys.argv[1:])
print(code, *sorted(name for name in sys.modules if "." not in name))
"""


def imported(*words: str) -> frozenset[str]:
    """Packages that a command has imported when it ends."""
    child = subprocess.run([sys.executable, "-c", CHILD, *words], capture_output=True, text=True, check=True)
    code, *names = child.stdout.split()
    assert code == "0", child.stderr
    return frozenset(names)


@pytest.mark.parametrize("command", ["workloads list", "machines list", "estimators list"])
def test_lists_read_their_indices(command: str) -> None:
    names = imported(*command.split())
    assert not names & HEAVY
    assert "numpy" not in names
    assert command == "machines list" or "yaml" not in names  # a file that its index lags behind is read


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("whatif gpt2 --on h100 --vary machine.clock=1GHz,2GHz", {"sympy"}),
        ("explain bert-base-inference --on L4 --batch 8 --rows 3", {"sympy", "networkx"}),  # tries torch.compile, too
        ("extrapolate docs/tutorial/runs.csv --to 64", {"sympy", "scipy"}),
    ],
)
def test_commands_import_what_they_need(command: str, needed: set[str]) -> None:
    assert imported(*command.split()) & HEAVY <= needed


@pytest.mark.parametrize(
    ("command", "sizes"),
    [
        ("estimate gpt2 --on h100", "--batch 32 --seq-len 512"),
        ("estimate mlp --on h100 --estimator roofline", ""),
        ("estimate megatron-22b --on a100-80-dgx", "--batch 16"),
        ("estimate gpt2 --on h100 --dtype fp16", ""),
        ("estimate resnet50-inference --on a100", "--batch 4"),
        ("estimate bert-base-inference --on a100 --dtype bf16", ""),
        ("plan training llama-3-8b --on h100-dgx --devices 64 --batch 256", ""),
    ],
)
def test_what_was_asked_before_is_answered_without_sympy(
    command: str, sizes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Networks (in other data types, too), kernels, schedules, energies and watts are kept as steps."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    imported(*command.split())
    assert not imported(*command.split(), *sizes.split()) & HEAVY
