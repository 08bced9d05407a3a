"""Operations on a CPU: borders of cores and caches, chains and gathers, and laws over random machines."""

import dataclasses
import itertools
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slipstick.estimators.base.operation_model import machine_values
from slipstick.estimators.cpu.cpu_roofline import CpuRoofline
from slipstick.estimators.cpu.multicore_bandwidth import BranchBorders, Saturation
from slipstick.estimators.symbolic.lambdified import evaluate
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.importers.kerncraft import load_kerncraft
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.layers.single import convolution, elementwise, gemm

PLAIN = CpuRoofline(write_allocate=0.0)
HASWELL = load_kerncraft(Path(__file__).parents[1] / "data" / "kerncraft_cod.yml").machine()
# latencies of the levels in seconds: measured on no particular machine, of the right order
LATENCIES = {
    "memory.L1.latency": 2e-9,
    "memory.L2.latency": 6e-9,
    "memory.L3.latency": 2e-8,
    "memory.MEM.latency": 9e-8,
}


def seconds(op: Op, on: Machine, model: CpuRoofline = PLAIN) -> float:
    return float(model.times([op], on)[0])


def add(elements: int) -> Op:
    return elementwise("add", elements, inputs=2, dtype="float64")


def test_main_memory_saturates_as_the_bandwidth_law_says() -> None:
    op = add(10**8)
    for cores in (1, 2, 4, 14):
        # both halves of the socket fill evenly: the whole socket's limit against the offer of all cores
        curve = Saturation(10.34e9 * 1.5, HASWELL.bandwidth("MEM"), 3.5, BranchBorders(14))
        expected = float(op.cost.bytes_moved) / float(curve.bandwidth(cores))
        assert seconds(op, HASWELL.using(cores=cores)) == pytest.approx(expected, rel=1e-9)


def test_stores_load_their_lines_first() -> None:
    op = add(10**8)  # reads 16, writes 8 bytes an element: 24 become 32
    assert seconds(op, HASWELL, CpuRoofline()) / seconds(op, HASWELL) == pytest.approx(32 / 24)


def copy(elements: int) -> Op:
    return operation("copy", "move", {"reads": elements, "writes": elements}, "float64", {})


def streamed(volume: float, on: Machine, levels: tuple[str, ...]) -> float:
    """Seconds of a cyclic stream: beyond each cache the share v^6 / (v^6 + c^6) of it, c of all its instances."""
    pace = 1 / on.bandwidth(levels[0])
    for near, far in itertools.pairwise(levels):
        held = float(on.memory[near].capacity) * on.instances(near)
        pace += volume**6 / (volume**6 + held**6) * (1 / on.bandwidth(far) - 1 / on.bandwidth(near))
    return volume * pace


def test_small_working_sets_are_served_by_their_cache() -> None:
    one = HASWELL.using(cores=1)
    small, medium = copy(100), copy(6_000)  # 1.6 and 96 KB on 32 and 256 KB
    assert seconds(small, one) == pytest.approx(16 * 100 / one.bandwidth("L1"))
    assert seconds(medium, one) == pytest.approx(16 * 6_000 / one.bandwidth("L2"), rel=0.01)
    assert seconds(medium, one) == pytest.approx(streamed(16 * 6_000, one, ("L1", "L2", "L3")), rel=1e-5)
    without = one.using({"memory.L2.capacity": 0})
    assert seconds(medium, without) == pytest.approx(streamed(16 * 6_000, without, ("L1", "L3")), rel=1e-5)


def test_more_cores_bring_their_private_caches() -> None:
    op = add(40_000)  # 0.96 MB: beyond one L2 of 256 KB, within fourteen
    one, all_ = HASWELL.using(cores=1), HASWELL
    assert seconds(op, one) > 24 * 40_000 / one.bandwidth("L2")
    assert seconds(op, all_) == pytest.approx(streamed(24 * 40_000, all_, ("L1", "L2", "L3")), rel=1e-5)


def test_a_sum_in_strict_order_waits_for_every_addition() -> None:
    strict = operation("sum", "reduction", {"elements": 10**6, "outputs": 1}, "float64", {"order": "strict"})
    free = operation("sum", "reduction", {"elements": 10**6, "outputs": 1}, "float64", {})
    assert seconds(strict, HASWELL) == pytest.approx(10**6 * 4 / 2.3e9)
    assert seconds(strict, HASWELL.using(cores=1)) == seconds(strict, HASWELL)  # no core can help
    assert seconds(free, HASWELL) < seconds(strict, HASWELL)


