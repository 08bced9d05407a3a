"""Times of blocks of sparse matrices as measured by us: the labels that ship, and the matrices they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slipstick.common.arrays import read_arrays
from slipstick.common.errors import InputError
from slipstick.common.frames import parquet_frame
from slipstick.common.optional_packages import source_only
from slipstick.common.readers import read_json, unknown_name
from slipstick.estimators.sparse.reuse_model import LABEL_KINDS, CacheSizes, LabelKind
from slipstick.workloads.kernels.blocks import BLOCK, BlockTable, block_features, network_input
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.sparse_files import read_matrix

if TYPE_CHECKING:
    import pandas as pd

SHIPPED = Path(__file__).parent / "data"
SCHEMA = "slipstick-spmv-labels-1"
STORED_BYTES = 64_000_000
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelledBlocks:
    """Blocks of several matrices with features, the network's input, and times.

    `seconds` and `repeated` are one measurement and another of the same block some minutes later (nan where there was
    none), in seconds a non-zero; `matrix` numbers the rows' matrices, `names` names them.
    """

    names: tuple[str, ...]
    matrix: npt.NDArray[np.int64]
    table: BlockTable
    inputs: npt.NDArray[np.float32]
    seconds: Floats
    repeated: Floats

    def select(self, rows: npt.NDArray[Any]) -> LabelledBlocks:
        """Some of the rows (a mask or indices)."""
        whole = self.table
        table = BlockTable(whole.names, whole.values[rows], whole.index[rows], whole.blocks, whole.size)
        return LabelledBlocks(
            self.names, self.matrix[rows], table, self.inputs[rows], self.seconds[rows], self.repeated[rows]
        )

    @property
    def label(self) -> Floats:
        """The mean of both measurements where there are two."""
        return np.asarray(np.where(np.isnan(self.repeated), self.seconds, (self.seconds + self.repeated) / 2))

    @property
    def noise_floor(self) -> float | None:
        """Mean relative difference of one measurement from the mean of two."""
        both = ~np.isnan(self.repeated)
        if not both.any():
            return None
        one, two = self.seconds[both], self.repeated[both]
        return float(np.mean(np.abs(one - two) / (one + two)))

    @property
    def matrix_noise_floor(self) -> float | None:
        """The same for the mean over a matrix's blocks."""
        errors = []
        for number in np.unique(self.matrix):
            rows = (self.matrix == number) & ~np.isnan(self.repeated)
            if rows.any():
                one, two = self.seconds[rows].mean(), self.repeated[rows].mean()
                errors.append(abs(one - two) / (one + two))
        return float(np.mean(errors)) if errors else None


