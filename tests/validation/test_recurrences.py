"""Steps of recurrent layers beside DeepBench: what ships is nearer than a roofline on every machine."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.estimators.operation.gpu.kernel_classes import KERNELS
from slipstick.estimators.operation.gpu.recurrences import recurrent_kernels
from slipstick.estimators.operation.gpu.tiled import TiledRoofline
from slipstick.estimators.operation.roofline import Roofline
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.evidence.boards.recurrences import FILE, families, log_errors, read_steps
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine


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


def test_the_default_answer_takes_each_family_as_it_was_measured() -> None:
    path = training_file(FILE)
    if path is None:
        pytest.skip(why_missing(FILE))
    for one in read_steps(path):
        found = recurrent_kernels(machine(one.machine))
        errors = log_errors(TiledRoofline(KERNELS.using(recurrent=found.kernels)), [one])
        assert np.median(np.abs(errors)) < 0.2 and abs(np.median(errors)) < 0.1, one.machine
        assert np.mean(np.abs(errors) < 1.28 * found.spread) > 0.7  # what an 80 % band should hold


def test_who_stands_for_whom() -> None:
    said = {name: recurrent_kernels(machine(name)) for name in ("vega-fe", "mi300x", "h100-sxm", "k40m", "tpu-v3")}
    assert [one.spread for one in said.values()] == [0.25, 0.5, 0.5, 0.5, 0.7]
    assert said["mi300x"].note.endswith("amd-gcn5") and said["h100-sxm"].note.endswith("nvidia-volta")
    answer = question("gnmt", "vega-fe", None, ["workload.seq_len=25"]).answer()
    steps = sum(part.time * part.times for part in answer.parts if part.kind == "recurrent")
    assert 0.14 < steps < 0.25  # DeepBench: 0.24 ms a step forward, 0.29 backward, 425 of each
