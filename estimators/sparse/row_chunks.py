"""Rows of a sparse matrix shared out to threads: where the cuts are, and what each thread has to do."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Literal

import numpy as np

from slipstick.common.errors import InputError
from slipstick.workloads.kernels.blocks import pattern_counts
from slipstick.workloads.kernels.sparse import SparseMatrix

Split = Literal["rows", "nonzeros"]
KERNELS: Mapping[str, str] = {
    "blocks": "ours, rows by comparing row numbers (the paper's blockwise kernel, compiled by numba)",
    "scipy": "scipy.sparse's compressed rows, A @ x",
    "numba": "a loop over compressed rows, compiled by numba",
    "torch": "torch's compressed rows, A @ x (MKL where torch is built with it)",
}
"""Kernels by the names that questions and answers use."""
SPLIT_OF: Mapping[str, Split] = {"numba": "rows", "torch": "nonzeros"}
"""How kernels with threads share out the rows: as many rows each, or whole rows of as many non-zeros each."""
LINE_ENTRIES = 8


def split_of(kernel: str) -> Split:
    """How a kernel shares out the rows.

    Raises InputError where it has no threads.
    """
    if kernel not in SPLIT_OF:
        raise InputError(f"kernel {kernel!r} runs on one thread; with threads: {', '.join(SPLIT_OF)}")
    return SPLIT_OF[kernel]


def cuts(matrix: SparseMatrix, threads: int, split: Split) -> tuple[int, ...]:
    """The rows where chunks begin, and the number of rows last: threads + 1 numbers.

    Raises InputError where there is not at least one thread.
    """
    if threads < 1:
        raise InputError(f"threads = {threads}: want at least 1")
    rows = matrix.shape[0]
    if split == "rows":
        return tuple(rows * k // threads for k in range(threads + 1))
    goals = np.array([matrix.nonzeros * k // threads for k in range(1, threads)])
    inner = np.searchsorted(matrix.row_pointers, goals, "left")
    return (0, *(int(min(row, rows)) for row in inner), rows)


def chunks(matrix: SparseMatrix, threads: int, split: Split) -> list[SparseMatrix]:
    """The parts that threads work on, those with fewer than two non-zeros left out; columns keep their numbers."""
    edges = cuts(matrix, threads, split)
    parts = []
    for first, last in pairwise(edges):
        if matrix.row_pointers[last] - matrix.row_pointers[first] > 1:
            pointers = matrix.row_pointers[first : last + 1]
            columns = matrix.columns[pointers[0] : pointers[-1]]
            shape = (last - first, matrix.shape[1])
            parts.append(SparseMatrix(f"{matrix.name}:{first}", shape, pointers - pointers[0], columns))
    return parts


def imbalance(matrix: SparseMatrix, threads: int, split: Split) -> float:
    """Ratio of the non-zeros of the fullest chunk to their mean: 1 where all have as many."""
    pointers = matrix.row_pointers[list(cuts(matrix, threads, split))]
    return float(np.diff(pointers).max() * threads / max(matrix.nonzeros, 1))


def counts_of(matrix: SparseMatrix) -> dict[str, float]:
    """What the terms of `kernel_costs` count: `pattern_counts`, shape, and lines of the vector that are touched.

    A chunk with fewer than two non-zeros counts as its rows alone.
    Raises InputError where a whole matrix has fewer than two non-zeros (`pattern_counts`).
    """
    rows, columns = matrix.shape
    lines = len(np.unique(matrix.columns // LINE_ENTRIES))
    shape = {"rows": float(rows), "columns": float(columns), "nonzeros": float(matrix.nonzeros)}
    return {**pattern_counts(matrix), **shape, "vector_lines": float(lines)}
