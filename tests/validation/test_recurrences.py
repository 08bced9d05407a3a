"""Steps of recurrent layers beside DeepBench and KernelBench: what ships is nearer than a roofline on every machine."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.estimators.fitting.fitted_model import LawFit
from slipstick.estimators.gpu.kernels.kernel_classes import KERNELS
from slipstick.estimators.gpu.kernels.recurrent_law import (
    DEEPBENCH,
    PYTORCH,
    RECURRENT_LAW,
    recurrent_fit,
    recurrent_kernels,
    stack_of,
)
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.question.question import question
from slipstick.experiments.scoreboards.programs.recurrences_board import (
    FILE,
    PROGRAMS,
    RecurrentStep,
    deepbench_steps,
    pytorch_steps,
    rows_of,
)
from slipstick.hwmodels.catalog import machine


def steps() -> list[RecurrentStep]:
    paths = [training_file(name) for name in (FILE, PROGRAMS)]
    if paths[0] is None or paths[1] is None:
        pytest.skip(why_missing(FILE))
    return [*deepbench_steps(paths[0]), *pytorch_steps(paths[1].parent.parent)]


def errors(of: list[RecurrentStep], model: TiledRoofline | Roofline) -> np.ndarray:
    return np.array([np.log(float(model.times((one.op,), one.machine)[0]) / one.seconds) for one in of])


def test_each_machine_is_answered_as_it_was_measured_and_nearer_than_a_roofline() -> None:
    every = steps()
    assert {stack: sum(one.stack == stack for one in every) for stack in (DEEPBENCH, PYTORCH)} == {
        DEEPBENCH: 530,  # nine machines in FP32, and the V100 in FP16
        PYTORCH: 124,
    }
    inside = []
    for name, dtype, stack in sorted({(one.machine.name, one.op.dtype, one.stack) for one in every}):
        members = [one for one in every if (one.machine.name, one.op.dtype, one.stack) == (name, dtype, stack)]
        known = recurrent_kernels(members[0].machine, stack)
        ours = errors(members, TiledRoofline(KERNELS.using(recurrent=known.kernels)))
        inside += (np.abs(ours) < 1.28 * known.spread).tolist()
        if stack == DEEPBENCH:
            assert np.median(np.abs(ours)) < 0.3 and abs(np.median(ours)) < 0.2, name
            assert np.median(np.abs(ours)) < 0.6 * np.median(np.abs(errors(members, Roofline()))), name
    assert 0.75 < np.mean(inside) < 0.95  # 80 % bands


def test_the_law_and_the_kernels_are_one_formula() -> None:
    some = steps()[::60]
    rows, fitted, law = rows_of(some), recurrent_fit(), RECURRENT_LAW
    assert isinstance(fitted, LawFit)
    by_law = fitted.seconds(law, rows.columns, rows.groups)
    for one, expected in zip(some, by_law, strict=True):
        uncapped = one.machine.using({"power.cap": 1e6})
        kernels = recurrent_kernels(one.machine, one.stack).kernels
        model = TiledRoofline(KERNELS.using(recurrent=kernels))
        assert float(model.times((one.op,), uncapped)[0]) == pytest.approx(expected, rel=2e-3)


def test_old_graphs_on_old_devices_run_the_software_of_their_time() -> None:
    some = [one.op for one in steps()[:1]]
    assert stack_of(some, machine("vega-fe")) == stack_of(some, machine("v100-sxm")) == DEEPBENCH
    assert stack_of(some, machine("h100-sxm")) == PYTORCH
    answer = question("gnmt", "vega-fe", None, ["workload.seq_len=25"]).answer()
    taken = sum(part.time * part.times for part in answer.parts if part.kind == "recurrent")
    assert 0.14 < taken < 0.25  # DeepBench: 0.24 ms a step forward, 0.29 backward, 425 of each
