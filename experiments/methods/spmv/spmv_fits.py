"""What `slipstick spmv train` and `search` do: labelled blocks in, models with their provenance out."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.sparse.reuse_model import label_kind
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.measure.spmv.label_folder import FolderLabels
from slipstick.experiments.measure.spmv.labels import LabelledBlocks, Labels, shipped_labels

METHODS = ("combined", "network")
HELD_OUT = 5
"""One matrix in so many is left out of a network's training: its error there is what the network's band is made of."""
SEARCHED_MATRIX = 1_000_000
"""Non-zeros of the largest matrix that a search draws blocks from: it needs few."""


def train_and_save(
    method: str, save: Path, labels: Path | None, label: str, start: Path | None, folds: int, largest: int, epochs: int
) -> list[dict[str, Any]]:
    """Fit a model by one of `METHODS`, write it, and say what came out: a row each.

    Of networks a file holds one, a folder sixteen: of four clocks and four metrics, each going on from the last.
    Raises InputError where an option does not belong to this kind, or files and labels cannot be used.
    """
    label_kind_wanted = label_kind(label)
    source = FolderLabels(labels) if labels and labels.is_dir() else Labels(labels) if labels else shipped_labels()
    if method != "network" and (start is not None or folds):
        raise InputError(f"--calibration and --folds belong to --method network, not to {method!r}")
    several = method == "network" and save.suffix != ".npz"
    if several and (label != "hot" or start is not None or folds):
        raise InputError(
            f"{save}: a folder is for networks of other clocks: want --cache-state hot, whose blocks are core-bound, "
            "and neither --calibration nor --folds; one network is a .npz"
        )
    blocks = source.blocks(label_kind_wanted, data_folder(), largest)
    asked_for = [name for name, fact in source.facts["matrices"].items() if fact["nonzeros"] <= largest]
    missing = sorted(set(asked_for) - set(blocks.names))
    if missing:
        text = f"{len(missing)} of {len(asked_for)} matrices are not here as they were measured, or have no such labels"
        print(f"slipstick: {text}: {', '.join(missing[:5])} ...", file=sys.stderr)
    row: dict[str, Any] = {"kind": method, "label": label, "matrices": len(blocks.names), "blocks": len(blocks.label)}
    if several:
        return [row | network for network in _family(blocks, save, source, epochs)]
    if method == "network":
        return [row | _network(blocks, save, start, folds, epochs, {"label_kind": label, "labels": source.source})]
    from slipstick.experiments.measure.spmv.label_folds import fit_with_spread

    fitted = fit_with_spread(blocks, label_kind_wanted, source.caches, source.clock, source=source.source)
    fitted.save(save)
    spreads = {"matrix_spread": fitted.matrix_spread, "reuse_spread": fitted.reuse_spread}
    return [row | spreads | {f"{name}_ns": cost * 1e9 for name, cost in fitted.reuse.cost.items()}]


def search_rows(trials: int, label: str, count: int, epochs: int, seed: int) -> list[dict[str, Any]]:
    """Trials over Table 2, best first."""
    from slipstick.estimators.sparse.spmv_network_training import Recipe, search

    source = shipped_labels()
    blocks = source.blocks(label_kind(label), data_folder(), SEARCHED_MATRIX)
    chosen = np.random.default_rng(seed).permutation(len(blocks.label))[:count]
    result = search(blocks.inputs[chosen], blocks.label[chosen], trials, Recipe(epochs=epochs), seed)
    return [
        {
            "validation_rms": error,
            "filters": shape.filters,
            "kernels": shape.kernels,
            "pools": shape.pools,
            "neurons": (*shape.neurons, 1),
            "dropout": tuple(round(rate, 3) for rate in shape.dropout),
            "rate": recipe.rate,
            "batch": recipe.batch,
            "parameters": shape.parameters,
        }
        for error, shape, recipe in result
    ]


def _network(
    blocks: LabelledBlocks, save: Path, start: Path | None, folds: int, epochs: int, facts: dict[str, Any]
) -> dict[str, Any]:
    from slipstick.estimators.sparse.spmv_network import TIME_NET, load_net
    from slipstick.estimators.sparse.spmv_network_training import Recipe, fold_errors, train

    def say(epoch: int, error: float) -> None:
        print(f"slipstick: epoch {epoch}: validation rms {error:.4f} of the mean", file=sys.stderr)

    parent = None if start is None else load_net(start)
    shape = TIME_NET if parent is None else parent.shape
    if parent is not None:
        facts = {**facts, "goes_on_from": str(parent.provenance.get("labels", start))}
    recipe = Recipe(epochs=epochs)
    random = np.random.default_rng(recipe.seed)
    apart = random.permutation(len(blocks.names))[: len(blocks.names) // HELD_OUT if len(blocks.names) > 9 else 0]
    kept = ~np.isin(blocks.matrix, apart)
    order = random.permutation(np.flatnonzero(kept))  # matrices apart would part the folds
    inputs, times = blocks.inputs[order], blocks.label[order]
    net = train(inputs, times, shape, recipe, start=parent, provenance=facts, progress=say)
    row: dict[str, Any] = {}
    if len(apart):
        row = _left_out(net.predict(blocks.inputs[~kept]), blocks.select(~kept), apart)
        facts = {**net.provenance, **row, "matrices_left_out": [blocks.names[i] for i in sorted(apart)]}
        net = replace(net, provenance=FrozenDict(facts))
    net.save(save)
    row |= {"epochs": net.provenance["epochs"], "validation_rms": net.provenance["validation_rms"]}
    if folds:
        checked = fold_errors(inputs, times, shape, recipe, folds)
        row |= {"fold_errors": [round(error, 4) for error in checked], "fold_mean": float(np.mean(checked))}
    return row


def _left_out(
    predicted: npt.NDArray[np.float64], blocks: LabelledBlocks, matrices: npt.NDArray[np.int64]
) -> dict[str, float]:
    """Errors on matrices that the network did not see: of blocks, of whole matrices, and their scatter in log time."""
    means = [(predicted[out].mean(), blocks.label[out].mean()) for out in (blocks.matrix == i for i in matrices)]
    ours, truth = np.array(means).T
    off = np.log(np.maximum(ours, 1e-300) / truth)
    return {
        "block_error": float(np.mean(np.abs(predicted / blocks.label - 1))),
        "matrix_error": float(np.mean(np.abs(ours / truth - 1))),
        "matrix_spread": float(np.sqrt(np.mean(off**2))),
    }


def _family(blocks: LabelledBlocks, save: Path, source: Labels, epochs: int) -> list[dict[str, Any]]:
    from slipstick.estimators.sparse.spmv_network import SpmvNetwork
    from slipstick.estimators.sparse.spmv_network_training import Recipe, train_family
    from slipstick.experiments.measure.spmv.block_energy import SYNTHETIC, synthetic_family

    rows: list[dict[str, Any]] = []

    def keep(clock: float, metric: str, net: SpmvNetwork) -> None:
        path = save / f"{metric.replace(' ', '-')}-{clock / 1e9:g}GHz.npz"
        net.save(path)
        facts = {name: net.provenance[name] for name in ("epochs", "validation_rms")}
        rows.append({"clock_Hz": clock, "metric": metric, **facts, "file": path.name})
        print(f"slipstick: {metric} at {clock / 1e9:g} GHz: {facts}", file=sys.stderr)

    save.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(1).permutation(len(blocks.label))
    labels = synthetic_family(blocks.label[order], source.clock)
    facts = {"labels": f"times of {source.source} scaled to the clock; energy {SYNTHETIC}"}
    train_family(blocks.inputs[order], labels, Recipe(epochs=epochs), provenance=facts, progress=keep)
    return rows
