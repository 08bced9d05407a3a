"""What is expected of a maker's libraries is what his kernels say, and no row of a served model."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from slipstick.estimators.engine_steps.step_amounts import Batch, Shares
from slipstick.estimators.engine_steps.step_device import PCIE_RANK_LATENCY
from slipstick.estimators.engine_steps.step_law import STEP_LAW
from slipstick.estimators.engine_steps.step_time import StepParameters, StepTime
from slipstick.estimators.engine_steps.vendor_efficiency import libraries_of
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.scoreboards.serving import generation_libraries
from slipstick.experiments.scoreboards.serving.vendor_libraries import pcie_rank_latency, ratios
from slipstick.experiments.scoreboards.serving.whole_batches import law_rows, other_servers
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import weight_type
from slipstick.workloads.language_catalog import language_model


@pytest.mark.skipif(data_folder() is None, reason="no public measurements here")
def test_ratios_are_those_of_kernels_timed_alone() -> None:
    measured = ratios()
    for name, shipped in asdict(libraries_of("amd-cdna3")).items():
        assert shipped == pytest.approx(float(np.mean(list(measured[name].values()))), rel=0.03), name


@pytest.mark.skipif(data_folder() is None, reason="no public measurements here")
def test_ranks_over_pcie_wait_as_the_four_rtx_3090s_of_another_source() -> None:
    """The constant is that of L40S; an owner of RTX 3090s timed one model and engine on two cards and on four."""
    fitted, error = pcie_rank_latency()
    assert pytest.approx(fitted, abs=error / 4) == PCIE_RANK_LATENCY
    rows = [row for row in other_servers() if row.machine == "rtx-3090" and row.model == "qwen3.5-27b"]
    at_once = [
        replace(row, steps=replace(row.steps, device=replace(row.steps.device, rank_latency=1.0))) for row in rows
    ]
    made, devices, off = load_fitted("serving").fit(STEP_LAW.name), np.array([row.devices for row in rows]), []
    for ran in (law_rows(rows), law_rows(at_once)):
        errors = np.log(made.seconds(STEP_LAW, ran.columns, ran.groups) / ran.seconds)
        off.append(abs(np.median(errors[devices == 4]) - np.median(errors[devices == 2])))
    assert off[0] < off[1] / 2 and off[0] < 0.05


@pytest.mark.slow
@pytest.mark.skipif(data_folder() is None, reason="no public measurements here")
@pytest.mark.parametrize("generation", generation_libraries.GENERATIONS)
def test_ratios_of_generations_are_those_of_the_same_calls_on_both(generation: str) -> None:
    measured = generation_libraries.ratios(generation)
    for name, shipped in asdict(libraries_of(generation)).items():
        mean = np.exp(np.mean(np.log(list(measured[name].values()))))
        assert shipped == pytest.approx(float(mean), rel=0.04), name


def test_makers_without_kernels_of_their_own_are_expected_to_reach_what_nvidia_does() -> None:
    assert set(asdict(libraries_of("nvidia-hopper")).values()) == {1.0} == set(asdict(libraries_of("habana")).values())


def test_no_ratio_moves_what_the_data_sheet_allows() -> None:
    shares = Shares(language_model("llama-3.1-8b"), Layout(), weight_type("bf16"))
    plain = machine("mi300x").model_copy(update={"family": "nvidia-none"})
    batch = Batch(16, 1000.0)
    slow, fast = (StepTime.for_machine(each, shares, StepParameters()) for each in (machine("mi300x"), plain))
    assert slow.floor(batch) == fast.floor(batch)
    assert 1.2 < slow.seconds(batch) / fast.seconds(batch) < 2.0
