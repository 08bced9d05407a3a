"""Benchmarks held against a model's band: limits, words, and the pytest plugin in a session of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.experiments.question.budget import OverBudgetError

ROOT = Path(__file__).parents[2]
SIZES = {"workload.m": 1024.0, "workload.n": 1024.0, "workload.k": 1024.0}
USER = """
SIZES = {"workload.m": 1024, "workload.n": 1024, "workload.k": 1024}

def test_fast_enough(slipstick_budget):
    slipstick_budget("gemm", "h100-sxm", SIZES, dtype="bf16").check(1e-6)

def test_too_slow(slipstick_budget):
    slipstick_budget("gemm", "h100-sxm", SIZES, dtype="bf16").check(1.0)

def test_timed(slipstick_budget):
    assert slipstick_budget("gemm", "xeon-phi-7120p", SIZES, slack=1e6).holds(lambda: sum(range(100))) > 0
"""


def test_the_limit_is_the_high_end_of_the_band() -> None:
    made = ss.budget("gemm", "h100-sxm", SIZES, dtype="bf16")
    band = made.estimate.interval(0.8)
    assert band is not None and made.limit == band[1]
    assert made.verdict(band[1]) is None
    said = made.verdict(2 * band[1])
    assert said is not None and "2 x the limit" in said and "80 % band" in said and "bound by" in said
    with pytest.raises(OverBudgetError, match="measured"):
        made.check(2 * band[1])
    assert ss.budget("gemm", "h100-sxm", SIZES, dtype="bf16", slack=1.5).limit == pytest.approx(1.5 * band[1])


def test_without_a_band_a_slack_is_wanted() -> None:
    with pytest.raises(ss.InputError, match="states no band: give slack, a factor above 1"):
        ss.budget("gemm", "h100-sxm", SIZES, estimator="roofline")
    with pytest.raises(ss.InputError, match="slack = 0"):
        ss.budget("gemm", "h100-sxm", SIZES, slack=0)
    made = ss.budget("gemm", "h100-sxm", SIZES, estimator="roofline", slack=2)
    assert made.limit == 2 * made.estimate.time


def test_a_function_is_called_until_a_millisecond_has_passed() -> None:
    calls = []
    made = ss.budget("gemm", "h100-sxm", SIZES, estimator="roofline", slack=1e9)
    assert made.holds(lambda: calls.append(1), repeats=3) < 1e-3
    assert len(calls) > 3 + 1
    with pytest.raises(ss.InputError, match="repeats = 0"):
        made.holds(lambda: None, repeats=0)


@pytest.mark.slow
def test_the_plugin_fails_slow_tests_only(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(USER)
    # an installed Slipstick brings the plugin by its entry point; a second name for it is refused by pytest
    installed = any(point.name == "slipstick" for point in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "slipstick.experiments.cli.pytest_budget"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, "test_mine.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert "1 failed, 2 passed" in child.stdout, child.stdout + child.stderr
    assert "OverBudgetError: gemm on " in child.stdout and "1 s measured" in child.stdout
