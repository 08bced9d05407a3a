"""What a command prints as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipstick.experiments.cli.cli import run


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """The rows of a command that has to succeed."""
    capsys.readouterr()
    assert run([*words, "--format", "json"]) == 0, capsys.readouterr().err
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The first row of a command that has to succeed."""
    return rows(capsys, *words)[0]
