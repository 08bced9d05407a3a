"""What the host can do: bandwidth and latency of every level, dependent additions, matrix products; and its machine.

Bandwidths and latencies are taken by `clocks.timing` on the thread CPU clock. For several cores each
thread runs its own arrays and divides its bytes by its own CPU time; their sum is the bandwidth. Bytes are *traffic*,
with the line that a store loads first. What is faster than cores can issue loads is refused as a broken measurement.

The loops that measure a host: streams, a summation chain, a gather and a chase, compiled by numba.

Each returns a number that depends on all its work, so that no compiler may leave it out. numba is imported on first use
(the extra ``measure``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import numba
from slipstick.experiments.measure.clocks.timing import Protocol, Timing, load_per_core, measure, seconds_together
from slipstick.experiments.measure.host.host_topology import detect
from slipstick.hwmodels.importers.lscpu import Topology
from slipstick.hwmodels.machine import Machine

Loop = Callable[..., float]


@dataclass(frozen=True)
class Stream:
    """One bandwidth benchmark over arrays of n doubles.

    `arrays`: how many arrays it runs over.
    `counted`, `traffic`: bytes an element as STREAM counts them, and as they move: a written line is loaded first.
    """

    arrays: int
    counted: int
    traffic: int


STREAMS = {"load": Stream(1, 8, 8), "scale": Stream(2, 16, 24), "triad": Stream(3, 24, 32)}


@cache
def compiled() -> dict[str, Loop]:
    """The loops by name, compiled to run without the interpreter's lock.

    Raises InputError where numba is not installed.
    """
    fast: Any = numba.njit(nogil=True, fastmath=True)
    strict: Any = numba.njit(nogil=True)
    return {
        "load": fast(_load),
        "scale": fast(_scale),
        "triad": fast(_triad),
        "gather": fast(_gather),
        "chain": strict(_chain),
        "chase": strict(_chase),
    }


def _load(a: FloatArray, repeats: int) -> float:
    total = 0.0
    for r in range(repeats):
        part = 0.0
        for i in range(a.size):
            part += a[i]
        total += part * (r + 1)
        a[r % a.size] += 1e-9  # the next round sums other numbers
    return total


def _scale(a: FloatArray, b: FloatArray, repeats: int) -> float:
    for r in range(repeats):
        factor = 1.0 + 1e-9 * r
        for i in range(a.size):
            a[i] = factor * b[i]
    return float(a[0] + a[a.size - 1])


def _triad(a: FloatArray, b: FloatArray, c: FloatArray, repeats: int) -> float:
    for r in range(repeats):
        factor = 1.0 + 1e-9 * r
        for i in range(a.size):
            a[i] = b[i] + factor * c[i]
    return float(a[0] + a[a.size - 1])


def _gather(x: FloatArray, index: IntArray, repeats: int) -> float:
    total = 0.0
    for r in range(repeats):
        part = 0.0
        for i in range(index.size):
            part += x[index[i]]
        total += part * (r + 1)
    return total


def _chain(a: FloatArray, repeats: int) -> float:
    """Each addition waits for the one before: strict arithmetic forbids to split the sum."""
    total = 0.0
    for _ in range(repeats):
        for i in range(a.size):
            total += a[i]
    return total


def _chase(following: IntArray, steps: int) -> float:
    """Each address is what the load before returned."""
    place = 0
    for _ in range(steps):
        place = following[place]
    return float(place)


def cycle_through(count: int, seed: int = 0) -> IntArray:
    """For each place the next one of a random closed tour through all `count` places: nothing can be fetched ahead."""
    order = np.random.default_rng(seed).permutation(count)
    following = np.empty(count, dtype=np.int64)
    following[order] = np.roll(order, -1)
    return following


MAX_ARRAY_BYTES = 256_000_000
GATHERED = 100_000
MEMORY = "DRAM"
PLAUSIBLE_BYTES_PER_CYCLE = 512.0
"""Two loads and a store of 64 bytes a cycle, at up to 2.67 times the stated clock: servers boost from 2 to 4 GHz."""


@dataclass(frozen=True)
class HostRate:
    """One measured quantity of the host.

    `value`: in `unit`; of all `cores` together.
    `spread`: interquartile range over median of the samples.
    """

    quantity: str
    level: str
    benchmark: str
    cores: int
    value: float
    unit: str
    spread: float
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostMeasurement:
    """All results, and the conditions they were taken under."""

    topology: Topology
    results: tuple[HostRate, ...]
    protocol: Protocol
    when: str
    load: float | None

    def best(self, quantity: str, level: str = "", cores: int | None = None) -> float | None:
        """The largest value of a quantity, in its SI unit; None where it was not measured."""
        values = [
            r.value
            for r in self.results
            if r.quantity == quantity and r.level == level and (cores is None or r.cores == cores)
        ]
        return max(values, default=None)

    def machine(self, name: str = "host") -> Machine:
        """The host as a machine, its bandwidths, latencies and vector peak measured.

        A stream from the third cache passes the path to the second as well: what is left of its time is its own path's.
        """
        base = self.topology.machine(name)
        changes: dict[str, object] = {}
        loaded = any(UNDER_LOAD in flag for rate in self.results for flag in rate.flags)
        how = f"measured on {self.when} ({self.protocol}{f'; {UNDER_LOAD}: may be higher' if loaded else ''})"
        passed: float | None = None
        for place, level in enumerate(base.memory):
            latency = self.best("latency", level)
            if latency is not None:
                changes[f"memory.{level}.latency"] = latency
            reached = self.best("capacity reached", level)
            if reached is not None:
                changes[f"memory.{level}.capacity"] = min(reached, base.memory[level].capacity)
            one = self.best("bandwidth", level, cores=1)
            if one is not None and level != base.main_memory:
                path = one if passed is None or one >= passed or place < 2 else 1 / (1 / one - 1 / passed)
                changes[f"memory.{level}.bytes_per_cycle"] = path / base.clock
                passed = one
        curve = sorted({r.cores for r in self.results if r.quantity == "bandwidth" and r.level == base.main_memory})
        if curve:
            points = [(cores, self.best("bandwidth", base.main_memory, cores)) for cores in curve]
            changes[f"memory.{base.main_memory}.bandwidth"] = points[-1][1]
            changes[f"memory.{base.main_memory}.bandwidth_by_cores"] = points
        for dtype in ("float32", "float64"):
            rates = [r.value for r in self.results if r.quantity == "matrix product" and r.benchmark == dtype]
            if rates:
                changes[f"engines.vector.flop_per_cycle.{dtype}"] = rates[0] / base.clock
        sources = {**base.sources, **dict.fromkeys(changes, how)}
        return base.using(changes).model_copy(update={"sources": type(base.sources)(sources)})


def measure_host(
    topology: Topology | None = None,
    protocol: Protocol | None = None,
    progress: Callable[[str], None] | None = None,
) -> HostMeasurement:
    """Measure every level of the host.

    `topology`: the host's; detected if None.
    `progress`: called with a word about what comes next.
    Raises InputError where numba is missing, or a result is not plausible.
    """
    topology = topology if topology is not None else detect()
    protocol = protocol or Protocol()
    say = progress or (lambda text: None)
    say("compiling the loops")
    sizes = level_sizes(topology)
    results: list[HostRate] = []
    say("one core: bandwidth of every level")
    results += _bandwidths(sizes, protocol)
    results += _reached(topology, sizes, results, protocol) if topology.caches else []
    say("one core: latencies, summation, gather")
    results += _latencies(sizes, protocol)
    for cores in range(2, topology.cores + 1):
        say(f"{cores} cores: bandwidth of main memory")
        results += _many_cores(cores, sizes[MEMORY], protocol)
    say("matrix products")
    results += _products(topology.cores, protocol)
    _check_plausible(results, topology)
    when = datetime.now(UTC).date().isoformat()
    return HostMeasurement(topology, tuple(results), protocol, when, load_per_core())


UNDER_LOAD = "under load"
PASSES = 3
"""Over the bandwidths, where one was disturbed: neighbours only slow a loop down, so that the fastest counts."""
PASSES_OF_A_CACHE = 16
"""Over a cache's arrays in a sample: the first finds what the samples between have left there."""
FASTER = 1.3
"""How many times as fast as main memory a last cache is at least, for its end to be seen."""
STEADY, QUIET = 0.15, 1.5
"""Spread of samples, and programs that run at once (this one included), from which a pass counts as disturbed."""


