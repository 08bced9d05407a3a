"""A hundred thousand machine variants of GNMT against the same arithmetic written by hand in numpy and numba.

Thread CPU time, best of several. As a script it measures more: ``python tests/benchmarks/test_sweep_speed.py 1000000``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload

LENGTHS = np.linspace(10, 200, 20).round()
V100 = machine("v100-sxm")
BANDWIDTH = f"machine.memory.{V100.main_memory}.bandwidth"
FREE = ("workload.seq_len", "machine.clock", BANDWIDTH)


def points(count: int) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    clock, bandwidth = generator.uniform(8e8, 3e9, count), generator.uniform(1e11, 4e12, count)
    return {"workload.seq_len": LENGTHS[:, None], "machine.clock": clock[None], BANDWIDTH: bandwidth[None]}


def tables() -> list[tuple[Any, Any, float]]:
    """By length: flop and bytes of the distinct operations, each as often as it is done, and the launches."""
    found = []
    for length in LENGTHS:
        bound = workload("gnmt").bind_known({"seq_len": float(length), "batch": 64})
        ops = [op for op in bound if op.kind not in V100.runtime.free_kinds]
        rows = np.array([[float(op.cost.flop), float(op.cost.bytes_moved)] for op in ops])
        times = np.array([float(op.times) for op in ops])
        launches = float(np.sum(times * np.array([float(op.cost["launches"]) for op in ops])))
        distinct, which = np.unique(rows, axis=0, return_inverse=True)
        weights = np.bincount(which.ravel(), times)
        found.append((distinct[:, 0] * weights, distinct[:, 1] * weights, launches))
    return found


RATE = V100.cores * V100.engines["vector"].flop_per_cycle["float32"]
L2_RATE = V100.bandwidth("L2") / V100.clock
OVERHEAD = V100.runtime.launch_overhead


def by_hand(made: list[tuple[Any, Any, float]], clock: Any, bandwidth: Any, chunk: int = 32_768) -> Any:
    out = np.empty((len(made), len(clock)))
    for start in range(0, len(clock), chunk):
        window = slice(start, start + chunk)
        x = 1 / (clock[window] * RATE)
        y = np.maximum(1 / bandwidth[window], 1 / (clock[window] * L2_RATE))
        for index, (flop, moved, launches) in enumerate(made):
            total = np.full(len(x), launches * OVERHEAD)
            for one, other in zip(flop, moved, strict=True):
                total += np.maximum(one * x, other * y)
            out[index, window] = total
    return out


def best(call: Callable[[], Any], repeats: int = 5) -> float:
    spent = []
    for _ in range(repeats):
        start = time.thread_time()
        call()
        spent.append(time.thread_time() - start)
    return min(spent)


def compiled() -> Any:
    return ComposedEstimator(Roofline(), Sequential()).compile(workload("gnmt"), V100, FREE)


@pytest.mark.timed
def test_no_slower_than_one_and_a_half_times_numpy_by_hand() -> None:
    values, made, function = points(100_000), tables(), compiled()
    clock, bandwidth = values["machine.clock"][0], values[BANDWIDTH][0]
    assert np.allclose(function(values), by_hand(made, clock, bandwidth), rtol=1e-12)
    assert best(lambda: function(values)) <= 1.5 * best(lambda: by_hand(made, clock, bandwidth))


def main(count: int) -> None:
    import resource

    import numba

    @numba.njit(fastmath=True)  # type: ignore[untyped-decorator]
    def loops(clock: Any, bandwidth: Any, flop: Any, moved: Any, launches: Any, out: Any) -> None:
        for index in range(flop.shape[0]):
            for point in range(len(clock)):
                x, total = 1 / (clock[point] * RATE), launches[index] * OVERHEAD
                y = max(1 / bandwidth[point], 1 / (clock[point] * L2_RATE))
                for row in range(flop.shape[1]):
                    total += max(flop[index, row] * x, moved[index, row] * y)
                out[index, point] = total

    function, made = compiled(), tables()
    for size in (10_000, 100_000, 1_000_000):
        values = points(size)
        spent = best(lambda values=values: function(values), 3)  # type: ignore[misc]
        print(f"{20 * size:>10,} points: {spent:.3f} s CPU, {spent / size / 20 * 1e9:.0f} ns a point")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")
    values = points(count)
    clock, bandwidth = values["machine.clock"][0], values[BANDWIDTH][0]
    widest = max(len(flop) for flop, _, _ in made)
    flop, moved = (np.zeros((len(made), widest)) for _ in range(2))
    for index, (one, other, _) in enumerate(made):
        flop[index, : len(one)], moved[index, : len(other)] = one, other
    launches, out = np.array([launch for _, _, launch in made]), np.empty((20, count))
    loops(clock[:9], bandwidth[:9], flop, moved, launches, out[:, :9].copy())
    ours, numpy_ = best(lambda: function(values), 3), best(lambda: by_hand(made, clock, bandwidth), 3)
    numba_ = best(lambda: loops(clock, bandwidth, flop, moved, launches, out), 3)
    print(f"20 x {count:,}: ours {ours:.2f} s, numpy {numpy_:.2f} s, numba {numba_:.2f} s CPU")
    print(f"ratio to numpy {ours / numpy_:.2f}, to numba {ours / numba_:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
