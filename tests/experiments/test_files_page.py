"""The commands of the page on files that users have, executed, their output compared."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from slipstick.experiments.commands.cli import run
from tests import files_made

PAGE = Path(__file__).parents[2] / "docs" / "files.md"
BLOCK = re.compile(r"```console\n\$ slipstick (.*?)\n(.*?)```", re.DOTALL)
NAMES = {
    "nsys.sqlite": "profile.sqlite",
    "vllm.json": "bench.json",
    "llama-bench.json": "llama.json",
    "ncu.csv": "counters.csv",
}


def test_the_page_on_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, path in files_made.write_all(tmp_path).items():
        path.rename(tmp_path / NAMES.get(name, name))
    (tmp_path / "profiles").mkdir()
    for ranks in (1, 2, 4, 8, 16):
        (tmp_path / "profiles" / f"{ranks}.cali").write_text(files_made.cali(ranks))
    monkeypatch.chdir(tmp_path)
    same = doctest.OutputChecker().check_output
    steps = BLOCK.findall(PAGE.read_text())
    assert len(steps) >= 8
    for command, shown in steps:
        code = run(shlex.split(command))
        printed = capsys.readouterr()
        assert code == 0, printed.err
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert same(shown, printed.out, flags), f"{command}\n{printed.out}"
