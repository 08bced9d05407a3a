"""SpMV: our own labels held out by matrix, public times of whole products held out by device, PageRank loop by loop."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.sparse.boosted_trees import fit_boosted
from slipstick.estimators.sparse.reuse_model import LabelKind
from slipstick.estimators.sparse.spmv_network_training import Recipe, train
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.measure.spmv.calibration_matrices import family
from slipstick.experiments.measure.spmv.label_folds import (
    FOLDS,
    Model,
    combined_model,
    errors,
    folds,
    held_out,
    held_out_by,
    reuse_model,
)
from slipstick.experiments.measure.spmv.labels import LabelledBlocks, shipped_labels
from slipstick.experiments.methods.spmv.families_left_out import CONSTANT, NETWORK, REUSE, overall, read_folds
from slipstick.experiments.papers.spmv_cnn.own_network import OWN_FOLDS
from slipstick.experiments.scoreboards.spmv.ginkgo import (
    DATASET,
    FORMATS_DATASET,
    public_formats,
    public_products,
)
from slipstick.experiments.scoreboards.spmv.kernel_scores import rows as own_kernels
from slipstick.experiments.scoreboards.spmv.pagerank_scores import rows as own_pagerank
from slipstick.experiments.scoring.score import Board
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

Floats = npt.NDArray[np.float64]
NETWORK_BLOCKS = 4000
NETWORK_EPOCHS = 15
"""So that the whole board takes some minutes of one core; the paper trains on all blocks until nothing improves."""
OWN = ("own labels", "own labels, families left out", "own products by kernel", "own PageRank runs")
GOALS: Mapping[LabelKind, Mapping[str, float]] = {
    "hot": {"block": 0.037, "matrix": 0.025, "matrix max": 0.08},
    "streaming": {"block": 0.15, "matrix": 0.10},
}


def own_labels() -> list[ValidationRow]:
    """Both label kinds: predictions of every matrix by models that did not see it."""
    labels = shipped_labels()
    scores: list[ValidationRow] = []
    blocks = labels.blocks_by_kind(data_folder())
    _say(f"features of {len(labels.facts['matrices'])} matrices made")
    for kind in GOALS:
        scores += _score(kind, blocks[kind], models(kind))
        scores += _by_family(kind, blocks[kind])
    return [*scores, *_energy(blocks["hot"])]


def _by_family(kind: LabelKind, blocks: LabelledBlocks) -> list[ValidationRow]:
    """The costs with trees where no matrix of a generator was fitted to: relatives in other folds flatter."""
    facts, caches = shipped_labels().facts["matrices"], shipped_labels().caches
    recipes = [facts[name]["recipe"] for name in blocks.names]
    groups = ["measured by others" if recipe is None else family(recipe) for recipe in recipes]
    chosen = {"combined": combined_model(kind, caches), REUSE: reuse_model(kind, caches)}
    scores = {name: errors(blocks, held_out_by(blocks, model, groups)).scores for name, model in chosen.items()}
    _say(f"{kind} labels, families left out: {scores}")
    return [
        ValidationRow(
            f"own {kind} labels",
            f"{metric} error, combined, families left out",
            f"{len(set(groups))} families of matrices",
            len(blocks.label) if metric == "block" else len(blocks.names),
            "MAPE" if metric != "matrix max" else "largest relative error",
            "1",
            value,
            {REUSE: scores[REUSE][metric]},
            goal := GOALS[kind].get(metric),
            None if goal is None else value <= goal,
        )
        for metric, value in scores["combined"].items()
    ]


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


def _energy(blocks: LabelledBlocks) -> list[ValidationRow]:
    """The energy network beside the paper's analytic model on drawn labels: no host of ours counts energy."""
    from importlib.util import find_spec

    from slipstick.estimators.sparse.spmv_network import ENERGY_NET
    from slipstick.experiments.measure.spmv.block_energy import SYNTHETIC, synthetic_energy

    dataset = "synthetic energy labels"
    if find_spec("torch") is None:
        return [skipped(dataset, "the extra [torch] is not installed")]
    out = (folds(len(blocks.names)) == 0)[blocks.matrix]
    energy = synthetic_energy(blocks.label)
    order = np.random.default_rng(1).permutation(np.flatnonzero(~out))[:NETWORK_BLOCKS]
    recipe = Recipe(epochs=NETWORK_EPOCHS)
    network = train(blocks.inputs[order], energy[order], ENERGY_NET, recipe, quantity="energy")
    time_net = train(blocks.inputs[order], blocks.label[order], recipe=recipe)
    power = float(np.mean(energy[~out] / blocks.label[~out]))
    predicted = {
        "ours": network.predict(blocks.inputs[out]),
        "mean power x network's time (the paper's analytic model)": power * time_net.predict(blocks.inputs[out]),
        "constant": np.full(int(out.sum()), energy[~out].mean()),
    }
    scores = {name: float(np.mean(np.abs(values / energy[out] - 1))) for name, values in predicted.items()}
    _say(f"energy networks: {scores}")
    reason = f"{SYNTHETIC}; the paper: the analytic model is better by less than 0.2 %"
    split = f"one of {FOLDS} folds by matrix"
    value, baselines = scores.pop("ours"), scores
    return [ValidationRow(dataset, "block", split, int(out.sum()), "MAPE", "1", value, baselines, reason=reason)]


