"""Products by kernel: costs found again in made-up times, chunks against plain sums, energy against the paper."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict, as_document
from slipstick.common.writer import write_json
from slipstick.estimators.sparse.kernel_costs import (
    SCHEMA,
    HostKernels,
    ThreadCosts,
    beside,
    chunks,
    counts_of,
    cuts,
    imbalance,
    load_host_kernels,
)
from slipstick.estimators.sparse.product_energy import CLOCKS_GHZ, TABLE_1, modelled_energy
from slipstick.estimators.sparse.reuse_model import TERMS, CacheSizes, KernelCosts
from slipstick.estimators.sparse.sparse_products import OnKernel, estimate_product
from slipstick.experiments.measure.spmv.labels import MeasuredProduct, chunk_counts
from slipstick.experiments.methods.spmv.kernel_fits import (
    amounts_of,
    calibrated,
    fit_costs,
    fit_threads,
    spread_over_families,
)
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.kernels.generators import banded, rmat, stencil, uniform
from slipstick.workloads.kernels.sparse import SparseMatrix

CACHES = CacheSizes(2.0**21, 2.0**25)
OWN = machine("xeon-gold-6230").using({"memory.L2.capacity": CACHES.L2, "memory.L3.capacity": CACHES.L3})


def matrices() -> list[SparseMatrix]:
    grids = [stencil((side, side), points) for side, points in ((30, 5), (60, 9), (200, 5), (300, 9))]
    bands = [banded(size, width, mean, 1, "poisson") for size, width, mean in ((500, 9, 7.0), (20_000, 900, 30.0))]
    spread = [uniform((size, 3 * size), mean, 2, "geometric") for size, mean in ((900, 40.0), (30_000, 8.0))]
    return [*grids, *bands, *spread, rmat(10, 9000, 3), rmat(13, 60_000, 4)]


def test_costs_that_made_the_times_are_found_again() -> None:
    counts = [counts_of(matrix) for matrix in matrices()]
    amounts = amounts_of(counts, CACHES, "warm", 8.0)
    truth = np.zeros(len(TERMS["warm"]))
    truth[:4] = 1e-6, 0.5e-9, 1e-9, 6e-9
    times = amounts @ truth
    assert amounts @ fit_costs(amounts, times) == pytest.approx(times, rel=1e-6)
    products = [
        MeasuredProduct(str(k), "aabbccddee"[k], one, {}, {("scipy", "warm", 1): float(times[k])})
        for k, one in enumerate(counts)
    ]
    found = calibrated("scipy", "warm", products, OWN)
    assert found.spread < 0.2
    assert found.freedom == 4
    assert [sum(found.parts(one).values()) for one in counts] == pytest.approx(times.tolist(), rel=1e-6)


def test_spreads_hold_the_share_they_promise() -> None:
    logs = np.random.default_rng(0).normal(0, 0.2, 4000)
    assert spread_over_families(logs) == pytest.approx(0.2, rel=0.05)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.sampled_from(["rows", "nonzeros"]), st.integers(0, 50))
def test_chunks_are_the_matrix_once(threads: int, split: str, seed: int) -> None:
    matrix = rmat(7, 600, seed)
    edges = cuts(matrix, threads, split)  # type: ignore[arg-type]
    assert edges[0] == 0 and edges[-1] == 128 and list(edges) == sorted(edges)
    parts = chunks(matrix, threads, split)  # type: ignore[arg-type]
    lost = threads  # chunks of a single non-zero are left out
    assert matrix.nonzeros - lost <= sum(part.nonzeros for part in parts) <= matrix.nonzeros
    plain = max(matrix.row_lengths[a:b].sum() for a, b in pairwise(edges))
    assert imbalance(matrix, threads, split) == pytest.approx(plain * threads / matrix.nonzeros)  # type: ignore[arg-type]


def host(several: ThreadCosts | None = None) -> HostKernels:
    cost = dict.fromkeys(TERMS["warm"], 0.0) | {"call": 1e-6, "nonzero": 1e-9, "stream_beyond_L2": 1e-9}
    costs = KernelCosts("numba", "warm", FrozenDict(cost), CACHES, 2e9, 0.1, 4.0, software="numba 1", source="by hand")
    threads = {} if several is None else {"numba warm": several}
    return HostKernels("own", 4, (costs,), FrozenDict(threads), "by hand")


def test_threads_share_out_even_work_and_wait_for_the_fullest_chunk() -> None:
    own = host(ThreadCosts(0.0, 0.0, 0.1, 2))
    even = stencil((40, 40), 5)  # far within the second cache: 1 us and 1 ns a non-zero
    one = own.seconds(even, "numba")[0]
    two = own.seconds(even, "numba", threads=2)[0]
    assert one == pytest.approx(1e-6 + 1e-9 * even.nonzeros)
    assert two == pytest.approx(1e-6 + 1e-9 * even.nonzeros / 2, rel=1e-3)
    skew = rmat(9, 4_000, 1)
    alone, both = own.seconds(skew, "numba")[0] - 1e-6, own.seconds(skew, "numba", threads=2)[0] - 1e-6
    assert both / (alone / 2) == pytest.approx(imbalance(skew, 2, "rows"), rel=1e-6)


@pytest.mark.slow
def test_what_threads_cost_is_found_again() -> None:
    """Times made with a start of 31.6 us a thread (on the grid of starts) and 0.3 of the memory's time shared."""
    truth, products = ThreadCosts(10**-4.5, 0.3, 0.0, 2), []
    cost = dict.fromkeys(TERMS["warm"], 0.0) | {"nonzero": 1e-9, "stream_beyond_L2": 2e-9}
    costs = KernelCosts("numba", "warm", FrozenDict(cost), CACHES, 2e9, 0.0)
    for number, matrix in enumerate((*matrices(), stencil((700, 700), 5), stencil((900, 900), 5))):
        counts, pieces = counts_of(matrix), chunk_counts(matrix, [2])
        both = truth.seconds([costs.parts(one, CACHES) for one in pieces["rows", 2]], 2)
        seconds = {("numba", "warm", 1): sum(costs.parts(counts).values()), ("numba", "warm", 2): both}
        products.append(MeasuredProduct(matrix.name, "abcd"[number % 4], counts, pieces, seconds))
    large = [one for one in products if one.seconds["numba", "warm", 2] < 2 * one.seconds["numba", "warm", 1]]
    found = fit_threads(costs, 2, products)
    assert len(large) > 3 and found.start == pytest.approx(truth.start) and found.shared == pytest.approx(0.3)


