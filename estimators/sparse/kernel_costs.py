"""Whole products by kernel: costs a count of each kernel of a host, what threads cost beside their chunks of rows.

Terms are those of `reuse_model`, counted over a whole matrix: what rows cost, which level the lines of the dense vector
come from, and what streams past. A kernel's costs are its own: scipy's loop, ours and MKL's differ by more than
matrices of one kernel do. The kernels calibrated on a host are kept in a JSON file beside its machine file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, log
from pathlib import Path
from typing import Any, Literal

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.sparse.reuse_model import (
    BEYOND,
    REACH,
    SUFFIX,
    CacheSizes,
    Document,
    from_document,
    shares_of_classes,
)
from slipstick.estimators.sparse.reuse_model import MEMORY_TERMS as SHARED_TERMS
from slipstick.estimators.symbolic.cache_residency import missed
from slipstick.workloads.kernels.blocks import FAR, pattern_counts
from slipstick.workloads.kernels.sparse import SparseMatrix

SCHEMA = "slipstick-spmv-kernels-1"
SHIPPED = Path(__file__).parent / "trained" / "spmv-kernels.json"
State = Literal["warm", "cold"]
STATES: tuple[State, ...] = ("warm", "cold")
LINE = 64
LEARNT_ROWS = 5000.0
"""Irregular rows that branch prediction learns by heart when the same product runs again and again: of n of them
n^2 / (n + this) are mispredicted. Chosen on the calibration matrices:
`slipstick validate --refit sparse` scores other values."""
REACHES = (4.0, 8.0, 16.0)
"""As `reuse_model.REACH`; each kernel's is the one of least error on matrices held out."""
ROW_TERMS = ("call", "nonzero", "row", "irregular_row", "row_17_to_32", "row_33_to_64", "row_65_and_more")
TERMS: Mapping[State, tuple[str, ...]] = {
    "warm": (*ROW_TERMS, *BEYOND[::2], *BEYOND[1::2], "translation"),
    "cold": (*ROW_TERMS, "gather_beyond_L2", "gather_beyond_reach", "stream_line", "vector_line", "translation"),
}
MEMORY_TERMS = SHARED_TERMS | {"stream_line", "vector_line"}
"""Terms beyond a core's own caches: they do not follow its clock, and threads share what they wait for."""


def check_state(name: str) -> State:
    """A state of the caches by name.

    Raises
    ------
    InputError
        Where there is no such state.
    """
    for state in STATES:
        if name == state:
            return state
    raise unknown_name("state of the caches", name, STATES)


def term_amounts(
    counts: Mapping[str, float],
    caches: CacheSizes,
    state: State,
    reach: float,
    learnt_rows: float = LEARNT_ROWS,
) -> FloatArray:
    """How often each of `TERMS[state]` occurs in a product with these counts (`counts_of`).

    Parameters
    ----------
    reach
        One of `REACHES`.
    learnt_rows
        Irregular rows whose branches are learnt by heart where a product is repeated.
    """
    far = np.array([counts[name] for name in FAR])
    nonzeros, irregular = counts["nonzeros"], counts["irregular"]
    own_bytes = 12 * nonzeros + 16 * counts["rows"]
    footprint = own_bytes + 8 * counts["columns"]
    amounts = {
        "call": 1.0,
        "nonzero": nonzeros,
        "row": counts["rows"],
        "irregular_row": irregular * (irregular / (irregular + learnt_rows) if state == "warm" else 1.0),
        "stream_line": own_bytes / LINE,
        "vector_line": counts["vector_lines"],
        "translation": counts["translations"],
    }
    for level, capacity in caches.levels(reach).items():
        amounts[f"gather_beyond_{level}"] = float(far @ shares_of_classes(capacity))
        amounts[f"stream_beyond_{level}"] = nonzeros * float(missed(footprint, capacity))
    amounts |= {name: counts[name] for name in ("row_17_to_32", "row_33_to_64", "row_65_and_more")}
    return np.array([amounts[name] for name in TERMS[state]])


