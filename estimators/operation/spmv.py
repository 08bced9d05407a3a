"""Time of a sparse product learned from measured blocks: eight costs of reuse times what boosted trees add."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from estimators.calibration import Calibration
from estimators.composite import Composite
from estimators.consumption import energy_of
from estimators.estimate import Estimate, Part, Spread
from estimators.formula import FloatArray
from estimators.operation.boosted import BoostedTrees, fit_boosted
from estimators.operation.loops import LevelLoops
from estimators.operation.piecewise import FormulaPiecewise
from estimators.operation.reuse import CacheSizes, LabelKind, ReuseModel, fit_reuse
from estimators.operation.spmv_costs import SpmvCosts, caches_of_core
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
LABEL_CLOCK = 3.09e9
"""Hertz of the core that the labels were measured on: 4 cycles a dependent addition took 1.294 ns."""
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
    matrix_spread, reuse_spread
        Standard deviation of log(predicted / measured) over whole matrices held out: of this model, and of its reuse
        model alone.
    source
        Machine, date and protocol of the labels.
    clock
        Of the core that was measured [Hz].
    block
        Non-zeros of a block.
    """

    reuse: ReuseModel
    trees: BoostedTrees | None
    matrix_spread: float | None = None
    source: str = ""
    reuse_spread: float | None = None
    clock: float = LABEL_CLOCK
    block: int = BLOCK

    @property
    def label(self) -> LabelKind:
        """What a time means: "hot" or "streaming"."""
        return self.reuse.label

    @property
    def digest(self) -> str:
        """Of everything that decides an answer."""
        arrays = {} if self.trees is None else {k: v.tolist() for k, v in self.trees.arrays().items()}
        return content_digest(
            [
                self.label,
                self.reuse.cost,
                [float(self.reuse.caches.L2), float(self.reuse.caches.L3), self.clock],
                self.block,
                arrays,
            ]
        )

    def at_clock(self, clock: float) -> SpmvModel:
        """The model on a core of this clock [Hz]: costs inside the core follow it, the trees' correction stays."""
        return replace(self, reuse=self.reuse.at_clock(clock / self.clock), clock=clock)

    def seconds_per_nonzero(self, blocks: BlockTable, caches: CacheSizes | None = None) -> FloatArray:
        """Of every block.

        Raises
        ------
        InputError
            Where the blocks are of another size than the trees learned from.
        """
        base = self.reuse.seconds_per_nonzero(blocks, caches)
        if self.trees is None:
            return base
        if blocks.size != self.block:
            raise InputError(f"blocks of {blocks.size} non-zeros for a model of blocks of {self.block}")
        rows = np.arange(len(base))
        if len(rows) > SAMPLED_BLOCKS:
            rows = np.unique(np.linspace(0, len(rows) - 1, SAMPLED_BLOCKS).astype(np.int64))
        correction = self.trees.predict(blocks.names, blocks.values[rows])
        return np.asarray(base * np.exp(np.interp(np.arange(len(base)), rows, correction)))

    def matrix_seconds(self, matrix: SparseMatrix, caches: CacheSizes | None = None) -> float:
        """Of one product: T = b sum t_i, the incomplete last block at the mean of the others."""
        per_nonzero = self.seconds_per_nonzero(block_features(matrix, self.block), caches)
        return float(per_nonzero.mean() * matrix.nonzeros)

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
        spreads = [None if head.get(name) is None else float(head[name]) for name in ("matrix_spread", "reuse_spread")]
        trees = BoostedTrees.from_arrays(arrays) if arrays else None
        clock, block = float(head.get("clock_hz", LABEL_CLOCK)), int(head.get("block", BLOCK))
        return SpmvModel(reuse, trees, spreads[0], str(head.get("source", "")), spreads[1], clock, block)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
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
        return SpmvModel(reuse, None, source=source, block=blocks.size)
    left = np.log(labels / reuse.seconds_per_nonzero(blocks))
    grown = fit_boosted(blocks.names, blocks.values, left, trees=trees, seed=seed)
    return SpmvModel(reuse, grown, source=source, block=blocks.size)


@dataclass(frozen=True)
class LearnedSpmv:
    """An operation model for kind "spmv": seconds by payload, as a `SpmvModel` predicts them for the given matrices."""

    seconds: Table[float]
    source: str = ""

    @classmethod
    def of(cls, model: SpmvModel, matrices: Sequence[SparseMatrix], machine: Machine | None = None) -> LearnedSpmv:
        """For these matrices; with a machine, its clock and cache capacities take the place of the measured host's."""
        caches = None if machine is None else caches_of_core(machine)
        here = model if machine is None else model.at_clock(machine.clock)
        times = {matrix.digest: here.matrix_seconds(matrix, caches) for matrix in matrices}
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


def estimate_spmv(
    matrix: SparseMatrix,
    machine: Machine | None = None,
    model: SpmvModel | None = None,
    power_watts: float | None = None,
) -> Estimate:
    """Time of one product on one core with its interval; energy where a mean power is given or the machine has one.

    A mean power times the time is the paper's analytic energy model. With a machine, its clock and cache capacities
    take the place of the measured host's; what lies beyond the caches costs what it cost there.

    Raises
    ------
    InputError
        Where the matrix has no whole block, or the machine no two caches and a memory.
    """
    chosen = trained_model() if model is None else model
    time = LearnedSpmv.of(chosen, [matrix], machine).seconds[matrix.digest]
    said = [f"{chosen.label} labels: {chosen.source}", f"blocks of {chosen.block} non-zeros, one thread"]
    said += [] if machine is None else [f"clock and caches of {machine.name}"]
    energy = None if power_watts is None else power_watts * time
    if power_watts is not None:
        said.append(f"energy = {power_watts:g} W x time (the paper's analytic model), not measured")
    elif machine is not None:
        energy = energy_of(spmv(matrix), machine, time)
    return Estimate(
        time,
        energy,
        (Part("spmv", "spmv", time),),
        "T = b sum t_i over blocks",
        spread=Spread(None, chosen.matrix_spread),
        assumptions=tuple(said),
    )


def spmv_estimator(label: LabelKind = "streaming") -> Calibration:
    """The costs that ship as an estimator of workloads: products by their counts, loops by the level of their vectors.

    Its interval is the scatter over whole matrices held out.
    """
    model = trained_model(label)
    costs = SpmvCosts(label, model.reuse.cost, model.clock, f"reuse model, {label} labels, {model.source}")
    operation = FormulaPiecewise(Table({"spmv": costs}), LevelLoops())
    inner = Composite(operation, Sequential(), "learned SpMV costs, level-aware loops")
    return Calibration(inner, (), residual_std=model.reuse_spread, source=costs.source)


def model_facts(model: SpmvModel) -> dict[str, Any]:
    """What a reader wants to know of a model, with units in the keys."""
    return {
        "label": model.label,
        "cost_ns": {name: value * 1e9 for name, value in model.reuse.cost.items()},
        "trees": 0 if model.trees is None else len(model.trees.feature),
        "matrix_spread": model.matrix_spread,
        "reuse_spread": model.reuse_spread,
        "block": model.block,
        "source": model.source,
    }
