"""Table 2's network by the paper's protocol on our own labels, every family of matrices left out in turn.

Barreda, Dolz, Castano 2020, Sections 5.1 to 5.3: matrices of 1 to 10 million non-zeros; a fifth of the training blocks
guides the training; Adam, batches of 256, stop after 15 epochs without progress; errors of blocks and of whole
matrices. The paper leaves a fifth of its matrices out. Ours come from nine generators, so a whole generator is left
out: a matrix whose relatives were trained on shows less. Beside the network stand the reuse model's eight costs and the
mean of the training labels, on the same blocks. Convolutions keep to valid positions ("valid" padding), which gives
340,625 parameters for time and 134,101 for energy. Training needs the extra [torch].

No answer rests on the network: on families that it did not see it is worse than a constant, and the reuse model is
better than both. A fold takes about a minute of a processor and is kept when it is done.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import nn, torch
from slipstick.common.optional_packages import require_packages
from slipstick.common.readers import of_schema, read_json
from slipstick.common.records import of_kind
from slipstick.common.writer import write_json
from slipstick.estimators.sparse.reuse_model import LABEL_KINDS, CacheSizes, State, check_state
from slipstick.experiments.measure.spmv.labels import LabelledBlocks, Labels, family, shipped_labels
from slipstick.experiments.methods.spmv.kernel_fits import constant, errors, reuse_of
from slipstick.workloads.kernels.blocks import BLOCK
from slipstick.workloads.layers.image_layers import windows

SMALLEST, LARGEST = 1_000_000, 10_000_000
"""Non-zeros of the paper's matrices (Section 5.1)."""
NETWORK, REUSE, CONSTANT = "network of Table 2", "reuse model", "constant"
SCHEMA = "slipstick-spmv-families-1"
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

    @property
    def lengths(self) -> tuple[int, ...]:
        """Positions left after the input, and after each convolution and pooling.

        Raises InputError where a block is too short for the kernels and pools.
        """
        lengths, where = [self.block - 1], f"blocks of {self.block} are too short"
        for kernel, pool in zip(self.kernels, self.pools, strict=True):
            lengths.append(int(windows(lengths[-1], kernel, 1, 0, where)))
            lengths.append(int(windows(lengths[-1], pool, pool, 0, where)))
        return tuple(lengths)

    @property
    def widths(self) -> tuple[int, ...]:
        """Inputs of the first fully connected layer, and neurons of each."""
        return (self.filters[1] * self.lengths[-1], *self.neurons, 1)

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        inputs = (1, self.filters[0])
        convolutions = sum(i * f * k + f for i, f, k in zip(inputs, self.filters, self.kernels, strict=True))
        return convolutions + sum(a * b + b for a, b in zip(self.widths, self.widths[1:], strict=False))


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
class TrainedNetwork:
    """A trained network as torch's module; `scale` turns its output (of order 1) into seconds a non-zero.

    `epochs`: that its training took.
    """

    module: Any
    scale: float
    epochs: int

    def predict(self, blocks: FloatBlocks) -> FloatArray:
        """Seconds a non-zero of every block; `blocks` is `network_input`, shape (blocks, block - 1)."""

        with torch.no_grad():
            parts = [self.module(part[:, None, :])[:, 0] for part in torch.from_numpy(blocks).split(4096)]
        return np.asarray(torch.cat(parts).numpy() * self.scale, dtype=np.float64)