@dataclass(frozen=True)
class KernelCosts:
    """What one kernel costs on one thread of a host, in one state of the caches.

    Parameters
    ----------
    cost
        Seconds an occurrence, by `TERMS[state]`.
    spread
        Of log(measured / predicted) over matrices whose generator was left out (`spread_over_families`).
    freedom
        Degrees of freedom of the spread: families of matrices less one; None for many.
    reach
        Where the middle level ends, in multiples of the second level's capacity.
    software
        What ran it, with its version.
    """

    kernel: str
    state: State
    cost: FrozenDict[float]
    spread: float
    freedom: float | None = None
    reach: float = REACH
    software: str = ""

    def __post_init__(self) -> None:
        if self.state not in STATES or set(self.cost) != set(TERMS[self.state]):
            raise InputError(f"costs of {self.kernel!r}, {self.state}: want a cost of every term of a state")
        if not all(0 <= value < 1 for value in self.cost.values()) or not any(self.cost.values()):
            raise InputError(f"costs of {self.kernel!r}: want seconds from 0 to 1, one of them above 0")
        if not (0 <= self.spread <= 10 and 1 <= self.reach <= 1e6):
            raise InputError(f"{self.kernel!r}: want a spread in [0, 10] and a reach from 1 to 1e6")

    def parts(self, counts: Mapping[str, float], caches: CacheSizes, clock_ratio: float = 1.0) -> dict[str, float]:
        """Seconds by term; terms inside the core are divided by the ratio of clocks."""
        amounts = term_amounts(counts, caches, self.state, self.reach)
        pace = {name: 1.0 if name in MEMORY_TERMS else 1 / clock_ratio for name in TERMS[self.state]}
        return {
            name: float(self.cost[name] * amount * pace[name])
            for name, amount in zip(TERMS[self.state], amounts, strict=True)
        }

    def seconds(self, counts: Mapping[str, float], caches: CacheSizes, clock_ratio: float = 1.0) -> float:
        """Of one product."""
        return sum(self.parts(counts, caches, clock_ratio).values())


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
    """What `term_amounts` reads: `pattern_counts`, shape, and lines of the vector that are touched.

    A chunk with fewer than two non-zeros counts as its rows alone.
    Raises InputError where a whole matrix has fewer than two non-zeros (`pattern_counts`).
    """
    rows, columns = matrix.shape
    lines = len(np.unique(matrix.columns // LINE_ENTRIES))
    shape = {"rows": float(rows), "columns": float(columns), "nonzeros": float(matrix.nonzeros)}
    return {**pattern_counts(matrix), **shape, "vector_lines": float(lines)}


@dataclass(frozen=True)
class HostKernels:
    """Kernels calibrated on one host.

    `costs`: one record a kernel and state of the caches.
    `threads`: by "kernel state"; kernels measured on one thread are not in it.
    `source`: machine, date and protocol, for people.
    """

    machine: str
    clock: float
    cores: int
    caches: CacheSizes
    costs: tuple[KernelCosts, ...]
    threads: FrozenDict[ThreadCosts] = FrozenDict()
    source: str = ""

    def __post_init__(self) -> None:
        if not self.costs or not 0 < self.clock < 1e12 or self.cores < 1:
            raise InputError(f"kernels of {self.machine!r}: want a clock of 0 to 1e12 Hz, a core, at least one kernel")

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
        caches: CacheSizes | None = None,
        clock_ratio: float = 1.0,
    ) -> tuple[float, float]:
        """Of one product, and the share of a core's time that lies beyond its own caches.

        `caches`, `clock_ratio`: of another machine's core; the host's own if None.
        Raises InputError where the kernel, or its threads, were not calibrated.
        """
        costs, pieces = self.of(kernel, state), [matrix]
        if threads > 1:
            several = self.threads_of(kernel, state)
            pieces = chunks(matrix, threads, split_of(kernel)) or pieces
        every = [costs.parts(counts_of(piece), caches or self.caches, clock_ratio) for piece in pieces]
        sums = [(sum(one.values()), sum(v for name, v in one.items() if name in MEMORY_TERMS)) for one in every]
        waiting = max(memory / max(whole, 1e-300) for whole, memory in sums)
        return several.seconds(every, threads) if threads > 1 else sums[0][0], waiting

    def spread(self, kernel: str, state: State, threads: int = 1) -> float:
        """Of log time over matrices; beyond the threads measured it grows with the logarithm of their ratio."""
        if threads == 1:
            return self.of(kernel, state).spread
        several = self.threads_of(kernel, state)
        return hypot(several.spread, MORE_THREADS * max(0.0, log(threads / several.measured)))

    def document(self) -> dict[str, Any]:
        """All of it as plain values for JSON, with units in the names."""
        caches = {"L2": self.caches.L2, "L3": self.caches.L3}
        kernels = [
            {
                "kernel": one.kernel,
                "state": one.state,
                "software": one.software,
                "spread": one.spread,
                "freedom": one.freedom,
                "reach": one.reach,
                "cost_s": dict(one.cost),
            }
            for one in self.costs
        ]
        several = {
            name: {"start_s": one.start, "shared": one.shared, "spread": one.spread, "measured": one.measured}
            for name, one in self.threads.items()
        }
        head = {"schema": SCHEMA, "machine": self.machine, "source": self.source}
        core = {"clock_hz": self.clock, "cores": self.cores, "caches_bytes": caches}
        return {**head, **core, "kernels": kernels, "threads": several}


MORE_THREADS = 0.15
"""Spread for every factor e of threads beyond those measured; a guess: nobody measured more threads here."""


def load_host_kernels(path: str | Path = SHIPPED) -> HostKernels:
    """The kernels of a host from its file; those that ship if none is named.

    Raises InputError where the file holds no such thing.
    """
    return from_document(path, SCHEMA, "kernels (slipstick spmv calibrate writes them)", _host)


def _host(document: Document) -> HostKernels:
    costs = tuple(
        KernelCosts(
            str(one["kernel"]),
            one["state"],
            FrozenDict({str(name): float(value) for name, value in one["cost_s"].items()}),
            float(one["spread"]),
            None if one.get("freedom") is None else float(one["freedom"]),
            float(one["reach"]),
            str(one.get("software", "")),
        )
        for one in document["kernels"]
    )
    several = {
        str(name): ThreadCosts(float(one["start_s"]), float(one["shared"]), float(one["spread"]), int(one["measured"]))
        for name, one in document["threads"].items()
    }
    return HostKernels(
        str(document["machine"]),
        float(document["clock_hz"]),
        int(document["cores"]),
        CacheSizes(**{str(name): float(size) for name, size in document["caches_bytes"].items()}),
        costs,
        FrozenDict(several),
        str(document.get("source", "")),
    )


def beside(machine_file: str | Path) -> Path:
    """Where the kernels of a machine file are kept: beside my-host.yaml in my-host.spmv.json."""
    path = Path(machine_file)
    return path.with_name(path.name.removesuffix(".gz").removesuffix(path.suffix) + SUFFIX)
