"""Labelled blocks held out by matrix, and SpMV models that know their own scatter from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slipstick.estimators.sparse.reuse_model import CacheSizes, LabelKind, fit_reuse
from slipstick.estimators.sparse.spmv_model import SpmvModel, fit_spmv
from slipstick.experiments.measure.spmv.labels import LabelledBlocks

Floats = npt.NDArray[np.float64]
Model = Callable[[LabelledBlocks, LabelledBlocks], Floats]
"""Seconds a non-zero of the second's blocks, fitted on the first."""
FOLDS = 3


def folds(count: int, parts: int = FOLDS, seed: int = 0) -> npt.NDArray[np.int64]:
    """Number of the fold that each matrix is held out in, shape (count,)."""
    return np.random.default_rng(seed).permutation(count) % parts


def held_out(blocks: LabelledBlocks, model: Model, parts: int = FOLDS) -> Floats:
    """Predictions (seconds a non-zero, shape (blocks,)) of every block by a model fitted to the matrices of the other
    folds.
    """
    return held_out_by(blocks, model, folds(len(blocks.names), parts))


def held_out_by(blocks: LabelledBlocks, model: Model, groups: npt.ArrayLike) -> Floats:
    """The same with groups of matrices left out in turn; `groups` has shape (matrices,)."""
    group = np.asarray(groups)[blocks.matrix]
    predicted = np.empty(len(blocks.label))
    for one in np.unique(group):
        out = group == one
        predicted[out] = model(blocks.select(~out), blocks.select(out))
    return predicted


@dataclass(frozen=True)
class Errors:
    """Relative errors of blocks and of whole matrices (sums over the labelled blocks)."""

    block: Floats
    matrix: Floats

    @property
    def scores(self) -> dict[str, float]:
        """Mean absolute relative errors of blocks and matrices, and that of the worst matrix, as shares."""
        return {
            "block": float(np.mean(np.abs(self.block))),
            "matrix": float(np.mean(np.abs(self.matrix))),
            "matrix max": float(np.max(np.abs(self.matrix))),
        }

    @property
    def matrix_spread(self) -> float:
        """Standard deviation of log(predicted / measured) over matrices."""
        return float(np.std(np.log1p(self.matrix), ddof=1))


def errors(blocks: LabelledBlocks, predicted: Floats) -> Errors:
    """Relative errors of predictions (shape (blocks,)) against the labels, by block and by matrix, as shares."""
    count = len(blocks.names)
    measured = np.bincount(blocks.matrix, blocks.label, count)
    estimated = np.bincount(blocks.matrix, predicted, count)
    return Errors(predicted / blocks.label - 1, estimated / measured - 1)


def reuse_model(kind: LabelKind, caches: CacheSizes) -> Model:
    """The eight costs alone."""

    def model(known: LabelledBlocks, target: LabelledBlocks) -> Floats:
        return fit_reuse(known.table, known.label, kind, caches).seconds_per_nonzero(target.table)

    return model


def combined_model(kind: LabelKind, caches: CacheSizes, trees: int = 120) -> Model:
    """The eight costs and the trees on what they leave."""

    def model(known: LabelledBlocks, target: LabelledBlocks) -> Floats:
        return fit_spmv(known.table, known.label, kind, caches, trees=trees).seconds_per_nonzero(target.table)

    return model


def fit_with_spread(
    blocks: LabelledBlocks, kind: LabelKind, caches: CacheSizes, clock: float, *, trees: int = 120, source: str = ""
) -> SpmvModel:
    """A model of all blocks whose interval is the scatter over matrices held out (unknown with fewer than six).

    `clock`: of the machine, in hertz.
    """
    whole = replace(fit_spmv(blocks.table, blocks.label, kind, caches, trees=trees, source=source), clock=clock)
    if len(blocks.names) < 2 * FOLDS:
        return whole
    reuse = errors(blocks, held_out(blocks, reuse_model(kind, caches))).matrix_spread
    matrix_spread = (
        errors(blocks, held_out(blocks, combined_model(kind, caches, trees))).matrix_spread if trees else reuse
    )
    return replace(whole, matrix_spread=matrix_spread, reuse_spread=reuse)
