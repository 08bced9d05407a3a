"""Blocks, their features and reuse, against closed forms and a plain count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.workloads.kernels import generators
from slipstick.workloads.kernels.blocks import (
    FAR,
    LONG_ROWS,
    STEPS_PER_OCTAVE,
    block_features,
    network_input,
    reuse_times,
)
from slipstick.workloads.kernels.meshes import finite_elements
from slipstick.workloads.kernels.pagerank import pagerank, pagerank_problem, run_pagerank
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.spmv import spmv


def test_network_input_is_the_papers_transform() -> None:
    matrix = SparseMatrix.from_triplets("row", [0, 0, 0, 0, 0], [0, 1, 4, 5, 9], (1, 10))
    assert np.allclose(network_input(matrix, block=4), [[np.log(2), np.log(4), np.log(2)]])


def test_incomplete_block_is_dropped_and_none_is_refused() -> None:
    matrix = generators.uniform((100, 100), 5, seed=1)
    assert network_input(matrix, 60).shape == (matrix.nonzeros // 60, 59)
    with pytest.raises(InputError, match="at least one whole block of 250"):
        network_input(SparseMatrix.from_triplets("small", [0], [0], (1, 1)))


def plain_reuse(trace: list[int]) -> list[int]:
    """Accesses since the same place was touched, the trace repeated for ever."""
    twice = trace + trace
    n = len(trace)
    return [next(d for d in range(1, n + 1) if twice[n + i - d] == trace[i]) for i in range(n)]


@given(st.lists(st.integers(0, 7), min_size=1, max_size=40))
def test_reuse_times_equal_a_plain_count(trace: list[int]) -> None:
    found = reuse_times(np.array(trace), np.array([0, len(trace)]), 8)
    times = np.arange(len(trace)) - found.previous
    assert times.tolist() == plain_reuse(trace)
    assert found.places == len(set(trace))
    assert np.all(np.abs(np.log2(times) - found.step / STEPS_PER_OCTAVE) <= 0.5 / STEPS_PER_OCTAVE + 1e-6)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=30), st.integers(0, 4))
def test_footprint_is_the_mean_over_windows(trace: list[int], power: int) -> None:
    """Reuse times are kept within 9 % (a step is a quarter octave), and their mean is the number of places."""
    length = 2**power
    n = len(trace)
    repeated = trace * (length // n + 2)
    mean = float(np.mean([len(set(repeated[i : i + length])) for i in range(n)]))
    found = reuse_times(np.array(trace), np.array([0, n]), 6).footprint()[power * STEPS_PER_OCTAVE]
    assert found == pytest.approx(mean, abs=(2 ** (0.5 / STEPS_PER_OCTAVE) - 1) * len(set(trace)) + 1e-9)


def test_features_of_a_dense_row_and_of_a_diagonal() -> None:
    dense = SparseMatrix.from_triplets("dense", np.zeros(1000, int), np.arange(1000), (1, 1000))
    features = block_features(dense)
    assert features.blocks == 4
    assert features.column("row_changes").tolist() == [0, 0, 0, 0]
    assert features.column("row_65_and_more").tolist() == [250] * 4
    assert features.column("lines").tolist() == [32, 32, 32, 32]  # 250 doubles on lines of 8, ends shared
    diagonal = SparseMatrix.from_triplets("diagonal", np.arange(1000), np.arange(1000), (1000, 1000))
    features = block_features(diagonal)
    assert features.column("row_changes").tolist() == [249] * 4
    assert features.column("row_17_to_32").sum() == 0
    assert features.column("irregular").sum() == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(50, 400), st.floats(1.0, 20.0), st.integers(0, 99))
def test_counts_of_a_block_add_up(size: int, mean: float, seed: int) -> None:
    matrix = generators.uniform((size, size), mean, seed, "poisson")
    if matrix.nonzeros < 250:
        return
    features = block_features(matrix)
    far = sum(features.column(name) for name in FAR)
    distant = np.abs(np.diff(matrix.columns[: features.blocks * 250].reshape(-1, 250), axis=1)) > 16
    assert np.array_equal(far, 1 + distant.sum(axis=1))  # the first of a block counts as far
    assert np.all(sum(features.column(name) for name in LONG_ROWS) <= 250)
    assert np.all(features.column("lines") <= 250)
    assert np.all(np.isfinite(features.values))


def test_local_patterns_have_smaller_reuse_volume_than_permuted_ones() -> None:
    grid_matrix = generators.stencil((150, 150), 5)

    def beyond(m: SparseMatrix) -> float:
        return float(sum(block_features(m).column(name).mean() for name in FAR[3:]))

    assert beyond(generators.permuted(grid_matrix, seed=1)) > 1.5 * beyond(grid_matrix)


def test_stencils_have_the_closed_count_of_nonzeros() -> None:
    assert generators.stencil((7, 11), 5).nonzeros == 5 * 77 - 2 * (7 + 11)
    assert generators.stencil((4, 5, 6), 27).nonzeros == (3 * 4 - 2) * (3 * 5 - 2) * (3 * 6 - 2)
    with pytest.raises(InputError, match="2-dimensional stencil has 5 or 9"):
        generators.stencil((4, 4), 7)


@pytest.mark.parametrize(
    "name", ["banded", "uniform", "power_law", "rmat", "finite_elements", "block_diagonal", "stacked"]
)
def test_generators_repeat_for_a_seed(name: str) -> None:
    recipes = {
        "banded": {"size": 300, "half_width": 20, "mean": 5},
        "uniform": {"shape": [200, 100], "mean": 5},
        "power_law": {"shape": [200, 300], "mean": 5, "exponent": 1.0},
        "rmat": {"scale": 8, "edges": 900},
        "finite_elements": {"nodes": 60, "unknowns": 2},
        "block_diagonal": {"size": 100, "smallest": 3, "largest": 9},
        "stacked": {"size": 100, "mean": 4, "half_width": 9},
    }
    make = lambda seed: generators.from_recipe("m", {"generator": name, "seed": seed, **recipes[name]})  # noqa: E731
    assert make(1) == make(1)
    assert make(1) != make(2)


def test_permuting_keeps_the_row_lengths_and_symmetry() -> None:
    matrix = finite_elements(80, 2, seed=3)
    other = generators.permuted(matrix, seed=4)
    assert sorted(matrix.row_lengths) == sorted(other.row_lengths)
    dense = other.to_scipy().toarray()
    assert np.array_equal(dense, dense.T)


def test_unknown_recipes_are_refused() -> None:
    with pytest.raises(InputError, match="unknown matrix generator 'bandd'"):
        generators.from_recipe("m", {"generator": "bandd"})
    with pytest.raises(InputError, match="matrix 'm'"):
        generators.from_recipe("m", {"generator": "rmat", "scle": 3})


def test_spmv_counts_two_flop_a_nonzero() -> None:
    matrix = generators.uniform((100, 100), 5, seed=1)
    assert spmv(matrix).cost.flop == 2 * matrix.nonzeros


def test_pagerank_sums_to_one_and_is_the_stationary_vector() -> None:
    graph = generators.rmat(8, 1500, seed=1)
    problem = pagerank_problem(graph)
    ranks, iterations = run_pagerank(problem, threshold=1e-12)
    assert ranks.sum() == pytest.approx(1.0, abs=1e-9)
    dense = problem.matrix.to_scipy().toarray()
    dense[:, problem.dangling] = 1 / problem.pages
    google = 0.85 * dense + 0.15 / problem.pages
    assert np.allclose(google @ ranks, ranks, atol=1e-12)
    work = pagerank(problem, iterations)
    assert [op.name for op in work] == ["L0", "L1", "SpMV", "L2", "L3", "L4"]
    assert work.cost.flop == iterations * (2 * graph.nonzeros + len(problem.dangling) + 5 * problem.pages)


def test_pagerank_needs_a_graph() -> None:
    with pytest.raises(InputError, match="is square"):
        pagerank_problem(generators.uniform((4, 5), 2, seed=1))
    with pytest.raises(InputError, match="no link"):
        pagerank_problem(SparseMatrix.from_triplets("none", [], [], (3, 3)))
