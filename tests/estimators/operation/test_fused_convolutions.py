"""Convolutions that a compiler joined with what follows them: their kernels move what joined them as well."""

from __future__ import annotations

from dataclasses import replace

import pytest

import slipstick as ss
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.roofline.physical_bound import PhysicalBound

GPUS = (
    "H100",
    "H200",
    "B200",
    "A100-40GB",
    "V100",
    "P100",
    "T4",
    "L4",
    "L40S",
    "A10",
    "RTX 3090",
    "RTX 4090",
    "MI300X",
)


@pytest.mark.parametrize("network", ["resnet50-inference", pytest.param("resnet101-inference", marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", GPUS)
def test_compiled_residual_networks_are_answered_and_within_their_bound(network: str, machine: str) -> None:
    settings = {"machine.runtime.mode": "compiled", "workload.batch": 64}
    asked = ss.question(network, machine, settings=settings, dtype="float16")
    assert asked.answer().time > 0  # the bound of each operation is checked on the way


def test_a_fused_residual_costs_its_bytes() -> None:
    """A residual of as many bytes as the result is read by the same kernel: at the rate of main memory, no faster."""
    target = ss.machine("H100")
    plain = ss.operations.convolution("conv", 64, 64, 64, kernel=(1, 1), out=(56, 56))
    residual = 64 * 64 * 56 * 56 * 4
    fused = replace(
        plain,
        attributes=ss.FrozenDict({**plain.attributes, "fused": ("add",)}),
        cost=plain.cost + ss.Cost({"read": residual}),
    )
    alone, joined = TiledRoofline().times([plain, fused], target)
    added = residual / target.bandwidth(target.main_memory)
    assert added <= joined - alone <= 1.3 * added
    assert joined >= PhysicalBound(target).least(fused)[0]
