"""One timing discipline for everything that runs a clock.

What it does about a machine that is never quiet:

* the **clock** is the CPU time of the calling thread, which stands still while somebody else runs; kernels that use
  several threads take the CPU time of the process or wall time, and say so;
* **warm-up** calls come first, and short tasks are repeated inside one sample until it outlasts the clock's grain;
* repeats of several tasks are **interleaved**: a slow spell of the machine hits all of them, not one;
* the value is a **trimmed mean**; median, spread and all samples stay beside it. (The minimum is biased low wherever
  caches, pages or the clock frequency vary, so it is not the value);
* the **load** of the machine is recorded before and after, and a **reference** loop that touches nothing but
  registers runs in every round: where its time moves by more than `DRIFT_LIMIT` between the first and the last
  rounds, or scatters by more than `SCATTER_LIMIT`, the machine changed its speed meanwhile and the timing is flagged.

Use::

    timings = measure({"copy": lambda: np.copyto(b, a), "dot": lambda: float(a @ b)}, Protocol(repeats=15))
    timings["copy"].value, timings["copy"].flags

A task must return something that depends on its work (or write to an array that outlives it): compilers and lazy
libraries remove work that nobody looks at.
"""

from __future__ import annotations

import math
import os
import platform
import re
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.hwmodels.importers.cpuinfo import system_text

Task = Callable[[], object]
Clock = Literal["thread", "process", "wall"]

CLOCKS: dict[str, Callable[[], float]] = {
    "thread": time.thread_time,
    "process": time.process_time,
    "wall": time.perf_counter,
}
DRIFT_LIMIT = 0.05
SCATTER_LIMIT = 0.25
BUSY_LIMIT = 1.5
MAX_INNER = 1_000_000


@dataclass(frozen=True)
class Protocol:
    """How a timing is taken; its text goes into every result.

    `clock`: "thread" (CPU time of the caller), "process" (CPU time of all threads together) or "wall".
    `warmups`: calls of every task before the first sample.
    `repeats`: samples of every task, interleaved.
    `trim`: share of the samples left out at each end of the mean.
    `sample_seconds`: a sample repeats its task until it lasts about so long.
    `budget_seconds`: no new round begins after so much wall time (at least three rounds are made).
    """

    clock: Clock = "thread"
    warmups: int = 2
    repeats: int = 11
    trim: float = 0.2
    sample_seconds: float = 2e-3
    budget_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.clock not in CLOCKS:
            raise unknown_name("clock", self.clock, list(CLOCKS))
        if self.repeats < 3:
            raise InputError(f"repeats = {self.repeats}: want at least 3")
        if self.warmups < 0:
            raise InputError(f"warmups = {self.warmups}: want 0 or more")
        if not 0 <= self.trim < 0.5:
            raise InputError(f"trim = {self.trim}: want a share in [0, 0.5)")
        if not self.sample_seconds >= 0 or not self.budget_seconds > 0:
            raise InputError(
                f"sample_seconds = {self.sample_seconds} s, budget_seconds = {self.budget_seconds} s: want >= 0 and > 0"
            )

    def __str__(self) -> str:
        clocks = {"thread": "thread CPU time", "process": "process CPU time", "wall": "wall time"}
        return (
            f"{clocks[self.clock]}, {self.warmups} warm-ups, {self.repeats} interleaved repeats, "
            f"mean trimmed by {self.trim:.0%} a side"
        )


@dataclass(frozen=True)
class Timing:
    """The measured times of one task.

    `value`: seconds of one call: the trimmed mean of the samples.
    `median`, `minimum`: of the samples, seconds.
    `spread`: interquartile range over median: the noise of one sample.
    `samples`: seconds of one call, in the order taken.
    `inner`: calls in a sample.
    `waiting`: wall time over the clock's time: 1 on a quiet machine (below 1 where several threads worked).
    `load`: load average over one minute per core, before and after; None where the system does not state it.
    `drift`, `scatter`: of the reference loop: last third over first third minus one, and its interquartile range over
        median.
    """

    value: float
    median: float
    minimum: float
    spread: float
    samples: tuple[float, ...]
    inner: int
    waiting: float
    load: tuple[float, float] | None
    drift: float
    scatter: float
    protocol: Protocol

    @property
    def flags(self) -> tuple[str, ...]:
        """Why not to trust it; empty where nothing was seen."""
        result = []
        if abs(self.drift) > DRIFT_LIMIT:
            result.append(f"drift: the reference loop changed its speed by {self.drift:+.1%} meanwhile")
        if self.scatter > SCATTER_LIMIT:
            result.append(f"unsteady: the reference loop scattered by {self.scatter:.0%}")
        if self.protocol.clock == "wall" and self.load is not None and max(self.load) > BUSY_LIMIT:
            result.append(f"busy: load {max(self.load):.1f} a core, and wall time was requested")
        return tuple(result)

    @property
    def standard_error(self) -> float:
        """Of the value, in seconds, from the samples that the trimmed mean keeps."""
        kept = _kept(self.samples, self.protocol.trim)
        return statistics.stdev(kept) / math.sqrt(len(kept)) if len(kept) > 1 else math.inf


