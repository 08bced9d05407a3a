"""Whole systems can be taken away: without servers, training and language models the rest still answers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REMOVED = (
    "estimators/serving", "estimators/training", "estimators/engine_steps", "workloads/language", "experiments/serve",
)  # fmt: skip
KEPT = (
    "slipstick",
    "hwmodels",
    "workloads",
    "estimators",
    "experiments",
    "tests",
    "docs",
    "examples",
    "pyproject.toml",
)
TESTS = (
    "tests/papers", "tests/experiments/test_extrapolate_command.py", "tests/experiments/test_series.py",
    "tests/experiments/test_job_files.py",
)  # fmt: skip


@pytest.mark.slow
def test_papers_jobs_and_extrapolation_need_no_language_models(tmp_path: Path) -> None:
    """Five papers, jobs and extrapolation pass their tests in a copy without the rooms of whole systems."""
    for name in KEPT:
        source, to = ROOT / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, to)
    for name in REMOVED:
        shutil.rmtree(tmp_path / name)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not timed",
    ]
    done = subprocess.run(
        [*command, *TESTS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
