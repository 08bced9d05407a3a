"""The published network: time or energy of a block of non-zeros from the distances between its columns.

Barreda, Dolz, Castano: "Convolutional neural nets for estimating the run time and energy consumption of the sparse
matrix-vector product", 2020: Table 2 for the hyper-parameters, Section 5.2 for the training. Convolutions keep to valid
positions ("valid" padding), which gives 340,625 parameters for time and 134,101 for energy. Predictions run in numpy;
only training needs the extra [torch]: `slipstick.estimators.sparse.spmv_network_training`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from slipstick.common.arrays import read_arrays, text_fields
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.common.writer import atomic_write
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.workloads.kernels.blocks import BLOCK

SCHEMA = "slipstick-spmv-net-1"
WEIGHT_BYTES = 64_000_000
CHUNK = 256
"""Blocks of one forward pass: its largest array, the second convolution's windows, is 8 MB."""
FloatBlocks = npt.NDArray[np.float32]


@dataclass(frozen=True)
class NetShape:
    """Layers: twice (convolution, ReLU, max pooling), then fully connected ones with dropout before each but the first.

    The last fully connected layer has one neuron and is not listed.
    """

    filters: tuple[int, int] = (32, 64)
    kernels: tuple[int, int] = (3, 9)
    pools: tuple[int, int] = (7, 5)
    neurons: tuple[int, ...] = (1000,)
    dropout: tuple[float, ...] = (6.6e-4,)
    block: int = BLOCK

    def __post_init__(self) -> None:
        if len(self.dropout) != len(self.neurons):
            raise InputError(f"{len(self.neurons)} hidden layers and {len(self.dropout)} dropout rates: want one each")
        if not all(0 <= rate < 1 for rate in self.dropout):
            raise InputError(f"dropout = {self.dropout}: want rates in [0, 1)")
        self.lengths  # noqa: B018  raises where nothing is left

    @property
    def lengths(self) -> tuple[int, ...]:
        """Positions left after the input, and after each convolution and pooling.

        Raises InputError where a block is too short for the kernels and pools.
        """
        from slipstick.workloads.layers.image_layers import windows

        lengths, where = [self.block - 1], f"blocks of {self.block} are too short"
        for kernel, pool in zip(self.kernels, self.pools, strict=True):
            lengths.append(int(windows(lengths[-1], kernel, 1, 0, where)))
            lengths.append(int(windows(lengths[-1], pool, pool, 0, where)))
        return tuple(lengths)

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        inputs = (1, self.filters[0])
        convolutions = sum(i * f * k + f for i, f, k in zip(inputs, self.filters, self.kernels, strict=True))
        widths = (self.filters[1] * self.lengths[-1], *self.neurons, 1)
        return convolutions + sum(a * b + b for a, b in pairwise(widths))


TIME_NET = NetShape()
ENERGY_NET = NetShape(kernels=(5, 3), pools=(7, 7), neurons=(100, 1000), dropout=(0.47, 0.59))


@dataclass(frozen=True, eq=False)
class SpmvNetwork:
    """A trained network: weights by torch's names, the label's scale, and where the labels came from.

    `scale` turns the network's output (of order 1) into seconds or joules a non-zero.
    """

    shape: NetShape
    weights: Mapping[str, npt.NDArray[np.float32]]
    scale: float
    quantity: str = "time"
    provenance: FrozenDict[Any] = FrozenDict()

    def predict(self, blocks: FloatBlocks) -> FloatArray:
        """Seconds or joules a non-zero of every block; `blocks` is `network_input`, shape (blocks, block - 1)."""
        parts = [self._outputs(blocks[start : start + CHUNK]) for start in range(0, len(blocks), CHUNK)]
        return np.asarray(np.concatenate(parts) * self.scale, dtype=np.float64)

    def _outputs(self, blocks: FloatBlocks) -> FloatBlocks:
        """The forward pass: (convolution, ReLU, pooling) twice, fully connected layers with ReLU but for the last."""
        names = weight_shapes(self.shape)
        layers = [(self.weights[one], self.weights[two]) for one, two in zip(*[iter(names)] * 2, strict=True)]
        values = blocks[:, :, None]  # (blocks, positions, channels)
        for (weight, bias), pool in zip(layers, self.shape.pools, strict=False):
            values = np.maximum(_pooled(_convolved(values, weight), pool) + bias, 0)  # both are monotonic
        values = values.transpose(0, 2, 1).reshape(len(blocks), -1)  # torch's order: channels, then positions
        for weight, bias in layers[len(self.shape.pools) : -1]:
            values = np.maximum(values @ weight.T + bias, 0)
        weight, bias = layers[-1]
        return np.asarray((values @ weight.T + bias)[:, 0])

    def save(self, path: str | Path) -> None:
        """One .npz of plain arrays with shape and provenance as JSON."""
        head = {
            "schema": SCHEMA,
            "shape": asdict(self.shape),
            "scale": self.scale,
            "quantity": self.quantity,
            "provenance": dict(self.provenance),
        }
        with atomic_write(path, "wb") as stream:
            arrays: dict[str, Any] = dict(self.weights)
            np.savez_compressed(stream, head=np.array(json.dumps(head)), **arrays)


