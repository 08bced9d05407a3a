"""Matrix products x machines through the tiled roofline, beside the same formula by hand in numpy and in numba.

    python tests/benchmarks/operations_by_machines.py [OPERATIONS [MACHINES]]

All 50 kernels of the menu are tried for each pair. One core, thread CPU time, the three interleaved, medians of several
rounds. The hand-written numpy works in blocks that fit the cache, one kernel after the other; all three agree.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy as sp

from slipstick.estimators.core.operation_model import machine_values
from slipstick.estimators.operation.gpu.kernel_classes import KernelParameters
from slipstick.estimators.operation.gpu.tiled import TiledRoofline
from slipstick.estimators.operation.gpu.tiles import SPLITS, TILES
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation

ROUNDS = 7
A100 = machine("a100-sxm-80gb").using({"power.cap": None})
MAIN = f"machine.memory.{A100.main_memory}.bandwidth"
OWN = KernelParameters()
FLOP_PER_CYCLE = A100.engines["vector"].flop_per_cycle["float32"]
NEAR, NEAR_RATE = A100.memory["L1"].capacity, A100.memory["L1"].bytes_per_cycle
L2_RATE = A100.memory["L2"].bytes_per_cycle
LAUNCH = A100.runtime.launch_overhead + OWN.overhead


def inputs(operations: int, machines: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Dims, shape (operations, 1), and machines, shape (machines,)."""
    generator = np.random.default_rng(0)
    dims = {n: 2.0 ** generator.integers(4, 13, operations)[:, None] for n in ("batch", "m", "n", "k")}
    dims["batch"] = np.minimum(dims["batch"], 64.0)
    variants = {
        "machine.clock": generator.uniform(1e9, 2e9, machines),
        "machine.cores": generator.integers(40, 160, machines).astype(float),
        "machine.memory.L2.capacity": generator.uniform(4e6, 6e7, machines),
        MAIN: generator.uniform(5e11, 4e12, machines),
    }
    return dims, variants


def ours(dims: Mapping[str, Any], variants: Mapping[str, Any]) -> Callable[[], Any]:
    """The project's formula on the same arrays."""
    symbols = {n: sp.Symbol(n, positive=True) for n in dims}
    formula = TiledRoofline().formula(operation("row", "gemm", symbols, "float32"), A100)
    own = {f"parameter.kernels.default.{n}": getattr(OWN, n) for n in KernelParameters.__dataclass_fields__}
    values: dict[str, Any] = {**machine_values(formula, A100), **own, **variants}
    values |= {f"operation.{n}": array for n, array in dims.items()}
    flop = 2 * dims["batch"] * dims["m"] * dims["n"] * dims["k"]
    moved = 4 * dims["batch"] * (dims["m"] * dims["k"] + dims["k"] * dims["n"] + dims["m"] * dims["n"])
    values |= {"operation.flop.matrix.float32": flop, "operation.flop": flop, "operation.launches": 1.0}
    values["operation.bytes_moved"] = moved
    return lambda: formula.evaluate({name: values[name] for name in formula.names})


def by_hand(dims: Mapping[str, Any], variants: Mapping[str, Any], block: int = 256) -> Any:
    """The same in numpy, block by block of operations, kernel by kernel."""
    clock, cores, capacity, main = (variants[n] for n in variants)
    out = np.empty((len(dims["m"]), len(clock)))
    memory, cache = main * OWN.memory_efficiency, L2_RATE * clock * cores
    rate = cores * clock * FLOP_PER_CYCLE * OWN.compute_efficiency
    near = NEAR_RATE * clock
    for start in range(0, len(out), block):
        batch, m, n, k = (dims[name][start : start + block] for name in ("batch", "m", "n", "k"))
        a, b, c = batch * m * k * 4, batch * k * n * 4, batch * m * n * 4
        touched = a + b + c
        penalty = 1 + OWN.unaligned * np.minimum(1, m % 4 + k % 4)
        cubed = capacity**3
        spared = 0.9 * cubed / (cubed + (touched * OWN.rotation) ** 3)
        beyond, kept = (1 - spared) / memory, touched * spared / cache
        squared = capacity**2
        best = np.full((len(m), len(clock)), np.inf)
        for rows, columns in TILES:
            effort = 1 + OWN.small_tile * max(0.0, 128 * 128 / (rows * columns) - 1)
            side = max(1 / 8, min(1.0, (NEAR / ((rows + columns) * 64)) ** 0.5))
            loads = (rows + columns) * 4 / near + (rows + columns) * 4 * (1 / side - 1) * cores / cache
            step = np.maximum(2 * rows * columns * cores / rate * effort, loads * penalty)
            step = np.maximum(step, OWN.step_cycles / clock)
            tiles = batch * np.ceil(m / rows) * np.ceil(n / columns)
            reach = np.sqrt(np.minimum(tiles, cores) * rows * columns)
            panel = (k * 4 * (np.minimum(reach, m) + np.minimum(reach, n))) ** 2
            missed = panel / (panel + squared)
            again_a = 1 + (np.maximum(n / np.maximum(reach, columns), 1) - 1) * missed
            again_b = 1 + (np.maximum(m / np.maximum(reach, rows), 1) - 1) * missed
            traffic = ((a * again_a + b * again_b + c) * beyond + kept) * penalty
            for parts in SPLITS:
                split = min(1, parts - 1)
                work = np.ceil(tiles * parts / cores) * (step * np.ceil(k / parts) + OWN.tile_cycles / clock)
                if split:
                    work = work + (OWN.split_overhead + 2 * parts * c / memory)
                    work += np.maximum(0, 64 * parts / k - 1)
                time_ = np.maximum(work, traffic) + OWN.overlap * np.minimum(work, traffic)
                np.minimum(best, time_, out=best)
        out[start : start + block] = LAUNCH + best
    return out


