"""Training the published network: its recipe, folds, search over Table 2, and families over clocks and metrics.

Barreda, Dolz, Castano 2020, Sections 5.2 and 5.3. Needs the extra [torch].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.sparse.spmv_network import (
    ENERGY_NET,
    TIME_NET,
    FloatBlocks,
    NetShape,
    SpmvNetwork,
    network_of,
)


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


def train(
    blocks: FloatBlocks,
    labels: npt.ArrayLike,
    shape: NetShape = TIME_NET,
    recipe: Recipe | None = None,
    *,
    start: SpmvNetwork | None = None,
    quantity: str = "time",
    provenance: Mapping[str, Any] | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> SpmvNetwork:
    """Train on blocks with labels in seconds or joules a non-zero; the weights of the best validation epoch are kept.

    With `start`, training goes on from another network's weights: another frequency, metric or machine (fine-tuning).
    The network sees labels over their mean, so weights carry over between units and clocks.
    `progress` is called with epoch and validation error (relative root mean square).
    Raises InputError where blocks and labels do not fit, or are too few to be split.
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
    scale = float(values[held:].mean())
    inputs = torch.from_numpy(np.ascontiguousarray(blocks[:, None, :], dtype=np.float32))
    targets = torch.from_numpy((values / scale).astype(np.float32))
    network = network_of(shape)
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
    return SpmvNetwork(shape, weights, scale, quantity, FrozenDict({**facts, **(provenance or {})}))


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
    trials_done: list[tuple[float, NetShape, Recipe]] = []
    while len(trials_done) < trials:

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
        drawn = replace(recipe, rate=draw("rate"), batch=draw("batch"))
        net = train(blocks, labels, shape, drawn)
        error = float(net.provenance["validation_rms"])
        trials_done.append((error if np.isfinite(error) else np.inf, shape, drawn))
    return sorted(trials_done, key=lambda trial: trial[0])


def fold_errors(
    blocks: FloatBlocks,
    labels: npt.ArrayLike,
    shape: NetShape = TIME_NET,
    recipe: Recipe | None = None,
    parts: int = 5,
) -> list[float]:
    """Mean relative error on each of `parts` folds of blocks, by a network trained on the others (Section 5.2).

    Folds are pieces in the order given; the first is the validation set of the paper's single training. The fold also
    guides the stopping, as in the paper, so this is a check of spread and not of accuracy on unseen matrices.
    Raises InputError where there are fewer than two folds, or fewer blocks than folds.
    """
    values = np.asarray(labels, dtype=np.float64)
    if not 2 <= parts <= len(values):
        raise InputError(f"{parts} folds of {len(values)} blocks: want 2 to as many as there are blocks")
    recipe = replace(recipe or Recipe(), validation=1 / parts)
    errors = []
    for held in np.array_split(np.arange(len(values)), parts):
        rest = np.setdiff1d(np.arange(len(values)), held)
        order = np.concatenate([held, rest])
        settings = replace(recipe, validation=len(held) / len(values) + 1e-9)
        net = train(blocks[order], values[order], shape, settings)
        errors.append(float(np.mean(np.abs(net.predict(blocks[held]) / values[held] - 1))))
    return errors


METRICS = ("time", "total energy", "package energy", "DRAM energy")


def train_family(
    blocks: FloatBlocks,
    labels: Mapping[tuple[float, str], npt.ArrayLike],
    recipe: Recipe | None = None,
    tuning: Recipe | None = None,
    provenance: Mapping[str, Any] | None = None,
    progress: Callable[[float, str, SpmvNetwork], None] | None = None,
) -> dict[tuple[float, str], SpmvNetwork]:
    """One network for every clock [Hz] and metric (`METRICS`), hyper-parameters inherited (Section 5.2).

    At the highest clock the networks of time and of total energy are trained from the start, with the shapes of
    Table 2; package and DRAM energy inherit the shape of total energy and go on from its weights; other clocks inherit
    shape and weights of the same metric at the highest clock. `tuning` is the recipe of what goes on from weights.
    Raises InputError where a metric is unknown, or a clock lacks the metric that another goes on from.
    """
    unknown = sorted({metric for _, metric in labels if metric not in METRICS})
    if unknown or not labels:
        raise InputError(f"metrics of a family: {', '.join(unknown) or 'none'}; known: {', '.join(METRICS)}")
    recipe = recipe or Recipe()
    tuning = tuning or replace(recipe, epochs=max(1, recipe.epochs // 5), rate=recipe.rate / 3)
    top = max(clock for clock, _ in labels)
    networks: dict[tuple[float, str], SpmvNetwork] = {}
    ordered = sorted(labels, key=lambda key: (-key[0], METRICS.index(key[1])))
    for clock, metric in ordered:
        parent = (top, metric) if clock != top else (top, "total energy")
        fresh = (clock, metric) in {(top, "time"), (top, "total energy")}
        if not fresh and parent not in networks:
            raise InputError(f"{metric} at {clock:g} Hz goes on from {parent[1]} at {parent[0]:g} Hz: no such labels")
        net = train(
            blocks,
            labels[clock, metric],
            TIME_NET if metric == "time" else ENERGY_NET,
            recipe if fresh else tuning,
            start=None if fresh else networks[parent],
            quantity="time" if metric == "time" else "energy",
            provenance={**(provenance or {}), "clock_hz": clock, "metric": metric},
        )
        networks[clock, metric] = net
        if progress is not None:
            progress(clock, metric, net)
    return networks
