"""The kernels of a host: whole products on one thread or several, by costs of each kernel (`reuse_model`).

The kernels calibrated on a host are kept in a JSON file beside its machine file; costs of labelled blocks are a host's
kernel as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import hypot, log
from pathlib import Path
from typing import Literal

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import of_schema, read_json, unknown_name
from slipstick.common.records import FrozenDict, of_kind
from slipstick.estimators.sparse.reuse_model import (
    LABEL_KINDS,
    MEMORY_TERMS,
    SUFFIX,
    CacheSizes,
    KernelCosts,
    State,
    check_state,
)
from slipstick.workloads.kernels.blocks import pattern_counts
from slipstick.workloads.kernels.sparse import SparseMatrix

SCHEMA = "slipstick-spmv-kernels-2"
TRAINED = Path(__file__).parent / "trained"
SHIPPED = TRAINED / "spmv-kernels.json"


@dataclass(frozen=True)
class ThreadCosts:
    """What several threads cost a kernel beside their own chunks.

    T(p) = start x (p - 1) + max over chunks (core + memory x (1 + shared x (p - 1))): each thread has a core with its
    own first two cache levels, and waits longer for what lies beyond them.

    `start`: seconds that another thread costs each product.
    `shared`: by how much another thread lengthens what lies beyond the core's own caches: 0 if there is enough for all,
        1 if one thread already takes all of it.
    `spread`: as `KernelCosts.spread`, of products on the threads measured.
    `measured`: threads of the calibration.
    """

    start: float
    shared: float
    spread: float
    measured: int

    def __post_init__(self) -> None:
        if not (0 <= self.start < 1 and 0 <= self.shared <= 1 and 0 <= self.spread <= 10 and self.measured > 1):
            raise InputError(
                f"{self}: want start from 0 to 1 s, shared in [0, 1], spread in [0, 10], 2 threads or more"
            )

    def seconds(self, parts: Sequence[Mapping[str, float]], threads: int) -> float:
        """Of one product whose chunks have these parts by term."""
        longer = 1 + self.shared * (threads - 1)
        each = [sum(v * (longer if name in MEMORY_TERMS else 1.0) for name, v in one.items()) for one in parts]
        return self.start * (threads - 1) + max(each)


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
    """What `reuse_model.term_amounts` reads: `pattern_counts`, shape, and lines of the vector that are touched.

    A chunk with fewer than two non-zeros counts as its rows alone.
    Raises InputError where a whole matrix has fewer than two non-zeros (`pattern_counts`).
    """
    rows, columns = matrix.shape
    lines = np.count_nonzero(np.bincount(matrix.columns // LINE_ENTRIES))
    shape = {"rows": float(rows), "columns": float(columns), "nonzeros": float(matrix.nonzeros)}
    return {**pattern_counts(matrix), **shape, "vector_lines": float(lines)}


@dataclass(frozen=True)
class HostKernels:
    """Kernels calibrated on one host.

    `costs`: one record a kernel and state of the caches, of one core.
    `threads`: by "kernel state"; kernels measured on one thread are not in it.
    `source`: machine, date and protocol, for people.
    """

    machine: str
    cores: int
    costs: tuple[KernelCosts, ...]
    threads: FrozenDict[ThreadCosts] = FrozenDict()
    source: str = ""

    def __post_init__(self) -> None:
        if not self.costs or self.cores < 1:
            raise InputError(f"kernels of {self.machine!r}: want a core and at least one kernel")

    @property
    def kernels(self) -> tuple[str, ...]:
        """Their names, each once."""
        return tuple(dict.fromkeys(one.kernel for one in self.costs))

    def of(self, kernel: str, state: State) -> KernelCosts:
        """The costs of a kernel.

        Raises InputError where it was not calibrated.
        """
        for one in self.costs:
            if (one.kernel, one.state) == (kernel, state):
                return one
        raise unknown_name("calibrated kernel", kernel, self.kernels)

    def threads_of(self, kernel: str, state: State) -> ThreadCosts:
        """What threads cost a kernel.

        Raises InputError where it was calibrated on one thread only.
        """
        fitted = self.threads.get(f"{kernel} {state}")
        if fitted is None:
            known = [name for name in self.threads if name.endswith(f" {state}")]
            text = f"kernel {kernel!r} was calibrated on one thread ({state} caches)"
            raise InputError(f"{text}; with threads: {', '.join(known) or 'none'}")
        return fitted

    def seconds(
        self,
        matrix: SparseMatrix,
        kernel: str,
        state: State = "warm",
        threads: int = 1,
        sizes: CacheSizes | None = None,
        clock: float | None = None,
    ) -> tuple[float, float]:
        """Of one product, and the share of a core's time that lies beyond its own caches.

        `sizes`, `clock` [Hz]: of another machine's core; the host's own if None.
        Raises InputError where the kernel, or its threads, were not calibrated.
        """
        pieces = [matrix] if threads == 1 else chunks(matrix, threads, split_of(kernel)) or [matrix]
        return self.of_counts([counts_of(piece) for piece in pieces], kernel, state, threads, sizes, clock)

    def of_counts(
        self,
        pieces: Sequence[Mapping[str, float]],
        kernel: str,
        state: State,
        threads: int,
        sizes: CacheSizes | None = None,
        clock: float | None = None,
    ) -> tuple[float, float]:
        """As `seconds`, from the counts of the chunks that threads work on; of the whole matrix on one."""
        several = self.threads_of(kernel, state) if threads > 1 else None
        every = [self.of(kernel, state).parts(piece, sizes, clock) for piece in pieces]
        sums = [(sum(one.values()), sum(v for name, v in one.items() if name in MEMORY_TERMS)) for one in every]
        waiting = max(memory / max(whole, 1e-300) for whole, memory in sums)
        return several.seconds(every, threads) if several else sums[0][0], waiting

    def spread(self, kernel: str, state: State, threads: int = 1) -> float:
        """Of log time over matrices; beyond the threads measured it grows with the logarithm of their ratio."""
        if threads == 1:
            return self.of(kernel, state).spread
        several = self.threads_of(kernel, state)
        return hypot(several.spread, MORE_THREADS * max(0.0, log(threads / several.measured)))


MORE_THREADS = 0.15
"""Spread for every factor e of threads beyond those measured; a guess: nobody measured more threads here."""


def load_host_kernels(path: str | Path = SHIPPED) -> HostKernels:
    """The kernels of a host from its file; those that ship if none is named.

    Raises InputError where the file holds no such thing.
    """
    fields = of_schema(
        read_json(path),
        SCHEMA,
        path,
        "costs that slipstick spmv calibrate and train write (make those of another version anew)",
    )
    return of_kind(HostKernels, fields, str(path))


@cache
def shipped_blocks(label: str = "streaming") -> HostKernels:
    """The blockwise kernel of the host that the labels were measured on, fitted to labels of a kind.

    Raises InputError where the label kind is unknown.
    """
    return load_host_kernels(TRAINED / f"spmv-{check_state(label, LABEL_KINDS)}.json")


def beside(machine_file: str | Path) -> Path:
    """Where the kernels of a machine file are kept: beside my-host.yaml in my-host.spmv.json."""
    path = Path(machine_file)
    return path.with_name(path.name.removesuffix(".gz").removesuffix(path.suffix) + SUFFIX)
