"""Time of a sparse product learned from measured blocks: eight costs of reuse times what boosted trees add."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from estimators.composite import Composite
from estimators.estimate import Estimate, Spread
from estimators.formula import FloatArray
from estimators.operation.boosted import BoostedTrees, fit_boosted
from estimators.operation.reuse import CacheSizes, LabelKind, ReuseModel, fit_reuse
from estimators.schedule.sequential import Sequential
from hwmodels.files import InputError, atomic_write, read_bytes, unknown_name
from hwmodels.machine import Machine
from hwmodels.records import Table, content_digest
from workloads.kernels.blocks import BLOCK, BlockTable, block_features
from workloads.kernels.sparse import SparseMatrix
from workloads.kernels.spmv import spmv
from workloads.workload import Op

SCHEMA = "slipstick-spmv-1"
MODEL_BYTES = 16_000_000
TRAINED = Path(__file__).parent / "trained"
SAMPLED_BLOCKS = 8000
"""Trees are asked for at most so many blocks of a matrix, evenly spread: the rest follow the reuse model's shape."""


@dataclass(frozen=True, eq=False)
class SpmvModel:
    """Seconds a non-zero = reuse model x exp(trees), with its spread by matrix.

    Parameters
    ----------
    reuse
        The eight costs.
    trees
        The logarithm of what is left, from all block features; None for the bare reuse model.
    matrix_spread
        Standard deviation of log(predicted / measured) over whole matrices held out.
    source
        Machine, date and protocol of the labels.
    """

    reuse: ReuseModel
    trees: BoostedTrees | None
    matrix_spread: float | None = None
    source: str = ""

    @property
    def label(self) -> LabelKind:
        """What a time means: "hot" or "streaming"."""
        return self.reuse.label

    @property
    def digest(self) -> str:
        """Of everything that decides an answer."""
        arrays = {} if self.trees is None else {k: v.tolist() for k, v in self.trees.arrays().items()}
        return content_digest(
            [self.label, self.reuse.cost, [float(self.reuse.caches.L2), float(self.reuse.caches.L3)], arrays]
        )

    def seconds_per_nonzero(self, blocks: BlockTable, caches: CacheSizes | None = None) -> FloatArray:
        """Of every block."""
        base = self.reuse.seconds_per_nonzero(blocks, caches)
        if self.trees is None:
            return base
        rows = np.arange(len(base))
        if len(rows) > SAMPLED_BLOCKS:
            rows = np.unique(np.linspace(0, len(rows) - 1, SAMPLED_BLOCKS).astype(np.int64))
        correction = self.trees.predict(blocks.names, blocks.values[rows])
        return np.asarray(base * np.exp(np.interp(np.arange(len(base)), rows, correction)))

    def matrix_seconds(self, matrix: SparseMatrix, caches: CacheSizes | None = None) -> float:
        """Of one product: T = b sum t_i, the incomplete last block at the mean of the others."""
        per_nonzero = self.seconds_per_nonzero(block_features(matrix), caches)
        return float(per_nonzero.mean() * matrix.nonzeros)

    def save(self, path: str | Path) -> None:
        """Write one .npz without pickled objects; `load_spmv_model` reads it back."""
        head = {
            "schema": SCHEMA,
            "label": self.label,
            "cost_s": dict(self.reuse.cost),
            "caches_bytes": {"L2": self.reuse.caches.L2, "L3": self.reuse.caches.L3},
            "matrix_spread": self.matrix_spread,
            "source": self.source,
        }
        arrays = {} if self.trees is None else self.trees.arrays()
        with atomic_write(path, "wb") as stream:
            np.savez_compressed(stream, head=np.array(json.dumps(head)), **arrays)  # type: ignore[arg-type, unused-ignore]


