"""A sparse matrix in compressed-row form (files of one: `slipstick.workloads.kernels.sparse_files`).

Times of sparse products depend on where the non-zeros are, so that is what is kept: row pointers and column
positions. Values are kept when a file has them, and are ones where it has none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError

ROWS_LIMIT = 100_000_000
ALWAYS_TAKEN, ROWS_A_NONZERO = 1 << 22, 64
"""Rows and columns of any matrix; more want a non-zero for so many: a few words must not fill the memory."""


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A rows x columns matrix in compressed sparse row form; columns ascend within each row.

    ``row_pointers`` has rows + 1 entries (int64), ``columns`` one per non-zero (int32, from 0), ``values`` one per
    non-zero or None (ones). Two matrices are equal when their shape and positions are: ``digest`` names both.
    Raises InputError for pointers or positions that do not fit the shape.
    """

    name: str
    shape: tuple[int, int]
    row_pointers: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"SparseMatrix({self.name!r}, {rows:,} x {columns:,}, {len(self.columns):,} non-zeros)"

    def __post_init__(self) -> None:
        pointers = np.ascontiguousarray(self.row_pointers, dtype=np.int64)
        columns = np.ascontiguousarray(self.columns)
        rows, width = self.shape
        if not (0 < rows <= ROWS_LIMIT and 0 < width <= ROWS_LIMIT):
            raise InputError(f"matrix {self.name}: shape {self.shape} is outside 1 to {ROWS_LIMIT:,} rows and columns")
        if (
            len(pointers) != rows + 1
            or pointers[0] != 0
            or pointers[-1] != len(columns)
            or (np.diff(pointers) < 0).any()
        ):
            raise InputError(
                f"matrix {self.name}: row_pointers must be {rows + 1:,} ascending positions from 0 to {len(columns):,}"
            )
        if len(columns) and not (int(columns.min()) >= 0 and int(columns.max()) < width):
            raise InputError(
                f"matrix {self.name}: column positions {int(columns.min())} to {int(columns.max())} "
                f"do not fit 0 to {width - 1}"
            )
        if self.values is not None and len(self.values) != len(columns):
            raise InputError(f"matrix {self.name}: {len(self.values):,} values for {len(columns):,} non-zeros")
        object.__setattr__(self, "row_pointers", pointers)
        object.__setattr__(self, "columns", columns.astype(np.int32, copy=False))

    @property
    def nonzeros(self) -> int:
        """Number of stored values."""
        return len(self.columns)

    @property
    def row_lengths(self) -> npt.NDArray[np.int64]:
        """Non-zeros of each row, shape (rows,)."""
        return np.diff(self.row_pointers)

    @property
    def empty_rows(self) -> npt.NDArray[np.int64]:
        """Indices of rows without a non-zero: the dangling pages of PageRank."""
        return np.flatnonzero(self.row_lengths == 0)

    @cached_property
    def digest(self) -> str:
        """Hash of shape and positions, the payload key of an operation on this matrix."""
        h = hashlib.sha256(repr(self.shape).encode())
        h.update(self.row_pointers.tobytes())
        h.update(self.columns.tobytes())
        return h.hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SparseMatrix) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def row_of_nonzero(self) -> npt.NDArray[np.int32]:
        """The row of every non-zero, the third array of the coordinate form."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), self.row_lengths)

    def numbers(self) -> npt.NDArray[np.float64]:
        """The values, ones where the matrix is a bare pattern."""
        return np.ones(self.nonzeros) if self.values is None else self.values

    def to_scipy(self) -> Any:
        """The matrix as scipy.sparse.csr_array."""
        from scipy.sparse import csr_array

        return csr_array((self.numbers(), self.columns, self.row_pointers), shape=self.shape)

    def mirrored(self) -> SparseMatrix:
        """The pattern with the other triangle filled in, for files that hold one half without saying so."""
        rows, columns = self.row_of_nonzero(), self.columns
        return SparseMatrix.from_triplets(
            self.name, np.concatenate([rows, columns]), np.concatenate([columns, rows]), self.shape
        )

    def renamed(self, name: str) -> SparseMatrix:
        """The same matrix under another name."""
        return replace(self, name=name)

    @classmethod
    def from_triplets(
        cls,
        name: str,
        rows: npt.ArrayLike,
        columns: npt.ArrayLike,
        shape: tuple[int, int] | None = None,
        values: npt.ArrayLike | None = None,
    ) -> SparseMatrix:
        """A matrix from coordinates counted from 0, each of shape (n,); duplicates are summed.

        Raises
        ------
        InputError
            Where a coordinate lies outside `shape`, or there is neither a non-zero nor a shape.
        """
        from scipy.sparse import coo_array

        i, j = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
        if shape is None:
            if not len(i):
                raise InputError(f"matrix {name}: no non-zero and no shape")
            shape = (int(i.max()) + 1, int(j.max()) + 1)
        if len(i) and (min(i.min(), j.min()) < 0 or i.max() >= shape[0] or j.max() >= shape[1]):
            raise InputError(
                f"matrix {name}: coordinates up to ({int(i.max())}, {int(j.max())}) and from "
                f"({int(i.min())}, {int(j.min())}) do not fit shape {shape} counted from 0"
            )
        if max(shape) > ROWS_LIMIT:
            raise InputError(f"matrix {name}: shape {shape} is above {ROWS_LIMIT:,} rows or columns")
        if max(shape) > max(ALWAYS_TAKEN, ROWS_A_NONZERO * len(i)):
            raise InputError(
                f"matrix {name}: {shape[0]:,} x {shape[1]:,} with {len(i):,} non-zeros: beyond {ALWAYS_TAKEN:,} rows "
                f"or columns want at least one non-zero for each {ROWS_A_NONZERO}"
            )
        data = np.ones(len(i)) if values is None else np.asarray(values, dtype=np.float64)
        compressed = coo_array((data, (i, j)), shape=shape).tocsr()
        compressed.sum_duplicates()
        return cls.from_scipy(name, compressed, keep_values=values is not None)

    @classmethod
    def from_scipy(cls, name: str, matrix: Any, *, keep_values: bool = False) -> SparseMatrix:
        """A matrix from any scipy sparse matrix or array; explicit zeros stay: they cost time like any other."""
        compressed = matrix.tocsr()
        compressed.sum_duplicates()
        compressed.sort_indices()
        return cls(
            name,
            (int(compressed.shape[0]), int(compressed.shape[1])),
            compressed.indptr.astype(np.int64),
            compressed.indices.astype(np.int32),
            compressed.data.astype(np.float64) if keep_values else None,
        )
