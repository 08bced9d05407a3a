"""`slipstick --help` lists every verb once, in groups, a line each in 80 columns."""

from __future__ import annotations

import re

import pytest
import typer

from slipstick.experiments.cli.cli import build, run
from slipstick.experiments.cli.verb_groups import GROUPS


def test_every_verb_stands_in_one_group() -> None:
    verbs = [verb for group in GROUPS.values() for verb in group]
    assert sorted(verbs) == sorted(typer.main.get_command(build()).commands)  # type: ignore[attr-defined]


def test_the_help_lists_a_verb_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    said = capsys.readouterr().out
    assert [title for title in re.findall(r"^(\S.*):$", said, re.M) if title in GROUPS] == list(GROUPS)
    for group in GROUPS.values():
        for verb, text in group.items():
            assert re.search(rf"^  {verb} +{re.escape(text)}$", said, re.M), verb
