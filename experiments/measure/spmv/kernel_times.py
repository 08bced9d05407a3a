"""Times of whole products by kernel on this host, caches warm or emptied, on one thread or several.

*Warm*: product after product, so caches hold what the last one left. *Cold*: before every product a buffer of twice the
last-level cache is read through, as a program does that works on other data in between. Kernels take turns within every
round, so that a busy neighbour meets all of them; the least of all rounds counts. One thread is timed by its CPU time.
Several threads are timed by the wall clock with warm caches, one product after the other until the three shortest agree
within `AGREEMENT`; a host that is never quiet for as long gives no time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import product as pairs
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import numba, torch
from slipstick.common.readers import unknown_name
from slipstick.estimators.sparse.kernel_costs import SPLIT_OF, cuts, split_of
from slipstick.estimators.sparse.reuse_model import State
from slipstick.experiments.measure.clocks.timing import Protocol, measure
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.spmv import blockwise_kernel

Product = Callable[[], object]
WARMING = 4
"""Products before a warm sample: a last level that others share fills slowly (with one, up to twice the time)."""
AGREEMENT = 0.05
PROTOCOLS: Mapping[State, Protocol] = {
    "warm": Protocol(repeats=15, sample_seconds=0.002),
    "cold": Protocol(repeats=5, sample_seconds=0.0),
}
"""A warm sample is as many products in a row as take about so long, a cold one a single product; the least counts."""
THREAD_SECONDS = 2.0
"""Each kernel on several threads gets so much."""
MOST_BUFFER = 1 << 31
"""Bytes of the buffer that empties the caches, at most."""


@dataclass(frozen=True)
class KernelTime:
    """Seconds of one product; `median` of the rounds shows how quiet the host was."""

    kernel: str
    state: State
    threads: int
    seconds: float
    median: float


@dataclass(frozen=True)
class Flush:
    """A buffer of `size` bytes to read through, so that no cache holds anything else; made when it is first used."""

    size: int

    @classmethod
    def of(cls, machine: Machine) -> Flush:
        """Twice the machine's largest cache, 2 GiB at most."""
        sizes = [level.capacity for level in machine.memory.values() if level.capacity][:-1]
        return cls(int(min(2 * max(sizes, default=1 << 25), MOST_BUFFER)))

    @cached_property
    def buffer(self) -> FloatArray:
        """The numbers that are read, float64."""
        return np.ones(self.size // 8)

    def __call__(self) -> None:
        """Read all of it."""
        self.buffer.sum()


def time_products(
    matrix: SparseMatrix,
    kernels: Sequence[str],
    states: Sequence[State],
    threads: Sequence[int],
    flush: Flush,
) -> list[KernelTime]:
    """Times of one matrix; kernels without threads are left out where several are wanted.

    Raises InputError where a kernel is unknown or cannot run here.
    """
    runs = {kernel: product(kernel, matrix) for kernel in kernels} if 1 in threads else {}
    result = []
    for state in states if runs else ():
        before = {name: partial(_warm, run) if state == "warm" else flush for name, run in runs.items()}
        timings = measure(runs, PROTOCOLS[state], before=before)
        result += [KernelTime(name, state, 1, one.minimum, one.median) for name, one in timings.items()]
    for kernel, count in pairs(kernels, threads):
        if count > 1 and kernel in SPLIT_OF and "warm" in states:
            result += _together(kernel, matrix, count)
    return result


def _together(kernel: str, matrix: SparseMatrix, threads: int) -> list[KernelTime]:
    """The time on several threads, none where the host was not quiet for three products."""
    run = product(kernel, matrix, threads)
    run()
    taken: list[float] = []
    end = time.perf_counter() + THREAD_SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
        if len(taken) % 50 == 0 and _agree(taken):
            break
    if len(taken) < 3 or not _agree(taken):
        return []
    return [KernelTime(kernel, "warm", threads, min(taken), float(np.median(taken)))]


def _agree(taken: list[float]) -> bool:
    shortest = sorted(taken)[:3]
    return shortest[-1] <= (1 + AGREEMENT) * shortest[0]


def _warm(run: Product) -> None:
    for _ in range(WARMING):
        run()  # the other kernels left their own data in the caches


PACKAGE_OF = {"blocks": "numba", "scipy": "scipy", "numba": "numba", "torch": "torch"}
"""What each kernel needs installed; their meanings stand in `kernel_costs.KERNELS`."""


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
    split = split_of(kernel) if threads > 1 else None
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
    if split is None:
        loop = _row_loop()
        return lambda: loop(*arguments, np.uint64(0), np.uint64(matrix.shape[0]))
    edges = np.array(cuts(matrix, threads, split), dtype=np.uint64)
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
    if threads > numba.config.NUMBA_NUM_THREADS:
        raise InputError(f"threads = {threads}: numba has {numba.config.NUMBA_NUM_THREADS} here")
    loop = _chunk_loop()

    def run() -> object:
        numba.set_num_threads(threads)
        return loop(*arguments, edges)

    return run


@cache
def _row_loop() -> Any:
    @numba.njit(nogil=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
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