@dataclass(frozen=True)
class Labels:
    """A file of labels (.parquet) and the one that says what they are (.json beside it)."""

    path: Path

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Machine, date, protocol, caches, and every matrix's recipe or file, shape, digest and conditions.

        Raises InputError where the file's schema is another.
        """
        facts = read_json(self.path.with_suffix(".json"))
        if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
            raise InputError(f"{self.path.with_suffix('.json')}: want labels of schema {SCHEMA!r}")
        return facts

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
            if (path := self._path(fact["file"], data)) is None or not path.exists():
                continue
            matrix = read_matrix(path).renamed(name)
            matrix = matrix.mirrored() if fact.get("mirrored") else matrix
            if matrix.digest != fact["digest"]:
                raise InputError(f"matrix {name!r} is not the one that was measured: its positions differ")
            yield matrix

    def _path(self, file: str, data: Path | None) -> Path | None:
        return Path(file) if Path(file).is_absolute() else None if data is None else data / file

    def blocks(self, kind: LabelKind, data: Path | None, largest: int | None = None) -> LabelledBlocks:
        """Labels of a kind with the features of their blocks; see `blocks_by_kind`.

        Raises InputError where the kind is unknown, or no matrix has such labels.
        """
        if kind not in LABEL_KINDS:
            raise unknown_name("label kind", kind, LABEL_KINDS)
        return self.blocks_by_kind(data, largest, (kind,))[kind]

    def blocks_by_kind(
        self, data: Path | None, largest: int | None = None, kinds: tuple[LabelKind, ...] = LABEL_KINDS
    ) -> dict[LabelKind, LabelledBlocks]:
        """The same for several kinds, going through the matrices once.

        Blocks of generated matrices are those that were measured, as they were stored: no host has to draw the same
        positions again. Matrices of files are read from `data`.
        Raises InputError where no matrix has labels of one of the kinds.
        """
        by_matrix = dict(tuple(self.frame.groupby("matrix", observed=True)))
        result: dict[LabelKind, list[_Part]] = {kind: [] for kind in kinds}
        files = self.matrices(data, largest)
        stored = self.stored(largest)
        read: dict[str, tuple[BlockTable, npt.NDArray[np.float32]]] = {}
        size = int(self.facts.get("block", BLOCK))
        for matrix in files:
            labelled = by_matrix.get(matrix.name)
            if labelled is not None:
                index = labelled["block"].to_numpy()
                table, inputs = block_features(matrix, size), network_input(matrix, size)
                sampled = BlockTable(table.names, table.values[index], index, table.blocks, size)
                read[matrix.name] = sampled, inputs[index]
        for name in self.facts["matrices"]:
            known = stored.get(name) or read.get(name)
            labelled = by_matrix.get(name)
            if known is None or labelled is None:
                continue
            table, inputs = known
            for kind in kinds:
                mask = labelled[f"{kind}_ns"].notna().to_numpy()
                if mask.any():
                    times = [
                        labelled[c].to_numpy(dtype=np.float64)[mask] * 1e-9 for c in (f"{kind}_ns", f"{kind}_repeat_ns")
                    ]
                    part = BlockTable(table.names, table.values[mask], table.index[mask], table.blocks, table.size)
                    result[kind].append(_Part(name, part, inputs[mask], times[0], times[1]))
        for kind, parts in result.items():
            if not parts:
                raise InputError(f"{self.path}: no {kind} labels for these matrices (none were taken in quiet)")
        return {kind: _joined(parts) for kind, parts in result.items()}

    def stored(self, largest: int | None = None) -> dict[str, tuple[BlockTable, npt.NDArray[np.float32]]]:
        """Features and the network's input of the labelled blocks of generated matrices, by matrix; often none.

        Distances between columns are exact up to 127 and within 4 % beyond.
        """
        path = self.path.with_name("spmv_blocks.npz")
        if not path.exists():
            return {}
        arrays = read_arrays(path, STORED_BYTES, "stored blocks")
        order = [str(name) for name in arrays["names"]]
        columns = dict(zip(map(str, arrays["counted"]), arrays["counts"].astype(np.float32), strict=True))
        columns |= dict(zip(map(str, arrays["stated"]), arrays["statistics"], strict=True))
        values = np.stack([columns[name] for name in order], axis=1)
        steps = np.log1p(arrays["distances"]).astype(np.float32)
        ends = np.cumsum(arrays["labelled"])
        result = {}
        for name, end, count, whole in zip(
            map(str, arrays["matrices"]), ends, arrays["labelled"], arrays["whole"], strict=True
        ):
            if largest is None or self.facts["matrices"][name]["nonzeros"] <= largest:
                rows = slice(int(end - count), int(end))
                index = arrays["index"][rows].astype(np.int64)
                table = BlockTable(tuple(order), values[rows], index, int(whole), BLOCK)
                result[name] = table, steps[arrays["codes"][rows]]
        return result


@dataclass(frozen=True, eq=False)
class _Part:
    """Labelled blocks of one matrix."""

    name: str
    table: BlockTable
    inputs: npt.NDArray[np.float32]
    seconds: Floats
    repeated: Floats


def _joined(parts: list[_Part]) -> LabelledBlocks:
    tables = [part.table for part in parts]
    table = BlockTable(
        tables[0].names,
        np.concatenate([table.values for table in tables]),
        np.concatenate([table.index for table in tables]),
        sum(table.blocks for table in tables),
        tables[0].size,
    )
    return LabelledBlocks(
        tuple(part.name for part in parts),
        np.repeat(np.arange(len(parts)), [len(part.seconds) for part in parts]),
        table,
        np.concatenate([part.inputs for part in parts]),
        np.concatenate([part.seconds for part in parts]),
        np.concatenate([part.repeated for part in parts]),
    )


def shipped_labels() -> Labels:
    """The labels that ship with the source.

    Raises InputError where this is an installed wheel, which holds the trained models and not what they were trained
    on.
    """
    path = SHIPPED / "spmv_labels.parquet"
    if not path.exists():
        raise source_only("labelled blocks of sparse products")
    return Labels(path)
