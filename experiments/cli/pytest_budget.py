"""A pytest plugin: the fixture `slipstick_budget` fails a test whose measured time lies above a model's band."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from slipstick.experiments.question.budget import Budget


@pytest.fixture
def slipstick_budget() -> Callable[..., Budget]:
    """`slipstick.budget`: ``slipstick_budget("gemm", "my-host.yaml", {"workload.m": 512}).holds(lambda: a @ b)``."""
    from slipstick.experiments.question.budget import budget

    return budget
