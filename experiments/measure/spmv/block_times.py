"""Times of blocks of a sparse product on this host: hot and streaming labels, with the machine's disturbance beside
them.

The scattered waits of thread CPU time would not show that somebody else uses the core's other half; nor would kernels
that only wait for their own additions: the reference is bound by throughput.

*Hot*: one block again and again, everything in the first cache (as the SpMV paper's published code does). *Streaming*:
whole sweeps over the matrix, a cycle-counter stamp between blocks. A reference block that stays in the first cache runs
before and after every sample, and inside a sweep after every millisecond: pieces in which the machine was not quiet
(it took longer than `QUIET` times its best) are thrown away.

Needs the extra [measure] (numba).
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.errors import InputError
from slipstick.workloads.kernels.blocks import BLOCK, whole_blocks
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.spmv import blockwise_kernel

QUIET = 1.12
SWEEPS = 20
OUTLIER = 10.0
AGREEMENT = 0.07
SWEEPS_TRIED = 2000
COLD_BATCH = 4
"""In batches of so many sweeps the first does not count: it finds the caches as others left them. Long ones do."""
LOOK = 22
"""How often the reference block runs in a look at it, twice uncounted."""
BATCH_SECONDS = 0.01
"""Of sweeps in a row between two returns to the interpreter, which leaves the caches and branch predictors its own."""
PIECE_SECONDS = 1e-3
"""Of a sweep between two looks at the reference: on a shared machine whole sweeps are seldom undisturbed."""


@cache
def counter() -> Any:
    """The processor's cycle counter, for use in compiled code."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[misc, untyped-decorator, unused-ignore]
    def read(context: Any) -> Any:
        def build(cls: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.FunctionType(ir.IntType(64), ())
            return builder.call(builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind), [])

        return types.uint64(), build

    return read


