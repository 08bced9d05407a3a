"""The board of published training runs: what its rows were, and layouts that are searched where none is published."""

from __future__ import annotations

import pytest

from slipstick.estimators.schedule.pipelines.training_step import MEGATRON_TERMS
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.evidence.boards.training import FSDP, MEGATRON
from slipstick.experiments.evidence.validation.parallel.training.training_coverage import facts_of, memory_row
from slipstick.experiments.evidence.validation.parallel.training.training_rows import (
    FILES,
    TrainingRun,
    training_runs,
    unplaced_runs,
)
from slipstick.experiments.evidence.validation.parallel.training.training_searched import searched
from slipstick.experiments.subjects.training_plan.fitted_runs import FITTED


def rows(source: str) -> list[TrainingRun]:
    path = training_file(FILES[source])
    if path is None:
        pytest.skip(f"{FILES[source]} is not there: set SLIPSTICK_DATA")
    return training_runs(source, path)[0]


@pytest.mark.parametrize(("software", "sources"), [("megatron", MEGATRON), ("fsdp", FSDP)])
def test_what_a_plan_knows_of_the_fitted_runs_is_what_they_were(software: str, sources: tuple[str, ...]) -> None:
    assert facts_of([run for source in sources for run in rows(source)]) == FITTED[software]


def test_layouts_that_ran_are_counted_by_what_the_band_says_of_them() -> None:
    row = memory_row("mlperf", rows("mlperf"))
    assert row.n == 12 and row.ours == 1.0 and row.reason.endswith("does not fit: 0")


def test_a_row_without_a_layout_gets_one_of_its_devices_and_batch() -> None:
    """GPT-3 on 64 B200 took 40.4 s a step (MLPerf training v4.1, NVIDIA); no row of GPT-3 is in a fit."""
    rows("mlperf")
    path = training_file(FILES["mlperf"])
    assert path is not None
    runs = unplaced_runs(path)
    assert {run.model.name for run in runs} == {"gpt3-175b", "llama-3.1-405b"}
    run = min(runs, key=lambda run: run.devices)
    placed = searched(run, MEGATRON_TERMS)
    assert run.devices == 64 and placed.layout.devices <= 64 and placed.batch == 2048
    assert placed.layout.tensor * placed.layout.pipeline >= 8  # 175e9 parameters do not fit otherwise
