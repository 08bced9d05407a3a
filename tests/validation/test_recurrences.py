"""Steps of recurrent layers beside DeepBench: what ships is nearer than a roofline on every machine."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.estimators.operation.gpu.tiled import TiledRoofline
from slipstick.estimators.operation.roofline import Roofline
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.evidence.validation.gpu.recurrence_scores import FILE, families, log_errors, read_steps


def test_shipped_parameters_beat_the_roofline_everywhere() -> None:
    path = training_file(FILE)
    if path is None:
        pytest.skip(why_missing(FILE))
    steps = read_steps(path)
    assert [len(one.operations) for one in steps] == [53] * 9
    assert sorted(families(steps)) == ["amd-gcn5", "nvidia-maxwell", "nvidia-pascal", "nvidia-volta"]
    for one in steps:
        ours, plain = (np.median(np.abs(log_errors(model, [one]))) for model in (TiledRoofline(), Roofline()))
        assert ours < 0.9 * plain, one.machine
