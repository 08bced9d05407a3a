"""Submissions of MLPerf: what a maker's engineers reach is charged to him, and what is scored is in no fit."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import LawRows
from slipstick.experiments.scoreboards.serving.serving_board import FACTOR, SUBMISSIONS, Result

CHIPS = ("h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "mi325x")
PACE = {"nvidia": 1.0, "amd": 0.7}
LENGTHS = {"llama2-70b-99": 1.2, "llama3.1-405b": 0.9, "mixtral-8x7b": 1.1}


def submitted(chips: tuple[str, ...]) -> tuple[LawRows, np.ndarray]:
    """Rows of a world in which each maker's submissions, and each benchmark, have one pace; the tenth of a second."""
    results = [Result(benchmark, chip, 8.0, "fp8", 80.0) for benchmark in LENGTHS for chip in chips]
    groups = {name: [result.groups[name] for result in results] for name in FACTOR.levels}
    steps = np.full(len(results), 0.1)
    true = steps * [PACE[r.groups["vendor"]] * LENGTHS[r.benchmark] for r in results]
    names = [f"{r.benchmark} {r.machine}" for r in results]
    return LawRows({"steps": steps}, groups, names, true, ["mlperf"] * len(results)), true


@pytest.mark.parametrize("unseen", ["mi325x", "h200-sxm"])
def test_one_makers_pace_is_not_charged_to_another(unseen: str) -> None:
    known, _ = submitted(tuple(chip for chip in CHIPS if chip != unseen))
    rows, true = submitted((unseen,))
    made = fit(SUBMISSIONS, known).seconds(SUBMISSIONS, rows.columns, rows.groups)
    others = float(np.exp(np.median(np.log(known.seconds / known.columns["steps"]))))
    assert np.abs(np.log(made / true)).max() < 0.12
    assert np.abs(np.log(made / true)).mean() < np.abs(np.log(0.1 * others / true)).mean()


def test_both_accuracies_of_a_benchmark_are_one_and_rates_are_an_accelerators() -> None:
    one, other = (Result(name, "mi300x", 16.0, "fp8", 32.0) for name in ("llama2-70b-99", "llama2-70b-99.9"))
    assert one.groups == other.groups == {
        "benchmark": "llama-2-70b", "vendor": "amd", "stack": "amd-cdna3", "generation": "amd-cdna3", "chip": "mi300x",
    }  # fmt: skip
    assert one.each == 2.0
