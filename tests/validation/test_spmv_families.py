"""Table 2's network by the paper's protocol in small: families left out, kept folds, a planted law that is learnt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.sparse.reuse_model import CacheSizes
from slipstick.experiments.measure.spmv.labels import LabelledBlocks, shipped_labels
from slipstick.experiments.methods.spmv import families_left_out as protocol
from slipstick.experiments.methods.spmv.families_left_out import Recipe
from slipstick.experiments.papers.spmv_cnn.spmv_cnn_rows import OWN_FOLDS
from slipstick.workloads.kernels.blocks import BlockTable, block_features, network_input
from slipstick.workloads.kernels.generators import from_recipe

pytest.importorskip("torch", reason="training the network needs slipstick[torch]")
RECIPES = {
    "grid": {"generator": "stencil", "shape": [90, 90], "points": 5},
    "band": {"generator": "banded", "size": 3_000, "half_width": 400, "mean": 10, "seed": 1, "row_lengths": "poisson"},
    "far": {"generator": "uniform", "shape": [4_000, 4_000], "mean": 6, "seed": 2, "row_lengths": "constant"},
    "farther": {"generator": "uniform", "shape": [4_000, 40_000], "mean": 6, "seed": 3, "row_lengths": "poisson"},
}
MEMBERS = {"grid": "stencil", "band": "banded", "far": "uniform", "farther": "uniform"}


def planted() -> LabelledBlocks:
    """A nanosecond a non-zero, and more the farther apart columns lie: what the network sees."""
    parts = []
    for number, (name, recipe) in enumerate(RECIPES.items()):
        matrix = from_recipe(name, recipe)
        inputs, table = network_input(matrix), block_features(matrix)
        parts.append((np.full(len(inputs), number), table, inputs))
    tables = [table for _, table, _ in parts]
    values = np.concatenate([table.values for table in tables])
    inputs = np.concatenate([one for *_, one in parts])
    seconds = 1e-9 * (1 + 0.2 * inputs.mean(axis=1).astype(float))
    whole = BlockTable(tables[0].names, values, np.concatenate([t.index for t in tables]), len(values), tables[0].size)
    owner = np.concatenate([number for number, *_ in parts])
    return LabelledBlocks(tuple(RECIPES), owner, whole, inputs, seconds, np.full(len(seconds), np.nan))


def test_a_law_of_distances_is_learnt_from_other_families_better_than_by_a_constant() -> None:
    blocks, caches = planted(), CacheSizes(1e6, 3e7)
    errors = protocol.family_errors(blocks, MEMBERS, "banded", "hot", caches, Recipe(epochs=10, batch=32))
    assert set(errors.matrix[protocol.NETWORK]) == {"band"} and errors.noise is None
    network, constant = errors.block[protocol.NETWORK][0], errors.block[protocol.CONSTANT][0]
    assert network < 0.6 * constant
    assert errors.blocks == int((blocks.matrix == 1).sum())


def test_the_family_left_out_is_not_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, seen = planted(), []

    def spy(inputs: np.ndarray, labels: np.ndarray, **_: object) -> object:
        seen.append(len(labels))
        raise InputError("seen")

    monkeypatch.setattr(protocol, "train", spy)
    with pytest.raises(InputError, match="seen"):
        protocol.family_errors(blocks, MEMBERS, "uniform", "hot", CacheSizes(1e6, 3e7), Recipe())
    assert seen == [int((blocks.matrix < 2).sum())]
    with pytest.raises(InputError, match="'diagonal': want blocks of it"):
        protocol.family_errors(blocks, MEMBERS, "diagonal", "hot", CacheSizes(1e6, 3e7), Recipe())


def test_folds_are_kept_and_made_anew_where_the_recipe_is_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(protocol, "SMALLEST", 0)
    monkeypatch.setattr(protocol, "LARGEST", 110_000)
    labels, recipe = shipped_labels(), Recipe(epochs=1)
    done = protocol.left_out(labels, ["hot"], tmp_path, recipe)
    assert len(done) == len(list(tmp_path.iterdir())) >= 3
    monkeypatch.setattr(protocol, "family_errors", lambda *_: pytest.fail("a kept fold was made again"))
    assert protocol.left_out(labels, ["hot"], tmp_path, recipe) == done
    with pytest.raises(pytest.fail.Exception):
        protocol.left_out(labels, ["hot"], tmp_path, replace(recipe, epochs=2))


def test_folds_that_ship_are_of_the_papers_sizes_and_leave_each_family_out_once() -> None:
    kept, members = protocol.read_folds(OWN_FOLDS), protocol.families(shipped_labels())
    assert len(set(members.values())) == 9 and len(members) == 31
    for label in {one.label for one in kept}:
        families = [one.family for one in kept if one.label == label]
        assert sorted(families) == sorted(set(members.values()))
    for one in kept:
        assert set(one.matrix[protocol.NETWORK]) == {name for name, family in members.items() if family == one.family}
