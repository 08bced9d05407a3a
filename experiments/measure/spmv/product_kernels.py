"""Kernels of the sparse product that a host can run: ours, scipy's, a row loop by numba, MKL's through torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.sparse.row_chunks import SPLIT_OF, cuts
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.spmv import blockwise_kernel

PACKAGE_OF = {"blocks": "numba", "scipy": "scipy", "numba": "numba", "torch": "torch"}
"""What each kernel needs installed; their meanings stand in `row_chunks.KERNELS`."""
Product = Callable[[], object]


def kernels_here() -> tuple[str, ...]:
    """Those that this host can run."""
    return tuple(name for name, package in PACKAGE_OF.items() if find_spec(package) is not None)


def software(kernel: str) -> str:
    """Name and version of what runs a kernel."""
    try:
        return f"{PACKAGE_OF[kernel]} {version(PACKAGE_OF[kernel])}"
    except PackageNotFoundError:
        return PACKAGE_OF[kernel]


def product(kernel: str, matrix: SparseMatrix, threads: int = 1) -> Product:
    """A call that multiplies the matrix by a vector, float64, positions in 32 bits.

    Raises InputError where the kernel is unknown, its package is missing, or it has no threads.
    """
    if kernel not in PACKAGE_OF:
        raise unknown_name("sparse kernel", kernel, list(PACKAGE_OF))
    if find_spec(PACKAGE_OF[kernel]) is None:
        raise InputError(f"kernel {kernel!r} needs {PACKAGE_OF[kernel]}: pip install {PACKAGE_OF[kernel]}")
    if threads > 1 and kernel not in SPLIT_OF:
        raise InputError(f"kernel {kernel!r} runs on one thread; with threads: {', '.join(SPLIT_OF)}")
    random = np.random.default_rng(0)
    values, x = random.random(matrix.nonzeros), random.random(matrix.shape[1])
    pointers, columns = matrix.row_pointers.astype(np.int32), matrix.columns
    if kernel == "scipy":
        from scipy.sparse import csr_array

        compressed = csr_array((values, columns, pointers), shape=matrix.shape)
        return lambda: compressed @ x
    if kernel == "torch":
        return _torch_product(pointers, columns, values, x, matrix.shape, threads)
    y = np.zeros(matrix.shape[0])
    unsigned = columns.astype(np.uint32)
    if kernel == "blocks":
        run, rows = blockwise_kernel(), matrix.row_of_nonzero().astype(np.uint32)
        return lambda: run(rows, unsigned, values, x, y, np.uint64(0), np.uint64(len(values)))
    arguments = (pointers.astype(np.uint32), unsigned, values, x, y)
    if threads == 1:
        loop = _row_loop()
        return lambda: loop(*arguments, np.uint64(0), np.uint64(matrix.shape[0]))
    edges = np.array(cuts(matrix, threads, SPLIT_OF[kernel]), dtype=np.uint64)
    return _numba_threads(arguments, edges, threads)


def _torch_product(
    pointers: np.ndarray[Any, Any],
    columns: np.ndarray[Any, Any],
    values: np.ndarray[Any, Any],
    x: np.ndarray[Any, Any],
    shape: tuple[int, int],
    threads: int,
) -> Product:
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its compressed rows a beta
        compressed = torch.sparse_csr_tensor(*map(torch.from_numpy, (pointers, columns, values)), size=shape)
    vector = torch.from_numpy(x)

    def run() -> object:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        return compressed @ vector

    return run


def _numba_threads(arguments: tuple[Any, ...], edges: np.ndarray[Any, Any], threads: int) -> Product:
    import numba

    if threads > numba.config.NUMBA_NUM_THREADS:
        raise InputError(f"threads = {threads}: numba has {numba.config.NUMBA_NUM_THREADS} here")
    loop = _chunk_loop()

    def run() -> object:
        numba.set_num_threads(threads)
        return loop(*arguments, edges)

    return run


@cache
def _row_loop() -> Any:
    from numba import njit

    @njit(nogil=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
    def rows(pointers: Any, columns: Any, values: Any, x: Any, y: Any, first: Any, last: Any) -> None:
        for row in range(first, last):
            total = 0.0
            for i in range(np.uint64(pointers[row]), np.uint64(pointers[row + np.uint64(1)])):
                total += values[i] * x[columns[i]]
            y[row] = total

    return rows


@cache
def _chunk_loop() -> Any:
    from numba import njit, prange

    rows = _row_loop()

    @njit(nogil=True, parallel=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
    def chunks(pointers: Any, columns: Any, values: Any, x: Any, y: Any, edges: Any) -> None:
        for chunk in prange(len(edges) - 1):
            rows(pointers, columns, values, x, y, edges[chunk], edges[chunk + 1])

    return chunks
