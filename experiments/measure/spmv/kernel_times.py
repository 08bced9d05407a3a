"""Times of whole products by kernel on this host, caches warm or emptied, on one thread or several.

*Warm*: product after product, so caches hold what the last one left. *Cold*: before every product a buffer of twice the
last-level cache is read through, as a program does that works on other data in between. Kernels take turns within every
round, so that a busy neighbour meets all of them; the least of all rounds counts. One thread is timed by its CPU time.
Several threads are timed by the wall clock with warm caches, one product after the other until the three shortest agree
within `AGREEMENT`; a host that is never quiet for as long gives no time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product as pairs

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.estimators.sparse.kernel_costs import State
from slipstick.estimators.sparse.row_chunks import SPLIT_OF
from slipstick.experiments.measure.spmv.product_kernels import Product, product
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.kernels.sparse import SparseMatrix

WARMING = 4
"""Products before a warm sample: a last level that others share fills slowly (with one, up to twice the time)."""
LEAST_PRODUCTS = 3
AGREEMENT = 0.05
MOST_BUFFER = 1 << 31
"""Bytes of the buffer that empties the caches, at most."""


@dataclass(frozen=True)
class RoundProtocol:
    """How products are timed.

    `rounds`, `cold_rounds`: samples of every kernel; the least counts.
    `sample_seconds`: a warm sample is as many products in a row as take about so long, at least three.
    `thread_seconds`: for each kernel on several threads, at most.
    """

    rounds: int = 15
    cold_rounds: int = 5
    sample_seconds: float = 0.002
    thread_seconds: float = 2.0

    def __post_init__(self) -> None:
        if min(self.rounds, self.cold_rounds) < 1 or not self.sample_seconds > 0:
            raise InputError(f"protocol {self}: want at least one round and samples > 0 s")


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
    def buffer(self) -> npt.NDArray[np.float64]:
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
    protocol: RoundProtocol | None = None,
) -> list[KernelTime]:
    """Times of one matrix; kernels without threads are left out where several are wanted.

    Raises InputError where a kernel is unknown or cannot run here.
    """
    protocol = protocol or RoundProtocol()
    runs = {kernel: product(kernel, matrix) for kernel in kernels} if 1 in threads else {}
    repeats = {kernel: _repeats(run, protocol.sample_seconds) for kernel, run in runs.items()}
    samples: dict[tuple[str, State], list[float]] = {}
    for state in states:
        for _ in range(protocol.rounds if state == "warm" else protocol.cold_rounds):
            for kernel, run in runs.items():
                if state == "warm":
                    for _ in range(WARMING):
                        run()  # the other kernels left their own data in the caches
                else:
                    flush()
                taken = _sample(run, repeats[kernel] if state == "warm" else 1)
                samples.setdefault((kernel, state), []).append(taken)
    result = [KernelTime(*key, 1, min(taken), float(np.median(taken))) for key, taken in samples.items()]
    for kernel, count in pairs(kernels, threads):
        if count > 1 and kernel in SPLIT_OF and "warm" in states:
            result += _together(kernel, matrix, count, protocol.thread_seconds)
    return result


def _together(kernel: str, matrix: SparseMatrix, threads: int, budget: float) -> list[KernelTime]:
    """The time on several threads, none where the host was not quiet for three products."""
    run = product(kernel, matrix, threads)
    run()
    taken: list[float] = []
    end = time.perf_counter() + budget
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


def _sample(run: Product, repeats: int) -> float:
    start = time.thread_time()
    for _ in range(repeats):
        run()
    return max(time.thread_time() - start, 1e-9) / repeats


def _repeats(run: Product, seconds: float) -> int:
    run()  # the first call compiles
    return max(LEAST_PRODUCTS, int(seconds / min(_sample(run, 1) for _ in range(3))))