def load_net(path: str | Path) -> SpmvNetwork:
    """A network from its .npz; nothing is unpickled.

    Raises InputError where the file is no such network, or its weights do not fit its shape.
    """
    try:
        arrays = read_arrays(path, WEIGHT_BYTES, "SpMV network")
        head = text_fields(arrays, "head", path)
        weights = {name: array.astype(np.float32) for name, array in arrays.items() if name != "head"}
        if head.get("schema") != SCHEMA:
            raise InputError(f"{path}: want a network of schema {SCHEMA!r}, got {str(head.get('schema'))[:40]!r}")
        fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in head["shape"].items()}
        net = SpmvNetwork(
            NetShape(**fields), weights, float(head["scale"]), str(head["quantity"]), FrozenDict(head["provenance"])
        )
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: no SpMV network ({error})") from None
    wanted = weight_shapes(net.shape)
    if {name: array.shape for name, array in weights.items()} != wanted:
        count = sum(array.size for array in weights.values())
        raise InputError(f"{path}: {count} weights, want {net.shape.parameters} in the arrays {', '.join(wanted)}")
    return net


def weight_shapes(shape: NetShape) -> dict[str, tuple[int, ...]]:
    """Shapes of weights and biases by torch's names, in the order of the layers (see `network_of`)."""
    shapes: dict[str, tuple[int, ...]] = {}

    def add(layer: int, *weight: int) -> None:
        shapes[f"{layer}.weight"] = weight
        shapes[f"{layer}.bias"] = weight[:1]

    inputs, layer = 1, 0
    for filters, kernel in zip(shape.filters, shape.kernels, strict=True):
        add(layer, filters, inputs, kernel)
        inputs, layer = filters, layer + 3  # ReLU, pooling
    width, layer = inputs * shape.lengths[-1], layer + 1  # flattened
    for neurons in shape.neurons:
        add(layer, neurons, width)
        width, layer = neurons, layer + 3  # ReLU, dropout
    add(layer, 1, width)
    return shapes


def _convolved(values: FloatBlocks, weight: FloatBlocks) -> FloatBlocks:
    """Valid convolution of (blocks, positions, inputs) with (filters, inputs, kernel): filters as the last axis."""
    windows = sliding_window_view(values, weight.shape[2], axis=1)  # (blocks, positions', inputs, kernel)
    count, positions = windows.shape[:2]
    rows = windows.reshape(count * positions, -1)
    return np.asarray(rows @ weight.reshape(len(weight), -1).T).reshape(count, positions, -1)


def _pooled(values: FloatBlocks, pool: int) -> FloatBlocks:
    """The largest of each `pool` positions; the rest at the end is dropped, as torch does."""
    count, positions, channels = values.shape
    whole = positions // pool
    return np.asarray(values[:, : whole * pool].reshape(count, whole, pool, channels).max(axis=2))


def network_of(shape: NetShape) -> Any:
    """The layers as torch's module, with fresh weights."""
    from torch import nn

    layers: list[Any] = []
    inputs = 1
    for filters, kernel, pool in zip(shape.filters, shape.kernels, shape.pools, strict=True):
        layers += [nn.Conv1d(inputs, filters, kernel), nn.ReLU(), nn.MaxPool1d(pool)]
        inputs = filters
    layers.append(nn.Flatten())
    width = inputs * shape.lengths[-1]
    for neurons, rate in zip(shape.neurons, shape.dropout, strict=True):
        layers += [nn.Linear(width, neurons), nn.ReLU(), nn.Dropout(rate)]
        width = neurons
    return nn.Sequential(*layers, nn.Linear(width, 1))
