"""Batch norm at inference: one read, one write, nothing reduced, and the end of the convolution before it."""

from __future__ import annotations

import pytest

from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.networks.resnet import resnet
from slipstick.workloads.transforms.fusion import fused

A100 = machine("a100-sxm-80gb")
NETWORK = resnet(50, "inference", dtype="bfloat16").bind(batch=128)
NORM = next(op for op in NETWORK if op.name == "stem.norm")


def test_it_moves_each_element_twice_and_four_numbers_a_channel() -> None:
    elements = 128 * 64 * 112 * 112
    assert NORM.cost.bytes_moved == 2 * (2 * elements + 4 * 64)  # 411 MB
    assert NORM.cost.flop == 4 * elements


@pytest.mark.parametrize("model", [Roofline(), TiledRoofline()])
def test_it_takes_what_its_traffic_takes(model: Roofline | TiledRoofline) -> None:
    # 411 MB at the data sheet's 2,039 GB/s: 0.20 ms; a reduction over 64 channels would leave most of the chip idle
    seconds = ComposedEstimator(model, Sequential()).estimate(Workload("norm", (NORM,)), A100).time
    assert 411e6 / 2.039e12 <= seconds <= 1.25 * 411e6 / 2.039e12


def test_a_compiler_folds_it_and_the_activation_into_the_convolution() -> None:
    stem = next(op for op in fused(NETWORK) if op.name == "stem")
    convolution = next(op for op in NETWORK if op.name == "stem")
    assert stem.kind == "convolution"
    assert stem.attributes["fused"] == ("batch_norm", "relu")
    assert stem.cost["written"] == convolution.cost["written"]
    assert stem.cost["read"] == convolution.cost["read"] + 2 * 4 * 64
    assert stem.cost["launches"] == 1
    assert not any(op.attributes.get("function") == "batch_norm" for op in fused(NETWORK))