@cache
def reference_kernel() -> Any:
    """Counter ticks of a block by (rows, columns, values, x, y, start, stop, times), the mean of `times` in a row."""
    from numba import njit

    block, tick = blockwise_kernel(), counter()

    @njit(nogil=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
    def repeat(rows: Any, columns: Any, values: Any, x: Any, y: Any, start: Any, stop: Any, times: int) -> float:
        before = tick()
        for _ in range(times):
            block(rows, columns, values, x, y, start, stop)
        return float((tick() - before) / times)

    return repeat


class Reference:
    """A block in the first cache, timed again and again: how fast the machine is just now."""

    def __init__(self) -> None:
        """`arguments` are the reference kernel's, but how often."""
        random = np.random.default_rng(0)
        rows = (np.arange(BLOCK) // 8).astype(np.uint32)
        columns = np.arange(BLOCK, dtype=np.uint32)
        vectors = (random.random(BLOCK), random.random(BLOCK), np.zeros(BLOCK // 8 + 1))
        self.arguments = (rows, columns, *vectors, np.uint64(0), np.uint64(BLOCK))
        self.best = np.inf
        for _ in range(2000):
            self()

    def __call__(self) -> float:
        """Counter ticks of the block, now; its code and data are fetched first, as another kernel ran before."""
        reference_kernel()(*self.arguments, 2)
        ticks = float(reference_kernel()(*self.arguments, 20))
        self.best = min(self.best, ticks)
        return ticks

    @property
    def quiet(self) -> bool:
        """Whether the machine is as fast as it ever was, within 12 %."""
        return self() <= QUIET * self.best


def wait_for_quiet(reference: Reference, end: float) -> None:
    """Sleep until the machine is quiet, or `end` (seconds of time.perf_counter) is there."""
    while time.perf_counter() < end and not reference.quiet:
        time.sleep(0.002)


def counter_rate(calls: int = 4_000_000) -> float:
    """Ticks of the cycle counter a second of wall time: one long call, the counter is read at its two ends."""
    one = np.zeros(1, dtype=np.uint32)
    arguments = (one, one, np.zeros(1), np.zeros(1), np.zeros(1), np.uint64(0), np.uint64(1))
    reference_kernel()(*arguments, 1)
    start = time.perf_counter()
    ticks = reference_kernel()(*arguments, calls) * calls
    return float(ticks / (time.perf_counter() - start))


@dataclass(frozen=True)
class SpmvProtocol:
    """How labels are taken; goes into every result.

    `sweeps`: quiet sweeps for a streaming label, at least 20.
    `hot_blocks`, `hot_repeats`, `hot_groups`: how many blocks of the matrix get a hot label, how often each is
        repeated, and how many groups of repeats.
    `budget_seconds`: wall time for each label kind of a matrix; what was quiet until then counts.
    """

    sweeps: int = 24
    hot_blocks: int = 500
    hot_repeats: int = 100
    hot_groups: int = 4
    budget_seconds: float = 25.0

    def __post_init__(self) -> None:
        if self.sweeps < SWEEPS:
            raise InputError(f"sweeps = {self.sweeps}: want at least {SWEEPS}")
        if min(self.hot_blocks, self.hot_repeats, self.hot_groups) < 1 or not self.budget_seconds > 0:
            raise InputError(f"protocol {self}: want at least one block, repeat and group, and a budget > 0 s")


@dataclass(frozen=True, eq=False)
class BlockTimes:
    """Labels of one matrix in seconds a non-zero, and how they were come by.

    `streaming` is None where the machine was not quiet for 20 sweeps, or the stamps do not add up to the thread's CPU
    time within 7 %; `hot` is nan for blocks that were never measured in quiet.
    """

    matrix: str
    streaming: FloatArray | None
    hot_index: IntArray
    hot: FloatArray
    facts: dict[str, float] = field(default_factory=dict)


@cache
def _compiled_sweeps() -> Any:
    from numba import njit

    block, tick, look = blockwise_kernel(), counter(), reference_kernel()

    @njit(nogil=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
    def sweeps(
        rows: Any,
        columns: Any,
        values: Any,
        x: Any,
        y: Any,
        size: Any,
        cuts: Any,
        reference: Any,
        ticks: Any,
        looks: Any,
    ) -> None:
        look(*reference, 10 * LOOK)  # whatever the interpreter left behind is gone after that
        for sweep in range(len(ticks)):
            for piece in range(cuts.shape[1] - 1):
                look(*reference, 2)
                looks[sweep, piece] = look(*reference, LOOK - 2)
                start = cuts[sweep, piece] * size
                before = tick()
                for number in range(cuts[sweep, piece], cuts[sweep, piece + 1]):
                    stop = start + size
                    block(rows, columns, values, x, y, start, stop)
                    start = stop
                    after = tick()
                    ticks[sweep, number] = after - before
                    before = after
        look(*reference, 2)
        looks[len(ticks), 0] = look(*reference, LOOK - 2)

    return sweeps


def measure_blocks(
    matrix: SparseMatrix, protocol: SpmvProtocol | None = None, reference: Reference | None = None
) -> BlockTimes:
    """Hot and streaming labels of a matrix's whole blocks.

    Raises InputError where the matrix has no whole block.
    """
    protocol = protocol or SpmvProtocol()
    count = whole_blocks(matrix)
    reference = reference or Reference()
    rate = counter_rate()
    random = np.random.default_rng(0)
    arguments = (
        matrix.row_of_nonzero().astype(np.uint32),
        matrix.columns.astype(np.uint32),
        random.random(matrix.nonzeros),
        random.random(matrix.shape[1]),
        np.zeros(matrix.shape[0]),
    )
    streaming, facts = _streaming(arguments, count, protocol, reference, rate)
    index = np.unique(np.linspace(0, count - 1, min(count, protocol.hot_blocks)).astype(np.int64))
    hot = _hot(arguments, index, protocol, reference) / rate / BLOCK
    facts |= {
        "counter_hz": rate,
        "hot_quiet_share": float(np.mean(~np.isnan(hot))),
        "reference_ns": reference.best / rate / BLOCK * 1e9,
        "load": os.getloadavg()[0],
    }
    return BlockTimes(matrix.name, streaming, index, hot, facts)


def _streaming(
    arguments: tuple[Any, ...], count: int, protocol: SpmvProtocol, reference: Reference, rate: float
) -> tuple[FloatArray | None, dict[str, float]]:
    """Whole sweeps in pieces of a millisecond; a block's samples are those of its quiet pieces.

    Sweeps follow each other in compiled code, quiet or not, so that the caches hold what a sweep leaves in them. Pieces
    begin at other blocks every time: none is always the one after a look at the reference.
    """
    sweeps = _compiled_sweeps()
    piece, batch = count, 1
    random = np.random.default_rng(0)

    def run() -> tuple[npt.NDArray[np.uint32], IntArray, FloatArray, float]:
        pieces = max(1, round(count / piece))
        inner = (np.arange(1, pieces) * count) // pieces
        shift = random.integers(0, max(1, count // pieces), (batch, 1))
        edges = np.broadcast_to(np.array([0, count]), (batch, 2))
        cuts = np.sort(np.concatenate([edges, np.clip(inner - shift, 0, count)], axis=1), axis=1)
        ticks, looks = np.zeros((batch, count), dtype=np.uint32), np.zeros((batch + 1, cuts.shape[1] - 1))
        started = time.thread_time()
        sweeps(*arguments, np.uint64(BLOCK), cuts.astype(np.uint64), reference.arguments, ticks, looks)
        return ticks, cuts, looks, time.thread_time() - started

    for _ in range(2):  # the first call compiles, or finds everything cold
        ticks, *_ = run()
    seconds = float(ticks.sum()) / rate
    piece = max(1, int(count * PIECE_SECONDS / seconds))
    batch = int(np.clip(BATCH_SECONDS / seconds, 1, 64))
    samples: list[npt.NDArray[np.float32]] = []
    quiet_samples = np.zeros(count, dtype=np.int64)
    shares: list[float] = []
    pieces, quiet_pieces = 0, 0
    end = time.perf_counter() + protocol.budget_seconds
    while quiet_samples.min() < protocol.sweeps and time.perf_counter() < end and len(samples) < SWEEPS_TRIED:
        wait_for_quiet(reference, end)
        ticks, cuts, looks, passed = run()
        flat = np.concatenate([looks[:-1].ravel(), looks[-1:, 0]]) <= QUIET * reference.best
        good = (flat[:-1] & flat[1:]).reshape(batch, -1)
        pieces, quiet_pieces = pieces + good.size, quiet_pieces + int(good.sum())
        for number in range(0 if batch < COLD_BATCH else 1, batch):
            fine = np.repeat(good[number], np.diff(cuts[number]))
            if fine.any():
                samples.append(np.where(fine, ticks[number], np.nan).astype(np.float32))
                quiet_samples += fine
        shares.append((float(ticks.sum()) + LOOK * float(looks.sum() + 10 * looks[0, 0])) / rate / max(passed, 1e-9))
    facts = {"sweeps": float(quiet_samples.min()), "quiet_share": quiet_pieces / max(pieces, 1)}
    if quiet_samples.min() == 0:
        return None, facts
    times, dropped = filtered_mean(np.array(samples, dtype=np.float64))
    facts |= {"dropped_share": dropped, "sum_over_cpu": float(np.median(shares))}
    accepted = quiet_samples.min() >= SWEEPS and abs(facts["sum_over_cpu"] - 1) <= AGREEMENT
    return (times / rate / BLOCK if accepted else None), facts


def filtered_mean(samples: FloatArray) -> tuple[FloatArray, float]:
    """Mean over sweeps (rows) of every block without samples above ten times its median, and the share left out.

    A sample that was never taken is nan; every block has one at least.
    """
    taken = ~np.isnan(samples)
    keep = taken & (np.nan_to_num(samples, nan=np.inf) <= OUTLIER * np.nanmedian(samples, axis=0))
    times = np.where(keep, samples, 0.0).sum(axis=0) / keep.sum(axis=0)
    return np.asarray(times), float(1 - keep.sum() / taken.sum())


def _hot(arguments: tuple[Any, ...], index: IntArray, protocol: SpmvProtocol, reference: Reference) -> FloatArray:
    repeat = reference_kernel()
    result = np.full(len(index), np.nan)
    end = time.perf_counter() + protocol.budget_seconds
    for number, block in enumerate(index):
        start = np.uint64(block * BLOCK)
        groups: list[float] = []
        while len(groups) < protocol.hot_groups and time.perf_counter() < end:
            if not reference.quiet:
                time.sleep(0.002)
                continue
            ticks = repeat(*arguments, start, start + np.uint64(BLOCK), protocol.hot_repeats)
            if reference.quiet:
                groups.append(ticks)
        if groups:
            result[number] = np.median(groups)
    return result
