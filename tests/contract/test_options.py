"""One set of options over all verbs: the same words for the same things."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.experiments.cli.cli import run
from tests.verbs_there import options

WRITES_ONLY = {"study run", "study resume", "study merge", "data get", "workloads draw", "mcp"}
"""They answer with files, lines or messages of a protocol, not with rows."""
PAGED = {
    *("estimate", "whatif", "explain", "extrapolate", "replay", "serve"),
    *("plan serving", "plan training", "plan power-limit"),
}
"""Verbs that answer a question: a page on request."""


def test_every_verb_answers_in_three_formats() -> None:
    assert len(options()) > 50
    assert {name for name, taken in options().items() if "--format" not in taken} == WRITES_ONLY


def test_questions_have_pages() -> None:
    assert {name for name in PAGED if "--report" not in options()[name]} == set()


@pytest.mark.parametrize(
    "command",
    [
        ["estimate", "gemm", "--on", "H100,A100", "--m", "4096"],
        ["estimate", "gemm", "--on", "H100"],
        ["extrapolate", "times.csv", "--to", "64"],
        ["plan", "power-limit", "--time", "240s", "--power", "220W", "--rated", "250W"],
    ],
)
def test_a_page_is_written_and_named(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "times.csv").write_text("threads,time_s\n1,100\n2,52\n4,27\n8,15\n16,9\n32,6\n")
    assert run([*command, "--report", "page.html"]) == 0, capsys.readouterr().err
    text = (tmp_path / "page.html").read_text()
    assert text.startswith("<!doctype html>")
    assert 'src="http' not in text
