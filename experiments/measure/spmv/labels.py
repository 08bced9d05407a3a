"""Times of blocks, those that ship and what `slipstick measure spmv --out` leaves, and of whole products by kernel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.arrays import read_arrays, text_fields
from slipstick.common.errors import InputError
from slipstick.common.frames import parquet_frame
from slipstick.common.optional_packages import source_only
from slipstick.common.readers import of_schema, read_json
from slipstick.common.writer import atomic_write
from slipstick.estimators.sparse.kernel_costs import SPLIT_OF, chunks, counts_of
from slipstick.estimators.sparse.reuse_model import LABEL_KINDS, CacheSizes, State, check_state
from slipstick.experiments.measure.spmv.block_times import BlockTimes
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.kernels.blocks import BLOCK, BlockTable, block_features, network_input
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.sparse_files import read_matrix

if TYPE_CHECKING:
    import pandas as pd

SHIPPED = Path(__file__).parent / "data"
SCHEMA = "slipstick-spmv-labels-1"
STORED_BYTES, FILE_BYTES = 64_000_000, 200_000_000
Features = tuple[BlockTable, npt.NDArray[np.float32]]
"""Of labelled blocks: what the reuse model counts, and the network's input."""


@dataclass(frozen=True, eq=False)
class LabelledBlocks:
    """Blocks of several matrices with features, the network's input, and times.

    `seconds` and `repeated` are one measurement and another of the same block some minutes later (nan where there was
    none), in seconds a non-zero; `matrix` numbers the rows' matrices, `names` names them.
    """

    names: tuple[str, ...]
    matrix: IntArray
    table: BlockTable
    inputs: npt.NDArray[np.float32]
    seconds: FloatArray
    repeated: FloatArray

    @classmethod
    def joined(cls, parts: Sequence[LabelledBlocks]) -> LabelledBlocks:
        """The blocks of matrices that have a part each."""
        tables = [part.table for part in parts]
        table = BlockTable(
            tables[0].names,
            np.concatenate([table.values for table in tables]),
            np.concatenate([table.index for table in tables]),
            sum(table.blocks for table in tables),
        )
        return cls(
            tuple(name for part in parts for name in part.names),
            np.repeat(np.arange(len(parts)), [len(part.seconds) for part in parts]),
            table,
            np.concatenate([part.inputs for part in parts]),
            np.concatenate([part.seconds for part in parts]),
            np.concatenate([part.repeated for part in parts]),
        )

    def select(self, rows: npt.NDArray[Any]) -> LabelledBlocks:
        """Some of the rows (a mask or indices)."""
        whole = self.table
        table = BlockTable(whole.names, whole.values[rows], whole.index[rows], whole.blocks, whole.size)
        return LabelledBlocks(
            self.names, self.matrix[rows], table, self.inputs[rows], self.seconds[rows], self.repeated[rows]
        )

    @property
    def label(self) -> FloatArray:
        """The mean of both measurements where there are two."""
        return np.asarray(np.where(np.isnan(self.repeated), self.seconds, (self.seconds + self.repeated) / 2))

    def noise_floor(self, *, whole: bool = False) -> float | None:
        """Mean relative difference of one measurement from the mean of two: of blocks, or of the means of matrices."""
        both = ~np.isnan(self.repeated)
        if not both.any():
            return None
        one, two, owner = self.seconds[both], self.repeated[both], self.matrix[both]
        if whole:  # sums: the mean of both kinds has the same number of blocks
            one, two = (np.asarray(np.bincount(owner, each)[np.unique(owner)], np.float64) for each in (one, two))
        return float(np.mean(np.abs(one - two) / (one + two)))


