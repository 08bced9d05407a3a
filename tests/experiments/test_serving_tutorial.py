"""The commands of the page on serving, executed with its config.json, their output compared."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from pathlib import Path

import pytest

from slipstick.experiments.commands.cli import run

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```console\n\$ slipstick (.*?)\n(.*?)```", re.DOTALL)


def test_the_page_on_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(DOCS / "tutorial" / "my-model.json", tmp_path)
    monkeypatch.chdir(tmp_path)
    same = doctest.OutputChecker().check_output
    steps = BLOCK.findall((DOCS / "serving.md").read_text())
    assert len(steps) == 5
    for command, shown in steps:
        code = run(shlex.split(command))
        said = capsys.readouterr()
        assert code == 0, said.err
        assert same(shown, said.out, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), f"{command}\n{said.out}"
    for name in ("plan.html", "plan.png", "serve.html", "serve.png", "requests.parquet", "steps.json"):
        assert (tmp_path / name).stat().st_size > 1000
