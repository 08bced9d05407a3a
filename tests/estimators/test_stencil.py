"""Loops over arrays: layer conditions and data cycles against kerncraft's printed answers, and their laws."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.cpu.stencil import (
    LineTraffic,
    cache_traffic,
    core_elements,
    data_cycles,
    ecm_cycles,
    path_traffic,
)
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.scoreboards.cpu import kerncraft_board as scoreboard
from slipstick.experiments.scoreboards.cpu.kerncraft_board import by_benchmark, nearest_benchmark, roofline
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.importers.kerncraft import load_kerncraft
from slipstick.workloads.kernels.loop_kernels import LoopKernel, box, kernel_named, kernels, star

COD = load_kerncraft(Path(__file__).parents[1] / "data" / "kerncraft_cod.yml")
HASWELL = COD.machine()


def measured(level: str, benchmark: str) -> float:
    return COD.bandwidth(level, benchmark) * COD.streams[benchmark].traffic_factor


def saturated(level: str, benchmark: str) -> float:
    return COD.saturated(level, benchmark) * COD.streams[benchmark].traffic_factor


def test_haswell_cluster_on_die_triad_from_memory() -> None:
    """kerncraft 0.8.18 prints 740.62 MFLOP/s (RooflineFLOP) and 5/10/26.23 cy/CL (ECMData)."""
    point = roofline(kernel_named("triad"), (10**8,), HASWELL, measured)
    assert round(point.flop_rate / 1e6, 2) == pytest.approx(740.62, abs=0.011)
    assert (point.level, point.benchmark) == ("MEM", "triad")
    cycles = data_cycles(kernel_named("triad"), (10**8,), HASWELL, by_benchmark(saturated))
    assert {k: round(v, 2) for k, v in cycles.items()} == {"L2": 5, "L3": 10, "MEM": 26.23}


def test_haswell_cluster_on_die_five_point_stencil() -> None:
    """2.58 GFLOP/s and 5/10/16.50 cy/CL for 10,000 x 10,000; 5/6/16.50 for 4,000 x 4,000; 3/6/0 for 500 x 500."""
    five = kernel_named("2d-5pt")
    assert round(roofline(five, (10_000, 10_000), HASWELL, measured).flop_rate / 1e9, 2) == 2.58
    for size, printed in ((10_000, (5, 10, 16.50)), (4_000, (5, 6, 16.50)), (500, (3, 6, 0))):
        cycles = data_cycles(five, (size, size), HASWELL, by_benchmark(saturated))
        assert tuple(round(v, 2) for v in cycles.values()) == printed


@pytest.mark.parametrize(
    ("name", "cycles", "gflops"),
    [  # kerncraft 0.8.18 on its own Haswell cluster-on-die file, 200^3, each run in a fresh folder
        ("3d-7pt-varcoef", (11, 22, 47.21), 2.47),
        ("3d-long-range-stencil", (12, 24, 22.00), None),
        ("uxx-stencil", (11, 20, 31.47), 7.41),
    ],
)
def test_haswell_cluster_on_die_larger_stencils(name: str, cycles: tuple[float, ...], gflops: float | None) -> None:
    kernel = kernel_named(name)
    found = data_cycles(kernel, (200, 200, 200), HASWELL, by_benchmark(saturated))
    assert tuple(round(v, 2) for v in found.values()) == cycles
    if gflops is not None:
        assert round(roofline(kernel, (200, 200, 200), HASWELL, measured).flop_rate / 1e9, 2) == gflops


def test_broadwell_five_point_stencil_from_memory() -> None:
    """7.89 cy/CL with the E5-2630 v4's saturated copy of 35.7 GB/s, 53.55 GB/s with write-allocate."""
    cycles = data_cycles(kernel_named("2d-5pt"), (4000, 4000), machine("xeon-e5-2630v4"), 35.7e9 * 1.5)
    assert [round(v, 2) for v in cycles.values()] == [5, 6, 7.89]


def test_full_duplex_paths_take_the_longer_side() -> None:
    """Skylake Gold 6148: 16 B/cy each way; copy from L3 8.00 cy/CL, the stencil without reuse 16.00 (kerncraft)."""
    skylake = machine("xeon-gold-6148")
    assert data_cycles(kernel_named("copy"), (10**8,), skylake, 1e11)["L3"] == 8
    assert data_cycles(kernel_named("2d-5pt"), (10**5, 10**5), skylake, 1e11)["L3"] == 16


def test_full_duplex_memory() -> None:
    """kerncraft prints 4.47 and 9.29 cy/CL for copy and triad on an A64FX, whose file calls its memory full-duplex."""
    fast = HASWELL.using({"memory.MEM.duplex": "full"})
    halves = [data_cycles(kernel_named(name), (10**8,), HASWELL, 1e11)["MEM"] for name in ("copy", "triad")]
    full = [data_cycles(kernel_named(name), (10**8,), fast, 1e11)["MEM"] for name in ("copy", "triad")]
    assert [f / h for f, h in zip(full, halves, strict=True)] == pytest.approx([2 / 3, 4 / 5])


