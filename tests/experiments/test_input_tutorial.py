"""The commands of the page on accelerators that wait for their input, executed, their output compared."""

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
PROFILE = Path(__file__).parents[1] / "workloads" / "data" / "jax_cpu.xplane.pb.gz"
BLOCK = re.compile(r"```console\n\$ slipstick (.*?)\n(.*?)```", re.DOTALL)


def test_the_page_on_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(DOCS / "tutorial" / "my_input.py", tmp_path)
    shutil.copy(PROFILE, tmp_path / "run.xplane.pb.gz")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    same = doctest.OutputChecker().check_output
    steps = BLOCK.findall((DOCS / "input.md").read_text())
    assert len(steps) == 6
    for command, shown in steps:
        code = run(shlex.split(command))
        said = capsys.readouterr()
        assert code == 0, said.err
        assert same(shown, said.out, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), f"{command}\n{said.out}"
    sys.modules.pop("my_input", None)
