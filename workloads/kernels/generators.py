"""Sparse matrices made to order: the patterns that solvers, graphs and finite elements have, for training and tests.

Every generator takes a seed where it draws, and gives the same matrix for the same seed on every host: draws are of
integers (`slipstick.workloads.kernels.exact_draws`), and no float decides where a non-zero lies.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.renamed_arguments import checked
from slipstick.workloads.kernels.exact_draws import Draws
from slipstick.workloads.kernels.meshes import finite_elements
from slipstick.workloads.kernels.sparse import SparseMatrix

RowLengths = Literal["constant", "poisson", "geometric", "lognormal"]
ROW_LENGTHS: tuple[RowLengths, ...] = ("constant", "poisson", "geometric", "lognormal")
RMAT_PROBABILITIES = (0.57, 0.19, 0.19, 0.05)
"""Of the four quadrants: Graph500's."""


@checked
def stencil(shape: tuple[int, ...], points: int) -> SparseMatrix:
    """A finite-difference grid: 5 or 9 points in two dimensions, 7 or 27 in three.

    Raises
    ------
    InputError
        Where no stencil of so many points exists in this number of dimensions.

    Examples
    --------
    >>> import slipstick as ss
    >>> ss.stencil((100, 100), 5).nonzeros == 5 * 100 * 100 - 4 * 100
    True
    """
    dimensions = len(shape)
    if points not in (2 * dimensions + 1, 3**dimensions):
        raise InputError(
            f"points = {points}: a {dimensions}-dimensional stencil has {2 * dimensions + 1} or {3**dimensions}"
        )
    number = np.arange(int(np.prod(shape))).reshape(shape)
    rows, columns = [], []
    for offset in itertools.product((-1, 0, 1), repeat=dimensions):
        if points == 3**dimensions or sum(map(abs, offset)) <= 1:
            here = tuple(slice(max(0, -k), size - max(0, k)) for k, size in zip(offset, shape, strict=True))
            there = tuple(slice(max(0, k), size - max(0, -k)) for k, size in zip(offset, shape, strict=True))
            rows.append(number[here].ravel())
            columns.append(number[there].ravel())
    size = number.size
    return _matrix(f"stencil{points}", np.concatenate(rows), np.concatenate(columns), (size, size))


def banded(size: int, half_width: int, mean: float, seed: int, row_lengths: RowLengths = "constant") -> SparseMatrix:
    """Columns drawn within `half_width` of the diagonal, `mean` a row."""
    draws = Draws(seed)
    rows = np.repeat(np.arange(size), _lengths(draws, size, mean, row_lengths))
    columns = np.clip(rows + draws.below(2 * half_width + 1, len(rows)) - half_width, 0, size - 1)
    return _matrix("banded", rows, columns, (size, size))


def uniform(shape: tuple[int, int], mean: float, seed: int, row_lengths: RowLengths = "constant") -> SparseMatrix:
    """A matrix with `mean` non-zeros a row, whose columns are drawn anywhere.

    Examples
    --------
    >>> import slipstick as ss
    >>> ss.operations.uniform((1000, 1000), mean=8, seed=0).nonzeros <= 8000
    True
    """
    draws = Draws(seed)
    rows = np.repeat(np.arange(shape[0]), np.minimum(_lengths(draws, shape[0], mean, row_lengths), shape[1]))
    return _matrix("uniform", rows, draws.below(shape[1], len(rows)), shape)


def power_law(
    shape: tuple[int, int],
    mean: float,
    exponent: float,
    seed: int,
    order: Literal["popular first", "shuffled"] = "shuffled",
    row_lengths: RowLengths = "lognormal",
) -> SparseMatrix:
    """Columns drawn with popularity rank ** -exponent, the popular ones first or spread over the matrix."""
    draws = Draws(seed)
    width = shape[1]
    rows = np.repeat(np.arange(shape[0]), np.minimum(_lengths(draws, shape[0], mean, row_lengths), width))
    columns = draws.ranks(width, exponent, len(rows))
    if order == "shuffled":
        columns = draws.permutation(width)[columns]
    return _matrix("power_law", rows, columns, shape)


def rmat(scale: int, edges: int, seed: int, probabilities: tuple[float, ...] = RMAT_PROBABILITIES) -> SparseMatrix:
    """A recursive-matrix graph of 2 ** scale nodes (Chakrabarti, Zhan, Faloutsos 2004); repeated edges merge.

    `probabilities`: of the four quadrants; they sum to 1.
    """
    draws = Draws(seed)
    rows, columns = np.zeros(edges, dtype=np.int64), np.zeros(edges, dtype=np.int64)
    likely = [Decimal(str(share)) for share in probabilities]
    for _ in range(scale):
        quadrant = draws.classes(likely, edges)
        rows, columns = 2 * rows + (quadrant >> 1), 2 * columns + (quadrant & 1)
    return _matrix("rmat", rows, columns, (1 << scale, 1 << scale))


