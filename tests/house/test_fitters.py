"""Numbers are fitted in one place: files that may still call scipy.optimize, each with what it fits. Add none."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAYERS = ("slipstick/common", "hwmodels", "workloads", "estimators", "experiments")
LABORATORY = ("experiments/papers/", "experiments/scoreboards/", "experiments/scoring/")
CALLS = re.compile(r"scipy(\.|\s+import\s+)optimize")
ALLOWED = {
    "estimators/gpu/transfer/device_fits.py": "kernels of one machine, pooled over machines",
    "estimators/fitting/least_squares.py": "any estimator's parameters to a user's measurements",
    "estimators/fitting/parameter_intervals.py": "profile likelihood of those",
    "estimators/fitting/student_t.py": "how long the tails of errors are",
    "estimators/fitting/nonnegative_terms.py": "sums of terms of at least zero: series, sparse products",
    "experiments/explain/cheapest.py": "the cheapest machine, nothing is fitted",
}
"""What is not the learner's yet."""


def fitting() -> set[str]:
    files = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix() for path in files if CALLS.search(path.read_text())}


def test_no_new_file_calls_an_optimizer() -> None:
    found = {name for name in fitting() if not name.startswith(LABORATORY)}
    assert found <= set(ALLOWED), "fit it as a law (estimators/fitting) instead"


def test_no_scoreboard_fits() -> None:
    assert {name for name in fitting() if name.startswith(LABORATORY)} == set()
