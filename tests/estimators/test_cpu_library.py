"""Networks under a CPU's library: laws of its formula, and timed networks that the fit must meet."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.estimators.cpu.cpu_library_law import (
    CPU_LIBRARY_LAW,
    NAME,
    SPAN,
    STREAM,
    CpuLibrary,
    cpu_kernel,
    cpu_library,
    library_fit,
)
from slipstick.estimators.cpu.cpu_step import cpu_step
from slipstick.estimators.fitting.fitted_file import digest, load_fitted
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.question.question import question
from slipstick.experiments.scoreboards.programs.cpu_library_fit import library_columns
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.kinds import operation

DESKTOP = "i9-10940x"
I9 = machine(DESKTOP)
CONVOLUTION = {
    "batch": 1, "channels_in": 64, "channels_out": 64, "in_depth": 1, "in_height": 56, "in_width": 56, "out_depth": 1,
    "out_height": 56, "out_width": 56, "kernel_depth": 1, "kernel_height": 3, "kernel_width": 3,
}  # fmt: skip


@pytest.mark.parametrize(("groups", "kernel"), [(1, "dense"), (4, "grouped"), (64, "depthwise")])
def test_convolutions_are_told_apart_by_their_groups(groups: int, kernel: str) -> None:
    op = operation("one", "convolution", {**CONVOLUTION, "groups": groups}, "float32", {"stride": (1, 1)})
    assert cpu_kernel(op) == kernel


@given(st.integers(10, 2000))
def test_a_long_stream_takes_the_bandwidth_of_long_streams(mebibytes: int) -> None:
    elements = mebibytes * 2**18
    op = operation("add", "elementwise", {"elements": elements, "reads": elements, "writes": elements}, "float32", {})
    (seconds,) = CpuLibrary(other_start=0.0, other_traffic=2.0).times((op,), I9)
    moved, rate = 8.0 * elements, I9.bandwidth("DRAM")
    assert seconds == pytest.approx((2.0 * min(moved, SPAN) + STREAM * max(moved - SPAN, 0)) / rate)


def test_the_columns_of_the_law_are_the_terms_of_the_formula() -> None:
    compiled = machine("i9-10940x")
    network = workload("resnet50-inference").bind(batch=1)
    library, _ = cpu_library(compiled)
    columns = {name: np.array([value]) for name, value in library_columns(network, compiled).items()}
    law, fitted = CPU_LIBRARY_LAW, library_fit()
    (by_law,) = fitted.seconds(law, columns, {"chip": [compiled.name]})
    operations = tuple(network.merged)
    by_formula = float(library.times(operations, compiled) @ [float(op.times) for op in operations])
    assert by_formula == pytest.approx(float(by_law), rel=1e-9)


def test_more_cores_help_convolutions_and_mxnet_keeps_its_own_numbers() -> None:
    """An image under PyTorch: a server of 56 cores was answered at half the speed of a desktop of 14."""
    server, desktop = (question("resnet50-inference", name).answer().time for name in ("xeon-platinum-8480", DESKTOP))
    assert server < desktop
    assert "MXNet" in cpu_step(machine("ec2-c5-2xlarge"))[0].source
    assert "oneDNN" in cpu_step(machine("xeon-gold-6148"))[0].source


@pytest.mark.parametrize("name", ["epyc-9755", "graviton4", "xeon-platinum-8480", DESKTOP])
@pytest.mark.parametrize(("network", "batch"), [("resnet50-inference", 32), ("bert-base-inference", 4)])
def test_more_threads_help_and_one_is_answered(name: str, network: str, batch: int) -> None:
    """One core does not draw what a socket does, and no kernel is faster than its arithmetic."""
    times = [
        question(network, name, settings={"run.batch": batch, "run.threads": threads}).answer().time
        for threads in (1, 2, 4, 8)
    ]
    for less, more in pairwise(times):
        assert 1.5 < less / more <= 2.0 * (1 + 1e-9)


def test_what_was_not_timed_widens_the_band_and_is_named() -> None:
    timed = question("resnet50-inference", DESKTOP, settings={"machine.runtime.mode": "compiled"}).answer()
    eager = question("resnet50-inference", DESKTOP, settings={"run.batch": 8}).answer()
    widths = [math.log(high / low) for low, high in filter(None, (timed.interval(), eager.interval()))]
    assert widths[0] < widths[1]
    (use,) = cpu_step(I9, workload("resnet50").bind(batch=8))[1]
    assert "not compiled and training and on several images" in use.value and use.widens


def test_what_ships_is_fitted_to_the_rows_that_are_here() -> None:
    path = training_file("vision/timm.csv.gz")
    if path is None:
        pytest.skip(why_missing("vision/timm.csv.gz"))
    shipped = load_fitted(NAME)
    assert shipped.rows == {"vision/timm.csv.gz": digest(path)} and shipped.used == 975


@pytest.mark.slow
def test_what_ships_is_what_the_rows_give() -> None:
    from slipstick.experiments.scoreboards.programs.cpu_library_fit import refit

    if training_file("vision/timm.csv.gz") is None:
        pytest.skip(why_missing("vision/timm.csv.gz"))
    assert refit().text() == load_fitted(NAME).text()
