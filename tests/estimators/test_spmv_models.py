"""Costs of reuse, those that ship, and loops on memory levels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict, as_document
from slipstick.common.writer import write_json
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.cpu.vector_loops import LevelLoops
from slipstick.estimators.roofline.piecewise import Piecewise
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.sparse.kernel_costs import SCHEMA, HostKernels, load_host_kernels, shipped_blocks
from slipstick.estimators.sparse.reuse_model import (
    LABEL_KINDS,
    TERMS,
    CacheSizes,
    KernelCosts,
    check_state,
    counts_of_blocks,
    gathers_beyond,
    term_amounts,
)
from slipstick.estimators.sparse.sparse_products import estimate_spmv, predictor
from slipstick.experiments.methods.spmv.kernel_fits import fit_blocks
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.kernels import generators
from slipstick.workloads.kernels.blocks import BlockTable, block_features
from slipstick.workloads.kernels.pagerank import pagerank, pagerank_problem
from slipstick.workloads.kernels.spmv import spmv

HOST = CacheSizes(1 << 20, 36 << 20)


@pytest.fixture(scope="module")
def blocks() -> BlockTable:
    parts = [
        block_features(matrix)
        for matrix in (
            generators.power_law((3000, 3000), 20.0, 1.0, 1),
            generators.stencil((100, 100), 5),
            generators.block_diagonal(900, 3, 120, 2),
            generators.uniform((30_000, 400_000), 4.0, 3, "poisson"),
        )
    ]
    values = np.concatenate([part.values for part in parts])
    return BlockTable(parts[0].names, values, np.arange(len(values)), len(values))


@pytest.mark.parametrize("label", ["hot", "streaming"])
def test_least_squares_finds_the_costs_that_made_the_labels(blocks: BlockTable, label: str) -> None:
    kind = check_state(label, LABEL_KINDS)
    counts = np.stack(list(term_amounts(counts_of_blocks(blocks), kind, HOST.levels()).values()), axis=1)
    used = counts.max(axis=0) > 0
    costs = np.resize([1.0, 0.5, 2.0, 0.3, 0.2, 0.4, 0.1, 0.7], len(used)) * 1e-9 * used
    fitted = fit_blocks(blocks, counts @ costs / 250, kind, HOST)
    assert np.allclose(counts @ np.array([fitted.cost[name] for name in TERMS[kind]]), counts @ costs, rtol=1e-6)


def test_costs_are_never_negative(blocks: BlockTable) -> None:
    falling = 1e-9 * (2 - blocks.column("row_changes") / 250.0)
    assert min(fit_blocks(blocks, falling, "hot", HOST).cost.values()) >= 0


def test_a_larger_cache_never_costs(blocks: BlockTable) -> None:
    model = shipped_blocks().costs[0]
    small, large = (
        replace(model, sizes=sizes) for sizes in (CacheSizes(1 << 18, 1 << 22), CacheSizes(1 << 21, 1 << 27))
    )
    assert np.all(large.seconds_per_nonzero(blocks) <= small.seconds_per_nonzero(blocks) + 1e-15)
    counts = counts_of_blocks(blocks)
    assert np.all(gathers_beyond(counts, 1 << 16) >= gathers_beyond(counts, 1 << 20))


def test_the_clock_moves_core_bound_time_only() -> None:
    host = machine("cloud-cascade-lake-core")
    half = host.using(clock=host.clock / 2)
    matrix = generators.uniform((300_000, 300_000), 4.0, 3, "poisson")
    (whole, known), (slow, _) = (predictor(one).seconds(matrix) for one in (host, half))
    share = known["memory_share"]
    assert 0 < share < 1 and slow == pytest.approx(whole * (share + 2 * (1 - share)))
    assert predictor(host, shipped_blocks("hot")).seconds(matrix)[1]["memory_share"] == 0


def test_costs_are_kept_whole(tmp_path: Path, blocks: BlockTable) -> None:
    times = 1e-9 * (1 + blocks.column("row_changes") / 250.0)
    model = replace(fit_blocks(blocks, times, "hot", HOST, 2e9, "a test"), spread=0.1)
    kernels = HostKernels("a host", 1, (model,), source="a test")
    write_json(tmp_path / "m.spmv.json", as_document(kernels, SCHEMA), indent=1)
    assert load_host_kernels(tmp_path / "m.spmv.json") == kernels
    text = (tmp_path / "m.spmv.json").read_text()
    for wrong, said in (
        ("PK no", "JSON"),
        (text.replace('"clock"', '"clocks"'), "clock"),
        ("{}", "costs that slipstick spmv calibrate"),
    ):
        (tmp_path / "bad.spmv.json").write_text(wrong)
        with pytest.raises(InputError, match=rf"bad\.spmv\.json.*{said}"):
            load_host_kernels(tmp_path / "bad.spmv.json")
    with pytest.raises(InputError, match="unknown label kind"):
        shipped_blocks("warm")


def test_the_model_that_ships_answers_with_an_interval_and_its_protocol() -> None:
    matrix = generators.stencil((120, 120), 9)
    answer = estimate_spmv(matrix, machine("xeon-gold-6230"), power=20.0)
    low, high = answer.interval(0.8) or (0, 0)
    assert low < answer.time < high
    assert answer.energy == pytest.approx(20 * answer.time)
    assert any("streaming labels" in text for text in answer.assumptions)
    assert 0.5e-9 < answer.time / matrix.nonzeros < 3e-9  # our labels of such matrices: 1.0 to 1.1 ns a non-zero
    assert estimate_spmv(matrix, machine("xeon-gold-6230")).energy is None


def test_permuting_a_large_matrix_costs_more() -> None:
    grid = generators.stencil((450, 450), 5)
    assert predictor().seconds(generators.permuted(grid, 1))[0] > 1.2 * predictor().seconds(grid)[0]


def test_piecewise_pagerank_is_equation_3() -> None:
    problem = pagerank_problem(generators.rmat(9, 3000, 1))
    host = machine("haswell-e5-2630-core")
    products = FrozenDict({"spmv": shipped_blocks("hot").costs[0]})
    model = ComposedEstimator(Piecewise(products, Roofline()), Sequential())
    one, ten = (model.estimate(pagerank(problem, k), host) for k in (1, 10))
    loops = {part.name: part.time for part in one.parts}
    assert one.time == pytest.approx(sum(loops.values()))
    assert ten.time == pytest.approx(loops["L0"] + 10 * (one.time - loops["L0"]))


def test_published_loop_roofline_by_hand() -> None:
    """Section 6.2: a copy of n doubles has no flop, so it takes its bytes over b = 4.323 GB/s."""
    problem = pagerank_problem(generators.rmat(9, 3000, 1))
    n = problem.pages
    host = machine("haswell-e5-2630-core")
    operations = {op.name: op for op in pagerank(problem, 1)}
    times = Roofline().times([operations["L1"], operations["L3"]], host)
    assert times[0] == pytest.approx(16 * n / 4.323e9)
    assert times[1] == pytest.approx(16 * n / 4.323e9)


def test_level_loops_move_out_with_their_volume() -> None:
    host = machine("xeon-gold-6230")
    model = LevelLoops()

    def per_element(pages: int) -> float:
        matrix = generators.banded(pages, 3, 2.0, 1)
        copy = next(op for op in pagerank(pagerank_problem(matrix), 1) if op.name == "L1")
        return float(model.times([copy], host)[0]) / pages

    assert per_element(200_000) > per_element(3_000)
    slow = LevelLoops(addition=90.0)
    chain = next(op for op in pagerank(pagerank_problem(generators.banded(3000, 3, 2.0, 1)), 1) if op.name == "L4")
    assert slow.times([chain], host)[0] == pytest.approx(90 * 3000 / host.clock, rel=0.05)
    with pytest.raises(InputError, match="no counted loop"):
        model.times(spmv(generators.stencil((40, 40), 5)).operations, host)


def test_sizes_of_caches_are_checked() -> None:
    with pytest.raises(InputError, match="want 0 < L2 <= L3"):
        CacheSizes(2.0, 1.0)
    with pytest.raises(InputError, match="1 blocks cannot fix 8 costs"):
        fit_blocks(block_features(generators.stencil((60, 60), 5)), [1.0], "hot", HOST)
    with pytest.raises(InputError):
        KernelCosts("blocks", "hot", FrozenDict(dict.fromkeys(TERMS["hot"], -1.0)), HOST, 1e9)
