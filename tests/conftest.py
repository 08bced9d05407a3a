"""Shared fixtures."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine

os.environ.setdefault("SLIPSTICK_CACHE", "off")  # tests leave nothing in a home, and find nothing there
settings.register_profile("slipstick", deadline=None, max_examples=60, derandomize=bool(os.environ.get("CI")))
settings.load_profile("slipstick")


@pytest.fixture(autouse=True)
def no_columns_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The width of outputs is what a test says, whatever terminal runs it."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def phi() -> Machine:
    return machine("xeon-phi-7120p")