def train(
    blocks: FloatBlocks, labels: npt.ArrayLike, shape: NetShape = TIME_NET, recipe: Recipe | None = None
) -> TrainedNetwork:
    """Train on blocks with labels in seconds a non-zero; the weights of the best validation epoch are kept.

    The network sees labels over their mean.
    Raises InputError where blocks and labels do not fit, or are too few to be split.
    """

    recipe = recipe or Recipe()
    values = np.asarray(labels, dtype=np.float64)
    if blocks.shape != (len(values), shape.block - 1) or not np.all(values > 0):
        raise InputError(f"blocks of shape {blocks.shape} for {len(values)} labels > 0: want {shape.block - 1} columns")
    held = int(len(values) * recipe.validation)
    if held < 1 or len(values) - held < 1:
        raise InputError(f"{len(values)} blocks cannot be split into training and validation")
    torch.manual_seed(recipe.seed)
    scale = float(values[held:].mean())
    inputs = torch.from_numpy(np.ascontiguousarray(blocks[:, None, :], dtype=np.float32))
    targets = torch.from_numpy((values / scale).astype(np.float32))
    network = network_of(shape)
    optimizer = torch.optim.Adam(network.parameters(), lr=recipe.rate)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=recipe.plateau_factor, patience=recipe.plateau_patience, min_lr=1e-5
    )
    best, best_weights, since, epochs = np.inf, network.state_dict(), 0, 0
    while epochs < recipe.epochs and since < recipe.patience:
        network.train()
        order = held + torch.randperm(len(values) - held)
        for chosen in order.split(recipe.batch):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(network(inputs[chosen])[:, 0], targets[chosen])
            loss.backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            error = float(torch.nn.functional.mse_loss(network(inputs[:held])[:, 0], targets[:held]))
        plateau.step(error)
        since, epochs = since + 1, epochs + 1
        if error < best * (1 - 1e-4):
            best, since = error, 0
            best_weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network.load_state_dict(best_weights)
    return TrainedNetwork(network.eval(), scale, epochs)


def network_of(shape: NetShape) -> Any:
    """The layers as torch's module, with fresh weights."""

    layers: list[Any] = []
    inputs = 1
    for filters, kernel, pool in zip(shape.filters, shape.kernels, shape.pools, strict=True):
        layers += [nn.Conv1d(inputs, filters, kernel), nn.ReLU(), nn.MaxPool1d(pool)]
        inputs = filters
    layers.append(nn.Flatten())
    for width, neurons, rate in zip(shape.widths, shape.neurons, shape.dropout, strict=False):
        layers += [nn.Linear(width, neurons), nn.ReLU(), nn.Dropout(rate)]
    return nn.Sequential(*layers, nn.Linear(shape.widths[-2], 1))


@dataclass(frozen=True)
class FamilyErrors:
    """What models that did not see a family say of it.

    `digest`: of labels and recipe: a kept fold of others is made anew.
    `epochs`: that the network's training took.
    `block`: by model, the relative errors of blocks, as shares: mean, median, 90th and 99th percentile.
    `matrix`: by model, the signed relative error of each matrix, a share, by name.
    `noise`: mean relative difference of two measurements of a block; None where none was measured twice.
    """

    label: str
    family: str
    blocks: int
    epochs: int
    digest: str
    block: Mapping[str, Sequence[float]]
    matrix: Mapping[str, Mapping[str, float]]
    noise: float | None


def families(labels: Labels) -> dict[str, str]:
    """The family of every generated matrix of the paper's sizes, by name."""
    return {
        name: family(fact["recipe"])
        for name, fact in labels.facts["matrices"].items()
        if fact["recipe"] is not None and SMALLEST <= fact["nonzeros"] <= LARGEST
    }


def family_errors(
    blocks: LabelledBlocks, members: Mapping[str, str], out: str, kind: State, caches: CacheSizes, recipe: Recipe
) -> FamilyErrors:
    """Train on all families but `out`, and score that.

    Raises InputError where no other family is there to train on.
    """
    left = np.array([members.get(name) == out for name in blocks.names])[blocks.matrix]
    if left.all() or not left.any():
        raise InputError(f"family {out!r}: want blocks of it and of another")
    known, scored = blocks.select(~left), blocks.select(left)
    order = np.random.default_rng(recipe.seed).permutation(len(known.label))
    net = train(known.inputs[order], known.label[order], recipe=recipe)
    predicted = {
        NETWORK: net.predict(scored.inputs),
        REUSE: reuse_of(kind, caches)(known, scored),
        CONSTANT: constant(known, scored),
    }
    off = {model: errors(scored, values) for model, values in predicted.items()}
    return FamilyErrors(
        kind,
        out,
        len(scored.label),
        net.epochs,
        _digest(blocks, recipe),
        {
            model: [one.scores["block"], *map(float, np.quantile(np.abs(one.block), [0.5, 0.9, 0.99]))]
            for model, one in off.items()
        },
        {model: one.by_matrix for model, one in off.items()},
        scored.noise_floor(),
    )


