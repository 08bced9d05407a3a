"""What was learned from measured blocks of sparse products: eight costs of reuse, corrected by boosted trees."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.common.arrays import read_arrays, text_fields
from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, content_digest
from slipstick.common.writer import atomic_write
from slipstick.estimators.sparse.boosted_trees import BoostedTrees, fit_boosted
from slipstick.estimators.sparse.reuse_model import CacheSizes, LabelKind, ReuseModel, fit_reuse
from slipstick.estimators.sparse.spmv_costs import caches_of_core
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.kernels.blocks import BLOCK, BlockTable, blocks_within
from slipstick.workloads.kernels.sparse import SparseMatrix

SCHEMA = "slipstick-spmv-2"
MODEL_BYTES = 16_000_000
TRAINED = Path(__file__).parent / "trained"
LABEL_CLOCK = 3.09e9
"""Hertz of the core that the labels were measured on: 4 cycles a dependent addition took 1.294 ns."""
SAMPLED_BLOCKS = 8000
"""Trees are evaluated at at most so many blocks of a matrix, evenly spread: the rest follow the reuse model's shape."""


@dataclass(frozen=True)
class Correction:
    """What the reuse model leaves, by two sets of trees whose geometric mean counts.

    `ratio`: the logarithm of label / reuse model.
    `whole`: the logarithm of the label itself, without help from the reuse model.
    """

    ratio: BoostedTrees
    whole: BoostedTrees

    def factor(self, blocks: BlockTable, reuse_seconds: FloatArray) -> FloatArray:
        """By what the reuse model's seconds a non-zero, on the machine measured, are to be multiplied."""
        rows = np.arange(len(blocks.values))
        if len(rows) > SAMPLED_BLOCKS:
            rows = np.unique(np.linspace(0, len(rows) - 1, SAMPLED_BLOCKS).astype(np.int64))
        values = blocks.values[rows]
        whole = self.whole.predict(blocks.names, values) - np.log(reuse_seconds[rows])
        logs = (self.ratio.predict(blocks.names, values) + whole) / 2
        return np.asarray(np.exp(np.interp(np.arange(len(blocks.values)), rows, logs)))


@dataclass(frozen=True, eq=False)
class SpmvModel:
    """Seconds a non-zero = reuse model x correction, with its spread by matrix.

    `reuse`: the eight costs, on the machine measured.
    `correction`: from all block features; None for the bare reuse model.
    `matrix_spread`, `reuse_spread`: standard deviation of log(predicted / measured) over whole matrices held out: of
        this model, and of its reuse model alone.
    `source`: machine, date and protocol of the labels.
    `clock`: of the core that was measured [Hz].
    `block`: Non-zeros of a block.
    """

    reuse: ReuseModel
    correction: Correction | None
    matrix_spread: float | None = None
    source: str = ""
    reuse_spread: float | None = None
    clock: float = LABEL_CLOCK
    block: int = BLOCK

    @property
    def method(self) -> str:
        """What kind of model answers, in a few words."""
        return "costs" if self.correction is None else "costs with trees"

    @property
    def label(self) -> LabelKind:
        """What a time means: "hot" or "streaming"."""
        return self.reuse.label

    @property
    def digest(self) -> str:
        """Of everything that decides an answer."""
        arrays = {name: array.tolist() for name, array in self._arrays().items()}
        caches = [float(self.reuse.caches.L2), float(self.reuse.caches.L3)]
        return content_digest([self.label, self.reuse.cost, caches, self.clock, self.block, arrays])

    def reuse_on(self, machine: Machine) -> ReuseModel:
        """The eight costs on a machine's core: those inside the core follow its clock, what is cached its capacities.

        Raises InputError where the machine is an accelerator or has no cache.
        """
        return replace(self.reuse.at_clock(machine.clock / self.clock), caches=caches_of_core(machine))

    def seconds_per_nonzero(self, blocks: BlockTable, machine: Machine | None = None) -> FloatArray:
        """Of every block, on the machine measured or on another's core; the correction is the same on both.

        Blocks smaller than the trees learned from are those of a matrix that is smaller: the eight costs alone answer.
        Raises InputError where the blocks are larger, or more than one of another size.
        """
        measured = self.reuse.seconds_per_nonzero(blocks)
        here = measured if machine is None else self.reuse_on(machine).seconds_per_nonzero(blocks)
        if self.correction is None or (blocks.blocks == 1 and blocks.size < self.block):
            return here
        if blocks.size != self.block:
            raise InputError(f"blocks of {blocks.size} non-zeros for a model of blocks of {self.block}")
        return np.asarray(here * self.correction.factor(blocks, measured))

    def blocks_of(self, matrix: SparseMatrix) -> BlockTable:
        """The features that it reads; a matrix smaller than a block is one block.

        Raises InputError where the matrix has fewer than two non-zeros.
        """
        return blocks_within(matrix, self.block)

    def matrix_seconds(self, matrix: SparseMatrix, machine: Machine | None = None) -> float:
        """Of one product: T = b sum t_i, the incomplete last block at the mean of the others."""
        return float(self.seconds_per_nonzero(self.blocks_of(matrix), machine).mean() * matrix.nonzeros)

    def save(self, path: str | Path) -> None:
        """Write one .npz without pickled objects; `load_spmv_model` reads it back."""
        head = {
            "schema": SCHEMA,
            "label": self.label,
            "cost_s": dict(self.reuse.cost),
            "caches_bytes": {"L2": self.reuse.caches.L2, "L3": self.reuse.caches.L3},
            "matrix_spread": self.matrix_spread,
            "reuse_spread": self.reuse_spread,
            "clock_hz": self.clock,
            "block": self.block,
            "source": self.source,
        }
        with atomic_write(path, "wb") as stream:
            np.savez_compressed(stream, head=np.array(json.dumps(head)), **self._arrays())  # type: ignore[arg-type, unused-ignore]

    def _arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        if self.correction is None:
            return {}
        parts = {"ratio": self.correction.ratio, "whole": self.correction.whole}
        return {f"{part}.{name}": array for part, trees in parts.items() for name, array in trees.arrays().items()}


