"""Meshes of finite elements: triangles and tetrahedra on a grid with holes, numbered as solvers number them."""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np

from slipstick.common.array_types import IntArray
from slipstick.workloads.kernels.exact_draws import Draws
from slipstick.workloads.kernels.sparse import SparseMatrix


def finite_elements(
    nodes: int, unknowns: int, seed: int, dimensions: int = 2, order: Literal["rcm", "sorted", "none"] = "rcm"
) -> SparseMatrix:
    """A mesh of `nodes` nodes with `unknowns` x `unknowns` dense couplings, as structural problems have.

    The smallest square (or cube) grid with so many nodes, some left out at random; each square is cut by a diagonal
    drawn for it, each cube into the six tetrahedra along its main diagonal (Kuhn's). Nodes are numbered by reverse
    Cuthill-McKee, row by row, or as drawn.
    """
    draws = Draws(seed)
    side = 1
    while side**dimensions < nodes:
        side += 1
    one, other = _edges(side, dimensions, draws)
    kept = np.sort(draws.permutation(side**dimensions)[:nodes])
    place = np.full(side**dimensions, -1, dtype=np.int64)
    place[kept] = np.arange(nodes)
    one, other = place[one], place[other]
    both = (one >= 0) & (other >= 0)
    one, other = one[both], other[both]
    numbers = np.arange(nodes)
    rows, columns = np.concatenate([one, other, numbers]), np.concatenate([other, one, numbers])
    mesh = SparseMatrix.from_triplets("mesh", rows, columns, (nodes, nodes))
    number = np.empty(nodes, dtype=np.int64)
    number[_sequence(mesh, order, draws)] = numbers
    inner_row, inner_column = np.divmod(np.arange(unknowns * unknowns), unknowns)
    rows = (number[mesh.row_of_nonzero()][:, None] * unknowns + inner_row).ravel()
    columns = (number[mesh.columns][:, None] * unknowns + inner_column).ravel()
    size = nodes * unknowns
    return SparseMatrix.from_triplets("finite_elements", rows, columns, (size, size))


def _edges(side: int, dimensions: int, draws: Draws) -> tuple[IntArray, IntArray]:
    grid = np.arange(side**dimensions, dtype=np.int64).reshape((side,) * dimensions)
    ones, others = [], []
    for step in itertools.product((0, 1), repeat=dimensions):
        if not any(step) or (dimensions == 2 and all(step)):
            continue
        ones.append(grid[tuple(slice(0, side - k) for k in step)].ravel())
        others.append(grid[tuple(slice(k, side) for k in step)].ravel())
    if dimensions == 2 and side > 1:
        cells = (side - 1) ** 2
        falling = draws.below(2, cells) == 0
        ones.append(np.where(falling, grid[:-1, :-1].ravel(), grid[:-1, 1:].ravel()))
        others.append(np.where(falling, grid[1:, 1:].ravel(), grid[1:, :-1].ravel()))
    return np.concatenate(ones), np.concatenate(others)


def _sequence(mesh: SparseMatrix, order: str, draws: Draws) -> IntArray:
    nodes = mesh.shape[0]
    if order == "sorted":
        return np.arange(nodes)
    if order == "none":
        return draws.permutation(nodes)
    return reverse_cuthill_mckee(mesh)


def reverse_cuthill_mckee(mesh: SparseMatrix) -> IntArray:
    """Nodes of a symmetric pattern by breadth from one of least degree, level after level, the last first.

    Within a level: by the place of the first neighbour in the level before, then by degree, then by number (Cuthill,
    McKee 1969; George 1971 for the reversal).
    """
    nodes, degree = mesh.shape[0], mesh.row_lengths
    done = np.zeros(nodes, dtype=bool)
    result: list[IntArray] = []
    starts, next_start = np.argsort(degree, kind="stable"), 0
    total = 0
    while total < nodes:
        while done[starts[next_start]]:
            next_start += 1
        level = starts[next_start : next_start + 1]
        while len(level):
            done[level] = True
            result.append(level)
            total += len(level)
            counts = degree[level]
            first = np.repeat(mesh.row_pointers[level] - np.cumsum(counts) + counts, counts)
            neighbours = mesh.columns[first + np.arange(counts.sum())].astype(np.int64)
            parent = np.repeat(np.arange(len(level)), counts)
            fresh = ~done[neighbours]
            nearest, where = np.unique(neighbours[fresh], return_index=True)
            level = nearest[np.lexsort((nearest, degree[nearest], parent[fresh][where]))]
    return np.concatenate(result)[::-1]
