"""A sparse matrix in compressed-row form, and the bounded readers that bring one in.

Times of sparse products depend on where the non-zeros are, so that is what is kept: row pointers and column
positions. Values are kept when a file has them, and are ones where it has none.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from hwmodels.files import InputError, read_bytes

Symmetry = Literal["expand", "stored"]

FILE_BYTES = 1 << 30
"""Largest matrix file read, after decompression."""
ROWS_LIMIT = 100_000_000
NONZEROS_LIMIT = 200_000_000


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
        return len(self.columns)

    @property
    def row_lengths(self) -> npt.NDArray[np.int64]:
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
        """A matrix from coordinates; duplicates are summed. Raises InputError for coordinates outside ``shape``."""
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


def read_matrix(path: str | Path, *, symmetry: Symmetry = "expand") -> SparseMatrix:
    """Reads a matrix file: Matrix Market (.mtx), edge list (.edges, .txt), 0-based triplets (.triplet0) or .npz; all
    but the last also .gz.

    A symmetric Matrix Market file stores one triangle: ``symmetry="expand"`` fills in the other, ``"stored"`` keeps
    what the file holds (as the SpMV paper's code did). Raises InputError naming file, line or field and what was
    expected.
    """
    path = Path(path)
    suffixes = [s for s in path.suffixes if s != ".gz"]
    kind = suffixes[-1] if suffixes else ""
    name = path.name.split(".")[0]
    if kind == ".mtx":
        return _matrix_market(name, path, symmetry)
    if kind in (".edges", ".txt"):
        return _edge_list(name, path)
    if kind == ".triplet0":
        return _triplets(name, path)
    if kind == ".npz":
        return _npz(name, path)
    raise InputError(
        f"{path}: unknown matrix format {kind or '(no suffix)'!r}; known: .mtx, .edges, .txt, .triplet0"
        " (each also .gz), .npz"
    )


def _matrix_market(name: str, path: Path, symmetry: Symmetry) -> SparseMatrix:
    from scipy.io import mmread

    data = read_bytes(path, FILE_BYTES)
    stream = io.BytesIO(data)
    header = stream.readline(1024).decode("ascii", "replace").lower().split()
    if len(header) != 5 or header[0] != "%%matrixmarket" or header[1] != "matrix":
        raise InputError(
            f"{path}: line 1 must read '%%MatrixMarket matrix coordinate FIELD SYMMETRY', not {' '.join(header)[:80]!r}"
        )
    layout, field_type, kind = header[2:]
    if layout != "coordinate":
        raise InputError(f"{path}: layout {layout!r} is not sparse; wanted 'coordinate'")
    if field_type not in ("real", "integer", "pattern"):
        raise InputError(
            f"{path}: field {field_type!r} is not supported; known: real, integer, pattern"
            " (complex products cost other times)"
        )
    if kind not in ("general", "symmetric", "skew-symmetric"):
        raise InputError(f"{path}: symmetry {kind!r} is not supported; known: general, symmetric, skew-symmetric")
    number = 1
    while True:
        line = stream.readline(1 << 16)
        number += 1
        if not line:
            raise InputError(f"{path}: ends before its size line 'ROWS COLUMNS NONZEROS'")
        if line.strip() and not line.startswith(b"%"):
            break
    try:
        rows, columns, nonzeros = (int(word) for word in line.split())
    except ValueError:
        raise InputError(
            f"{path}: line {number}: size line must be 'ROWS COLUMNS NONZEROS', not {line[:80]!r}"
        ) from None
    if not (0 < rows <= ROWS_LIMIT and 0 < columns <= ROWS_LIMIT and 0 <= nonzeros <= NONZEROS_LIMIT):
        raise InputError(
            f"{path}: line {number}: {rows} x {columns} with {nonzeros} non-zeros is outside 1 to {ROWS_LIMIT:,} rows "
            f"and columns and 0 to {NONZEROS_LIMIT:,} non-zeros"
        )
    try:
        matrix = mmread(io.BytesIO(data), spmatrix=False)
    except (ValueError, OverflowError, IndexError) as error:
        raise InputError(f"{path}: malformed Matrix Market: {error}") from None
    i, j = (np.asarray(c, dtype=np.int64) for c in matrix.coords)
    values = np.asarray(matrix.data, dtype=np.float64)
    if kind != "general" and symmetry == "stored":
        keep = i >= j  # scipy has filled in the mirrored triangle: the file holds the lower one
        i, j, values = i[keep], j[keep], values[keep]
    return _checked(path, name, i, j, (rows, columns), None if field_type == "pattern" else values)


def _edge_list(name: str, path: Path) -> SparseMatrix:
    """Edges 'u v' of a graph, any node numbers: they are renumbered in ascending order."""
    pairs = _table(path, at_least=2)[:, :2].astype(np.int64)
    nodes, renumbered = np.unique(pairs, return_inverse=True)
    renumbered = renumbered.reshape(pairs.shape)
    return _checked(path, name, renumbered[:, 0], renumbered[:, 1], (len(nodes), len(nodes)), None)


def _triplets(name: str, path: Path) -> SparseMatrix:
    table = _table(path, at_least=3)
    i, j = table[:, 0], table[:, 1]
    if (i != np.floor(i)).any() or (j != np.floor(j)).any():
        raise InputError(f"{path}: rows and columns must be whole numbers")
    return _checked(path, name, i.astype(np.int64), j.astype(np.int64), None, table[:, 2])


def _table(path: Path, at_least: int) -> npt.NDArray[np.float64]:
    data = read_bytes(path, FILE_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of no data: said below
            table = np.loadtxt(io.BytesIO(data), comments=("#", "%"), ndmin=2)
    except ValueError as error:
        raise InputError(f"{path}: malformed line: {error}") from None
    if table.shape[0] == 0 or table.shape[1] < at_least:
        raise InputError(
            f"{path}: wanted at least one line of {at_least} numbers, found {table.shape[0]} lines of {table.shape[1]}"
        )
    return table


def _npz(name: str, path: Path) -> SparseMatrix:
    """The compressed-row file of scipy.sparse.save_npz; pickled contents are refused."""
    data = read_bytes(path, FILE_BYTES)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            missing = {"indices", "indptr", "shape"} - set(archive.files)
            if missing:
                raise InputError(
                    f"{path}: no array {sorted(missing)} in this npz; wanted indices, indptr, shape"
                    " as scipy.sparse.save_npz writes them"
                )
            layout = bytes(archive["format"].item()) if "format" in archive.files else b"csr"
            if layout != b"csr":
                raise InputError(f"{path}: layout {layout.decode()!r}; only csr is read")
            shape = archive["shape"]
            for array, wanted in (("indices", None), ("indptr", None), ("shape", 2)):
                own = archive[array]
                if own.ndim != 1 or own.dtype.kind not in "iu" or (wanted is not None and len(own) != wanted):
                    raise InputError(
                        f"{path}: array {array!r} of shape {own.shape} and type {own.dtype}: want one dimension of"
                        f" {'whole numbers' if wanted is None else f'{wanted} whole numbers'}"
                    )
            values = archive["data"].astype(np.float64) if "data" in archive.files else None
            return SparseMatrix(name, (int(shape[0]), int(shape[1])), archive["indptr"], archive["indices"], values)
    except (ValueError, OSError, KeyError, BadZipFile) as error:
        raise InputError(f"{path}: not a usable npz matrix: {error}") from None


def _checked(
    path: Path,
    name: str,
    i: npt.NDArray[np.int64],
    j: npt.NDArray[np.int64],
    shape: tuple[int, int] | None,
    values: npt.NDArray[np.float64] | None,
) -> SparseMatrix:
    try:
        return SparseMatrix.from_triplets(name, i, j, shape, values)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
