"""Rows measured on a new machine: they move the answer as far as they predict each other, and cannot ruin it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from slipstick.estimators.fitting.user_rows import FREEDOM
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters
from slipstick.estimators.gpu.transfer.anchor_constants import LENGTH
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
from slipstick.estimators.gpu.transfer.device_fits import fit_devices
from slipstick.estimators.gpu.transfer.next_measurements import candidates, next_rows
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes
from slipstick.estimators.gpu.transfer.parameter_priors import ParameterPosterior
from slipstick.estimators.gpu.transfer.posterior_weight import LinearisedRows
from slipstick.estimators.gpu.transfer.residual_by_shape import distance_weight
from slipstick.estimators.user_measured.measured_operations import MeasuredOperations
from slipstick.experiments.calibrate.operation_measurements import read_operation_times
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import elementwise
from tests.estimators.test_devices import EFFICIENCY, streams

NAME = "elementwise.float32"


@pytest.fixture(scope="module")
def made() -> DeviceCalibration:
    return fit_devices([streams(name, share) for name, share in EFFICIENCY.items()], "made up")


@pytest.mark.parametrize("slower", [1.1, 1.5, 8.0])
def test_one_unknown_is_the_most_likely_under_a_t_law(slower: float) -> None:
    """log t = c - log efficiency for bytes far beyond the caches: the mode, found by another method."""
    on = machine("h100-sxm").using({"runtime.launch_overhead": 0.0})
    elements = np.array([2.0**36])
    dims = {"elements": elements, "reads": 2 * elements, "writes": elements}
    exact = 12 * elements / on.bandwidth(on.main_memory) / 0.8
    values = {**{n: getattr(KernelParameters(), n) for n in KernelParameters.__dataclass_fields__}, "overlap": 1e-12}
    values |= {"memory_efficiency": 0.8, "overhead": 1e-30}
    names = tuple((NAME, parameter) for parameter in values)
    roots = np.zeros((len(names), 1))
    roots[names.index((NAME, "memory_efficiency")), 0] = 0.2
    anchor = OperationTimes.of(on, "elementwise", "float32", dims, exact * slower)
    belief = ParameterPosterior(names, np.log(list(values.values())), roots, {NAME: 0.1}, {})
    model = LinearisedRows.of(belief, [anchor], np.zeros(1))
    noise = 0.1  # of the sources

    def cost(z: float) -> float:
        error = (np.log(slower) + 0.2 * z) / noise
        return z**2 / 2 + (FREEDOM + 1) / 2 * np.log1p(error**2 / FREEDOM)

    best = minimize_scalar(cost, bracket=(-3.0, 0.0)).x
    assert model.likeliest(np.ones(1, bool))[0] == pytest.approx(best, abs=0.05)


@pytest.mark.parametrize("odd", [1 / 20, 5.0, 100.0])
def test_one_odd_row_of_eight_does_not_ruin_the_answer(made: DeviceCalibration, odd: float) -> None:
    """The machine does as its family; one row was measured while something else ran (or was mistyped)."""
    new = streams("l40s", 0.78, rows=80)
    before = made.forecast(new.machine).predict([new])
    for draw in range(3):
        index = np.random.default_rng(draw).choice(len(new), 8, replace=False)
        anchors = new.some(index)
        wrong = replace(anchors, times=anchors.times * np.where(np.arange(8) == 0, odd, 1.0))
        told = made.forecast(new.machine, anchors=[wrong])
        errors = [np.mean(np.abs(one.time / new.times - 1)) for one in (before, told.predict([new]))]
        assert errors[1] <= max(1.1 * errors[0], 0.03)
        assert told.accepted is not None and len(told.accepted.doubts) == 1
        assert f"elements = {wrong.dims['elements'][0]:g}" in told.accepted.doubts[0]


def test_anchors_of_a_slower_stack_are_believed(made: DeviceCalibration) -> None:
    """A machine that reaches half of what its family does, and launches five times as slowly: eight rows say so."""
    new = streams("l40s", 0.40, rows=80, overhead=25e-6)
    anchors = new.some(np.random.default_rng(0).choice(len(new), 8, replace=False))
    before, after = (made.forecast(new.machine, anchors=known).predict([new]) for known in ((), (anchors,)))
    errors = [np.mean(np.abs(np.log(one.time / new.times))) for one in (before, after)]
    assert errors[1] < 0.4 * errors[0]
    assert np.mean((after.low < new.times) & (new.times < after.high)) > 0.7


def test_what_anchors_say_counts_less_beyond_them(made: DeviceCalibration) -> None:
    """A row of a millisecond says nothing of a launch: far shorter operations keep the answer of the sources."""
    new = streams("l40s", 0.78, rows=80)
    long = new.some(np.argsort(new.times)[-8:])
    short = new.some(np.argsort(new.times)[:8])
    slow = replace(long, times=long.times * 1.7)
    before, after = (made.forecast(new.machine, anchors=known).predict([short]) for known in ((), (slow,)))
    assert np.allclose(before.time, after.time, rtol=0.05)
    assert distance_weight(np.log([1.0]), 0.0, 1.0)[0] == 1.0
    assert distance_weight(np.log([2.0**-LENGTH]), 0.0, 1.0)[0] == pytest.approx(np.exp(-0.5))


def test_answers_weigh_distance_as_forecasts_do(made: DeviceCalibration) -> None:
    """Four octaves below the measured rows, of which each took 1.7 times as long: 7 % are left in the verbs as well."""
    elements, new = 2.0**23, streams("l40s", 0.78, rows=80)
    long = new.some(np.argsort(new.times)[-8:])
    slow = replace(long, times=long.times * 1.7)
    dims = {"elements": [elements], "reads": [2 * elements], "writes": [elements]}
    asked = OperationTimes.of(new.machine, "elementwise", "float32", dims, [1.0])
    net = Workload("adds", (elementwise("a", elements, inputs=2),), metadata={"work": "kernel"})
    told, said = [], []
    for rows in ((), (slow,)):
        told.append(made.forecast(new.machine, anchors=rows).predict([asked]).time[0])
        known = MeasuredOperations(replace(made, anchors=rows))
        said.append(question(net, new.machine, calibration=known).answer().time)
    assert 1.02 < told[1] / told[0] < 1.2
    assert said[1] / said[0] == pytest.approx(told[1] / told[0], rel=0.01)


def test_anchors_of_additions_move_a_norm_that_nobody_timed(made: DeviceCalibration) -> None:
    """Its substitute is the addition, whose formula has no cycles a step: such are as usual. Twice as slow at most."""
    new = streams("l40s", 0.78, rows=80)
    slow = replace(new, times=new.times * 2).some(np.arange(8))
    norm = operation("n", "norm", {"elements": 2**26, "groups": 2**14}, "float32", {"function": "layer"})
    net = Workload("norm", (norm,), metadata={"work": "kernel"})
    known = [MeasuredOperations(replace(made, anchors=rows)) for rows in ((), (slow,))]
    before, after = (question(net, new.machine, calibration=one).answer().time for one in known)
    assert before < after <= 2.1 * before


def test_next_rows_narrow_what_is_left(made: DeviceCalibration) -> None:
    """Each row lowers the mean spread, as Bayes' rule says; one short and one long addition tell launch and rate."""
    on = machine("l40s")
    belief = made.forecast(on).belief
    offered = candidates([NAME], on)
    found = next_rows(belief, offered, 4)
    left = [row.left for row in found]
    assert left == sorted(left, reverse=True) and left[0] < found[0].spread
    sizes = [dict(row.dims)["elements"] for row in found[:2]]
    assert min(sizes) < 2**20 < max(sizes)


def test_anchors_are_named_filled_in_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "anchors.csv"
    words = ["measure", "anchors", "--on", "rtx-4090", "--next", "3", "--out", str(path), "--format", "json"]
    assert run(words) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 3 and all(row["predicted_s"] > 0 for row in rows)
    head, *lines = path.read_text().splitlines()
    place = head.split(",").index("time_s")
    filled = [
        ",".join([*cells[:place], str(row["predicted_s"]), *cells[place + 1 :]])
        for cells, row in zip((line.split(",") for line in lines), rows, strict=True)
    ]
    path.write_text("\n".join([head, *filled]) + "\n")
    read = read_operation_times(path, {"new": machine("rtx-4090")}, {"machine": "new"})
    assert sum(map(len, read)) == 3
    assert run(["measure", "anchors", "--on", "rtx-4090", "--dtype", "int3"]) == 2
