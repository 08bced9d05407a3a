"""The published network: time or energy of a block of non-zeros from the distances between its columns.

Barreda, Dolz, Castano: "Convolutional neural nets for estimating the run time and energy consumption of the sparse
matrix-vector product", 2020: Table 2 for the hyper-parameters, Section 5.2 for the training. Convolutions keep to valid
positions ("valid" padding), which gives 340,625 parameters for time and 134,101 for energy. Needs the extra [torch] for
training and prediction; shapes and files do without.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from estimators.formula import FloatArray
from hwmodels.files import InputError, atomic_write, read_bytes
from hwmodels.records import Table
from workloads.kernels.blocks import BLOCK, network_input
from workloads.kernels.sparse import SparseMatrix

SCHEMA = "slipstick-spmv-net-1"
WEIGHT_BYTES = 64_000_000
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
        if self.lengths[-1] < 1:
            raise InputError(f"blocks of {self.block} are too short for kernels {self.kernels} and pools {self.pools}")

    @property
    def lengths(self) -> tuple[int, ...]:
        """Positions left after the input, and after each convolution and pooling."""
        lengths = [self.block - 1]
        for kernel, pool in zip(self.kernels, self.pools, strict=True):
            lengths += [lengths[-1] - kernel + 1]
            lengths += [lengths[-1] // pool]
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


@dataclass(frozen=True)
class Recipe:
    """How a network is trained (Section 5.2 and Table 2).

    Adam on the mean squared error; the rate times `plateau_factor` after `plateau_patience` epochs without progress;
    stop after `patience` of them; the first `validation` of the samples guide, the rest train.
    """

    rate: float = 1e-3
    batch: int = 256
    epochs: int = 100
    patience: int = 15
    plateau_patience: int = 5
    plateau_factor: float = 0.1
    validation: float = 0.2
    seed: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.validation < 1 and self.rate > 0 and self.batch > 0 and self.epochs > 0):
            raise InputError(f"recipe {self}: want rate, batch and epochs above 0 and validation in (0, 1)")


@dataclass(frozen=True, eq=False)
class SpmvNet:
    """A trained network: weights by torch's names, the label's scale, and where the labels came from.

    `scale` turns the network's output (of order 1) into seconds or joules a non-zero.
    """

    shape: NetShape
    weights: Mapping[str, npt.NDArray[np.float32]]
    scale: float
    quantity: str = "time"
    provenance: Table[Any] = Table()

    def predict(self, blocks: FloatBlocks) -> FloatArray:
        """Seconds or joules a non-zero of every block; `blocks` is `network_input`, shape (blocks, block - 1)."""
        import torch

        network = _network(self.shape)
        network.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in self.weights.items()})
        network.eval()
        parts = []
        with torch.no_grad():
            for start in range(0, len(blocks), 4096):
                parts.append(network(torch.from_numpy(blocks[start : start + 4096, None, :])).numpy()[:, 0])
        return np.asarray(np.concatenate(parts) * self.scale, dtype=np.float64)

    def matrix_total(self, matrix: SparseMatrix) -> float:
        """T = b sum t_i over the whole blocks: seconds or joules of one product (Section 4.1)."""
        return float(self.predict(network_input(matrix, self.shape.block)).sum() * self.shape.block)

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


def load_net(path: str | Path) -> SpmvNet:
    """A network from its .npz; nothing is unpickled.

    Raises
    ------
    InputError
        Where the file is no such network, or its weights do not fit its shape.
    """
    try:
        with np.load(io.BytesIO(read_bytes(path, WEIGHT_BYTES)), allow_pickle=False) as archive:
            head = json.loads(str(archive["head"]))
            weights = {name: archive[name].astype(np.float32) for name in archive.files if name != "head"}
        if head.get("schema") != SCHEMA:
            raise InputError(f"{path}: want a network of schema {SCHEMA!r}, got {str(head.get('schema'))[:40]!r}")
        fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in head["shape"].items()}
        net = SpmvNet(
            NetShape(**fields), weights, float(head["scale"]), str(head["quantity"]), Table(head["provenance"])
        )
    except InputError:
        raise
    except (ValueError, OSError, KeyError, TypeError, AttributeError, EOFError, BadZipFile) as error:
        raise InputError(f"{path}: no SpMV network ({error})") from None
    if sum(array.size for array in weights.values()) != net.shape.parameters:
        raise InputError(f"{path}: {sum(a.size for a in weights.values())} weights, want {net.shape.parameters}")
    return net


def train(
    blocks: FloatBlocks,
    labels: npt.ArrayLike,
    shape: NetShape = TIME_NET,
    recipe: Recipe | None = None,
    *,
    start: SpmvNet | None = None,
    quantity: str = "time",
    provenance: Mapping[str, Any] | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> SpmvNet:
    """Train on blocks with labels in seconds or joules a non-zero; the weights of the best validation epoch are kept.

    With `start`, training goes on from another network's weights: another frequency, metric or machine (fine-tuning).
    `progress` is told epoch and validation error (relative root mean square).

    Raises
    ------
    InputError
        Where blocks and labels do not fit, or are too few to be split.
    """
    import torch

    recipe = recipe or Recipe()
    values = np.asarray(labels, dtype=np.float64)
    if blocks.shape != (len(values), shape.block - 1) or not np.all(values > 0):
        raise InputError(f"blocks of shape {blocks.shape} for {len(values)} labels > 0: want {shape.block - 1} columns")
    held = int(len(values) * recipe.validation)
    if held < 1 or len(values) - held < 1:
        raise InputError(f"{len(values)} blocks cannot be split into training and validation")
    torch.manual_seed(recipe.seed)
    scale = float(values[held:].mean()) if start is None else start.scale
    inputs = torch.from_numpy(np.ascontiguousarray(blocks[:, None, :], dtype=np.float32))
    targets = torch.from_numpy((values / scale).astype(np.float32))
    network = _network(shape)
    if start is not None:
        network.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in start.weights.items()})
    optimizer = torch.optim.Adam(network.parameters(), lr=recipe.rate)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=recipe.plateau_factor, patience=recipe.plateau_patience, min_lr=1e-5
    )
    best, best_weights, since, epoch = np.inf, network.state_dict(), 0, 0
    for epoch in range(1, recipe.epochs + 1):
        network.train()
        order = held + torch.randperm(len(values) - held)
        for first in range(0, len(order), recipe.batch):
            chosen = order[first : first + recipe.batch]
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(network(inputs[chosen])[:, 0], targets[chosen])
            loss.backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            error = float(torch.nn.functional.mse_loss(network(inputs[:held])[:, 0], targets[:held]))
        plateau.step(error)
        if progress is not None:
            progress(epoch, error**0.5)
        if error < best * (1 - 1e-4):
            best, since = error, 0
            best_weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        else:
            since += 1
            if since >= recipe.patience:
                break
    facts = {"epochs": epoch, "validation_rms": best**0.5, "blocks": len(values), **asdict(recipe)}
    weights = {name: tensor.numpy().copy() for name, tensor in best_weights.items()}
    return SpmvNet(shape, weights, scale, quantity, Table({**facts, **(provenance or {})}))


SEARCH_SPACE: Mapping[str, tuple[Any, ...]] = {
    "filters": ((16, 32), (32, 64)),
    "kernel": (3, 5, 7, 9),
    "pool": (2, 3, 5, 7, 9),
    "hidden_layers": (0, 1, 2),
    "neurons": (10, 100, 1000),
    "rate": (1e-1, 1e-2, 1e-3),
    "batch": (32, 64, 128, 256),
}
"""Table 2; its 1 to 3 fully connected layers count the output neuron; dropout is drawn from U(0, 1)."""


def search(
    blocks: FloatBlocks, labels: npt.ArrayLike, trials: int, recipe: Recipe | None = None, seed: int = 0
) -> list[tuple[float, NetShape, Recipe]]:
    """Random search over Table 2's ranges: (validation error, shape, recipe), best first.

    The paper used Hyperas' tree of Parzen estimators, its code one epoch a trial; ours draws independently.
    """
    random = np.random.default_rng(seed)
    recipe = recipe or Recipe(epochs=1)
    found: list[tuple[float, NetShape, Recipe]] = []
    while len(found) < trials:

        def draw(name: str) -> Any:
            return SEARCH_SPACE[name][int(random.integers(len(SEARCH_SPACE[name])))]

        layers = draw("hidden_layers")
        try:
            shape = NetShape(
                draw("filters"),
                (draw("kernel"), draw("kernel")),
                (draw("pool"), draw("pool")),
                tuple(draw("neurons") for _ in range(layers)),
                tuple(float(random.random()) for _ in range(layers)),
                block=blocks.shape[1] + 1,
            )
        except InputError:
            continue  # the pools leave nothing
        own = replace(recipe, rate=draw("rate"), batch=draw("batch"))
        net = train(blocks, labels, shape, own)
        error = float(net.provenance["validation_rms"])
        found.append((error if np.isfinite(error) else np.inf, shape, own))
    return sorted(found, key=lambda trial: trial[0])


def _network(shape: NetShape) -> Any:
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
