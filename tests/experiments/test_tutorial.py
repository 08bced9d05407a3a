"""The tutorial's commands, executed from a folder with its files, their output compared."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from slipstick.experiments.commands.cli import run

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def _steps(page: Path) -> list[tuple[str, str]]:
    """Each command with the output that the page shows."""
    found: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall(page.read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ slipstick "), []))
            else:
                found[-1][1].append(line)
    return [(command, "\n".join(lines) + "\n") for command, lines in found]


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="the tutorial imports a torch model")
    for file in (DOCS / "tutorial").iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    same = doctest.OutputChecker().check_output
    steps = _steps(DOCS / "tutorial.md")
    assert len(steps) == 6
    for command, shown in steps:
        code = run(shlex.split(command))
        said = capsys.readouterr()
        assert code == 0, said.err
        assert same(shown, said.out, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), f"{command}\n{said.out}"
    sys.modules.pop("my_model", None)
    assert (tmp_path / "report.html").stat().st_size > 1e6


def test_an_own_network_by_four_methods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (DOCS / "own-network").iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    same = doctest.OutputChecker().check_output
    steps = _steps(DOCS / "own-network.md")
    assert len(steps) == 12
    for command, shown in steps:
        code = run(shlex.split(command))
        said = capsys.readouterr()
        assert code == 0, said.err
        assert same(shown, said.out, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), f"{command}\n{said.out}"
