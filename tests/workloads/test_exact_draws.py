"""Draws against published words of splitmix64 and laws of the distributions; digests that hold on every host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.workloads.kernels.exact_draws import Draws
from slipstick.workloads.kernels.generators import from_recipe, stencil
from slipstick.workloads.kernels.meshes import finite_elements, reverse_cuthill_mckee


def test_words_are_those_of_splitmix64() -> None:
    """Published with the generator: seed 0 in Java's SplittableRandom tests, 1234567 in Rosetta Code."""
    assert [hex(int(word)) for word in Draws(0).words(3)] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]
    assert Draws(1234567).words(3).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_a_stream_goes_on_where_it_stopped() -> None:
    whole, parts = Draws(7).words(10), Draws(7)
    assert np.array_equal(whole, np.concatenate([parts.words(3), parts.words(7)]))


@given(st.integers(1, 2**32), st.integers(0, 2**40))
def test_draws_below_a_bound_are_below_it(bound: int, seed: int) -> None:
    drawn = Draws(seed).below(bound, 50)
    assert drawn.min() >= 0
    assert drawn.max() < bound
    assert sorted(Draws(seed).permutation(40)) == list(range(40))


def test_bounds_beyond_32_bits_are_refused() -> None:
    with pytest.raises(InputError, match="bound from 1 to"):
        Draws(1).below(0, 3)


@pytest.mark.parametrize(
    ("draw", "mean", "variance"),
    [
        (lambda d: d.poisson(8.0, 100_000), 8.0, 8.0),
        (lambda d: d.geometric(8.0, 100_000), 8.0, 56.0),
        (lambda d: d.below(1001, 100_000), 500.0, (1001**2 - 1) / 12),
    ],
)
def test_means_and_variances_are_the_laws(draw: Callable[[Draws], np.ndarray], mean: float, variance: float) -> None:
    """Closed forms, within five standard errors of the mean and 5 % of the variance."""
    drawn = draw(Draws(3))
    assert abs(drawn.mean() - mean) < 5 * np.sqrt(variance / len(drawn))
    assert drawn.var() == pytest.approx(variance, rel=0.05)


def test_lognormal_lengths_have_the_mean_and_the_spread() -> None:
    drawn = Draws(3).lognormal(200.0, 0.8, 100_000)
    assert drawn.mean() == pytest.approx(200, rel=0.02)
    assert np.log(drawn).std() == pytest.approx(0.8, rel=0.03)


@pytest.mark.parametrize("exponent", [0.7, 1.0, 1.3])
def test_ranks_follow_the_power_law(exponent: float) -> None:
    drawn = Draws(5).ranks(10_000, exponent, 200_000)
    edges = np.array([1, 11, 101, 1001, 10_001])
    share = np.histogram(drawn + 1, edges)[0] / len(drawn)
    mass = np.log(edges) if exponent == 1 else edges ** (1 - exponent) / (1 - exponent)
    assert share == pytest.approx(np.diff(mass) / (mass[-1] - mass[0]), abs=0.004)


DIGESTS = {
    "banded": ({"size": 3000, "half_width": 40, "mean": 7.0, "row_lengths": "lognormal"}, "17719fe20399354b"),
    "uniform": ({"shape": [3000, 2000], "mean": 7.0, "row_lengths": "geometric"}, "eaa1662d551cecdb"),
    "power_law": ({"shape": [3000, 3000], "mean": 7.0, "exponent": 1.1}, "a9cc495b63589eff"),
    "rmat": ({"scale": 12, "edges": 40_000}, "d378c2d935a12f71"),
    "finite_elements": ({"nodes": 900, "unknowns": 3}, "a3e869cfcecd9c69"),
    "block_diagonal": ({"size": 900, "smallest": 3, "largest": 120}, "aa5908a8cf35a243"),
    "stacked": ({"size": 3000, "mean": 6.0, "half_width": 40}, "22f4d0591042eba9"),
}
"""Of the positions; they may only change with the generators, never with numpy, the processor or the platform."""


@pytest.mark.parametrize("name", list(DIGESTS))
def test_generated_positions_are_the_same_on_every_host(name: str) -> None:
    recipe, digest = DIGESTS[name]
    assert from_recipe(name, {"generator": name, "seed": 1, **recipe}).digest == digest


def test_meshes_have_the_edges_of_euler() -> None:
    """A full grid of s x s nodes, triangulated: E = 3 s^2 - 4 s + 1 edges (Euler), each stored twice, and the nodes."""
    mesh = finite_elements(100, 1, seed=4)
    assert mesh.nonzeros == 2 * (3 * 100 - 4 * 10 + 1) + 100


def test_cuthill_mckee_narrows_the_band_to_a_level() -> None:
    """A path renumbered at random comes back as a path: band width one."""
    size = 200
    order = Draws(2).permutation(size)
    from slipstick.workloads.kernels.sparse import SparseMatrix

    ends = np.concatenate([order[:-1], order[1:], np.arange(size)])
    path = SparseMatrix.from_triplets("path", ends, np.concatenate([order[1:], order[:-1], np.arange(size)]))
    place = np.argsort(reverse_cuthill_mckee(path))
    assert np.abs(place[order[:-1]] - place[order[1:]]).max() == 1
    grid = stencil((20, 20), 5)
    numbers = np.argsort(reverse_cuthill_mckee(grid))
    assert np.abs(numbers[grid.row_of_nonzero()] - numbers[grid.columns]).max() <= 21
