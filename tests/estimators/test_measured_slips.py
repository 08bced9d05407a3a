"""A slip in a table of what was measured is named and does not move the answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slipstick as ss
from slipstick.estimators.engine_steps.measured_steps import with_measured
from slipstick.estimators.fitting.user_rows import far_rows
from slipstick.experiments.calibrate.measured_steps import read_measured_steps


@given(st.integers(5, 30), st.integers(0, 10_000), st.sampled_from((1e-3, 1e3, 60.0)))
def test_a_wrong_unit_is_the_one_row_far_off(count: int, seed: int, unit: float) -> None:
    logs = 0.1 * np.random.default_rng(seed).standard_normal(count)
    assert far_rows(logs, 0.1) == [] or np.abs(logs).max() > 0.3
    logs[seed % count] += np.log(unit)
    assert seed % count in far_rows(logs, 0.1)


def test_two_rows_that_differ_accuse_none() -> None:
    assert far_rows(np.array([0.0, 7.0]), 0.1) == []


def _sizes(path: Path, wrong: float) -> Path:
    times = {1: 0.011, 4: 0.012, 16: 0.02, 64: 0.063 * wrong, 128: 0.12}
    path.write_text("batch,time_s\n" + "".join(f"{batch},{time}\n" for batch, time in times.items()))
    return path


def test_a_time_in_milliseconds_among_seconds_is_named_and_left_out(tmp_path: Path) -> None:
    def answer(file: Path) -> ss.Estimate:
        known = ss.read_calibration(None, measured=str(file), machine="a100")
        return ss.question("resnet50", "a100", settings={"workload.batch": 32}, calibration=known).answer()

    slip, right = answer(_sizes(tmp_path / "slip.csv", 1000.0)), answer(_sizes(tmp_path / "right.csv", 1.0))
    assert slip.time == pytest.approx(right.time, rel=0.2)
    assert any("slip.csv" in line and "batch = 64" in line and "does not count" in line for line in slip.doubts)
    assert not right.doubts


@pytest.mark.slow
def test_a_step_of_a_server_in_milliseconds_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    lines = ["1,512,0.0105", "4,512,0.0108", "16,512,11.5", "64,512,0.0145"]
    path.write_text("step,decodes,context,time_s\n" + "".join(f"decode:llama-3.1-8b,{one}\n" for one in lines))
    measured = with_measured(read_measured_steps(path, ss.machine("a100"), "vllm"))
    assert len(measured.slips) == 1
    assert "steps.csv: line 4: time_s" in measured.slips[0]
    assert len(measured.factors) == 3