def test_a_gather_waits_where_its_table_lies() -> None:
    known = HASWELL.using(LATENCIES)

    def picked(table: int) -> float:
        op = operation("pick", "gather", {"rows": 10**6, "width": 1, "table": table}, "float64", {})
        one = known.using(cores=1)
        formula = PLAIN.formula(op, one)
        values = {"operation.rows": 1e6, "operation.width": 1, "operation.table": table, "parameter.overlap": 8.0}
        return float(evaluate(formula.terms["latency"], {**values, **machine_values(formula, one)}))

    assert picked(200) == pytest.approx(10**6 * 2e-9 / 8)
    assert picked(10**9) == pytest.approx(10**6 * 9e-8 / 8)
    assert picked(1_000) < picked(20_000) < picked(500_000) < picked(10**9)


def test_products_run_at_the_peak() -> None:
    op = gemm("g", 2000, 2000, 2000, dtype="float64")
    assert seconds(op, HASWELL) == pytest.approx(2 * 2000**3 / HASWELL.peak("vector", "float64"))


sizes = st.integers(1_000, 10**8)
names = st.sampled_from(["xeon-e5-2695v3", "xeon-gold-6148", "epyc-7452", "a64fx"])


@settings(max_examples=20)
@given(size=sizes, name=names, less=st.floats(0.05, 1.0))
def test_never_faster_with_less(size: int, name: str, less: float) -> None:
    base = machine(name)
    main = base.main_memory
    fields = [
        "clock",
        f"memory.{main}.bandwidth",
        "memory.L1.capacity",
        "memory.L2.capacity",
        "memory.L2.bytes_per_cycle",
    ]
    ops = [add(size), gemm("g", 256, max(1, size // 10_000), 256, dtype="float64")]
    before = CpuRoofline().times(ops, base)
    for field in fields:
        after = CpuRoofline().times(ops, base.using({field: base.get(field) * less}))
        assert all(after >= before * (1 - 1e-12)), field
    fewer = max(1, int(base.cores * less))
    assert all(CpuRoofline().times(ops, base.using(cores=fewer)) >= before * (1 - 1e-12))


@settings(max_examples=20)
@given(size=sizes, name=names, factor=st.floats(1.1, 10))
def test_all_rates_times_x_divide_the_time_by_x(size: int, name: str, factor: float) -> None:
    base = machine(name)
    main = base.main_memory
    faster = base.using({"clock": base.clock * factor, f"memory.{main}.bandwidth": base.bandwidth(main) * factor})
    assert seconds(add(size), faster) == pytest.approx(seconds(add(size), base) / factor, rel=1e-9)


@settings(max_examples=20)
@given(size=sizes, name=names)
def test_continuous_in_the_working_set(size: int, name: str) -> None:
    base = machine(name)
    here, there = seconds(add(size), base), seconds(add(size + max(1, size // 10_000)), base)
    assume(here > 0)
    assert 1 <= there / here < 1.01


@pytest.mark.parametrize(
    ("kernel", "stride", "columns"),
    [(1, 1, 0), (1, 2, 64 * 28 * 28), (3, 1, 64 * 9 * 56 * 56), (3, 2, 64 * 9 * 28 * 28)],
)
def test_a_lowered_convolution_writes_its_matrix_on_one_core(kernel: int, stride: int, columns: int) -> None:
    out = 56 // stride
    op = convolution("c", 1, 64, 128, (kernel, kernel), (out, out), stride)
    direct, lowered = seconds(op, HASWELL), seconds(op, HASWELL, dataclasses.replace(PLAIN, lowering=3.0))
    assert lowered - direct == pytest.approx(columns * 3.0 / HASWELL.clock, rel=1e-9, abs=1e-15)


def test_a_convolution_in_groups_has_a_kernel_of_its_own_and_writes_no_matrix() -> None:
    dims = {"batch": 1, "channels_in": 64, "channels_out": 64, "groups": 64, "in_depth": 1, "in_height": 56}
    dims |= {"in_width": 56, "out_depth": 1, "out_height": 56, "out_width": 56}
    dims |= {"kernel_depth": 1, "kernel_height": 7, "kernel_width": 7}
    op = operation("depthwise", "convolution", dims, attributes={"stride": (1, 1)})
    assert seconds(op, HASWELL) == seconds(op, HASWELL, dataclasses.replace(PLAIN, lowering=3.0))