def measure(
    tasks: Mapping[str, Task],
    protocol: Protocol | None = None,
    progress: Callable[[int, int], None] | None = None,
    before: Mapping[str, Task] | None = None,
) -> dict[str, Timing]:
    """Time several tasks, interleaved.

    Parameters
    ----------
    tasks
        Name -> a callable without arguments; its result is kept until the sample ends.
    progress
        Called with (rounds done, rounds planned) after every round.
    before
        By task, what runs before each of its samples and is not timed: the state of the caches that is wanted.

    Raises
    ------
    InputError
        Where there is no task, or a task returns a floating-point result that is not finite.
    """
    if not tasks:
        raise InputError("nothing to measure: no task is named")
    protocol = protocol or Protocol()
    clock = CLOCKS[protocol.clock]
    begun = time.perf_counter()
    load_before = load_per_core()
    inner: dict[str, int] = {}
    for name, task in tasks.items():
        for _ in range(protocol.warmups):
            _consume(name, task())
        inner[name] = _inner_calls(task, protocol.sample_seconds, clock)
    samples: dict[str, list[float]] = {name: [] for name in tasks}
    walls: dict[str, float] = dict.fromkeys(tasks, 0.0)
    reference: list[float] = []
    names = list(tasks)
    for done in range(protocol.repeats):
        if done >= 3 and time.perf_counter() - begun > protocol.budget_seconds:
            break
        reference.append(_reference())
        # every round starts with another task, so that none always follows the same neighbour
        for name in names[done % len(names) :] + names[: done % len(names)]:
            if before is not None and name in before:
                before[name]()
            seconds, wall = _sample(name, tasks[name], inner[name], clock)
            samples[name].append(seconds)
            walls[name] += wall
        if progress is not None:
            progress(done + 1, protocol.repeats)
    load_after = load_per_core()
    load = (load_before, load_after) if load_before is not None and load_after is not None else None
    return {
        name: timing_of(taken, reference, protocol, inner[name], walls[name], load) for name, taken in samples.items()
    }


def trimmed_mean(samples: tuple[float, ...] | list[float], trim: float = 0.2) -> float:
    """The mean of the samples without the share `trim` at each end.

    >>> trimmed_mean([1.0, 2.0, 3.0, 4.0, 100.0], 0.2)
    3.0
    """
    return statistics.fmean(_kept(samples, trim))


def seconds_together(threads: int, prepared: Callable[[int], Callable[[], object]]) -> list[float]:
    """Seconds of CPU time that each of some threads works where all begin at once.

    `prepared`: called in each thread with its number: makes what is timed.
    """
    barrier = threading.Barrier(threads)
    taken = [0.0] * threads

    def work(rank: int) -> None:
        task = prepared(rank)
        barrier.wait()
        start = time.thread_time()
        task()
        taken[rank] = time.thread_time() - start

    workers = [threading.Thread(target=work, args=(rank,)) for rank in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return taken


def processor() -> str:
    """The host's processor in words, and its number of cores where the system says them."""
    names = re.findall(r"^model name\s*:\s*(.*)$", system_text(Path("/proc/cpuinfo")), re.MULTILINE)
    return f"{names[0]}, {len(names)} cores" if names else platform.processor() or platform.machine()


def load_per_core() -> float | None:
    """The load average over one minute divided by the number of cores; None where the system does not state it."""
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        return None


def _kept(samples: tuple[float, ...] | list[float], trim: float) -> list[float]:
    ordered = sorted(samples)
    cut = int(len(ordered) * trim)
    return ordered[cut : len(ordered) - cut]


def _inner_calls(task: Task, sample_seconds: float, clock: Callable[[], float]) -> int:
    calls = 1
    while calls < MAX_INNER:
        start = clock()
        for _ in range(calls):
            task()
        taken = clock() - start
        if taken >= sample_seconds / 2:
            return max(1, min(MAX_INNER, round(calls * sample_seconds / taken))) if sample_seconds else 1
        calls *= 4
    return MAX_INNER


def _sample(name: str, task: Task, calls: int, clock: Callable[[], float]) -> tuple[float, float]:
    wall = time.perf_counter()
    start = clock()
    for _ in range(calls):
        result = task()
    seconds = clock() - start
    wall = time.perf_counter() - wall
    _consume(name, result)
    return seconds / calls, wall


def _consume(name: str, result: object) -> None:
    if isinstance(result, float) and not math.isfinite(result):
        raise InputError(f"task {name!r} returned {result}: its work went wrong, so its time says nothing")


def _reference() -> float:
    """Thread CPU seconds of a fixed loop of integer arithmetic (about 2 ms)."""
    start = time.thread_time()
    state = 1
    for _ in range(40_000):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    if state < 0:  # never: keeps the loop's result alive
        raise ArithmeticError("reference loop")
    return time.thread_time() - start


def _drift(reference: list[float]) -> float:
    third = max(1, len(reference) // 3)
    return statistics.median(reference[-third:]) / statistics.median(reference[:third]) - 1


def _spread(samples: list[float]) -> float:
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return (high - low) / middle if middle else math.inf


def timing_of(
    samples: Sequence[float],
    reference: Sequence[float],
    protocol: Protocol,
    inner: int = 1,
    wall: float = math.nan,
    load: tuple[float, float] | None = None,
) -> Timing:
    """A timing from samples (seconds of one call) and the reference's samples taken among them."""
    total = sum(samples) * inner
    return Timing(
        value=trimmed_mean(list(samples), protocol.trim),
        median=statistics.median(samples),
        minimum=min(samples),
        spread=_spread(list(samples)),
        samples=tuple(samples),
        inner=inner,
        waiting=wall / total if total else math.inf,
        load=load,
        drift=_drift(list(reference)),
        scatter=_spread(list(reference)),
        protocol=protocol,
    )