def test_what_lies_beyond_the_caches_is_shared() -> None:
    """With all of the bandwidth taken by one thread, a second one wins nothing there."""
    big = stencil((700, 700), 5)
    times = [host(ThreadCosts(0.0, shared, 0.1, 2)).seconds(big, "numba", threads=2)[0] for shared in (0.0, 1.0)]
    alone = host().of("numba", "warm").parts(counts_of(big), CACHES)
    assert times[0] < times[1]
    assert times[1] <= alone["call"] + alone["nonzero"] / 2 * 1.01 + alone["stream_beyond_L2"]


def test_kernels_without_threads_and_more_threads_than_cores_are_refused() -> None:
    with pytest.raises(InputError, match="calibrated on one thread"):
        host().seconds(stencil((9, 9), 5), "numba", threads=2)
    with pytest.raises(InputError, match="want 1 to its 4 cores"):
        OnKernel(host(), "numba", threads=5)
    with pytest.raises(InputError, match="unknown calibrated kernel 'mkl'"):
        estimate_product(stencil((30, 30), 5), "mkl")


def test_the_formula_of_energy_is_table_1() -> None:
    """Barreda et al. 2020, Table 1: energy from the corrected time at each clock, package and memory apart."""
    for number, clock in enumerate(CLOCKS_GHZ):
        seconds = TABLE_1["time"][number][0] * clock / 2.4
        found = modelled_energy(seconds, clock * 1e9)
        assert found[0] == pytest.approx(TABLE_1["package energy"][number][0], rel=0.015)
        assert found[1] == pytest.approx(TABLE_1["DRAM energy"][number][0], rel=0.01)
        assert sum(found) == pytest.approx(TABLE_1["total energy"][number][0], rel=0.015)


def test_a_host_file_comes_back_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    own = host(ThreadCosts(2e-6, 0.3, 0.1, 2))
    path = beside(tmp_path / "my-host.yaml")
    assert path.name == "my-host.spmv.json"
    write_json(path, as_document(own, SCHEMA), indent=1)
    assert load_host_kernels(path) == own
    text = path.read_text()
    for old, new in (
        ('"nonzero": 1e-09', '"nonzero": -1'),
        ("2000000000.0", "1e300"),
    ):
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(InputError, match=r"my-host\.spmv\.json"):
            load_host_kernels(path)


def test_other_machines_have_wider_bands_and_are_not_faster_than_their_memory() -> None:
    matrix = stencil((300, 300), 5)
    xeon = machine("xeon-gold-6230")
    here, there = estimate_product(matrix, "scipy"), estimate_product(matrix, "scipy", xeon)
    widths = [np.log(high / low) for low, high in (here.interval() or (1, 1), there.interval() or (1, 1))]
    assert widths[1] > widths[0]
    slow = xeon.using({f"memory.{xeon.main_memory}.bandwidth": 1e8})
    least = OnKernel(load_host_kernels(), "scipy", "cold", machine=slow).least(matrix)
    assert estimate_product(matrix, "scipy", slow, state="cold").time == pytest.approx(least)
    with pytest.raises(InputError, match="accelerator"):
        estimate_product(matrix, "scipy", machine("v100-sxm"))


def test_the_kernels_that_ship_all_answer_and_say_who_they_are() -> None:
    known = load_host_kernels()
    matrix = uniform((2000, 2000), 9.0, 1)
    for kernel in known.kernels:
        for state in ("warm", "cold"):
            found = estimate_product(matrix, kernel, state=state)  # type: ignore[arg-type]
            low, high = found.interval() or (0.0, 0.0)
            assert 0 < low < found.time < high
            assert f"kernel {kernel}" in found.assumptions[0]
            assert (found.energy or 0) == pytest.approx(
                found.metrics["package_energy_J"] + found.metrics["dram_energy_J"]
            )
    assert estimate_product(matrix, state="cold").time > estimate_product(matrix).time


def test_the_clock_moves_what_is_inside_the_core_and_the_power() -> None:
    """In the caches a product takes twice as long at half the clock, and a b f less power: Table 1's law."""
    own, small = host(), stencil((30, 30), 5)
    full, half = (estimate_product(small, "numba", clock=clock, host=own) for clock in (2e9, 1e9))
    assert half.time == pytest.approx(2 * full.time)
    assert full.metrics["package_energy_J"] == pytest.approx(modelled_energy(full.time, 2e9)[0])
    assert (half.energy or 0) / half.time < (full.energy or 0) / full.time
    assert any("not measured at that clock" in text for text in half.assumptions)
    with pytest.raises(InputError, match="clock = -1 Hz"):
        estimate_product(small, "numba", clock=-1.0, host=own)
