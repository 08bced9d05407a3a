"""Work in other data types than float32, against data sheets and hand calculation."""

from __future__ import annotations

import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine, machine_names
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.operations import convolution
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import gemm

ROOFLINE = ComposedEstimator(Roofline(), Sequential())
INT8 = Workload("int8", (gemm("product", 8192, 8192, 8192, dtype="int8"),))


def test_an_int8_product_runs_at_the_data_sheet_s_tops() -> None:
    # NVIDIA T4 data sheet: 130 TOPS of int8; 2 x 8192^3 / 130e12 = 8.46 ms
    answer = ROOFLINE.estimate(INT8, machine("t4"))
    assert answer.time == pytest.approx(2 * 8192**3 / 130e12, rel=0.003)
    assert answer.parts[0].bound_by == "compute"
    assert "flop as matrix.int8" in answer.assumptions
    assert ComposedEstimator(TiledRoofline(), Sequential()).estimate(INT8, machine("t4")).time >= answer.time


def test_a_machine_without_an_int8_rate_refuses_a_product_of_integers() -> None:
    with pytest.raises(InputError, match="SXM2 16 GB' states no rate for matrix.int8 .*matrix.float16"):
        ROOFLINE.estimate(INT8, machine("v100-sxm"))


def test_products_of_16_bits_are_no_slower_than_of_32_where_halves_are_slow() -> None:
    """NVIDIA's CUDA programming guide: a multiprocessor of capability 6.1 does 2 half2 a cycle, and 128 floats."""
    half = Workload("half", (gemm("product", 8192, 8192, 8192, dtype="float16"),))
    slow = machine("gtx-1080-ti")
    fast = slow.using({"engines.vector.flop_per_cycle.float16": 512})
    seconds = 2 * 8192**3 / (28 * 256 * 1.582e9)
    roofline = [ROOFLINE.estimate(half, one).time for one in (slow, fast, slow)]
    assert roofline == pytest.approx([seconds, seconds / 2, seconds], rel=0.001)
    tiled = [ComposedEstimator(TiledRoofline(), Sequential()).estimate(half, one).time for one in (slow, fast)]
    assert 0.999 * seconds <= tiled[0] <= 1.3 * seconds
    assert tiled[1] < tiled[0]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("gtx-1080-ti", "p4") else pytest.mark.slow)
        for name in machine_names()
        if machine_kind(machine(name)) == "gpu"
    ],
)
def test_a_network_in_16_bits_is_answered_on_every_gpu_and_is_not_slower(name: str) -> None:
    plain, half = (
        question("resnet50-inference", name, settings={"run.batch": 8}, dtype=dtype).answer().time
        for dtype in ("float32", "float16")
    )
    assert half <= 1.1 * plain


@pytest.mark.parametrize("name", ["apple-m2-max", "p100-sxm2", "gtx-1080-ti"])
@pytest.mark.parametrize("channels", [64, 256])
def test_a_convolution_on_vector_units_is_not_slower_in_16_bits(name: str, channels: int) -> None:
    """The same units run the same algorithm, on half of the bytes."""
    graph = Workload("one", (convolution("one", 8, channels, channels, (3, 3), (28, 28)),))
    plain, half = (question(graph, name, dtype=dtype).answer().time for dtype in ("float32", "float16"))
    assert half <= 1.01 * plain