def _say(text: str) -> None:
    """What is done, with the processor seconds so far: a board of minutes shows that it moves."""
    print(f"slipstick: {time.process_time():.0f} s: {text}", file=sys.stderr, flush=True)


def models(kind: LabelKind) -> dict[str, Model]:
    """The baselines and ours, by name; the network only where torch is installed."""
    from importlib.util import find_spec

    caches = shipped_labels().caches

    def constant(known: LabelledBlocks, scored: LabelledBlocks) -> Floats:
        return np.full(len(scored.label), known.label.mean())

    def linear(known: LabelledBlocks, scored: LabelledBlocks) -> Floats:
        def design(blocks: LabelledBlocks) -> Floats:
            columns = [blocks.table.column(name) for name in ("step.mean_log", "step.max_log")]
            return np.stack([np.ones(len(blocks.label)), *columns], axis=1)

        weights, *_ = np.linalg.lstsq(design(known), np.log(known.label), rcond=None)
        return np.asarray(np.exp(design(scored) @ weights))

    def boosting(known: LabelledBlocks, scored: LabelledBlocks) -> Floats:
        trees = fit_boosted(known.table.names, known.table.values, np.log(known.label))
        return np.asarray(np.exp(trees.predict(scored.table.names, scored.table.values)))

    def network(known: LabelledBlocks, scored: LabelledBlocks) -> Floats:
        order = np.random.default_rng(1).permutation(len(known.label))[:NETWORK_BLOCKS]
        net = train(known.inputs[order], known.label[order], recipe=Recipe(epochs=NETWORK_EPOCHS))
        return net.predict(scored.inputs)

    chosen: dict[str, Model] = {
        "constant": constant,
        "linear": linear,
        "reuse": reuse_model(kind, caches),
        "boosting": boosting,
        "combined": combined_model(kind, caches),
    }
    if find_spec("torch") is not None:
        chosen["published network"] = network
    return chosen


def _score(kind: LabelKind, blocks: LabelledBlocks, chosen: Mapping[str, Model]) -> list[ValidationRow]:
    errors_by_model = {}
    for name, model in chosen.items():
        errors_by_model[name] = errors(blocks, held_out(blocks, model))
        scores = " / ".join(f"{100 * value:.1f}" for value in errors_by_model[name].scores.values())
        _say(f"{kind} labels, {name}: block / matrix / worst matrix {scores} %")
    ours = errors_by_model.pop("combined")
    logs = np.log1p(ours.matrix)
    fold = folds(len(blocks.names))
    widths = np.array([np.std(logs[fold != part], ddof=1) for part in fold]) * quantile(DEFAULT_LEVEL, None)
    coverage, width = float(np.mean(np.abs(logs) <= widths)), float(np.exp(2 * np.median(widths)))
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
                {name: other.scores[metric] for name, other in errors_by_model.items()},
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
                {name: float(np.mean(np.abs(other.matrix[real]))) for name, other in errors_by_model.items()},
            )
        )
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
