"""Shared fixtures."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine

settings.register_profile("slipstick", deadline=None, max_examples=60, derandomize=bool(os.environ.get("CI")))
settings.load_profile("slipstick")


@pytest.fixture
def phi() -> Machine:
    return machine("xeon-phi-7120p")
