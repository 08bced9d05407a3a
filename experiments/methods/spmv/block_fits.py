"""Costs of reuse from labelled blocks, as `slipstick spmv train` fits them, and their errors on held-out matrices."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.writer import write_json
from slipstick.estimators.sparse.reuse_model import SUFFIX, CacheSizes, LabelKind, ReuseModel, fit_reuse, label_kind
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.measure.spmv.labels import FolderLabels, LabelledBlocks, Labels, shipped_labels

Floats = npt.NDArray[np.float64]
Model = Callable[[LabelledBlocks, LabelledBlocks], Floats]
"""Seconds a non-zero of the second's blocks, fitted on the first."""
FOLDS = 3


def folds(count: int) -> npt.NDArray[np.int64]:
    """Number of the fold that each matrix is held out in, shape (count,)."""
    return np.random.default_rng(0).permutation(count) % FOLDS


def held_out(blocks: LabelledBlocks, model: Model, groups: npt.ArrayLike | None = None) -> Floats:
    """Predictions (seconds a non-zero, shape (blocks,)) of every block by a model fitted to matrices of other groups.

    `groups`: of shape (matrices,); `folds` if None.
    """
    group = (folds(len(blocks.names)) if groups is None else np.asarray(groups))[blocks.matrix]
    predicted = np.empty(len(blocks.label))
    for one in np.unique(group):
        out = group == one
        predicted[out] = model(blocks.select(~out), blocks.select(out))
    return predicted


@dataclass(frozen=True)
class Errors:
    """Relative errors of blocks and, by name, of whole matrices (sums over the labelled blocks)."""

    block: Floats
    by_matrix: dict[str, float]

    @property
    def matrix(self) -> Floats:
        """Of whole matrices, shape (matrices,)."""
        return np.array(list(self.by_matrix.values()))

    @property
    def scores(self) -> dict[str, float]:
        """Mean absolute relative errors of blocks and matrices, and that of the worst matrix, as shares."""
        return {
            "block": float(np.mean(np.abs(self.block))),
            "matrix": float(np.mean(np.abs(self.matrix))),
            "matrix max": float(np.max(np.abs(self.matrix))),
        }


def errors(blocks: LabelledBlocks, predicted: Floats) -> Errors:
    """Relative errors of predictions (shape (blocks,)) against the labels, by block and by matrix, as shares."""
    measured, estimated = (np.bincount(blocks.matrix, times) for times in (blocks.label, predicted))
    whole = {blocks.names[i]: float(estimated[i] / measured[i] - 1) for i in np.unique(blocks.matrix)}
    return Errors(predicted / blocks.label - 1, whole)


def reuse_of(kind: LabelKind, caches: CacheSizes) -> Model:
    """The costs of reuse."""
    return lambda known, target: fit_reuse(known.table, known.label, kind, caches).seconds_per_nonzero(target.table)


def constant(known: LabelledBlocks, target: LabelledBlocks) -> Floats:
    """The mean label, in seconds a non-zero, for every block of the second, shape (blocks,)."""
    return np.full(len(target.label), known.label.mean())


def fit_labels(source: Labels, kind: LabelKind, largest: int | None = None) -> tuple[ReuseModel, LabelledBlocks]:
    """The costs, and the blocks that they were fitted to.

    Their interval is the scatter over matrices held out; it is unknown with fewer than twice as many as folds.
    """
    blocks = source.blocks(kind, data_folder(), largest)
    facts = source.facts["matrices"].items()
    asked_for = [name for name, fact in facts if largest is None or fact["nonzeros"] <= largest]
    if missing := sorted(set(asked_for) - set(blocks.names)):
        text = f"{len(missing)} of {len(asked_for)} matrices are not here as they were measured, or have no such labels"
        print(f"slipstick: {text}: {', '.join(missing[:5])} ...", file=sys.stderr)
    fitted = fit_reuse(blocks.table, blocks.label, kind, source.caches, source.clock, source.source)
    if len(blocks.names) >= 2 * FOLDS:
        logs = np.log1p(errors(blocks, held_out(blocks, reuse_of(kind, source.caches))).matrix)
        fitted = replace(fitted, spread=float(np.std(logs, ddof=1)))
    return fitted, blocks


def train_and_save(save: Path, folder: Path | None, label: str, largest: int) -> tuple[ReuseModel, dict[str, Any]]:
    """Fit the costs to labels of a folder or those that ship, write them, and say what came out.

    Raises InputError where files and labels cannot be used, or the name is not one that costs are read from.
    """
    if not save.name.endswith(SUFFIX):
        raise InputError(f"{save}: want a name that ends in {SUFFIX}")
    fitted, blocks = fit_labels(FolderLabels(folder) if folder else shipped_labels(), label_kind(label), largest)
    write_json(save, fitted.document(), indent=1)
    return fitted, {"label": label, "matrices": len(blocks.names), "blocks": len(blocks.label)}