def level_sizes(topology: Topology) -> dict[str, int]:
    """Bytes of a benchmark's arrays that live in each level: half of a cache, four times the last one for memory.

    At most four times the nearer cache: of a last cache that many cores share, others may hold most.
    """
    sizes: dict[str, int] = {}
    for level, nearer in zip(topology.caches, (topology.caches[:1] + topology.caches), strict=False):
        sizes[level.name] = int(min(level.capacity / 2, 4 * nearer.capacity))
    last = max((cache.capacity for cache in topology.caches), default=8e6)
    sizes[MEMORY] = int(min(4 * last, MAX_ARRAY_BYTES))
    return sizes


def _bandwidths(sizes: Mapping[str, int], protocol: Protocol) -> list[HostRate]:
    loops = compiled()
    tasks: dict[tuple[str, str], Callable[[], object]] = {}
    bytes_moved: dict[tuple[str, str], float] = {}
    for level, size in sizes.items():
        for name, stream in STREAMS.items():
            count = max(64, size // (8 * stream.arrays))
            arrays = [np.full(count, 1.0 + i) for i in range(stream.arrays)]
            repeats = max(1 if level == MEMORY else PASSES_OF_A_CACHE, int(4e6 / size))
            tasks[level, name] = partial(loops[name], *arrays, repeats)
            bytes_moved[level, name] = count * repeats * stream.traffic
    named = {f"{level} {name}": task for (level, name), task in tasks.items()}
    passes = [measure(named, protocol)]
    while len(passes) < PASSES and any(map(_disturbed, passes[-1].values())):
        passes.append(measure(named, protocol))
    rates = []
    for level, name in tasks:
        timings = sorted((one[f"{level} {name}"] for one in passes), key=lambda timing: timing.value)
        best = _result("bandwidth", level, name, 1, bytes_moved[level, name], "byte/s", timings[0])
        rates.append(replace(best, flags=(*best.flags, *_shared(timings))))
    return rates


def _reached(
    topology: Topology, sizes: Mapping[str, int], rates: Sequence[HostRate], protocol: Protocol
) -> list[HostRate]:
    """How much of the last cache this machine reaches: where half of a cyclic load comes from main memory.

    A virtual machine has a part of a cache that its host shares out. Empty where the whole is reached, or the cache is
    hardly faster than the memory.
    """
    last = topology.caches[-1]
    bytes_of = [int(sizes[last.name] * 2**step) for step in range(1, 12) if sizes[last.name] * 2**step < last.capacity]
    near, far = (next(r.value for r in rates if (r.level, r.benchmark) == (one, "load")) for one in (last.name, MEMORY))
    if not bytes_of or near < FASTER * far:
        return []
    tasks = {str(size): partial(compiled()["load"], np.ones(size // 8), PASSES_OF_A_CACHE) for size in bytes_of}
    timings = measure(tasks, protocol)
    seconds = {size: timings[str(size)].value / PASSES_OF_A_CACHE / size for size in bytes_of}
    lost = np.array([(seconds[size] - 1 / near) / (1 / far - 1 / near) for size in bytes_of])
    if not (lost > 0.5).any():
        return []
    at = int(np.argmax(lost > 0.5))
    capacity = float(np.exp(np.interp(0.5, lost[: at + 1], np.log(bytes_of[: at + 1]))))
    return [HostRate("capacity reached", last.name, "load", 1, capacity, "byte", 0.0)]


def _disturbed(timing: Timing) -> bool:
    """Whether somebody else may have used the caches and the memory meanwhile."""
    running = max(timing.load or (0.0,)) * (os.cpu_count() or 1)
    return bool(timing.flags) or timing.spread > STEADY or running > QUIET


def _shared(timings: Sequence[Timing]) -> tuple[str, ...]:
    """What to warn of where the fastest of several passes may still be that of a machine under load."""
    fast, slow = timings[0], timings[-1]
    if not _disturbed(fast):
        return ()
    load, apart = max(fast.load) if fast.load else float("nan"), slow.value / fast.value - 1
    return (
        f"{UNDER_LOAD} ({load:.1f} a core): the fastest of {len(timings)} passes, which differ by {apart:.0%}; "
        "measure on a quiet machine",
    )


def _latencies(sizes: Mapping[str, int], protocol: Protocol) -> list[HostRate]:
    loops = compiled()
    tasks: dict[str, Callable[[], object]] = {}
    count: dict[str, int] = {}
    # one place a cache line, so that each step is another line
    for level, size in sizes.items():
        places = max(16, size // 64)
        steps = min(200_000, 20 * places)
        following = np.zeros(places * 8, dtype=np.int64)
        following[::8] = cycle_through(places) * 8
        tasks[f"latency {level}"], count[f"latency {level}"] = partial(loops["chase"], following, steps), steps
        values = np.ones(max(64, size // 8))
        index = np.random.default_rng(1).integers(0, values.size, GATHERED)
        tasks[f"gather {level}"], count[f"gather {level}"] = partial(loops["gather"], values, index, 1), GATHERED
    numbers = np.ones(max(64, next(iter(sizes.values())) // 8))
    tasks["chain"], count["chain"] = partial(loops["chain"], numbers, 50), 50 * numbers.size
    timings = measure(tasks, protocol)
    latencies = []
    for name, timing in timings.items():
        quantity, _, level = name.partition(" ")
        label = {"latency": "latency", "gather": "gather", "chain": "dependent addition"}[quantity]
        benchmark = "" if quantity != "chain" else "float64"
        flags = timing.flags
        value = timing.value / count[name]
        latencies.append(HostRate(label, level, benchmark, 1, value, "s", timing.spread, flags))
    return latencies


def _many_cores(cores: int, size: int, protocol: Protocol) -> list[HostRate]:
    """Every thread over its own arrays at once; bytes over its own CPU time, summed."""
    loops = compiled()
    result = []
    for name, stream in STREAMS.items():
        count = size // (8 * stream.arrays)
        sets = [[np.full(count, 1.0 + i) for i in range(stream.arrays)] for _ in range(cores)]
        rates = []
        for _ in range(max(3, protocol.repeats // 2)):

            def prepared(
                rank: int, loop: Loop = loops[name], arrays: list[list[np.ndarray]] = sets
            ) -> Callable[[], object]:
                loop(*arrays[rank], 1)
                return partial(loop, *arrays[rank], 2)

            seconds = seconds_together(cores, prepared)
            rates.append(sum(2 * count * stream.traffic / one for one in seconds))
        low, middle, high = np.quantile(rates, [0.25, 0.5, 0.75])
        result.append(HostRate("bandwidth", MEMORY, name, cores, float(middle), "byte/s", float((high - low) / middle)))
    return result


def _products(cores: int, protocol: Protocol) -> list[HostRate]:
    """Square matrix products on one thread: one core's rate (threads that wait for each other spin, on a busy host)."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    n = 768
    tasks: dict[str, Callable[[], object]] = {}
    rng = np.random.default_rng(2)
    for dtype in ("float32", "float64"):
        a, b = (rng.random((n, n)).astype(dtype) for _ in range(2))
        tasks[dtype] = partial(_product, a, b, np.empty((n, n), dtype))
    with threadpool_limits(1):
        timings = measure(tasks, protocol)
    return [_result("matrix product", "", dtype, 1, 2.0 * n**3, "flop/s", timings[dtype]) for dtype in tasks]


def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> float:
    np.matmul(a, b, out=out)
    return float(out[0, 0])


def _result(
    quantity: str, level: str, benchmark: str, cores: int, amount: float, unit: str, timing: Timing
) -> HostRate:
    value = amount / timing.value
    return HostRate(quantity, level, benchmark, cores, value, unit, timing.spread, timing.flags)


def _check_plausible(results: list[HostRate], topology: Topology) -> None:
    if topology.clock is None:
        return
    for r in results:
        limit = PLAUSIBLE_BYTES_PER_CYCLE * topology.clock * r.cores
        if r.quantity == "bandwidth" and r.value > limit:
            raise InputError(
                f"{r.level} {r.benchmark}: measured {r.value:.3g} byte/s, more than {r.cores} cores can move "
                f"({limit:.3g} byte/s): the loop was optimised away or the clock is wrong"
            )
