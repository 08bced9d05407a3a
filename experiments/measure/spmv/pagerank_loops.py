"""PageRank's loops timed on this host: whole runs, a cycle-counter stamp at both ends of every loop.

One run is L0 and `iterations` times L1, SpMV, L2, L3, L4; runs of one graph follow each other in compiled code, every
second one counts, so that L0 finds its vector where the last run left it. A reference block in the first cache runs
between iterations (six KiB: it costs the vectors little), and an iteration counts where the reference was quiet before
and after it (`clocks.quiet`). The first iteration after L0 is kept apart: what it finds cold, the others
do not.

Needs the extra [measure] (numba).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.experiments.measure.clocks.interference_check import (
    QUIET,
    Reference,
    counter,
    counter_rate,
    reference_kernel,
    wait_for_quiet,
)
from slipstick.workloads.kernels.pagerank import DAMPING, LOOPS, PageRankProblem, pagerank_loops

Floats = npt.NDArray[np.float64]
LEAST = 20
"""Quiet samples of every loop; their median counts."""
BURST = 8
"""Runs in a row before the next look at the machine."""
LICENCE = 1.25
"""By how much wide vectors may slow the reference: turbo licences of Cascade Lake differ by up to a quarter."""


@dataclass(frozen=True)
class PageRankTimes:
    """Seconds of one execution of every loop, in steady iterations and in the first; None where it was never quiet."""

    graph: str
    iterations: int
    seconds: Mapping[str, float] | None
    first_seconds: Mapping[str, float] | None
    samples: int
    runs: int
    quiet_share: float
    load: float


@cache
def _compiled_run() -> Any:
    from numba import njit

    loops = pagerank_loops()
    fill, copy, product, dangling_sum, damp, difference = (loops[name] for name in LOOPS)
    tick, reference = counter(), reference_kernel()

    @njit(nogil=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
    def run(
        rows: Any, columns: Any, values: Any, dangling: Any, p: Any, q: Any, damping: float, arguments: Any, ticks: Any
    ) -> float:
        pages, residual = len(p), 0.0
        for _ in range(2):  # the second counts: the first finds the caches as the interpreter left them
            reference(*arguments, 2)
            ticks[0, 6] = reference(*arguments, 20)
            start = tick()
            fill(p, 1.0 / pages)
            ticks[0, 0] = tick() - start
            for k in range(1, len(ticks)):
                t0 = tick()
                copy(p, q)
                t1 = tick()
                product(rows, columns, values, q, p)
                t2 = tick()
                lost = dangling_sum(dangling, q)
                t3 = tick()
                damp(p, damping, (1.0 - damping + damping * lost) / pages)
                t4 = tick()
                residual = difference(p, q)
                t5 = tick()
                reference(*arguments, 2)
                ticks[k, 6] = reference(*arguments, 20)
                ticks[k, 1], ticks[k, 2], ticks[k, 3] = t1 - t0, t2 - t1, t3 - t2
                ticks[k, 4], ticks[k, 5] = t4 - t3, t5 - t4
        return residual

    return run


def measure_pagerank(
    problem: PageRankProblem,
    iterations: int = 16,
    budget_seconds: float = 20.0,
    wanted: int = 200,
    reference: Reference | None = None,
) -> PageRankTimes:
    """Medians (seconds a loop) over the quiet iterations of as many runs as the budget allows, at most until `wanted`
    are quiet.

    Raises InputError where fewer than two iterations are requested.
    """
    if iterations < 2:
        raise InputError(f"iterations = {iterations}: want at least 2, the first is kept apart")
    reference = reference or Reference()
    rate, run, matrix = counter_rate(), _compiled_run(), problem.matrix
    arguments = (
        matrix.row_of_nonzero().astype(np.uint32),
        matrix.columns.astype(np.uint32),
        matrix.numbers(),
        problem.dangling.astype(np.uint32),
        np.zeros(problem.pages),
        np.zeros(problem.pages),
        DAMPING,
        reference.arguments,
    )
    ticks = np.zeros((iterations + 1, 7))
    run(*arguments, ticks)
    runs: list[Floats] = []
    end = time.perf_counter() + budget_seconds
    while time.perf_counter() < end:
        wait_for_quiet(reference, end)
        run(*arguments, ticks)  # does not count: caches and clock are another's
        for _ in range(BURST):
            run(*arguments, ticks)
            runs.append(ticks.copy())
        if len(runs) % (4 * BURST) == 0 and _quiet(np.array(runs), reference.best).sum() >= wanted:
            break
    samples = np.array(runs)
    fine = _quiet(samples, reference.best)
    load, share = os.getloadavg()[0], float(fine.mean())
    steady, first = samples[:, 2:][fine[:, 1:]], samples[:, 1][fine[:, 0]]
    if min(len(steady), len(first)) < LEAST:
        return PageRankTimes(problem.name, iterations, None, None, len(steady), len(runs), share, load)

    def medians(chosen: Floats) -> dict[str, float]:
        return dict(zip(LOOPS[1:], (np.median(chosen[:, 1:6], axis=0) / rate).tolist(), strict=True))

    start = {"L0": float(np.median(samples[fine[:, 0], 0, 0]) / rate)}
    return PageRankTimes(
        problem.name, iterations, start | medians(steady), start | medians(first), len(steady), len(runs), share, load
    )


def _quiet(samples: Floats, best: float) -> npt.NDArray[np.bool_]:
    """Which iterations had quiet references before and after them, shape (runs, iterations).

    Quiet is measured against the best reference inside runs: loops with wide vectors make the processor lower its clock
    for a while, so that it is slower there than outside (`best`), though never by more than `LICENCE`.
    """
    reference = samples[:, :, 6]
    within = float(np.quantile(reference[:, 1:], 0.02))
    quiet = (reference <= QUIET * within) & (within <= LICENCE * best)
    return np.asarray(quiet[:, 1:] & quiet[:, :-1])
