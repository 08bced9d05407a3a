"""The published network: its size by the paper's table, and that it learns and refuses."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.methods.spmv.families_left_out import (
    ENERGY_NET,
    TIME_NET,
    NetShape,
    Recipe,
    network_of,
    train,
)
from slipstick.workloads.kernels.blocks import network_input
from slipstick.workloads.kernels.generators import power_law, stencil


def test_parameter_counts_of_the_published_networks() -> None:
    assert TIME_NET.lengths == (249, 247, 35, 27, 5)
    assert TIME_NET.parameters == 340_625
    assert ENERGY_NET.parameters == 134_101


def test_shapes_that_leave_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="too short"):
        NetShape(block=20).lengths  # noqa: B018


@pytest.fixture(scope="module")
def samples() -> tuple[np.ndarray, np.ndarray]:
    """Blocks of two matrices with a label that the input decides: how far columns lie apart."""
    matrices = (power_law((4000, 4000), 40.0, 1.0, seed=1), stencil((160, 160), 5))
    inputs = np.concatenate([network_input(matrix)[:300] for matrix in matrices])
    order = np.random.default_rng(0).permutation(600)
    return inputs[order], 1e-9 * (0.2 + 0.2 * inputs[order].mean(axis=1).astype(np.float64))


def test_trains_and_predicts_better_than_a_constant(samples: tuple[np.ndarray, np.ndarray]) -> None:
    torch = pytest.importorskip("torch", reason="the extra [torch] is not installed")
    torch.set_num_threads(1)
    inputs, labels = samples
    net = train(inputs, labels, recipe=Recipe(epochs=8, batch=16))
    held = slice(0, 120)  # the first 20 % only guide
    constant = np.abs(labels[120:].mean() / labels[held] - 1).mean()
    assert np.abs(net.predict(inputs[held]) / labels[held] - 1).mean() < 0.6 * constant
    assert net.epochs <= 8 and np.array_equal(net.predict(inputs[:50]), net.predict(inputs[:50]))


@pytest.mark.parametrize("shape", [TIME_NET, ENERGY_NET])
def test_torch_counts_as_many_parameters(shape: NetShape) -> None:
    pytest.importorskip("torch", reason="the extra [torch] is not installed")
    assert sum(one.numel() for one in network_of(shape).parameters()) == shape.parameters


def test_bad_samples_are_refused() -> None:
    pytest.importorskip("torch", reason="the extra [torch] is not installed")
    with pytest.raises(InputError, match="want 249 columns"):
        train(np.zeros((4, 7), np.float32), np.ones(4))
    with pytest.raises(InputError, match="cannot be split"):
        train(np.zeros((2, 249), np.float32), np.ones(2))
