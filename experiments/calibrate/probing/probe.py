"""A minute on a processor: its machine, and the shares of its rates that its libraries reach.

The host's levels are measured first. A row's time is the least of its repeats on the thread's own clock: others' work
on a shared host only adds to it. Operations are timed in the order in which they teach most about the fitted
shares (sequential A-optimal design, `estimators.learning.known_rows.chosen`), as many as the time allows, and the
shares are fitted to them (`probe_fit`). Later answers with the calibration rest on those rows.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import Measurement
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.experiments.calibrate.probing.probe_fit import ProbedRows
from slipstick.experiments.calibrate.probing.probe_rows import MOST_KEPT, ProbeRow, cpu_rows
from slipstick.experiments.measure.clocks.timing import Protocol, Timing, load_per_core, measure
from slipstick.experiments.measure.host.host_rates import measure_host
from slipstick.experiments.question.registry import estimator
from slipstick.hwmodels.machine import Machine

ESTIMATOR = "cpu-kinds"
EXPECTED: Mapping[str, float] = {
    "gemm.compute_efficiency": 0.7, "gemm.memory_efficiency": 0.5, "gemm.overhead": 2e-6,
    "gemm.main_efficiency": 0.7, "gemm.hidden": 0.5, "gemm.packing": 0.5,
    "convolution.compute_efficiency": 0.7, "convolution.memory_efficiency": 0.5, "convolution.overhead": 5e-6,
    "convolution.main_efficiency": 0.7, "convolution.hidden": 0.5, "convolution.narrow": 4.0,
    "grouped.compute_efficiency": 0.3, "grouped.memory_efficiency": 0.3, "grouped.overhead": 5e-6,
    "grouped.hidden": 0.5,
    "attention.compute_efficiency": 0.5, "attention.overhead": 5e-6,
    "softmax.compute_efficiency": 0.1, "softmax.overhead": 2e-6,
    "norm.compute_efficiency": 0.2, "norm.overhead": 2e-6,
    "pool.compute_efficiency": 0.01, "pool.narrow": 4.0, "pool.overhead": 2e-6,
    "max_pool.compute_efficiency": 0.005, "max_pool.narrow": 4.0, "max_pool.overhead": 2e-6,
    "gelu.compute_efficiency": 0.1, "gelu.overhead": 5e-6,
    "gated.compute_efficiency": 0.1, "gated.overhead": 2e-6,
    "tanh.compute_efficiency": 0.01, "tanh.overhead": 2e-6,
    "function.compute_efficiency": 0.01, "function.overhead": 2e-6,
    "other.compute_efficiency": 0.1, "other.memory_efficiency": 0.8, "other.overhead": 1e-6,
    "other.main_efficiency": 0.7,
}  # fmt: skip
"""Before anything was timed; round numbers of libraries on processors. What has no overhead row keeps its own."""
PAGES: Mapping[str, float] = {"first_touch": 2e-10, "fresh": 0.5}
"""The same of memory that the system gives anew: a page of 4 KiB in about a microsecond; no row says its share."""
TOGETHER, FITTING = 5, 0.1
"""Rows that are timed in turns, as many as are timed whatever the budget; CPU seconds of the fit for each row."""
LONGER = 1.3
"""A group of rows may take so many times as long as the longest before it."""
ROOM = 1.1
"""The peak stands a tenth above the fastest product that was seen, so that a share below one fits it."""


@dataclass(frozen=True)
class Probe:
    """What a probe found.

    Parameters
    ----------
    rows
        Operations that were timed, in the order chosen, with their times.
    offered
        How many operations there were to choose from.
    load
        Of the host a core, before; None where the system does not say.
    seconds
        That it took.
    """

    machine: Machine
    calibration: Calibration
    rows: tuple[tuple[ProbeRow, Timing], ...]
    offered: int
    load: float | None
    seconds: float

    def table(self) -> list[dict[str, object]]:
        """One row an operation: measured and calibrated seconds, and their ratio."""
        made: list[dict[str, object]] = []
        for row, timing in self.rows:
            calibrated = self.calibration.estimate(row.workload, self.machine).time
            made.append(
                {
                    "operation": row.name,
                    "measured_s": timing.minimum,
                    "calibrated_s": calibrated,
                    "ratio": timing.minimum / calibrated,
                    "spread": timing.spread,
                }
            )
        return made

    def typical_error(self) -> float:
        """Median of |log(measured / calibrated)| over the rows that were fitted."""
        ratios = [
            abs(math.log(timing.minimum / self.calibration.estimate(row.workload, self.machine).time))
            for row, timing in self.rows
        ]
        return float(np.median(ratios))


def probe(
    seconds: float = 60.0,
    threads: int = 1,
    name: str = "host",
    progress: Callable[[str], None] = lambda text: None,
    machine: Machine | None = None,
    timed: Callable[[Sequence[ProbeRow]], Mapping[str, Timing]] | None = None,
) -> Probe:
    """Measure this host's processor and calibrate it.

    Raises InputError where torch or numba is missing, or the host has fewer cores than `threads`.

    Parameters
    ----------
    seconds
        How long at most; the host's levels and the first five rows are measured in any case.
    threads
        Of torch. One is timed by its own CPU clock, which others' work does not disturb; more by wall time.
    machine
        Measured before; None measures the host.
    timed
        Times rows; None runs them with torch here.
    """
    begin, worked, load = time.perf_counter(), time.process_time(), load_per_core()
    if machine is None:
        cores = os.cpu_count() or 1
        if not 1 <= threads <= cores:
            raise InputError(f"threads = {threads}: want 1 to the {cores} cores of this host")
        machine = measure_host(protocol=Protocol(repeats=3), progress=progress).machine(name).using({"cores": threads})
    offered, model = cpu_rows(), estimator(ESTIMATOR).model
    shares = {f"operation.kinds.{name}": value for name, value in EXPECTED.items()}
    shares |= {f"operation.{name}": value for name, value in PAGES.items()}
    order = ProbedRows.of(model, [row.workload for row in offered], machine, shares).order()
    clock = timed or (lambda rows: _timed(rows, threads, max(1.0, begin + seconds - time.perf_counter())))
    taken: list[tuple[ProbeRow, Timing]] = []
    longest = 0.0
    for start in range(0, len(order), TOGETHER):
        now = time.perf_counter()
        waits = max(1.0, (now - begin) / max(time.process_time() - worked, 1e-9))  # seconds for one of CPU time
        fit = waits * FITTING * (len(taken) + TOGETHER)
        if taken and now + LONGER * longest + fit > begin + seconds:
            break
        group = [offered[one] for one in order[start : start + TOGETHER]]
        progress(f"operations {start + 1} to {start + len(group)} of {len(order)}")
        timings = clock(group)
        taken += [(row, timings[row.name]) for row in group]
        longest = max(longest, time.perf_counter() - now)
    progress("fitting")
    rated = _rated(machine, taken)
    workloads = [row.workload for row, _ in taken]
    fitted = ProbedRows.of(model, workloads, rated, shares).timed([timing.minimum for _, timing in taken])
    rated = fitted.machine(rated)
    rows = [Measurement(row.workload, rated, timing.minimum, protocol=str(timing.protocol)) for row, timing in taken]
    when = datetime.now(UTC).date().isoformat()
    source = f"slipstick probe, {when}: {len(rows)} operations of torch on {threads} thread(s)"
    calibration = fitted.calibration(model, rows, source)
    return Probe(rated, calibration, tuple(taken), len(offered), load, time.perf_counter() - begin)


def _rated(machine: Machine, taken: Sequence[tuple[ProbeRow, Timing]]) -> Machine:
    """The machine with the peak that its fastest product or convolution needs."""

    def flop(row: ProbeRow) -> float:
        return float(sum(v for k, v in row.workload.bound().cost.items() if str(k).startswith("flop.matrix")))

    best = max(flop(row) / timing.minimum for row, timing in taken)
    known = machine.peak("vector", "float32")
    if ROOM * best <= known:
        return machine
    return machine.using({"engines.vector.flop_per_cycle.float32": ROOM * best / machine.clock / machine.cores})


def _timed(rows: Sequence[ProbeRow], threads: int, seconds: float) -> Mapping[str, Timing]:
    """Times of rows by torch, in turns, in about so many seconds at most: three rounds are always made."""
    try:
        import torch
    except ImportError:
        raise InputError("probe: torch is not installed; pip install 'slipstick[torch]'") from None
    clock = Protocol(clock="thread" if threads == 1 else "wall", repeats=5, warmups=1, budget_seconds=seconds)
    with _threads(threads), torch.inference_mode():
        torch.empty(MOST_KEPT, dtype=torch.uint8)  # freed: glibc then keeps results up to that size
        return measure({row.name: row.make() for row in rows}, clock)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
