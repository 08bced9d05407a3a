"""What is expected of a maker's libraries is what his kernels say, and no row of a served model."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from slipstick.estimators.engine_steps.step_amounts import Batch, Shares
from slipstick.estimators.engine_steps.step_time import StepParameters, StepTime
from slipstick.estimators.engine_steps.vendor_efficiency import libraries_of
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.scoreboards.serving import generation_libraries
from slipstick.experiments.scoreboards.serving.vendor_libraries import ratios
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import weight_type
from slipstick.workloads.language_catalog import language_model


@pytest.mark.skipif(data_folder() is None, reason="no public measurements here")
def test_ratios_are_those_of_kernels_timed_alone() -> None:
    measured = ratios()
    for name, shipped in asdict(libraries_of("amd-cdna3")).items():
        assert shipped == pytest.approx(float(np.mean(list(measured[name].values()))), rel=0.03), name


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
