"""A refit of several files that is stopped loses no finished fit."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from slipstick.experiments.cli import validate
from slipstick.experiments.scoring import refits


@dataclass
class Fitted:
    """Stands for a file of fitted numbers: notes that it was saved."""

    name: str
    saved: list[str]
    used: int = 1
    outer: tuple[object, ...] = ()
    title: str = ""

    def save(self) -> bool:
        self.saved.append(self.name)
        return True


def test_each_file_is_saved_as_soon_as_its_fit_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved: list[str] = []

    def refitted(name: str) -> Fitted:
        if name == "memory":
            raise KeyboardInterrupt
        return Fitted(name, saved)

    monkeypatch.setattr(refits, "refitted", refitted)
    with pytest.raises(KeyboardInterrupt):
        validate._refit(["host", "llama-cpp", "memory", "training"], "json")
    assert saved == ["host", "llama-cpp"]
    assert "fitting llama-cpp (2 of 4)" in capsys.readouterr().err
