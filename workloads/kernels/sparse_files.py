"""Matrix files: Matrix Market, edge lists, triplets and scipy's npz, read within bounds."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import Literal

import numpy as np

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.arrays import read_arrays
from slipstick.common.errors import InputError
from slipstick.common.opener import read_bytes
from slipstick.common.renamed_arguments import checked
from slipstick.workloads.kernels.sparse import ROWS_LIMIT, SparseMatrix

Symmetry = Literal["expand", "stored"]

FILE_BYTES = 1 << 30
"""Largest matrix file read, after decompression."""
UNPACKED_RATIO = 50
"""Bytes of a matrix for each packed one beyond the first 16 MB: lists of edges pack 3 to 10 times."""
LARGEST_NODE = 2**53
"""Numbers of nodes beyond it are not distinguished."""
NONZEROS_LIMIT = 200_000_000
_FORTRAN = re.compile(rb"(?<=[\d.])[dD](?=[+-]?\d)")
"""The exponent of a number in double precision, as Fortran writes it: 1.0D+00."""


@checked
def read_matrix(path: str | Path, *, symmetry: Symmetry = "expand") -> SparseMatrix:
    r"""Reads a matrix file: Matrix Market (.mtx), edge list (.edges, .txt), 0-based triplets (.triplet0) or .npz; all
    but the last also .gz.

    A symmetric Matrix Market file stores one triangle: ``symmetry="expand"`` fills in the other, ``"stored"`` keeps
    what the file holds (as the SpMV paper's code did). Raises InputError naming file, line or field and what was
    expected.

    Raises
    ------
    InputError
        Where the file is of another format or malformed: names line or field and what was expected.

    Examples
    --------
    >>> import slipstick as ss
    >>> import pathlib, tempfile
    >>> text = "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 4.0\n1 2 1.0\n2 2 3.0\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "small.mtx")
    ...     _ = path.write_text(text)
    ...     ss.read_matrix(path)
    SparseMatrix('small', 2 x 2, 3 non-zeros)
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
    data = read_bytes(path, FILE_BYTES, UNPACKED_RATIO)
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
        if line.strip() and not line.lstrip().startswith(b"%"):
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
    body = stream.read()
    if field_type == "real" and (b"D" in body or b"d" in body):
        body = _FORTRAN.sub(b"e", body)
    entries = _entries(path, body, nonzeros, 2 if field_type == "pattern" else 3)
    i, j = (_places(path, entries[:, k], size) for k, size in ((0, rows), (1, columns)))
    values = entries[:, 2] if field_type != "pattern" else np.ones(len(entries))
    if kind != "general" and symmetry == "expand":
        mirrored = i != j
        i, j = np.concatenate([i, j[mirrored]]), np.concatenate([j, i[mirrored]])
        values = np.concatenate([values, values[mirrored] * (1 if kind == "symmetric" else -1)])
    return _checked(path, name, i, j, (rows, columns), None if field_type == "pattern" else values)


def _entries(path: Path, body: bytes, count: int, columns: int) -> FloatArray:
    """The lines below the size line; scipy's own reader ends the process at a number that the end of the file cuts."""
    import pandas as pd

    try:
        frame = pd.read_csv(
            io.BytesIO(body),
            sep=r"\s+",
            header=None,
            names=list(range(columns + 1)),  # one more, so that a line of too many words is seen
            index_col=False,
            comment="%",
            dtype=np.float64,
        )
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: malformed Matrix Market: {str(error).splitlines()[0][:100]}") from None
    entries = frame.to_numpy()
    if len(entries) != count or not np.isfinite(entries[:, :columns]).all() or not np.isnan(entries[:, columns]).all():
        raise InputError(
            f"{path}: malformed Matrix Market: want {count} lines of {columns} numbers, found {len(entries)}"
            + _first_wrong(entries)
        )
    return entries[:, :columns]


def _first_wrong(entries: FloatArray) -> str:
    """Names the first entry that has too few, too many or not finite numbers; empty where all are right."""
    wrong = ~np.isfinite(entries[:, :-1]).all(axis=1) | ~np.isnan(entries[:, -1])
    return f"; the {int(wrong.argmax()) + 1:,}. has other numbers" if wrong.any() else ""


def _places(path: Path, column: FloatArray, size: int) -> IntArray:
    """Numbers of rows or columns from 0."""
    if not ((column >= 1) & (column <= size) & (column == np.floor(column))).all():
        raise InputError(f"{path}: malformed Matrix Market: rows and columns must be whole numbers in 1..{size}")
    places: IntArray = column.astype(np.int64) - 1
    return places


def _edge_list(name: str, path: Path) -> SparseMatrix:
    """Edges 'u v' of a graph, any node numbers: they are renumbered in ascending order."""
    ends = _table(path, at_least=2)[:, :2]
    if not (np.isfinite(ends).all() and (ends == np.floor(ends)).all() and (np.abs(ends) < LARGEST_NODE).all()):
        raise InputError(f"{path}: nodes must be whole numbers within +-{LARGEST_NODE:.3g}")
    pairs = ends.astype(np.int64)
    nodes, renumbered = np.unique(pairs, return_inverse=True)
    renumbered = renumbered.reshape(pairs.shape)
    return _checked(path, name, renumbered[:, 0], renumbered[:, 1], (len(nodes), len(nodes)), None)


def _triplets(name: str, path: Path) -> SparseMatrix:
    table = _table(path, at_least=3)
    i, j = table[:, 0], table[:, 1]
    if not all(np.isfinite(k).all() and (k == np.floor(k)).all() and (np.abs(k) < LARGEST_NODE).all() for k in (i, j)):
        raise InputError(f"{path}: rows and columns must be whole numbers")
    return _checked(path, name, i.astype(np.int64), j.astype(np.int64), None, table[:, 2])


def _table(path: Path, at_least: int) -> FloatArray:
    data = read_bytes(path, FILE_BYTES, UNPACKED_RATIO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of no data: reported below
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
    arrays = read_arrays(path, FILE_BYTES, "npz matrix")
    missing = {"indices", "indptr", "shape"} - set(arrays)
    if missing:
        raise InputError(
            f"{path}: no array {', '.join(sorted(missing))} in this npz; wanted indices, indptr, shape"
            " as scipy.sparse.save_npz writes them"
        )
    layout = arrays["format"] if "format" in arrays else np.array("csr")
    if layout.ndim != 0 or layout.item() not in ("csr", b"csr"):
        raise InputError(f"{path}: layout {str(layout)[:40]!r}; only csr is read")
    shape = arrays["shape"]
    for array, wanted in (("indices", None), ("indptr", None), ("shape", 2)):
        data = arrays[array]
        if data.ndim != 1 or data.dtype.kind not in "iu" or (wanted is not None and len(data) != wanted):
            raise InputError(
                f"{path}: array {array!r} of shape {data.shape} and type {data.dtype}: want one dimension of"
                f" {'whole numbers' if wanted is None else f'{wanted} whole numbers'}"
            )
    try:
        values = arrays["data"].astype(np.float64) if "data" in arrays else None
        return SparseMatrix(name, (int(shape[0]), int(shape[1])), arrays["indptr"], arrays["indices"], values)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: not a usable npz matrix: {error}") from None


def _checked(
    path: Path,
    name: str,
    i: IntArray,
    j: IntArray,
    shape: tuple[int, int] | None,
    values: FloatArray | None,
) -> SparseMatrix:
    try:
        return SparseMatrix.from_triplets(name, i, j, shape, values)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
