"""Rules of thumb against their arithmetic, and rows of other trainers against the FLOP that they publish."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.common.frames import csv_frame
from slipstick.estimators.fitting.fitted_model import mean_of_levels
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.training.training_fit import unplaced
from slipstick.experiments.scoreboards.training.training_rows import FILES
from slipstick.experiments.scoring.rules_of_thumb import longer, product_peak, program, training_step
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.language.training_layout import training_flop


def test_a_stream_takes_its_bytes_at_seven_tenths_of_the_bandwidth() -> None:
    on, copied = machine("a100-sxm-80gb"), workload("stream-copy")
    assert program(copied, on) == pytest.approx(16e8 / (0.7 * on.bandwidth(on.main_memory)), rel=0.02)


def test_products_at_half_of_the_peak_and_training_at_45_in_100() -> None:
    assert longer([1.0, 1.0], [0.1, 2.0]).tolist() == [2.0, pytest.approx(2 / 0.7)]
    assert float(training_step(0.9)) == pytest.approx(2.0)
    assert product_peak(machine("rtx-2080-ti")) == machine("rtx-2080-ti").peak("matrix", "float16")


def test_a_mean_of_equal_levels_is_their_value() -> None:
    assert mean_of_levels({"tensor": np.full(5, 3.0)}) == {"tensor": 3.0}


def test_steps_of_maxtext_have_the_flop_that_it_publishes() -> None:
    path = training_file(FILES["internevo"])
    if path is None:
        pytest.skip("the public table is not there: set SLIPSTICK_DATA")
    runs = {round(run.seconds, 3): run for run in unplaced() if run.model.name.startswith("llama")}
    rows = csv_frame(path)
    rows = rows[(rows["model"].isin(["llama3.1-405b", "llama3.1-70b"])) & (rows["sequence_length"] == 8192)]
    assert len(rows) > 4
    for step, published in zip(rows["step_s"], rows["model_flop_per_s_per_device"], strict=True):
        run = runs[round(step, 3)]
        flop = training_flop(run.model, run.sequence) * run.sequence * run.batch
        assert flop / (run.seconds * run.devices) == pytest.approx(published, rel=0.03)
