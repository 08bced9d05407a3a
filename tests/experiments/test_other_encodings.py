"""Terminals that know no UTF-8: other letters or escapes stand for what they lack, and no verb ends for it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slipstick.experiments.cli.cli import run
from tests.verbs_there import verbs

SHOWING_UNITS = ["machines", "show", "h100-sxm"]


def printed(words: list[str], encoding: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """Exit code, standard output and errors of a command on a terminal of an encoding."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for _ in range(2)]
    with monkeypatch.context() as there:
        there.setattr(sys, "stdout", streams[0])
        there.setattr(sys, "stderr", streams[1])
        code = run(words)
    shown, said = (stream.buffer.getvalue().decode(encoding) for stream in streams)  # type: ignore[attr-defined]
    return code, shown, said


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
@pytest.mark.parametrize(
    "words",
    [
        SHOWING_UNITS,
        ["whatif", "gemm", "--on", "h100-sxm", "--vary", "workload.m=1,2"],
        ["whatif", "gemm", "--on", "h100-sxm", "--vary", "workload.m=1,2", "--format", "csv"],
        ["explain", "gemm", "--on", "v100-sxm", "--estimator", "roofline"],
        ["plan", "power-limit", "--time", "4 µs", "--power", "220W", "--rated", "250W"],
    ],
    ids=" ".join,
)
def test_answers_are_printed(words: list[str], encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, shown, said = printed(words, encoding, monkeypatch)
    assert (code, said) == (0, "") and shown
    assert encoding != "ascii" or "csv" in words or " us" in shown


@pytest.mark.parametrize(
    "words", [["estimate", "g\u00e9mm \u2192", "--on", "h100"], ["read", "\udce9.json"]], ids=ascii
)
def test_errors_are_printed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding in ("ascii", "utf-8"):
        code, shown, said = printed(words, encoding, monkeypatch)
        assert (code, shown) == (2, "") and said.startswith("slipstick: ") and said.count("\n") == 1


def test_help_of_every_verb_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    for verb in ("", *verbs()):
        code, shown, said = printed([*verb.split(), "--help"], "ascii", monkeypatch)
        assert (code, said) == (0, "") and shown.startswith("Usage:"), verb


@pytest.mark.parametrize(
    "variables",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=lambda variables: next(iter(variables)),
)
def test_the_environment_decides_the_encoding(variables: dict[str, str]) -> None:
    asked = [sys.executable, "-m", "slipstick", *SHOWING_UNITS]
    usual = {name: value for name, value in os.environ.items() if name not in ("PYTHONIOENCODING", "PYTHONUTF8")}
    where = Path(__file__).parents[2]
    done = subprocess.run(asked, cwd=where, env={**usual, **variables}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"") and b" us" in done.stdout