def load_spmv_model(path: str | Path) -> SpmvModel:
    """A model from its .npz.

    Raises InputError where the file is no such model.
    """
    arrays = read_arrays(path, MODEL_BYTES, "SpMV model")
    head = text_fields(arrays, "head", path)
    del arrays["head"]
    if head.get("schema") != SCHEMA:
        raise InputError(f"{path}: want an SpMV model of schema {SCHEMA!r} (slipstick spmv train writes one)")
    try:
        caches = CacheSizes(**{name: float(value) for name, value in head["caches_bytes"].items()})
        reuse = ReuseModel(head["label"], FrozenDict({str(k): float(v) for k, v in head["cost_s"].items()}), caches)
        spreads = [None if head.get(name) is None else float(head[name]) for name in ("matrix_spread", "reuse_spread")]
        correction = Correction(_trees(arrays, "ratio"), _trees(arrays, "whole")) if arrays else None
        clock, block = float(head["clock_hz"]), int(head["block"])
        return SpmvModel(reuse, correction, spreads[0], str(head.get("source", "")), spreads[1], clock, block)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: SpMV model without a usable {error}") from None


def _trees(arrays: dict[str, npt.NDArray[np.generic]], part: str) -> BoostedTrees:
    parts = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{part}.")}
    return BoostedTrees.from_arrays(parts)


def trained_model(label: LabelKind = "streaming") -> SpmvModel:
    """The model that ships, fitted to our own measurements (its `source` says where and how).

    Raises InputError where the label kind is unknown.
    """
    names = sorted(path.stem.removeprefix("spmv-") for path in TRAINED.glob("spmv-*.npz"))
    if label not in names:
        raise unknown_name("label kind of the trained SpMV models", label, names)
    return load_spmv_model(TRAINED / f"spmv-{label}.npz")


def fit_spmv(
    blocks: BlockTable,
    seconds_per_nonzero: npt.ArrayLike,
    label: LabelKind,
    caches: CacheSizes,
    *,
    trees: int = 120,
    seed: int = 0,
    source: str = "",
) -> SpmvModel:
    """The reuse model by least squares, then trees beside it and on what it leaves; none where trees = 0.

    `seconds_per_nonzero`: labels, seconds a non-zero of each block, shape (blocks,).
    """
    labels = np.asarray(seconds_per_nonzero, dtype=np.float64)
    reuse = fit_reuse(blocks, labels, label, caches)
    if trees == 0:
        return SpmvModel(reuse, None, source=source, block=blocks.size)
    left = np.log(labels / reuse.seconds_per_nonzero(blocks))
    grown = (
        fit_boosted(blocks.names, blocks.values, target, trees=trees, seed=seed) for target in (left, np.log(labels))
    )
    return SpmvModel(reuse, Correction(*grown), source=source, block=blocks.size)
