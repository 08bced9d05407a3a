"""How fast this machine is just now: a reference block in the first cache, timed by the processor's cycle counter.

Where it takes longer than `QUIET` times its best, somebody else uses the core's other half (or the core itself). The
scattered waits of thread CPU time would not show that. Kernels that only wait for their own additions would not either:
the reference is bound by throughput.

Needs the extra [measure] (numba).
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np

from slipstick.workloads.kernels.blocks import BLOCK
from slipstick.workloads.kernels.spmv import blockwise_kernel

QUIET = 1.12


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


def counter_rate(seconds: float = 0.2) -> float:
    """Ticks of the cycle counter a second of wall time."""
    repeat = reference_kernel()
    one = np.zeros(1, dtype=np.uint32)
    arguments = (one, one, np.zeros(1), np.zeros(1), np.zeros(1), np.uint64(0), np.uint64(1))
    repeat(*arguments, 1)
    begin = time.perf_counter()
    # one long call: the counter is read at its two ends
    calls = 1000
    while True:
        start = time.perf_counter()
        ticks = repeat(*arguments, calls) * calls
        passed = time.perf_counter() - start
        if passed > seconds / 4 or time.perf_counter() - begin > 10 * seconds:
            return float(ticks / passed)
        calls *= 4
