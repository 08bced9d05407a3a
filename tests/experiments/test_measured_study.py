"""Measurements as points of a study: run, killed, resumed; every point once, ratios to one and the same today."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run as command
from slipstick.experiments.measure.clocks.measured_estimator import Clocked
from slipstick.experiments.measure.clocks.timing import Protocol
from slipstick.experiments.studies.executors import executor
from slipstick.experiments.studies.runner import plan, run
from slipstick.experiments.studies.store import load
from slipstick.experiments.studies.study import load_study
from slipstick.experiments.studies.whatif import whatif
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload

QUICK = Clocked(Protocol(repeats=3, warmups=1, sample_seconds=2e-4))
STUDY = """
schema = "slipstick-study-1"
name = "measured"
workloads = ["gemm"]
machines = ["xeon-e5-2680"]
estimator = "measure"
chunk = 2

[vary]
"workload.m" = [8, 16, 32, 64]
"""


@pytest.mark.parametrize(
    ("name", "symbol", "sizes"),
    [("gemm", "m", (8, 512)), ("vector-sum", "elements", (512, 65_536)), ("mlp-inference", "batch", (8, 512))],
)
def test_more_work_takes_longer(name: str, symbol: str, sizes: tuple[float, float]) -> None:
    asked = workload(name), machine("xeon-e5-2680")
    small, large = (QUICK.estimate(*asked, {symbol: size}).time for size in sizes)
    assert 0 < small < large


def test_a_killed_measurement_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    made = plan(load_study(path))
    folder = tmp_path / "out"
    child = multiprocessing.get_context("fork").Process(target=run, args=(made, folder))
    child.start()
    for _ in range(2000):
        if (folder / "results").is_dir() and list((folder / "results").glob("part-*")):
            break
        time.sleep(0.005)
    if child.is_alive() and child.pid:
        os.kill(child.pid, signal.SIGKILL)
    child.join()
    first = load(folder).frame()
    again = plan(load_study(path))  # measures today anew, but the stored ratios stay relative to the first
    assert again.fingerprint == made.fingerprint
    frame = run(again, folder).frame()
    assert list(frame.point) == [0, 1, 2, 3] and np.array_equal(frame.time_s[: len(first)], first.time_s)
    assert np.allclose(frame.time_ratio, frame.time_s / made.cases[0].work.today, rtol=1e-12)


def test_points_are_taken_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    with executor("threads") as pool, pytest.raises(InputError, match="one at a time: use the serial executor"):
        run(plan(load_study(path)), tmp_path / "out", pool)


@pytest.mark.slow
def test_only_the_workload_varies_and_only_known_kernels_run() -> None:
    with pytest.raises(InputError, match=r"machine\.clock cannot vary: a measurement answers for this host"):
        whatif("gemm", "xeon-e5-2680", {"machine.clock": [1e9]}, estimator="measure")
    with pytest.raises(InputError, match="unknown kind of operation that can run here: 'convolution'"):
        QUICK.estimate(workload("vgg16-inference"), machine("xeon-e5-2680"))
    with pytest.raises(InputError, match="function of 'sweep' that can run here: 'stream-triad'"):
        QUICK.estimate(workload("stream-triad"), machine("xeon-e5-2680"))
    with pytest.raises(InputError, match=r"moves 1\.2e\+10 bytes: want at most"):
        QUICK.estimate(workload("vector-sum"), machine("xeon-e5-2680"), {"elements": 5e8})


def test_the_verb_says_whose_time_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["estimate", "gemm", "--on", "v100-sxm", "--estimator", "measure", "--set", "workload.m=8"]) == 0
    said = capsys.readouterr().out
    assert "measured on this host" in said and "the time is this host's, not that of" in said
    assert "energy:" not in said
