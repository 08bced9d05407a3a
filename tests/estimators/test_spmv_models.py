"""Reuse costs, trees without pickle, the models that ship, and loops on memory levels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.cpu.vector_loops import LevelLoops, LoopRoofline
from slipstick.estimators.roofline.piecewise import Piecewise
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.sparse.boosted_trees import BoostedTrees, fit_boosted
from slipstick.estimators.sparse.reuse_model import (
    CacheSizes,
    ReuseModel,
    fit_reuse,
    gathers_beyond,
    label_kind,
    term_counts,
)
from slipstick.estimators.sparse.sparse_products import LearnedSpmv, estimate_spmv
from slipstick.estimators.sparse.spmv_model import fit_spmv, load_spmv_model, trained_model
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
    kind = label_kind(label)
    counts = term_counts(blocks, kind, HOST)
    used = counts.max(axis=0) > 0
    costs = np.array([1.0, 0.5, 2.0, 0.3, 0.2, 0.4, 0.1, 0.7]) * 1e-9 * used
    fitted = fit_reuse(blocks, counts @ costs / 250, kind, HOST)
    assert np.allclose(counts @ np.array(list(fitted.cost.values())), counts @ costs, rtol=1e-6)


def test_costs_are_never_negative(blocks: BlockTable) -> None:
    falling = 1e-9 * (2 - blocks.column("row_changes") / 250.0)
    assert min(fit_reuse(blocks, falling, "hot", HOST).cost.values()) >= 0


def test_a_larger_cache_never_costs(blocks: BlockTable) -> None:
    model = trained_model("streaming").reuse
    small, large = (
        replace(model, caches=sizes) for sizes in (CacheSizes(1 << 18, 1 << 22), CacheSizes(1 << 21, 1 << 27))
    )
    assert np.all(large.seconds_per_nonzero(blocks) <= small.seconds_per_nonzero(blocks) + 1e-15)
    assert np.all(gathers_beyond(blocks, 1 << 16) >= gathers_beyond(blocks, 1 << 20))


def test_the_clock_moves_core_bound_time_only(blocks: BlockTable) -> None:
    model = trained_model("streaming").reuse
    share = model.memory_share(blocks)
    whole = model.seconds_per_nonzero(blocks).sum()
    half = model.at_clock(0.5).seconds_per_nonzero(blocks).sum()
    assert half == pytest.approx(whole * (share + 2 * (1 - share)))
    assert trained_model("hot").reuse.memory_share(blocks) == 0


def test_trees_answer_as_scikit_learn_does() -> None:
    from sklearn.ensemble import GradientBoostingRegressor

    random = np.random.default_rng(0)
    values = random.normal(size=(400, 4)).astype(np.float32)
    target = values[:, 0] * 2 + np.sin(3 * values[:, 1])
    ours = fit_boosted(("a", "b", "c", "d"), values, target, trees=30)
    theirs = GradientBoostingRegressor(
        n_estimators=30,
        max_depth=5,
        learning_rate=0.1,
        subsample=0.5,
        max_features=0.3,
        min_samples_leaf=20,
        random_state=0,
    ).fit(values, target)
    assert np.allclose(ours.predict(("a", "b", "c", "d"), values), theirs.predict(values), atol=1e-5)
    shuffled = ours.predict(("d", "a", "b", "c"), values[:, [3, 0, 1, 2]])
    assert np.allclose(shuffled, theirs.predict(values), atol=1e-5)
    with pytest.raises(InputError, match="no column d"):
        ours.predict(("a", "b", "c"), values[:, :3])


def test_trees_that_point_astray_are_refused() -> None:
    one = np.zeros((1, 3), np.int16)
    good = {"feature": one, "threshold": one.astype(np.float32), "value": one.astype(np.float32)}
    with pytest.raises(InputError, match="points outside"):
        BoostedTrees(("a",), left=np.array([[0, -1, -1]], np.int16), right=one + 2, start=0.0, rate=0.1, **good)
    with pytest.raises(InputError, match="differ in shape"):
        BoostedTrees(("a",), left=one[:, :2], right=one, start=0.0, rate=0.1, **good)


def test_models_are_kept_whole(tmp_path: Path, blocks: BlockTable) -> None:
    times = 1e-9 * (1 + blocks.column("row_changes") / 250.0 + 0.1 * blocks.column("step.mean_log"))
    model = fit_spmv(blocks, times, "hot", HOST, trees=10, source="a test")
    model.save(tmp_path / "m.npz")
    again = load_spmv_model(tmp_path / "m.npz")
    assert again.digest == model.digest
    assert again.source == "a test"
    assert np.array_equal(again.seconds_per_nonzero(blocks), model.seconds_per_nonzero(blocks))
    (tmp_path / "bad.npz").write_bytes(b"PK no")
    with pytest.raises(InputError, match="no SpMV model"):
        load_spmv_model(tmp_path / "bad.npz")
    with pytest.raises(InputError, match="unknown label kind"):
        trained_model("warm")  # type: ignore[arg-type]


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
    model = trained_model("streaming")
    assert model.matrix_seconds(generators.permuted(grid, 1)) > 1.2 * model.matrix_seconds(grid)


def test_a_learned_model_knows_only_its_matrices() -> None:
    one, other = generators.stencil((60, 60), 5), generators.stencil((61, 60), 5)
    learned = LearnedSpmv.of(trained_model("hot"), [one])
    host = machine("xeon-gold-6230")
    assert learned.times(spmv(one).operations, host)[0] > 0
    with pytest.raises(InputError, match="was not given to this model"):
        learned.times(spmv(other).operations, host)


def test_piecewise_pagerank_is_equation_3() -> None:
    problem = pagerank_problem(generators.rmat(9, 3000, 1))
    host = machine("haswell-e5-2630-core")
    learned = LearnedSpmv.of(trained_model("hot"), [problem.matrix])
    model = ComposedEstimator(Piecewise(FrozenDict({"spmv": learned}), LoopRoofline()), Sequential())
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
    times = LoopRoofline().times([operations["L1"], operations["L3"]], host)
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
        fit_reuse(block_features(generators.stencil((60, 60), 5)), [1.0], "hot", HOST)
    with pytest.raises(InputError):
        ReuseModel("hot", FrozenDict({"nonzero": -1.0}), HOST)