@given(n=st.integers(20, 5000), capacity=st.floats(1e2, 1e8), more=st.floats(1, 100))
def test_a_larger_cache_never_misses_more(n: int, capacity: float, more: float) -> None:
    for name in ("2d-5pt", "3d-7pt", "3d-27pt"):
        kernel = kernel_named(name)
        shape = (n,) * kernel.dimensions
        small, large = cache_traffic(kernel, shape, capacity), cache_traffic(kernel, shape, capacity * more)
        assert large.loads <= small.loads
        assert large.stores <= small.stores


@given(radius=st.integers(1, 4), n=st.integers(30, 2000))
def test_star_stencils_between_one_stream_and_a_row_each(radius: int, n: int) -> None:
    kernel = LoopKernel("star", {"a": star(2, radius)}, {"b": ((0, 0),)}, 1)
    tiny, whole = cache_traffic(kernel, (n, n), 16), cache_traffic(kernel, (n, n), 1e12)
    assert tiny.loads == 2 * radius + 1 + 1  # a line for each row, and the written one
    assert whole == LineTraffic(0, 0)
    between = cache_traffic(kernel, (n, n), 8 * (2 * radius + 2) * n + 1)
    assert between.loads in (0, 2)


def test_streams() -> None:
    counts = {name: cache_traffic(kernels()[name], (10**8,), 1e6) for name in ("load", "copy", "daxpy", "triad", "dot")}
    assert counts == {
        "load": LineTraffic(1, 0),
        "copy": LineTraffic(2, 1),
        "daxpy": LineTraffic(2, 1),
        "triad": LineTraffic(4, 1),
        "dot": LineTraffic(2, 0),
    }
    assert [nearest_benchmark(LineTraffic(*t)) for t in ((3, 1), (8, 1), (1, 1), (2, 0))] == [
        "copy",
        "triad",
        "update",
        "load",
    ]


def test_neighbours_stay_in_registers() -> None:
    """kerncraft: 30.07 GFLOP/s for 1d-3pt in L1 at 135.4 GB/s is 18 bytes an iteration; 2d-5pt 34, 3d-7pt 50."""
    assert 8 * core_elements(kernel_named("1d-3pt"), (1000,), 64) == 18
    assert 8 * core_elements(kernel_named("2d-5pt"), (30, 30), 64) == 34
    assert 8 * core_elements(kernel_named("3d-7pt"), (10, 10, 10), 64) == 50


def test_arrays_that_fill_a_cache_to_its_last_byte_stay_in_it() -> None:
    """Two arrays of 256 x 256 doubles in 1 MiB: at most the capacity; a row more misses."""
    kernel, capacity = kernel_named("2d-5pt"), float(2**20)
    assert cache_traffic(kernel, (256, 256), capacity) == LineTraffic(0, 0)
    assert cache_traffic(kernel, (257, 256), capacity) == LineTraffic(2, 1)


def test_a_level_without_capacity_holds_nothing() -> None:
    none = HASWELL.using({"memory.L2.capacity": 0})
    assert path_traffic(kernel_named("2d-5pt"), (500, 500), none)["L3"] == LineTraffic(4, 1)


def test_ecm_is_bound_by_the_core_or_by_the_transfers() -> None:
    data = {"L2": 5.0, "L3": 10.0, "MEM": 16.5}
    assert ecm_cycles(data, overlapping=8, non_overlapping=4) == 35.5
    assert ecm_cycles(data, overlapping=50, non_overlapping=4) == 50


def test_bad_input() -> None:
    with pytest.raises(InputError, match="want 2 sizes >= 1"):
        cache_traffic(kernel_named("2d-5pt"), (100,), 1e6)
    with pytest.raises(InputError, match=r"offsets have \[1, 2\] dimensions"):
        LoopKernel("mixed", {"a": ((0,),)}, {"b": ((0, 0),)}, 1)
    with pytest.raises(InputError, match="unknown loop kernel '2d-11pt'"):
        kernel_named("2d-11pt")
    assert len(box(3, 1)) == 27


def test_kerncraft_cases_to_the_printed_digits() -> None:
    path = training_file(scoreboard.FILE)
    if path is None:
        pytest.skip(why_missing(scoreboard.FILE))
    rows = scoreboard.BOARD.rows(None)
    followed = [row for row in rows if row.goal is not None]
    assert sum(row.n for row in followed) >= 110
    assert all(row.ours == 1.0 for row in followed), [row.reason for row in followed]
    assert all(row.case.endswith("first machine's caches") for row in followed)
