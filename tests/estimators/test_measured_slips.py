"""A slip in a table of what was measured is named and does not move the answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slipstick as ss
from slipstick.estimators.base.protocols import Fitted
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


def test_a_time_in_milliseconds_among_seconds_is_named_and_left_out(tmp_path: Path) -> None:
    """Products that take 1.2 times as long as the model says, one of them written in milliseconds."""

    def asked(m: float, known: Fitted | None = None) -> ss.Estimate:
        sizes = {"workload.m": m, "workload.n": 4096.0, "workload.k": 4096.0}
        return ss.question("gemm", "a100", settings=sizes, calibration=known).answer()

    path = tmp_path / "slip.csv"
    times = {m: 1.2 * asked(m).time * (1000 if m == 4096 else 1) for m in (1024, 2048, 4096, 8192)}
    path.write_text("m,time_s\n" + "".join(f"{m},{time}\n" for m, time in times.items()))
    answer = asked(3000, ss.read_calibration(None, measured=str(path), machine="a100"))
    assert answer.time == pytest.approx(1.2 * asked(3000).time, rel=0.1)
    assert any("slip.csv" in line and "m = 4096" in line and "does not count" in line for line in answer.doubts)


@pytest.mark.slow
def test_a_step_of_a_server_in_milliseconds_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    lines = ["1,512,0.0105", "4,512,0.0108", "16,512,11.5", "64,512,0.0145"]
    path.write_text("step,decodes,context,time_s\n" + "".join(f"decode:llama-3.1-8b,{one}\n" for one in lines))
    measured = with_measured(read_measured_steps(path, ss.machine("a100"), "vllm"))
    assert len(measured.slips) == 1
    assert "steps.csv: line 4: time_s" in measured.slips[0]
    assert len(measured.factors) == 3


HALF = "arc-b580,gemm,float16,1,4096,4096,4096,2.8e-3\n"


def _source(folder: Path, text: str) -> str:
    path = folder / "ops.csv"
    path.write_text("machine,kind,dtype,batch,m,n,k,time_s\n" + text)
    known = ss.read_calibration(None, measured=str(path), machine="arc-b580")
    query = ss.question("gpt2-inference", "arc-b580", dtype="bfloat16", batch=8, calibration=known)
    return " ".join(query.answer().assumptions)


def test_operations_of_a_type_that_no_fit_knows_are_refused(tmp_path: Path) -> None:
    """Products in float16 were dropped in silence: kernels stand in for them that were fitted in bfloat16."""
    with pytest.raises(ss.InputError, match=r"ops\.csv: 1 rows of gemm\.float16 move nothing: want .*gemm\.bfloat16"):
        _source(tmp_path, HALF)


@pytest.mark.slow
def test_operations_that_no_fit_knows_are_named_beside_others(tmp_path: Path) -> None:
    named = _source(tmp_path, HALF.replace("float16", "bfloat16") + HALF)
    assert "not used: ops.csv: 1 rows of gemm.float16" in named
