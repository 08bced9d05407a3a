"""The sparse matrix-vector product y = A x as an operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.kernels.blocks import BLOCK, STREAMED_BYTES, VALUE_BYTES, pattern_counts
from slipstick.workloads.kernels.sparse import SparseMatrix

SLICE, HYBRID_SHARE = 64, 0.8


def spmv_operation(matrix: SparseMatrix, name: str = "spmv", times: Any = 1) -> Op:
    """One product in the blockwise kernel; the payload is the matrix's digest.

    Dims are those of `rows_operation` and what its pattern does to a memory hierarchy (`pattern_counts`), so that a
    saved workload can be evaluated on any machine without the matrix.
    """
    return rows_operation(matrix, name, times, pattern_counts(matrix))


def rows_operation(
    matrix: SparseMatrix, name: str = "spmv", times: Any = 1, more: Mapping[str, float] | None = None
) -> Op:
    """One product by statistics of its rows alone, which models of whole devices read; `more` dims go beside.

    Dims: its shape, the length of the longest row, the standard deviation of their lengths over the mean, and what
    other formats than compressed rows store (`stored_sizes`). Two flop a non-zero. Bytes are the least that must move:
    each non-zero's value, column and row once, both vectors once.
    """
    rows, columns = matrix.shape
    lengths = matrix.row_lengths
    dims = {
        "rows": rows,
        "columns": columns,
        "nonzeros": matrix.nonzeros,
        "longest_row": int(lengths.max()),
        "row_variation": float(lengths.std() / max(lengths.mean(), 1e-9)),
        **stored_sizes(lengths),
    }
    return Op(
        name,
        "spmv",
        dims=FrozenDict({**dims, **(more or {})}),
        dtype="float64",
        cost=Cost(
            {
                "flop.vector.float64": 2 * matrix.nonzeros,
                "read": STREAMED_BYTES * matrix.nonzeros + VALUE_BYTES * columns,
                "written": VALUE_BYTES * rows,
                "launches": 1,
            }
        ),
        times=times,
        attributes=FrozenDict({"block": BLOCK}),
        payload=matrix.digest,
    )


def stored_sizes(lengths: npt.NDArray[Any]) -> dict[str, int]:
    """What formats with padding store of rows of these lengths, shape (rows,).

    ``sliced_entries``: entries of slices of 64 rows, each filled up to its longest row (SELL-P); ``hybrid_bytes``: rows
    up to the length that four in five do not exceed in ELL (12 bytes an entry), the rest as coordinates (16 bytes).
    """
    slices = np.append(lengths, np.zeros(-len(lengths) % SLICE, dtype=lengths.dtype)).reshape(-1, SLICE)
    width = int(np.quantile(lengths, HYBRID_SHARE, method="higher"))
    beyond = int(np.maximum(lengths - width, 0).sum())
    return {
        "sliced_entries": int(slices.max(axis=1).sum()) * SLICE,
        "hybrid_bytes": 12 * width * len(lengths) + 16 * beyond,
    }


def spmv(matrix: SparseMatrix) -> Workload:
    """One product of a sparse matrix with a vector, as a workload.

    Examples
    --------
    >>> import slipstick as ss
    >>> grid = ss.stencil((100, 100), 5)
    >>> ss.operations.spmv(grid).cost["flop.vector.float64"] == 2 * grid.nonzeros
    True
    """
    return Workload(f"spmv {matrix.name}", (spmv_operation(matrix),))


def blockwise_kernel() -> Any:
    """The kernel that is measured, compiled by numba: one block of non-zeros, rows found by comparing row numbers.

    Called as kernel(rows, columns, values, x, y, start, stop) with uint32 rows and columns, uint64 start and stop:
    signed indices would make numba check for negative ones in the loop. Adds to y. Needs the extra [measure].
    """
    from numba import njit

    @njit(nogil=True, inline="never")  # type: ignore[misc, untyped-decorator, unused-ignore]
    def kernel(rows: Any, columns: Any, values: Any, x: Any, y: Any, start: Any, stop: Any) -> None:
        row = rows[start]
        total = 0.0
        for i in range(start, stop):
            if rows[i] > row:
                y[row] += total
                total = 0.0
                row = rows[i]
            total += values[i] * x[columns[i]]
        y[row] += total

    return kernel
