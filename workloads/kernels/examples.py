"""Sparse products and PageRank by name: generated matrices for a first question, and files of one's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.kernels import generators
from slipstick.workloads.kernels.meshes import finite_elements
from slipstick.workloads.kernels.pagerank import pagerank, pagerank_problem, run_pagerank
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.sparse_files import read_matrix
from slipstick.workloads.kernels.spmv import spmv


def builders() -> dict[str, Callable[[], Workload]]:
    """A grid, a mesh of elements, random positions and a power law, with 0.6 to 1.3 million non-zeros each."""
    matrices: dict[str, Callable[[], SparseMatrix]] = {
        "grid": partial(generators.stencil, (500, 500), 5),
        "elements": partial(finite_elements, 10_000, 3, 1),
        "uniform": partial(generators.uniform, (120_000, 120_000), 8.0, 1, "poisson"),
        "power-law": partial(generators.power_law, (120_000, 120_000), 8.0, 1.0, 1),
    }
    makers: dict[str, Callable[[], Workload]] = {
        f"spmv-{name}": partial(_product, f"{name}", make) for name, make in matrices.items()
    }
    makers["pagerank-rmat"] = partial(_pagerank, "rmat", partial(generators.rmat, 14, 240_000, 1))
    return makers


def of_file(text: str) -> Workload:
    """A product with the matrix of a file, or ``pagerank:FILE``: until the ranks stand still on the graph of a file.

    Raises InputError where the file is no usable matrix.
    """
    path = text.removeprefix("pagerank:")
    matrix = read_matrix(path)
    name = Path(path).name.split(".")[0]
    if text.startswith("pagerank:"):
        return _pagerank(name, lambda: matrix)
    return spmv(matrix.renamed(name))


def _product(name: str, make: Callable[[], SparseMatrix]) -> Workload:
    return spmv(make().renamed(name))


def _pagerank(name: str, make: Callable[[], SparseMatrix]) -> Workload:
    problem = pagerank_problem(make().renamed(name))
    _, iterations = run_pagerank(problem)
    return pagerank(problem, iterations)
