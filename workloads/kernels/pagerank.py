"""PageRank by the power method: Algorithm 2 of the SpMV paper as a graph of loops, and in numpy.

The loop bodies are not in our text of the paper; they are derived here from the power method with damping d = 0.85,
threshold 1e-6 and dangling rows, so that their order (L0 | L1, SpMV, L2, L3, L4) and count are the paper's:

    L0  p[i] = 1 / n                                    flops 0    memops n
    L1  q[i] = p[i]                                     flops 0    memops 2 n
    SpMV  p = A q                                       2 flops a non-zero
    L2  s = sum of q[j] over dangling pages j           flops e    memops 2 e   (indices and a gather)
    L3  p[i] = d p[i] + (1 - d + d s) / n               flops 2 n  memops 2 n
    L4  r = sum of |p[i] - q[i]|                        flops 3 n  memops 2 n

A[i, j] = 1 / outdegree(j) for an edge j -> i; pages without outgoing edges are dangling.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.kernels.blocks import INDEX_BYTES, STREAMED_BYTES, VALUE_BYTES
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.spmv import spmv_operation

DAMPING, THRESHOLD = 0.85, 1e-6


@dataclass(frozen=True, eq=False)
class PageRankProblem:
    """The transposed, weighted adjacency matrix and the dangling pages.

    Build with `pagerank_problem`.
    """

    name: str
    matrix: SparseMatrix
    dangling: IntArray

    @property
    def pages(self) -> int:
        """Number of rows of the matrix."""
        return self.matrix.shape[0]


def pagerank_problem(graph: SparseMatrix) -> PageRankProblem:
    """PageRank on an adjacency matrix with an entry (i, j) for a link i -> j; weights are ignored.

    Raises
    ------
    InputError
        Where the matrix is not square or has no link.

    Examples
    --------
    >>> import slipstick as ss
    >>> len(ss.operations.pagerank_problem(ss.stencil((30, 30), 5)).dangling)
    0
    """
    if graph.shape[0] != graph.shape[1]:
        raise InputError(f"graph {graph.name!r} of shape {graph.shape}: an adjacency matrix is square")
    if graph.nonzeros == 0:
        raise InputError(f"graph {graph.name!r} has no link")
    links = graph.row_lengths
    weights = 1.0 / np.repeat(links, links)
    matrix = SparseMatrix.from_triplets(graph.name, graph.columns, graph.row_of_nonzero(), graph.shape, weights)
    return PageRankProblem(graph.name, matrix, graph.empty_rows)


def pagerank(problem: PageRankProblem, iterations: int) -> Workload:
    """PageRank as a workload, a loop an operation: L0 once, the others `iterations` times (equation 3 of the paper).

    Dims of a loop: `elements`, `flops`, `memops` (the paper's counts), `chain` (dependent additions), and for up to two
    arrays the bytes moved and the reuse volume: the bytes that the algorithm touches between the last use of that array
    and this one, which decides where it is found. A written line is loaded first, from where it is found, and written
    back later, from the level that holds what the loop writes. The product gathers q all along, so q is near after it;
    it writes p row by row, so p's entries are half a product old on average. Loops hand their arrays on in the order
    L1, SpMV, L2, L3, L4, L1, ...

    Raises
    ------
    InputError
        Where `iterations` is below 1.

    Examples
    --------
    >>> import slipstick as ss
    >>> ranks = ss.operations.pagerank(ss.operations.pagerank_problem(ss.stencil((30, 30), 5)), iterations=20)
    >>> [(op.name, op.times) for op in ranks][:3]
    [('L0', 1), ('L1', 20), ('SpMV', 20)]
    """
    n, e = problem.pages, len(problem.dangling)
    if iterations < 1:
        raise InputError(f"iterations = {iterations}: want at least 1")
    vector = VALUE_BYTES * n
    product = STREAMED_BYTES * problem.matrix.nonzeros + 2 * vector
    loops = (
        _loop("L0", n, 0, n, 0, (vector, 2 * vector), (vector, vector)),
        _loop("L1", n, 0, 2 * n, 0, (vector, 2 * vector), (2 * vector, 2 * vector), iterations),
        spmv_operation(problem.matrix, "SpMV", iterations),
        _loop("L2", e, e, 2 * e, e, (INDEX_BYTES * e, product), (min(64 * e, vector), 2 * vector), iterations),
        _loop("L3", n, 2 * n, 2 * n, 0, (vector, product / 2), (vector, vector), iterations),
        _loop("L4", n, 3 * n, 2 * n, n, (vector, 2 * vector), (vector, product / 2), iterations),
    )
    names = [op.name for op in loops]
    return Workload(f"pagerank {problem.name}", loops, tuple(pairwise(names)))


def _loop(
    name: str,
    elements: int,
    flops: int,
    memops: int,
    chain: int,
    first: tuple[float, float],
    second: tuple[float, float],
    times: int = 1,
) -> Op:
    moved = {"first_bytes": first[0], "first_volume": first[1], "second_bytes": second[0], "second_volume": second[1]}
    dims = {"elements": elements, "flops": flops, "memops": memops, "chain": chain, **moved}
    cost = Cost({"flop.vector.float64": flops, "read": VALUE_BYTES * memops, "launches": 1})
    kind = "gather_sum" if name == "L2" else "vector_loop"
    return Op(name, kind, FrozenDict(dims), "float64", cost, times, FrozenDict({"loop": name}))


def run_pagerank(
    problem: PageRankProblem, threshold: float = THRESHOLD, damping: float = DAMPING, limit: int = 1000
) -> tuple[FloatArray, int]:
    """Ranks that sum to 1, shape (pages,), and the number of iterations needed; numpy and scipy only.

    `threshold`: of the sum of absolute changes between two iterations.
    Raises InputError where `limit` iterations are not enough.
    """
    n = problem.pages
    matrix = problem.matrix.to_scipy()
    p = np.full(n, 1.0 / n)
    for iteration in range(1, limit + 1):
        q = p.copy()
        p = damping * (matrix @ q) + (1 - damping + damping * q[problem.dangling].sum()) / n
        if np.abs(p - q).sum() < threshold:
            return p, iteration
    raise InputError(f"pagerank {problem.name!r}: no residual below {threshold:g} within {limit} iterations")