def left_out(
    labels: Labels, kinds: Iterable[State], save: Path | None, recipe: Recipe | None = None
) -> list[FamilyErrors]:
    """Every family of both kinds of labels; folds that `save` holds are not made again.

    Raises InputError where a kept fold cannot be read.
    """
    recipe, members, done = recipe or Recipe(), families(labels), list[FamilyErrors]()
    for kind in kinds:
        every = labels.blocks(kind, None, LARGEST)
        blocks = every.select(np.array([name in members for name in every.names])[every.matrix])
        digest = _digest(blocks, recipe)
        for out in sorted(set(members.values())):
            path = None if save is None else save / f"{kind}-{out}.json"
            kept = next(iter(read_folds(path)), None) if path is not None and path.exists() else None
            if kept is None or kept.digest != digest:
                kept = family_errors(blocks, members, out, kind, labels.caches, recipe)
                if path is not None:
                    keep([kept], path)
            mean = ", ".join(f"{model} {100 * errors[0]:.1f} %" for model, errors in kept.block.items())
            print(f"slipstick: {kind}, without {out}: blocks {mean}", file=sys.stderr, flush=True)
            done.append(kept)
    return done


def own_labels_left_out(label: str | None, save: Path | None, epochs: int) -> tuple[list[dict[str, Any]], str]:
    """The rows of `spmv validate` on the labels that ship (both kinds if None), and where these come from.

    Raises InputError where no label has this name, a kept fold cannot be read, or torch is not installed.
    """
    require_packages(("torch",))
    labels = shipped_labels()
    kinds = LABEL_KINDS if label is None else (check_state(label, LABEL_KINDS),)
    return rows_of(left_out(labels, kinds, save, Recipe(epochs=epochs))), labels.source


def keep(folds: Sequence[FamilyErrors], path: Path) -> None:
    """Write folds, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"schema": SCHEMA, "folds": [asdict(one) for one in folds]}, indent=1)


def read_folds(path: Path) -> list[FamilyErrors]:
    """Folds of a file.

    Raises InputError where it is no such file.
    """
    return list(of_kind(tuple[FamilyErrors, ...], of_schema(read_json(path), SCHEMA, path).get("folds"), str(path)))


def rows_of(folds: Sequence[FamilyErrors]) -> list[dict[str, Any]]:
    """A row a fold and model, and over all families of a label a row a model."""
    rows = [row for one in folds for row in _rows(one.label, one.family, [one])]
    for label in dict.fromkeys(one.label for one in folds):
        rows += overall(folds, label).values()
    return rows


def overall(folds: Sequence[FamilyErrors], label: str) -> dict[str, dict[str, Any]]:
    """Over all families of a label, the row of each model."""
    return {row["model"]: row for row in _rows(label, "all", [one for one in folds if one.label == label])}


def _rows(label: str, name: str, folds: Sequence[FamilyErrors]) -> list[dict[str, Any]]:
    weights = np.array([one.blocks for one in folds], dtype=float)
    rows = []
    for model in folds[0].block:
        matrices = np.abs([value for one in folds for value in one.matrix[model].values()])
        rows.append(
            {
                "label": label,
                "family_left_out": name,
                "model": model,
                "matrices": len(matrices),
                "blocks": int(weights.sum()),
                "block_error": float(np.average([one.block[model][0] for one in folds], weights=weights)),
                "matrix_error": float(matrices.mean()),
                "worst_matrix_error": float(matrices.max()),
            }
        )
    return rows


def _digest(blocks: LabelledBlocks, recipe: Recipe) -> str:
    made = sha256(np.ascontiguousarray(blocks.label).tobytes())
    made.update(np.ascontiguousarray(blocks.inputs).tobytes())
    made.update(repr(recipe).encode())
    return made.hexdigest()[:16]
