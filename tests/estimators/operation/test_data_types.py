"""Work in other data types than float32, against data sheets and hand calculation."""

from __future__ import annotations

import pytest

from slipstick.estimators.composites.composite import Composite
from slipstick.estimators.operation.gpu.tiled import TiledRoofline
from slipstick.estimators.operation.roofline import Roofline
from slipstick.estimators.schedule.sequential import Sequential
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.readers import InputError
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import gemm

ROOFLINE = Composite(Roofline(), Sequential())
INT8 = Workload("int8", (gemm("product", 8192, 8192, 8192, dtype="int8"),))


def test_an_int8_product_runs_at_the_data_sheet_s_tops() -> None:
    # NVIDIA T4 data sheet: 130 TOPS of int8; 2 x 8192^3 / 130e12 = 8.46 ms
    answer = ROOFLINE.estimate(INT8, machine("t4"))
    assert answer.time == pytest.approx(2 * 8192**3 / 130e12, rel=0.003)
    assert answer.parts[0].bound_by == "compute"
    assert "flop as matrix.int8" in answer.assumptions
    assert Composite(TiledRoofline(), Sequential()).estimate(INT8, machine("t4")).time >= answer.time


def test_a_machine_without_an_int8_rate_refuses_a_product_of_integers() -> None:
    with pytest.raises(InputError, match="SXM2 16 GB' states no rate for matrix.int8 .*matrix.float16"):
        ROOFLINE.estimate(INT8, machine("v100-sxm"))
