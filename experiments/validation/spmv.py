"""SpMV: our own labels held out by matrix, public times of whole products held out by device, PageRank loop by loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from estimators.estimate import DEFAULT_LEVEL, quantile
from estimators.operation.boosted import fit_boosted
from estimators.operation.reuse import LabelKind, fit_reuse
from estimators.operation.spmv import fit_spmv
from estimators.operation.spmv_net import Recipe, train
from experiments.measure.labels import LabelledBlocks, shipped_labels
from experiments.rows import ValidationRow
from experiments.validation.data import data_folder

Floats = npt.NDArray[np.float64]
Model = Callable[[LabelledBlocks, LabelledBlocks], Floats]
"""Seconds a non-zero of the second's blocks, fitted on the first."""

FOLDS = 3
NETWORK_BLOCKS = 4000
NETWORK_EPOCHS = 20
GOALS: Mapping[LabelKind, Mapping[str, float]] = {
    "hot": {"block": 0.037, "matrix": 0.025, "matrix max": 0.08},
    "streaming": {"block": 0.15, "matrix": 0.10},
}


def rows(scored: Path | None = None) -> list[ValidationRow]:
    """All scores; with `scored` only what that folder's public times can be scored on."""
    from experiments.validation.ginkgo import rows as public_products
    from experiments.validation.pagerank import rows as own_pagerank

    if scored is not None:
        return public_products(scored)
    return [*own_labels(), *public_products(None), *own_pagerank()]


def own_labels() -> list[ValidationRow]:
    """Both label kinds: predictions of every matrix by models that did not see it."""
    labels = shipped_labels()
    matrices = list(labels.matrices(data_folder()))
    found: list[ValidationRow] = []
    for kind in GOALS:
        found += _score(kind, labels.blocks(kind, iter(matrices)), models(kind))
    return found


def models(kind: LabelKind) -> dict[str, Model]:
    """The baselines and ours, by name; the network only where torch is installed."""
    from importlib.util import find_spec

    caches = shipped_labels().caches

    def constant(known: LabelledBlocks, asked: LabelledBlocks) -> Floats:
        return np.full(len(asked.label), known.label.mean())

    def linear(known: LabelledBlocks, asked: LabelledBlocks) -> Floats:
        def design(blocks: LabelledBlocks) -> Floats:
            columns = [blocks.table.column(name) for name in ("step.mean_log", "step.max_log")]
            return np.stack([np.ones(len(blocks.label)), *columns], axis=1)

        weights, *_ = np.linalg.lstsq(design(known), np.log(known.label), rcond=None)
        return np.asarray(np.exp(design(asked) @ weights))

    def reuse(known: LabelledBlocks, asked: LabelledBlocks) -> Floats:
        return fit_reuse(known.table, known.label, kind, caches).seconds_per_nonzero(asked.table)

    def boosting(known: LabelledBlocks, asked: LabelledBlocks) -> Floats:
        trees = fit_boosted(known.table.names, known.table.values, np.log(known.label))
        return np.asarray(np.exp(trees.predict(asked.table.names, asked.table.values)))

    def combined(known: LabelledBlocks, asked: LabelledBlocks) -> Floats:
        return fit_spmv(known.table, known.label, kind, caches).seconds_per_nonzero(asked.table)

    def network(known: LabelledBlocks, asked: LabelledBlocks) -> Floats:
        order = np.random.default_rng(1).permutation(len(known.label))[:NETWORK_BLOCKS]
        net = train(known.inputs[order], known.label[order], recipe=Recipe(epochs=NETWORK_EPOCHS))
        return net.predict(asked.inputs)

    chosen: dict[str, Model] = {
        "constant": constant,
        "linear": linear,
        "reuse": reuse,
        "boosting": boosting,
        "combined": combined,
    }
    if find_spec("torch") is not None:
        chosen["published network"] = network
    return chosen


def folds(count: int, parts: int = FOLDS, seed: int = 0) -> npt.NDArray[np.int64]:
    """Which fold each matrix is held out in."""
    return np.random.default_rng(seed).permutation(count) % parts


def held_out(blocks: LabelledBlocks, model: Model) -> Floats:
    """Predictions of every block by a model fitted to the matrices of the other folds."""
    fold = folds(len(blocks.names))[blocks.matrix]
    predicted = np.empty(len(blocks.label))
    for part in range(FOLDS):
        out = fold == part
        predicted[out] = model(blocks.select(~out), blocks.select(out))
    return predicted


@dataclass(frozen=True)
class Errors:
    """Relative errors of blocks and of whole matrices (sums over the labelled blocks)."""

    block: Floats
    matrix: Floats

    @property
    def scores(self) -> dict[str, float]:
        return {
            "block": float(np.mean(np.abs(self.block))),
            "matrix": float(np.mean(np.abs(self.matrix))),
            "matrix max": float(np.max(np.abs(self.matrix))),
        }


def errors(blocks: LabelledBlocks, predicted: Floats) -> Errors:
    """Of predictions against the labels."""
    count = len(blocks.names)
    measured = np.bincount(blocks.matrix, blocks.label, count)
    estimated = np.bincount(blocks.matrix, predicted, count)
    return Errors(predicted / blocks.label - 1, estimated / measured - 1)


def _score(kind: LabelKind, blocks: LabelledBlocks, chosen: Mapping[str, Model]) -> list[ValidationRow]:
    found = {name: errors(blocks, held_out(blocks, model)) for name, model in chosen.items()}
    ours = found.pop("combined")
    logs = np.log1p(ours.matrix)
    fold = folds(len(blocks.names))
    widths = np.array([np.std(logs[fold != part], ddof=1) for part in fold]) * quantile(DEFAULT_LEVEL, None)
    coverage, width = float(np.mean(np.abs(logs) <= widths)), float(np.mean(2 * widths))
    floors = {"block": blocks.noise_floor, "matrix": blocks.matrix_noise_floor, "matrix max": None}
    dataset = f"own {kind} labels"
    result = []
    for metric, value in ours.scores.items():
        goal = GOALS[kind].get(metric)
        result.append(
            ValidationRow(
                dataset,
                f"{metric} error, combined",
                f"{FOLDS} folds by matrix, {len(blocks.names)} matrices",
                len(blocks.label) if metric == "block" else len(blocks.names),
                "MAPE" if metric != "matrix max" else "largest relative error",
                "1",
                value,
                {name: other.scores[metric] for name, other in found.items()},
                goal,
                None if goal is None else value <= goal,
                DEFAULT_LEVEL if metric == "matrix" else None,
                coverage if metric == "matrix" else None,
                width if metric == "matrix" else None,
                floors[metric],
                shipped_labels().source,
            )
        )
    real = np.array([name.startswith("real_") for name in blocks.names])
    if real.any():
        result.append(
            ValidationRow(
                dataset,
                "matrix error of the real matrices, combined",
                f"{FOLDS} folds by matrix",
                int(real.sum()),
                "MAPE",
                "1",
                float(np.mean(np.abs(ours.matrix[real]))),
                {name: float(np.mean(np.abs(other.matrix[real]))) for name, other in found.items()},
            )
        )
    return result
