"""Kernels moved between vendors: laws of the doubt, and public pairs of machines that no change may not beat."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.estimators.gpu.kernels.traced_kernels import KernelScaling, doubted
from slipstick.experiments.calibrate.public_data import data_folder, training_file
from slipstick.experiments.scoreboards.traces.traces_board import moved_kernels
from slipstick.hwmodels.catalog import machine

NAMES = ["sgemm_128x64", "vectorized_elementwise_kernel"]
logs = st.floats(-5.0, 5.0)


@given(logs, st.floats(0.0, 1.0))
def test_a_doubted_change_is_smaller_and_of_the_same_sign(moved: float, doubt: float) -> None:
    (left,) = doubted(np.array([moved]), doubt)
    assert abs(left) <= abs(moved) and left * moved >= 0


@given(logs, logs, st.floats(0.01, 1.0))
def test_a_larger_change_stays_larger(one: float, other: float, doubt: float) -> None:
    less, more = doubted(np.sort(np.array([one, other])), doubt)
    assert less <= more + 1e-12


def test_a_change_far_beyond_the_doubt_is_kept() -> None:
    assert doubted(np.array([2.0]), 0.2)[0] == pytest.approx(2.0, rel=0.01)
    assert doubted(np.array([0.05]), 0.2)[0] < 0.05 / 10


def test_only_moves_between_vendors_are_doubted() -> None:
    seconds = np.array([1e-3, 1e-3])
    sure, unsure = KernelScaling(vendor_doubt=0.0), KernelScaling()
    nvidia, other, amd = machine("a100-sxm-80gb"), machine("h100-sxm"), machine("mi300x")
    assert np.array_equal(sure.ratios(NAMES, seconds, nvidia, other), unsure.ratios(NAMES, seconds, nvidia, other))
    whole, doubtful = (np.log(one.ratios(NAMES, seconds, other, amd)) for one in (sure, unsure))
    assert np.all(np.abs(doubtful) < np.abs(whole)) and np.all(doubtful * whole > 0)


@pytest.mark.skipif(
    training_file("gpu/neusight/amd_test_linear.csv.gz") is None,
    reason="no public measurements here (set SLIPSTICK_DATA)",
)
def test_no_public_pair_is_worse_than_no_change() -> None:
    folder = data_folder()
    assert folder is not None
    kernels, worse, near = moved_kernels(folder)
    assert kernels.ours is not None and kernels.ours < kernels.baselines["no change"] / 2
    assert worse.reason.startswith("with the shipped 0.2: 0,")
    assert near.ours is not None and near.ours < min(near.baselines.values())