def with_numba() -> Callable[..., Any]:
    """The same as loops, compiled."""
    import numba

    tiles, splits = np.array(TILES, dtype=float), np.array(SPLITS, dtype=float)
    compute, memory_, unaligned, rotation = (
        OWN.compute_efficiency,
        OWN.memory_efficiency,
        OWN.unaligned,
        OWN.rotation,
    )
    small, overlap, steps, start, extra = (
        OWN.small_tile,
        OWN.overlap,
        OWN.step_cycles,
        OWN.tile_cycles,
        OWN.split_overhead,
    )
    launch, lanes, near_capacity, near_cycles, far_cycles = LAUNCH, FLOP_PER_CYCLE, NEAR, NEAR_RATE, L2_RATE

    @numba.njit(fastmath=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def loops(batch: Any, m: Any, n: Any, k: Any, clock: Any, cores: Any, capacity: Any, main: Any, out: Any) -> None:
        for i in range(len(m)):
            a, b, c = batch[i] * m[i] * k[i] * 4, batch[i] * k[i] * n[i] * 4, batch[i] * m[i] * n[i] * 4
            touched = a + b + c
            penalty = 1 + unaligned * min(1.0, m[i] % 4 + k[i] % 4)
            for j in range(len(clock)):
                memory, cache = main[j] * memory_, far_cycles * clock[j] * cores[j]
                rate, near = cores[j] * clock[j] * lanes * compute, near_cycles * clock[j]
                used = touched * rotation
                spared = 0.9 * capacity[j] ** 3 / (capacity[j] ** 3 + used * used * used)
                best = np.inf
                for t in range(len(tiles)):
                    rows, columns = tiles[t, 0], tiles[t, 1]
                    effort = 1 + small * max(0.0, 16384 / (rows * columns) - 1)
                    side = max(0.125, min(1.0, np.sqrt(near_capacity / ((rows + columns) * 64))))
                    loads = (rows + columns) * 4 / near + (rows + columns) * 4 * (1 / side - 1) * cores[j] / cache
                    step = max(2 * rows * columns * cores[j] / rate * effort, loads * penalty, steps / clock[j])
                    blocks = batch[i] * np.ceil(m[i] / rows) * np.ceil(n[i] / columns)
                    reach = np.sqrt(min(blocks, cores[j]) * rows * columns)
                    panel = k[i] * 4 * (min(reach, m[i]) + min(reach, n[i]))
                    missed = panel * panel / (panel * panel + capacity[j] * capacity[j])
                    again_a = 1 + (max(n[i] / max(reach, columns), 1.0) - 1) * missed
                    again_b = 1 + (max(m[i] / max(reach, rows), 1.0) - 1) * missed
                    moved = (a * again_a + b * again_b + c) * (1 - spared) / memory
                    traffic = (moved + touched * spared / cache) * penalty
                    for s in range(len(splits)):
                        parts = splits[s]
                        work = np.ceil(blocks * parts / cores[j]) * (step * np.ceil(k[i] / parts) + start / clock[j])
                        if parts > 1:
                            work += extra + 2 * parts * c / memory + max(0.0, 64 * parts / k[i] - 1)
                        best = min(best, max(work, traffic) + overlap * min(work, traffic))
                out[i, j] = launch + best

    compiled: Callable[..., Any] = loops
    return compiled


def main(operations: int = 4000, machines: int = 25) -> None:
    """Print seconds, evaluations a second, and the two ratios."""
    dims, variants = inputs(operations, machines)
    formula = ours(dims, variants)
    loops, out = with_numba(), np.empty((operations, machines))
    columns = [dims[n].ravel() for n in ("batch", "m", "n", "k")]
    loops(*(column[:2] for column in columns), *variants.values(), out[:2])
    calls: dict[str, Callable[[], Any]] = {
        "ours": formula,
        "numpy": lambda: by_hand(dims, variants),
        "numba": lambda: loops(*columns, *variants.values(), out),
    }
    answers = {name: call() for name, call in calls.items()}
    assert np.allclose(answers["ours"], answers["numpy"], rtol=1e-9)
    assert np.allclose(answers["ours"], out, rtol=1e-9)
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.thread_time()
            call()
            spent[name].append(time.thread_time() - start)
    medians = {name: statistics.median(values) for name, values in spent.items()}
    pairs = operations * machines
    for name, median in medians.items():
        print(
            f"{name}: {median:.3f} s, {pairs / median:,.0f} evaluations a second ({50 * pairs / median:,.0f} kernels)"
        )
    print(f"ratio to numpy {medians['ours'] / medians['numpy']:.2f}, to numba {medians['ours'] / medians['numba']:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
