"""What several verbs, faces and spellings of one question must agree on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slipstick.estimators.learning.fitted_file import FITTED
from slipstick.experiments.commands.cli import run
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Workload


@pytest.mark.parametrize("name", ["tpu-v2-8", "tpu-v4", "h100-sxm", "gaudi3"])
def test_a_list_of_operations_is_the_workload_that_a_tuple_is(name: str) -> None:
    one = workload("gemm").bind(m=512, n=512, k=512).bound().operations[0]
    both = one, replace(one, name="second")
    edges = [["product", "second"]]
    made = Workload("mine", both, (("product", "second"),), workload("gemm").defaults)
    listed = Workload("mine", list(both), edges, dict(workload("gemm").defaults))  # type: ignore[arg-type]
    assert listed == made and hash(listed) == hash(made)
    assert question(listed, name).answer().time == question(made, name).answer().time


@pytest.mark.parametrize("name", ["resnet-50", "gpt2"])
def test_a_board_of_four_chips_needs_a_quarter_of_what_one_needs_at_least(name: str) -> None:
    """Cloud TPU v2-8: four chips of the same peaks, bandwidth and two cores; the batch is that of all."""
    board, chip = (question(name, on).answer().least for on in ("tpu-v2-8", "tpu-v2"))
    assert machine("tpu-v2-8").cores == 4 * machine("tpu-v2").cores
    assert board == pytest.approx(chip / 4, rel=1e-9)


def test_the_times_and_devices_of_programs_are_those_of_the_fit(capsys: pytest.CaptureFixture[str]) -> None:
    fitted = json.loads((FITTED / "programs.json").read_text())
    count = next(one["rows"] for one in fitted["outer"] if one["kind"] == "programs in float32")
    levels = {group for _, level, group, _ in fitted["fits"]["program-kernels"]["values"] if level == "host"}
    from slipstick.experiments.question.defaults import _timed_programs

    assert f"{count:,} times" in _timed_programs()
    devices = {level.split("_")[0] for level in levels}
    assert all(device in _timed_programs() for device in devices)
    assert run(["estimators", "show", "torch-program"]) == 0
    said = capsys.readouterr().out
    assert all(device in said for device in devices)
