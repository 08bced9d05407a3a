"""What holds programs' operations on a GPU: power by the knee of the voltage, and check bits among the data."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.estimators.gpu.programs.program_priors import INLINE_ECC
from slipstick.experiments.scoreboards.programs.program_law import bounds
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation

PRODUCT = operation("p", "gemm", {"batch": 1, "m": 1024, "n": 8192, "k": 8192}, "float32")
ADDITION = operation("e", "elementwise", {"elements": 2**30, "reads": 2**30, "writes": 2**30}, "float32", {})


def test_below_the_knee_a_flop_costs_its_energy() -> None:
    """61.2 W over 7.02 pJ are 8.7 TFLOP/s; an L4 makes 8.9 (KernelBench v0.1, 63_Gemm_ReLU_Divide in 15.4 ms)."""
    rate = 2 * 1024 * 8192**2 / bounds([PRODUCT], machine("l4")).arithmetic
    assert rate == pytest.approx((72 - 10.8) / 7.02e-12, rel=1e-9) == pytest.approx(8.9e12, rel=0.03)


def test_above_the_knee_power_grows_with_the_cube_of_the_clock() -> None:
    """An H100 SXM has power for 1.70 of its 1.98 GHz: 57 TFLOP/s, of which products reach 50 to 53 (KernelBench)."""
    on = machine("h100-sxm")
    peak, knee = on.peak("vector", "float32"), 1.4e9
    assert on.power.cap and on.power.idle and on.power.per_flop
    spare = (on.power.cap - on.power.idle) / (peak * knee / on.clock * on.power.per_flop)
    rate = 2 * 1024 * 8192**2 / bounds([PRODUCT], on).arithmetic
    assert rate == pytest.approx(peak * knee / on.clock * np.cbrt(spare), rel=1e-9)
    assert 53e12 < rate < peak


def test_more_power_never_slows_and_ends_at_the_peak() -> None:
    on = machine("h100-pcie")
    assert on.power.idle
    caps = np.geomspace(100, 3000, 60)
    times = [bounds([PRODUCT], on.using({"power.cap": cap})).arithmetic[0] for cap in caps]
    faster, more = -np.diff(np.log(times)), np.diff(np.log(caps - on.power.idle))
    assert (faster >= -1e-12).all() and (faster <= more + 1e-12).all()  # no jump at the knee
    assert 2 * 1024 * 8192**2 / times[-1] == pytest.approx(on.peak("vector", "float32"))


def test_check_bits_among_the_data_cost_bandwidth() -> None:
    on = machine("l40s")
    aside = on.using({"memory.GDDR6.ecc": "aside"})
    here, there = bounds([ADDITION], on), bounds([ADDITION], aside)
    assert there.traffic == pytest.approx(INLINE_ECC * here.traffic)
    assert here.main == there.main  # the plain roofline is the data sheet's
    assert here.arithmetic == there.arithmetic