@dataclass(frozen=True)
class Labels:
    """A file of labels (.parquet) and the one that says what they are (.json beside it)."""

    path: Path

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Machine, date, protocol, caches, and every matrix's recipe or file, shape, digest and conditions.

        Raises InputError where the file's schema is another.
        """
        path = self.path.with_suffix(".json")
        return of_schema(read_json(path), SCHEMA, path, "labels")

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row a block: matrix, block, and in nanoseconds a non-zero ``hot_ns``, ``streaming_ns``, their repeats."""

        return parquet_frame(self.path)

    @property
    def caches(self) -> CacheSizes:
        """Of the machine measured."""
        sizes = self.facts["caches_bytes"]
        return CacheSizes(float(sizes["L2"]), float(sizes["L3"]))

    @property
    def clock(self) -> float:
        """Hertz of the core measured."""
        return float(self.facts["clock_hz"])

    @property
    def source(self) -> str:
        """Machine and date in a line."""
        return f"{self.facts['machine']}, {self.facts['date']}"

    def matrices(self, data: Path | None, largest: int | None = None) -> Iterator[SparseMatrix]:
        """The matrices of files, read from `data` (left out where it is None); blocks of generated ones are stored.

        Raises InputError where a file holds another matrix than the one measured.
        """
        for name, fact in self.facts["matrices"].items():
            if fact["recipe"] is not None or (largest is not None and fact["nonzeros"] > largest):
                continue
            path = (data or Path()) / fact["file"]
            if not path.exists() or (data is None and not path.is_absolute()):
                continue
            matrix = read_matrix(path).renamed(name)
            matrix = matrix.mirrored() if fact.get("mirrored") else matrix
            if matrix.digest != fact["digest"]:
                raise InputError(f"matrix {name!r} is not the one that was measured: its positions differ")
            yield matrix

    def blocks(self, kind: State, data: Path | None, largest: int | None = None) -> LabelledBlocks:
        """Labels of a kind with the features of their blocks; see `blocks_by_kind`."""
        return self.blocks_by_kind(data, largest, (kind,))[kind]

    def blocks_by_kind(
        self, data: Path | None, largest: int | None = None, kinds: tuple[State, ...] = LABEL_KINDS
    ) -> dict[State, LabelledBlocks]:
        """Labels of several kinds, going through the matrices once.

        Blocks of generated matrices are those that were measured, as they were stored: no host has to draw the same
        positions again. Matrices of files are read from `data`.
        Raises InputError where no matrix has labels of one of the kinds.
        """
        by_matrix = dict(tuple(self.frame.groupby("matrix", observed=True)))
        known = self.stored(largest)
        for matrix in self.matrices(data, largest):
            if matrix.name in by_matrix:
                index, table = by_matrix[matrix.name]["block"].to_numpy(), block_features(matrix)
                sampled = BlockTable(table.names, table.values[index], index, table.blocks)
                known[matrix.name] = sampled, network_input(matrix)[index]
        result: dict[State, LabelledBlocks] = {}
        for kind in kinds:
            parts = []
            for name in self.facts["matrices"]:
                if name in known and name in by_matrix:
                    columns = (
                        by_matrix[name][f"{kind}{what}_ns"].to_numpy(dtype=np.float64) for what in ("", "_repeat")
                    )
                    times, again = (column * 1e-9 for column in columns)
                    whole = LabelledBlocks((name,), np.zeros(len(times), np.int64), *known[name], times, again)
                    parts.append(whole.select(~np.isnan(times)))
            parts = [part for part in parts if len(part.seconds)]
            if not parts:
                raise InputError(f"{self.path}: no {kind} labels for these matrices (none were taken in quiet)")
            result[kind] = LabelledBlocks.joined(parts)
        return result

    def stored(self, largest: int | None = None) -> dict[str, Features]:
        """Those of the labelled blocks of generated matrices, by matrix; often none.

        Distances between columns are exact up to 127 and within 4 % beyond.
        """
        path = self.path.with_name("spmv_blocks.npz")
        if not path.exists():
            return {}
        arrays = read_arrays(path, STORED_BYTES, "stored blocks")
        names = (*map(str, arrays["counted"]), "footprint")
        values = np.column_stack([arrays["counts"].T, arrays["footprint"]]).astype(np.float32)
        steps, result, end = np.log1p(arrays["distances"]).astype(np.float32), {}, 0
        for name, count, whole in zip(map(str, arrays["matrices"]), arrays["labelled"], arrays["whole"], strict=True):
            rows, end = slice(end, end + int(count)), end + int(count)
            if largest is None or self.facts["matrices"][name]["nonzeros"] <= largest:
                table = BlockTable(names, values[rows], arrays["index"][rows].astype(np.int64), int(whole))
                result[name] = table, steps[arrays["codes"][rows]]
        return result


def shipped_labels() -> Labels:
    """The labels that ship with the source.

    Raises InputError where this is an installed wheel, which holds the trained models and not what they were trained
    on.
    """
    path = SHIPPED / "spmv_labels.parquet"
    if not path.exists():
        raise source_only("labelled blocks of sparse products")
    return Labels(path)


def save_times(times: BlockTimes, matrix: SparseMatrix, file: Path, host: Machine, path: Path) -> None:
    """One .npz of plain arrays, whole or not at all: the times, the matrix's file, and the core they were taken on."""
    streaming = np.zeros(0) if times.streaming is None else times.streaming
    caches = CacheSizes.of(host)
    facts = {
        "matrix": times.matrix,
        "file": str(file.resolve()),
        "digest": matrix.digest,
        "nonzeros": matrix.nonzeros,
        "machine": host.name,
        "caches_bytes": {"L2": caches.L2, "L3": caches.L3},
        "clock_hz": host.clock,
        "date": date.today().isoformat(),
        "conditions": times.facts,
    }
    arrays = {"streaming": streaming, "hot_index": times.hot_index, "hot": times.hot}
    with atomic_write(path, "wb") as stream:
        np.savez_compressed(stream, facts=np.array(json.dumps(facts)), **arrays)  # type: ignore[arg-type, unused-ignore]


