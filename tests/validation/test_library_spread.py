"""How far two libraries differ on one device is what their times say, and answers that name none admit another."""

from __future__ import annotations

import pytest

from slipstick.estimators.base.conditions import Condition
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.gpu.step_of_kernels import step_of_kernels
from slipstick.estimators.gpu.transfer.kernel_class import library_spreads
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.question.defaults import gpu_kernels
from slipstick.experiments.scoreboards.gpu.library_spread import differences, spread
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Workload

DIMS = {"batch": 16, "heads": 32, "kv_heads": 8, "queries": 1, "keys": 2048, "head_dim": 128, "value_dim": 128}
DECODE = Workload("decode attention", (operation("attention", "attention", DIMS, "bfloat16", {"causal": False}),))


@pytest.mark.skipif(data_folder() is None, reason="no public measurements here")
def test_the_spread_of_attention_is_what_two_libraries_differ_by() -> None:
    assert library_spreads()["attention"] == pytest.approx(spread(differences("attention")), rel=0.05)


def _step(machine: Machine) -> tuple[Calibration, tuple[Condition, ...]]:
    return step_of_kernels(gpu_kernels(), machine, DECODE)


def test_attention_of_a_library_that_was_fitted_has_the_narrower_band() -> None:
    plain = machine("h200-sxm")
    named = plain.using({"runtime.library": "sglang 0.5.10"})
    stds = [_step(each)[0].residual_std or 0.0 for each in (plain, named)]
    assert stds[0] > library_spreads()["attention"] > stds[1]


def test_an_answer_says_whose_attention_it_was_fitted_to() -> None:
    plain = machine("h200-sxm")
    (said,) = (one for one in _step(plain)[1] if one.name == "machine.runtime.library")
    assert said.origin == "unknown" and said.widens and "attention as sglang 0.5.10 ran it" in said.note
    assert not _step(plain.using({"runtime.library": "sglang 0.5.10"}))[1]
