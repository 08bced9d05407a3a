"""Shared fixtures."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine

KEPT = tempfile.mkdtemp(prefix="slipstick-tests-") if "SLIPSTICK_CACHE" not in os.environ else None
"""What questions keep, for all processes of this run: tests leave nothing in a home, and find nothing there."""
os.environ.setdefault("SLIPSTICK_CACHE", KEPT or "")
settings.register_profile(
    "search", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("slipstick", settings.get_profile("search"), derandomize=True, max_examples=25)
settings.load_profile("slipstick")  # the same examples in every run; new ones: --hypothesis-profile search


gc.disable()  # seven thousand tests are collected first, none of which is garbage: each search would go through all


def pytest_collection_finish() -> None:
    """Search for garbage again, only among what the tests make: modules and the tests themselves stay to the end."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 10)
    gc.enable()


def pytest_sessionstart() -> None:
    """Keep examples the same whichever modules were imported before: Hypothesis mixes in the constants of all those."""
    if settings().derandomize:
        nothing_more = providers._local_constants
        providers._get_local_constants = lambda: nothing_more


def pytest_unconfigure() -> None:
    """Remove what questions kept, in the process that made the folder: workers are given its name."""
    if KEPT:
        shutil.rmtree(KEPT, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_columns_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The width of outputs is what a test says, whatever terminal runs it."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def phi() -> Machine:
    return machine("xeon-phi-7120p")
