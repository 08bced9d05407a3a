"""What every cache does to products, attention, stencils, gathers and sparse products, on machines of several kinds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slipstick as ss
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.cpu.cpu_roofline import CpuRoofline
from slipstick.estimators.cpu.saturating_loops import SaturatingLoops
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.symbolic.cache_residency import CYCLIC, blocked_cost, missed
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.kernels.loop_kernels import kernel_named, loop_workload
from slipstick.workloads.layers.single import gemm

CPUS = ("xeon-gold-6148", "epyc-7452", "ryzen-9-7950x")
GPUS = ("a100-sxm-80gb", "v100-pcie", "mi300a", "rx-6900-xt")
MODELS: dict[str, FormulaModel] = {"tiled": TiledRoofline(), "cpu": CpuRoofline()}


def loop(name: str, size: int) -> Op:
    kernel = kernel_named(name)
    return loop_workload(name, kernel).bind(**dict.fromkeys("xyz"[: kernel.dimensions], size)).operations[0]


def gather(rows: int, table: int) -> Op:
    return operation("pick", "gather", {"rows": rows, "width": 64, "table": table}, "float32")


KERNELS: dict[str, Callable[[int], Op]] = {
    "stream": lambda size: loop("triad", size**2),
    "stencil": lambda size: loop("2d-5pt", size),
    "planes": lambda size: loop("3d-7pt", max(8, round(size ** (2 / 3)))),
    "product": lambda size: gemm("o", size, max(1, size // 3), size),
    "gather": lambda size: gather(size * 64, size * 8),
}
"""By a size from which a level of memory follows."""


def seconds(op: Op, on: Machine) -> float:
    cpu = not on.family.startswith(("nvidia", "amd-cdna", "amd-rdna"))
    if cpu and op.attributes.get("loop"):
        return float(SaturatingLoops().times([op], on)[0])
    return float(MODELS["cpu" if cpu else "tiled"].times([op], on)[0])


cases = st.tuples(st.sampled_from(sorted(KERNELS)), st.sampled_from(CPUS + GPUS), st.integers(40, 6000))


@given(cases, st.floats(0.05, 1.0))
def test_less_of_a_cache_is_never_faster(case: tuple[str, str, int], less: float) -> None:
    kernel, name, size = case
    on, op = machine(name), KERNELS[kernel](size)
    whole = seconds(op, on)
    for level in list(on.memory)[:-1]:
        for field in ("capacity", "bandwidth", "bytes_per_cycle"):
            path = f"memory.{level}.{field}"
            if on.get(path):
                assert seconds(op, on.using({path: on.get(path) * less})) >= whole * (1 - 1e-9), path


@given(cases, st.floats(0.3, 3.0))
def test_no_jump_at_a_capacity(case: tuple[str, str, int], factor: float) -> None:
    """One percent of a cache moves a time by as much as the law's steepest slope, n / 4 of what there is to lose."""
    kernel, name, size = case
    base, op = machine(name), KERNELS[kernel](size)
    for level in list(base.memory)[:-1]:
        path = f"memory.{level}.capacity"
        here, there = (seconds(op, base.using({path: base.get(path) * factor * more})) for more in (1.0, 1.01))
        assert there <= here * (1 + 1e-9)
        assert there >= here / 1.01 ** (CYCLIC + 1)


def test_planes_of_a_stencil_are_read_again_where_the_last_cache_cannot_hold_them() -> None:
    """Layer condition: three planes of the one array and one of the other between two uses; without it three reads."""
    on = machine("a100-sxm-80gb").using({"runtime.launch_overhead": 0.0, "runtime.cache": "cold"})
    op, volume = loop("3d-7pt", 400), 4 * 400**2 * 8

    def time(capacity: float) -> float:
        return float(TiledRoofline().times([op], on.using({"memory.L2.capacity": capacity}))[0])

    once = time(30 * volume)
    assert time(volume / 10) / once == pytest.approx((2 + 2) / 2, rel=0.02)
    assert time(volume) / once == pytest.approx(1 + 2 * 0.5 / 2, rel=0.02)


def test_rows_of_a_small_table_are_read_from_memory_once() -> None:
    on = machine("a100-sxm-80gb").using({"runtime.launch_overhead": 0.0})
    small, large = (seconds(gather(10**6, table), on) for table in (1_000, 10**6))
    assert small < 0.7 * large
    lost = on.using({"memory.L2.capacity": 100})
    assert seconds(gather(10**6, 1_000), lost) == pytest.approx(seconds(gather(10**6, 10**6), lost), rel=1e-3)


@given(st.floats(1e3, 1e9), st.floats(1e3, 1e9), st.sampled_from((2, 3, 6)))
def test_numbers_arrays_and_expressions_are_one_law(distance: float, capacity: float, sharpness: int) -> None:
    from slipstick.common.expressions import symbol

    volume, held = symbol("volume"), symbol("held")
    one = missed(distance, capacity, sharpness)
    assert one == pytest.approx(1 / (1 + (capacity / distance) ** sharpness))
    assert missed(np.array([distance]), np.array(capacity), sharpness)[0] == pytest.approx(one)
    assert float(missed(volume, held, sharpness).subs({volume: distance, held: capacity})) == pytest.approx(one)
    assert missed(distance, capacity, math.inf) == (1.0 if distance > capacity else 0.0)
    assert missed(0.0, 0.0) == 0


def test_blocks_of_a_product_move_what_hong_and_kung_bound() -> None:
    """A cache of M numbers: at least n^3 / (2 sqrt(2 M)) of them cross; square blocks move 2 n^3 sqrt(3 / M)."""
    n, held, size = 10_000.0, 3e6, 8.0
    again = float(blocked_cost(n**3, 0.0, size, [held], [0.0, 1.0]))  # type: ignore[arg-type, list-item]
    numbers = held / size
    assert again / size == pytest.approx(2 * math.sqrt(3) * n**3 / math.sqrt(numbers))
    assert again / size > n**3 / (2 * math.sqrt(2) * math.sqrt(numbers))


@pytest.mark.parametrize("name", ["spmv-grid", "gpt2"])
@pytest.mark.parametrize("on", ["a100-sxm-80gb", "epyc-7452"])
def test_answers_grow_as_the_last_cache_shrinks(name: str, on: str) -> None:
    whole = machine(on)
    level = list(whole.memory)[-2]
    path, sizes = f"memory.{level}.capacity", FrozenDict({"batch": 8, "seq_len": 128} if name == "gpt2" else {})
    times = [
        ss.estimate(name, whole.using({path: whole.get(path) * share}), **sizes).time for share in (1, 0.5, 0.1, 0.01)
    ]
    assert times == sorted(times)
    assert times[-1] > times[0]
