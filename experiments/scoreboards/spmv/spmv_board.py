"""SpMV: our own labels held out by matrix, public times of whole products held out by device, PageRank loop by loop."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.sparse.reuse_model import State
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.measure.spmv.labels import LabelledBlocks, family, shipped_labels
from slipstick.experiments.methods.spmv.families_left_out import CONSTANT, NETWORK, REUSE, overall, read_folds
from slipstick.experiments.methods.spmv.kernel_fits import FOLDS, constant, errors, folds, held_out, reuse_of
from slipstick.experiments.papers.spmv_cnn.spmv_cnn_rows import OWN_FOLDS
from slipstick.experiments.scoreboards.spmv.ginkgo import (
    DATASET,
    FORMATS_DATASET,
    public_formats,
    public_products,
)
from slipstick.experiments.scoreboards.spmv.kernel_scores import rows as own_kernels
from slipstick.experiments.scoreboards.spmv.pagerank_scores import rows as own_pagerank
from slipstick.experiments.scoring.score import Board
from slipstick.experiments.scoring.score_rows import ValidationRow

OWN = ("own labels", "own labels, families left out", "own products by kernel", "own PageRank runs")
GOALS: Mapping[State, Mapping[str, float]] = {
    "hot": {"block": 0.037, "matrix": 0.025, "matrix max": 0.08},
    "streaming": {"block": 0.15, "matrix": 0.10},
}


def own_labels() -> list[ValidationRow]:
    """Both label kinds: every matrix by costs that did not see it, then by costs that saw none of its family.

    Relatives in other folds flatter.
    """
    labels, result = shipped_labels(), list[ValidationRow]()
    for kind, blocks in labels.blocks_by_kind(data_folder()).items():
        recipes = [labels.facts["matrices"][name]["recipe"] for name in blocks.names]
        families = ["measured by others" if recipe is None else family(recipe) for recipe in recipes]
        result += _score(kind, blocks, folds(len(blocks.names)), f"{FOLDS} folds by matrix")
        result += _score(kind, blocks, np.array(families), f"{len(set(families))} families of matrices")
    return result


def kept_families() -> list[ValidationRow]:
    """The network by the paper's protocol, families left out, as `spmv validate --folder` kept it: minutes a family."""
    return [
        ValidationRow(
            "own labels, families left out",
            f"{label}, {what}: Table 2's network by the paper's protocol",
            "family of matrices",
            row[NETWORK][count],
            "MAPE",
            "1",
            row[NETWORK][key],
            {REUSE: row[REUSE][key], CONSTANT: row[CONSTANT][key]},
            noise_floor=None,
            reason=f"{', '.join(sorted({one.family for one in kept if one.label == label}))}; made by 'spmv validate'",
        )
        for kept in (read_folds(OWN_FOLDS),)
        for label in dict.fromkeys(one.label for one in kept)
        for row in (overall(kept, label),)
        for what, key, count in (("blocks", "block_error", "blocks"), ("matrices", "matrix_error", "matrices"))
    ]


def linear(known: LabelledBlocks, scored: LabelledBlocks) -> FloatArray:
    """A straight line in log time over the mean and the largest distance of columns."""

    def design(blocks: LabelledBlocks) -> FloatArray:
        steps = blocks.inputs
        return np.stack([np.ones(len(steps)), steps.mean(axis=1), steps.max(axis=1)], axis=1)

    weights, *_ = np.linalg.lstsq(design(known), np.log(known.label), rcond=None)
    return np.asarray(np.exp(design(scored) @ weights))


def _score(kind: State, blocks: LabelledBlocks, groups: npt.NDArray[np.generic], split: str) -> list[ValidationRow]:
    labels = shipped_labels()
    reuse = reuse_of(kind, labels.caches)
    ours, *others = (errors(blocks, held_out(blocks, model, groups)) for model in (reuse, constant, linear))
    beside = dict(zip(("constant", "linear"), others, strict=True))
    logs = np.log1p(ours.matrix)
    widths = np.array([np.std(logs[groups != group], ddof=1) for group in groups]) * quantile(DEFAULT_LEVEL, None)
    coverage, width = float(np.mean(np.abs(logs) <= widths)), float(np.exp(2 * np.median(widths)))
    floors = {"block": blocks.noise_floor(), "matrix": blocks.noise_floor(whole=True), "matrix max": None}
    result = [
        ValidationRow(
            f"own {kind} labels",
            f"{metric} error, {split}",
            f"{len(blocks.names)} matrices",
            len(blocks.label) if metric == "block" else len(blocks.names),
            "MAPE" if metric != "matrix max" else "largest relative error",
            "1",
            value,
            {name: other.scores[metric] for name, other in beside.items()},
            goal := GOALS[kind].get(metric),
            None if goal is None else value <= goal,
            DEFAULT_LEVEL if metric == "matrix" else None,
            coverage if metric == "matrix" else None,
            width if metric == "matrix" else None,
            floors[metric],
            labels.source,
        )
        for metric, value in ours.scores.items()
    ]
    real = np.array([name.startswith("real_") for name in blocks.names])
    if real.any():
        ours_real, *theirs = (float(np.mean(np.abs(one.matrix[real]))) for one in (ours, *others))
        row = ValidationRow(
            f"own {kind} labels",
            f"matrix error of the real matrices, {split}",
            f"{len(blocks.names)} matrices",
            int(real.sum()),
            "MAPE",
            "1",
            ours_real,
            dict(zip(beside, theirs, strict=True)),
        )
        result.append(row)
    return result


BOARD = Board(
    "How long does a sparse product take of a matrix, or on a device, never measured?",
    {
        "own labels": lambda _: own_labels(),
        "own labels, families left out": lambda _: kept_families(),
        DATASET: public_products,
        FORMATS_DATASET: public_formats,
        "own products by kernel": lambda _: own_kernels(),
        "own PageRank runs": lambda _: own_pagerank(),
    },
    closed=dict.fromkeys(OWN, "the project's own measurements are scored as they are"),
)
