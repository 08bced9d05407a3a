"""A program of one's own is answered without torch the second time, and recorded anew where what it read changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slipstick.common.disk_cache import VARIABLE

pytest.importorskip("torch")

PROGRAM = """
import json, os, random, sys
from pathlib import Path
import torch
from helper import WIDTH

def net():
    SAYS
    sizes = json.loads((Path(__file__).parent / "sizes.json").read_text())
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, sizes["wide"]), torch.nn.ReLU()), (torch.zeros(8, WIDTH),)
"""
CHILD = """
import sys, contextlib, io
from slipstick.experiments.cli.cli import run
with contextlib.redirect_stdout(io.StringIO()) as said:
    code = run(sys.argv[1:])
print(code, *{"torch", "sympy"}.intersection(sys.modules))
print(said.getvalue())
"""


def written(folder: Path, says: str = "pass") -> Path:
    """A program with a module and a file that it reads."""
    (folder / "program.py").write_text(PROGRAM.replace("SAYS", says))
    (folder / "helper.py").write_text("WIDTH = 16\n")
    (folder / "sizes.json").write_text('{"wide": 32}')
    return folder / "program.py"


def answered(program: Path, *words: str, **environment: str) -> tuple[bool, str]:
    """Whether torch was imported for the answer, and the answer."""
    words = ("estimate", f"{program}:net", "--on", "h100", *words)
    known = {**os.environ, VARIABLE: str(program.parent / "kept"), **environment}
    known.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled modules are written and renamed, as users' are
    child = subprocess.run([sys.executable, "-c", CHILD, *words], capture_output=True, text=True, env=known, check=True)
    first, answer = child.stdout.split("\n", 1)
    code, *imported = first.split()
    assert code == "0", child.stderr
    return "torch" in imported, answer


def kept(program: Path) -> list[Path]:
    """The programs that are kept."""
    return [*program.parent.glob("kept/**/workloads/*.json")]


@pytest.mark.slow
def test_what_was_recorded_is_answered_without_torch_until_something_changes(tmp_path: Path) -> None:
    program = written(tmp_path)
    first, second = answered(program), answered(program)
    assert (first[0], second[0]) == (True, False)
    assert first[1] == second[1]
    assert len(kept(program)) == 1
    assert not answered(program, "--dtype", "bfloat16")[0]
    (tmp_path / "helper.py").write_text("WIDTH = 4096\n")
    anew, again = answered(program), answered(program)
    assert (anew[0], again[0]) == (True, False)
    assert anew[1] == again[1] != second[1]


@pytest.mark.slow  # `tests/attack/test_kept_stale` has what a program reads, with a stand-in for torch
def test_a_file_a_module_the_environment_and_options_are_part_of_what_was_recorded(tmp_path: Path) -> None:
    program = written(tmp_path)
    first = answered(program)
    (tmp_path / "sizes.json").write_text('{"wide": 64}')
    anew, again = answered(program), answered(program)
    assert (anew[0], again[0]) == (True, False)
    assert anew[1] == again[1] != first[1]
    (tmp_path / "torch_is_not_here.py").write_text("")
    assert answered(program)[0]
    assert answered(program, OF_MINE="1")[0]
    assert answered(program, "--train", "adamw")[0]


@pytest.mark.slow  # three processes that import torch
def test_named_sizes_are_put_in_without_torch(tmp_path: Path) -> None:
    program = written(tmp_path)
    opened = ("--input", "batch,16")
    assert answered(program, *opened, "--batch", "64")[0]
    kept, fresh = answered(program, *opened, "--batch", "1000"), answered(program, *opened, "--batch", "1000", A="1")
    assert (kept[0], fresh[0]) == (False, True)
    assert kept[1] == fresh[1]


@pytest.mark.parametrize(
    "says",
    [
        "print('here')",
        pytest.param("random.random()", marks=pytest.mark.slow),
        pytest.param("Path(__file__).with_suffix('.txt').write_text('')", marks=pytest.mark.slow),  # as in `attack`
        pytest.param("os.system('true')", marks=pytest.mark.slow),
    ],
)
def test_a_program_that_acts_or_draws_is_not_kept(says: str, tmp_path: Path) -> None:
    program = written(tmp_path, says)
    assert answered(program)[0]
    assert not kept(program)