def permuted(matrix: SparseMatrix, seed: int, window: float | None = None) -> SparseMatrix:
    """Rows and columns of a square matrix renumbered at random, anywhere or by at most about `window` places.

    Raises InputError where the matrix is not square.
    """
    draws = Draws(seed)
    size = matrix.shape[0]
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"matrix {matrix.name!r} of shape {matrix.shape} is not square: it cannot be renumbered")
    order = draws.permutation(size) if window is None else draws.nearly_in_order(size, window)
    place = np.empty(size, dtype=np.int64)
    place[order] = np.arange(size)
    return _matrix("permuted", place[matrix.row_of_nonzero()], place[matrix.columns], matrix.shape)


def block_diagonal(size: int, smallest: int, largest: int, seed: int) -> SparseMatrix:
    """Dense blocks of drawn sizes along the diagonal."""
    draws = Draws(seed)
    drawn = smallest + draws.below(largest - smallest + 1, size // max(smallest, 1) + 1)
    ends = np.minimum(np.cumsum(drawn), size)
    widths = np.diff(ends[: int(np.searchsorted(ends, size)) + 1], prepend=0)
    rows = np.repeat(np.arange(size), np.repeat(widths, widths))
    columns = np.concatenate(
        [np.tile(np.arange(end - width, end), width) for end, width in zip(np.cumsum(widths), widths, strict=True)]
    )
    return _matrix("block_diagonal", rows, columns, (size, size))


def stacked(size: int, mean: float, half_width: int, seed: int, row_lengths: RowLengths = "constant") -> SparseMatrix:
    """Three patterns in one matrix of 2 x size rows and size columns: banded, uniform, power law."""
    draws = Draws(seed)
    one, two, three = (int(word) for word in draws.below(1 << 31, 3))
    parts = [
        banded(size, half_width, mean, one, "poisson"),
        uniform((size // 2, size), mean, two, row_lengths),
        power_law((size // 2, size), mean, 1.1, three),
    ]
    offsets = np.cumsum([0, *(part.shape[0] for part in parts)])
    rows = np.concatenate([part.row_of_nonzero() + offset for part, offset in zip(parts, offsets[:-1], strict=True)])
    columns = np.concatenate([part.columns for part in parts])
    return _matrix("stacked", rows, columns, (int(offsets[-1]), size))


GENERATORS: dict[str, Callable[..., SparseMatrix]] = {
    "stencil": stencil,
    "banded": banded,
    "uniform": uniform,
    "power_law": power_law,
    "rmat": rmat,
    "finite_elements": finite_elements,
    "block_diagonal": block_diagonal,
    "stacked": stacked,
}
"""By name, for recipes in files; `permuted` is requested by the key permute_seed of a recipe."""


def from_recipe(name: str, recipe: dict[str, Any]) -> SparseMatrix:
    """The matrix that a recipe names: {"generator": ..., its arguments, optionally permute_seed and permute_window}.

    Raises InputError where the generator or an argument is unknown.
    """
    arguments = dict(recipe)
    kind = arguments.pop("generator", None)
    if kind not in GENERATORS:
        raise unknown_name("matrix generator", kind, sorted(GENERATORS))
    permute_seed, window = arguments.pop("permute_seed", None), arguments.pop("permute_window", None)
    if "shape" in arguments:
        arguments["shape"] = tuple(int(size) for size in arguments["shape"])
    try:
        matrix = GENERATORS[kind](**arguments)
    except TypeError as error:
        raise InputError(f"matrix {name!r}: {error}") from None
    return (matrix if permute_seed is None else permuted(matrix, permute_seed, window)).renamed(name)


def _lengths(draws: Draws, rows: int, mean: float, kind: RowLengths) -> npt.NDArray[np.int64]:
    if kind == "constant":
        return np.full(rows, round(mean), dtype=np.int64)
    if kind == "poisson":
        return draws.poisson(mean, rows)
    if kind == "geometric":
        return draws.geometric(mean, rows)
    if kind == "lognormal":
        return draws.lognormal(mean, 1.2, rows)
    raise unknown_name("distribution of row lengths", kind, ROW_LENGTHS)


def _matrix(name: str, rows: npt.ArrayLike, columns: npt.ArrayLike, shape: tuple[int, int]) -> SparseMatrix:
    return SparseMatrix.from_triplets(name, rows, columns, shape)
