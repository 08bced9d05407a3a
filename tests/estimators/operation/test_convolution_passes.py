"""Passes of convolutions as products, engines whose stated rate is half of their width, and what quantizes."""

from __future__ import annotations

import pytest

from slipstick.estimators.gpu.kernels.kernel_classes import KERNELS
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Attribute, Op

V100 = machine("v100-sxm")


def convolution(
    inputs: int, outputs: int, direction: str, window: int = 1, batch: int = 32, dtype: str = "float32"
) -> Op:
    """Stride 1, 28 x 28 pixels in and out."""
    dims = {"batch": batch, "channels_in": inputs, "channels_out": outputs, "groups": 1}
    dims |= {f"{part}_depth": 1 for part in ("in", "out", "kernel")}
    dims |= {f"{part}_{axis}": 28 for part in ("in", "out") for axis in ("height", "width")}
    dims |= {f"kernel_{axis}": window for axis in ("height", "width")}
    facts: dict[str, Attribute] = {"pass": direction, "stride": (1, 1)}
    return operation("one", "convolution", dims, dtype, facts)


def seconds(op: Op, name: str = "v100-sxm") -> float:
    return float(TiledRoofline(KERNELS).times([op], machine(name))[0])


@pytest.mark.parametrize("window", [1, 3])
def test_gradients_of_images_are_the_convolution_with_channels_exchanged(window: int) -> None:
    """Stride 1: each pixel's gradient sums over the same window of the results' gradients."""
    back = seconds(convolution(64, 256, "backward_data", window))
    assert back == pytest.approx(seconds(convolution(256, 64, "forward", window)), rel=1e-9)


@pytest.mark.parametrize("direction", ["forward", "backward_data", "backward_weight"])
def test_no_pass_is_faster_than_its_arithmetic(direction: str) -> None:
    """Winograd's F(4 x 4) saves a factor of 4 of 3 x 3 windows, nothing of 1 x 1 (Lavin and Gray, CVPR 2016)."""
    for window, saved in ((1, 1.0), (3, 4.0)):
        op = convolution(256, 256, direction, window)
        assert seconds(op) >= op.cost.flop / V100.peak("vector", "float32") / saved


def test_few_results_of_a_long_reduction_are_split_over_the_cores() -> None:
    """64 x 64 weights are one tile: in one piece a single core would take 80 times as long."""
    op = convolution(64, 64, "backward_weight")
    assert seconds(op) < 6 * op.cost.flop / V100.peak("vector", "float32")


def test_geforce_boards_reach_the_rate_of_float32_accumulation() -> None:
    """NVIDIA Ada GPU architecture whitepaper v2.1, Appendix A: 165.2 TFLOP/s, half of the rate with FP16 accumulation.

    The kernels that reach six tenths of a data-centre board's peak have twice the operands and power they need here.
    """
    product = operation("one", "gemm", {"batch": 1, "m": 16384, "n": 16384, "k": 16384}, "bfloat16")
    half = KERNELS["default"].__class__(compute_efficiency=0.6)
    taken = float(TiledRoofline(KERNELS.using(gemm=half)).times([product], machine("rtx-4090"))[0])
    assert 0.9 * 165.2e12 < product.cost.flop / taken <= 1.001 * 165.2e12
    whole = float(TiledRoofline(KERNELS.using(gemm=half)).times([product], machine("l40s"))[0])
    assert product.cost.flop / whole < 0.6 * 362e12


def test_quantizing_reads_sixteen_bits_and_writes_eight() -> None:
    """Three bytes an activation, at most at the data sheet's bandwidth."""
    dims = {"batch": 1, "m": 4096, "n": 32768, "k": 16384}
    plain, timed = (operation("one", "gemm", dims, "float8", facts) for facts in ({}, {"quantizes": True}))
    more = seconds(timed, "h100-sxm") - seconds(plain, "h100-sxm")
    least = 3 * 32768 * 16384 / 3352e9
    assert least < more < 1.5 * least


@pytest.mark.parametrize("columns", [1, 512])
def test_packing_scales_of_weights_takes_their_traffic_whatever_is_multiplied(columns: int) -> None:
    """9 bytes for each row of the weights and 128 of its columns, by kernels that wait for each number: less than
    their bandwidth, and the same for one column of activations as for many."""
    dims = {"batch": 1, "m": 16384, "n": columns, "k": 16384}
    facts: tuple[dict[str, Attribute], ...] = ({"quantizes": True}, {"quantizes": True, "packs_scales": True})
    plain, timed = (operation("one", "gemm", dims, "float8_block", each) for each in facts)
    more = seconds(timed, "b200-sxm") - seconds(plain, "b200-sxm")
    least = 9 * 16384 * (16384 / 128) / 8e12
    assert least < more < 10 * least
