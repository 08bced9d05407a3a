"""The knee of the voltage on boards that are sold above 2 GHz, against products in float32 that others timed."""

from __future__ import annotations

import pytest

import slipstick as ss
from slipstick.estimators.power.voltage import KNEE, knee
from slipstick.hwmodels.catalog import machine

TIMED = [
    ("rtx-4090", (8192, 8192, 8192), 53.41e12),
    ("rtx-4090", (10240, 10240, 10240), 51.43e12),
    ("rtx-4070-ti", (5120, 4096, 4096), 29.17e12),
]
"""Flop/s of cuBLAS through PyTorch 2.7 (github.com/zzc0721/torch-performance-test-data, issue 78) and by itself
(github.com/Yinghan-Li/YHs_Sample, issue 4). No board scores them and no fit has seen them."""


@pytest.mark.parametrize(("on", "size", "rate"), TIMED)
def test_long_float32_products_under_the_power_cap(on: str, size: tuple[int, int, int], rate: float) -> None:
    """With the knee of slower boards they came out at 45 to 46 TFLOP/s on an RTX 4090."""
    m, n, k = size
    given = {"workload.m": m, "workload.n": n, "workload.k": k}
    time = ss.estimate("gemm", on, settings=given, dtype="float32").time
    assert 2 * m * n * k / time == pytest.approx(rate, rel=0.08)


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "h100-sxm", "v100-sxm", "t4"])
def test_boards_up_to_two_gigahertz_keep_the_knee(name: str) -> None:
    assert knee(machine(name)) == pytest.approx(KNEE)


def test_a_clock_that_is_set_moves_no_knee() -> None:
    board = machine("rtx-4090")
    assert knee(board.using(clock="1 GHz")) == knee(board) == pytest.approx(1.78e9, rel=0.01)