def load_spmv_model(path: str | Path) -> SpmvModel:
    """A model from its .npz.

    Raises
    ------
    InputError
        Where the file is no such model.
    """
    try:
        with np.load(io.BytesIO(read_bytes(path, MODEL_BYTES)), allow_pickle=False) as archive:
            head = json.loads(str(archive["head"]))
            arrays = {name: archive[name] for name in archive.files if name != "head"}
    except (ValueError, OSError, KeyError, EOFError, BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: no SpMV model ({error})") from None
    if not isinstance(head, dict) or head.get("schema") != SCHEMA:
        raise InputError(f"{path}: want an SpMV model of schema {SCHEMA!r}")
    try:
        caches = CacheSizes(**{name: float(value) for name, value in head["caches_bytes"].items()})
        reuse = ReuseModel(head["label"], Table({str(k): float(v) for k, v in head["cost_s"].items()}), caches)
        spread = head.get("matrix_spread")
        trees = BoostedTrees.from_arrays(arrays) if arrays else None
        return SpmvModel(reuse, trees, None if spread is None else float(spread), str(head.get("source", "")))
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: SpMV model without a usable {error}") from None


def trained_model(label: LabelKind = "streaming") -> SpmvModel:
    """The model that ships, fitted to our own measurements (its `source` says where and how).

    Raises
    ------
    InputError
        Where the label kind is unknown.
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
    """The reuse model by least squares, then trees on the logarithm of what it leaves; none where trees = 0."""
    labels = np.asarray(seconds_per_nonzero, dtype=np.float64)
    reuse = fit_reuse(blocks, labels, label, caches)
    if trees == 0:
        return SpmvModel(reuse, None, source=source)
    left = np.log(labels / reuse.seconds_per_nonzero(blocks))
    return SpmvModel(reuse, fit_boosted(blocks.names, blocks.values, left, trees=trees, seed=seed), source=source)


@dataclass(frozen=True)
class LearnedSpmv:
    """An operation model for kind "spmv": seconds by payload, as a `SpmvModel` predicts them for the given matrices."""

    seconds: Table[float]
    source: str = ""

    @classmethod
    def of(cls, model: SpmvModel, matrices: Sequence[SparseMatrix], machine: Machine | None = None) -> LearnedSpmv:
        """For these matrices; with a machine, its cache capacities take the place of the measured host's."""
        caches = None if machine is None else CacheSizes.of(machine)
        times = {matrix.digest: model.matrix_seconds(matrix, caches) for matrix in matrices}
        return cls(Table(times), f"learned SpMV, {model.label} labels, {model.source}")

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds of one product each.

        Raises
        ------
        InputError
            Where an operation is no product with one of these matrices.
        """
        for op in operations:
            if op.kind != "spmv" or op.payload not in self.seconds:
                raise InputError(
                    f"operation {op.name!r} ({op.kind}): its matrix {op.payload} was not given to this model"
                )
        return np.array([self.seconds[str(op.payload)] for op in operations])


def predict(
    matrix: SparseMatrix, machine: Machine, model: SpmvModel | None = None, power_watts: float | None = None
) -> Estimate:
    """Time of one product with its interval; energy where a mean power is given (the paper's analytic energy model).

    The machine names the answer; its caches are those of the model's host unless it is another machine.
    """
    from dataclasses import replace

    chosen = trained_model() if model is None else model
    answer = Composite(LearnedSpmv.of(chosen, [matrix]), Sequential(), "learned SpMV").estimate(spmv(matrix), machine)
    said: tuple[str, ...] = (f"{chosen.label} labels: {chosen.source}", f"blocks of {BLOCK} non-zeros, one thread")
    if power_watts is not None:
        said = (*said, f"energy = {power_watts:g} W x time, not measured")
    return replace(
        answer,
        energy=None if power_watts is None else power_watts * answer.time,
        spread=Spread(None, chosen.matrix_spread),
        assumptions=(*answer.assumptions, *said),
    )


def model_facts(model: SpmvModel) -> dict[str, Any]:
    """What a reader wants to know of a model, with units in the keys."""
    return {
        "label": model.label,
        "cost_ns": {name: value * 1e9 for name, value in model.reuse.cost.items()},
        "trees": 0 if model.trees is None else len(model.trees.feature),
        "matrix_spread": model.matrix_spread,
        "source": model.source,
    }
