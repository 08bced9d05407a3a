"""Table 2's network by the paper's protocol on our own labels, every family of matrices left out in turn.

Barreda, Dolz, Castano 2020, Sections 5.1 to 5.3: matrices of 1 to 10 million non-zeros; a fifth of the training blocks
guides the training; Adam, batches of 256, stop after 15 epochs without progress; errors of blocks and of whole
matrices. The paper leaves a fifth of its matrices out. Ours come from nine generators, so a whole generator is left
out: a matrix whose relatives were trained on shows less. Beside the network stand the reuse model's eight costs and the
mean of the training labels, on the same blocks. A fold takes about a minute of a processor and is kept when it is done.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.readers import read_json
from slipstick.common.writer import atomic_write
from slipstick.estimators.sparse.reuse_model import LABEL_KINDS, CacheSizes, LabelKind, fit_reuse, label_kind
from slipstick.estimators.sparse.spmv_network_training import Recipe, train
from slipstick.experiments.measure.spmv.calibration_matrices import family
from slipstick.experiments.measure.spmv.labels import LabelledBlocks, Labels, shipped_labels

Floats = npt.NDArray[np.float64]
SMALLEST, LARGEST = 1_000_000, 10_000_000
"""Non-zeros of the paper's matrices (Section 5.1)."""
EPOCHS = 50
"""At most: the paper's networks needed 50 on average (Section 5.2)."""
NETWORK, REUSE, CONSTANT = "network of Table 2", "reuse model", "constant"
SCHEMA = "slipstick-spmv-families-1"


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


def of_families(blocks: LabelledBlocks, members: Mapping[str, str]) -> LabelledBlocks:
    """The blocks of matrices that belong to a family."""
    return blocks.select(np.array([name in members for name in blocks.names])[blocks.matrix])


def family_errors(
    blocks: LabelledBlocks, members: Mapping[str, str], out: str, kind: LabelKind, caches: CacheSizes, recipe: Recipe
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
        REUSE: fit_reuse(known.table, known.label, kind, caches).seconds_per_nonzero(scored.table),
        CONSTANT: np.full(len(scored.label), known.label.mean()),
    }
    off = {model: np.abs(values / scored.label - 1) for model, values in predicted.items()}
    return FamilyErrors(
        kind,
        out,
        len(scored.label),
        int(net.provenance["epochs"]),
        _digest(blocks, recipe),
        {
            model: [float(np.mean(errors)), *(float(share) for share in np.quantile(errors, [0.5, 0.9, 0.99]))]
            for model, errors in off.items()
        },
        {model: _of_matrices(scored, values) for model, values in predicted.items()},
        scored.noise_floor,
    )


def left_out(
    labels: Labels, kinds: Iterable[LabelKind], save: Path | None, recipe: Recipe | None = None
) -> list[FamilyErrors]:
    """Every family of both kinds of labels; folds that `save` holds are not made again.

    Raises InputError where a kept fold cannot be read.
    """
    recipe, members, done = recipe or Recipe(), families(labels), list[FamilyErrors]()
    for kind in kinds:
        blocks = of_families(labels.blocks(kind, None, LARGEST), members)
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


def own_labels_left_out(label: str | None, save: Path | None, epochs: int | None) -> tuple[list[dict[str, Any]], str]:
    """The rows of `spmv validate` on the labels that ship (both kinds if None), and where these come from.

    Raises InputError where no label has this name, a kept fold cannot be read, or torch is not installed.
    """
    if find_spec("torch") is None:
        raise InputError("training the network needs PyTorch: pip install 'slipstick[torch]'")
    labels = shipped_labels()
    kinds: tuple[LabelKind, ...] = LABEL_KINDS if label is None else (label_kind(label),)
    return rows_of(left_out(labels, kinds, save, Recipe(epochs=epochs or EPOCHS))), labels.source


def keep(folds: Sequence[FamilyErrors], path: Path) -> None:
    """Write folds, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as stream:
        json.dump({"schema": SCHEMA, "folds": [asdict(one) for one in folds]}, stream, indent=1)
        stream.write("\n")


def read_folds(path: Path) -> list[FamilyErrors]:
    """Folds of a file.

    Raises InputError where it is no such file.
    """
    document = read_json(path)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError(f"{path}: want folds of schema {SCHEMA!r}")
    try:
        return [FamilyErrors(**one) for one in document["folds"]]
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: {type(error).__name__}: {error}") from error


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


def _of_matrices(blocks: LabelledBlocks, predicted: Floats) -> dict[str, float]:
    count = len(blocks.names)
    sums = np.bincount(blocks.matrix, predicted, count), np.bincount(blocks.matrix, blocks.label, count)
    return {blocks.names[i]: float(sums[0][i] / sums[1][i] - 1) for i in np.unique(blocks.matrix)}


def _digest(blocks: LabelledBlocks, recipe: Recipe) -> str:
    made = sha256(np.ascontiguousarray(blocks.label).tobytes())
    made.update(np.ascontiguousarray(blocks.inputs).tobytes())
    made.update(repr(recipe).encode())
    return made.hexdigest()[:16]