@dataclass(frozen=True)
class FolderLabels(Labels):
    """The files of a folder (`path`); their matrices are read again from where they were measured."""

    @cached_property
    def facts(self) -> dict[str, Any]:
        """As in `Labels`; all files must be of one machine.

        Raises InputError where files are of different machines.
        """
        each = [facts for facts, _ in self._files]
        for name in ("machine", "caches_bytes", "clock_hz"):
            if any(facts[name] != each[0][name] for facts in each):
                raise InputError(f"{self.path}: labels of different machines ({name}): one folder each")
        matrices = {str(one["matrix"]): {**one, "recipe": None} for one in each}
        return {"schema": SCHEMA, **each[0], "matrices": matrices}

    @cached_property
    def frame(self) -> pd.DataFrame:
        """As in `Labels`; measured once, so no repeats."""
        import pandas as pd

        parts = []
        for facts, arrays in self._files:
            count = max(int(facts["nonzeros"]) // BLOCK, 1)
            hot, streaming = np.full(count, np.nan), np.full(count, np.nan)
            hot[arrays["hot_index"]] = arrays["hot"]
            if arrays["streaming"].size:
                streaming[:] = arrays["streaming"]
            columns = {"matrix": facts["matrix"], "block": np.arange(count), "hot_ns": hot * 1e9}
            columns |= {"streaming_ns": streaming * 1e9, "hot_repeat_ns": np.nan, "streaming_repeat_ns": np.nan}
            parts.append(pd.DataFrame(columns))
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def _files(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        paths = sorted(self.path.glob("*.npz"))
        if not paths:
            raise InputError(f"{self.path}: no .npz of slipstick measure spmv --out")
        return [_read(path) for path in paths]


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays = read_arrays(path, FILE_BYTES, "labels of slipstick measure spmv")
    facts = dict(text_fields(arrays, "facts", path))
    needed = ("matrix", "file", "digest", "nonzeros", "machine", "caches_bytes", "clock_hz", "date")
    missing = [name for name in needed if name not in facts]
    missing += [name for name in ("streaming", "hot_index", "hot") if name not in arrays]
    if missing:
        raise InputError(f"{path}: labels without {', '.join(missing)}: measure again")
    return facts, arrays


RECIPES = Path(__file__).with_name("calibration_matrices.json")
PRODUCTS = SHIPPED / "kernel_products.json"
PRODUCTS_SCHEMA = "slipstick-spmv-products-1"
Key = tuple[str, State, int]


@dataclass(frozen=True, eq=False)
class MeasuredProduct:
    """One matrix with its products timed.

    `family`: which generator made it: what is held out together.
    `counts`, `chunks`: of the matrix (`counts_of`), and of its chunks by (split, threads).
    `seconds`: by kernel, state of the caches and threads.
    """

    name: str
    family: str
    counts: Mapping[str, float]
    chunks: Mapping[tuple[str, int], Sequence[Mapping[str, float]]]
    seconds: Mapping[Key, float]


def recipes(part: str) -> dict[str, dict[str, Any]]:
    """Matrices by name, each as its number of ``nonzeros`` and the ``recipe`` of its generator.

    "calibration": stencils, bands, random and popular positions, dense blocks, a thousand to four million non-zeros.
    "judged": thirty matrices by generators that calibration does not use: graphs, meshes, stacks, renumbered grids.
    """
    return dict(read_json(RECIPES)[part])


def family(recipe: Mapping[str, Any]) -> str:
    """Which generator made a matrix: what is held out together."""
    return "renumbered" if "permute_seed" in recipe else str(recipe["generator"])


def chunk_counts(matrix: SparseMatrix, threads: Iterable[int]) -> dict[tuple[str, int], list[dict[str, float]]]:
    """Counts of the chunks of a matrix by every split and number of threads above 1."""
    return {
        (split, count): [counts_of(chunk) for chunk in chunks(matrix, count, split)]
        for count in threads
        if count > 1
        for split in sorted(set(SPLIT_OF.values()))
    }


@dataclass(frozen=True, eq=False)
class KernelLabels:
    """Our own measurements: matrices for calibration, others by other generators to judge it on, and the host."""

    calibration: tuple[MeasuredProduct, ...]
    judged: tuple[MeasuredProduct, ...]
    host: Machine
    software: Mapping[str, str]
    source: str


def shipped_products() -> KernelLabels:
    """The products that ship.

    Raises InputError where the file is damaged, or this is an installed wheel, which does not hold it.
    """
    if not PRODUCTS.exists():
        raise source_only("measured sparse products")
    document = of_schema(read_json(PRODUCTS), PRODUCTS_SCHEMA, PRODUCTS)

    parts = (tuple(_product(name, one) for name, one in document[part].items()) for part in ("calibration", "judged"))
    host = Machine.model_validate(document["host"])
    calibration, judged = parts
    return KernelLabels(calibration, judged, host, document["software"], str(document["source"]))


def _product(name: str, fact: Mapping[str, Any]) -> MeasuredProduct:
    pieces = {(split, int(threads)): every for (split, threads), every in _keyed(fact["chunks"])}
    seconds = {
        (kernel, check_state(state), int(count)): float(value)
        for (kernel, state, count), value in _keyed(fact["seconds"])
    }
    return MeasuredProduct(name, str(fact["family"]), fact["counts"], pieces, seconds)


def _keyed(values: Mapping[str, Any]) -> Iterable[tuple[list[str], Any]]:
    return ((key.split(), value) for key, value in values.items())
