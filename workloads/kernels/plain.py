"""Two kernels that every machine knows: a matrix product, and the sum of two vectors (STREAM's ADD)."""

from __future__ import annotations

from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import WORK
from slipstick.workloads.layers.single import elementwise, gemm


def matrix_product(dtype: str = "float32") -> Workload:
    """C (m, n) = A (m, k) x B (k, n). Symbols: `m`, `n`, `k`."""
    operation = gemm("product", symbol("m"), symbol("n"), symbol("k"), dtype=dtype)
    return Workload("gemm", (operation,), (), FrozenDict(m=512.0, n=512.0, k=512.0), FrozenDict({WORK: "kernel"}))


def vector_sum(dtype: str = "float64") -> Workload:
    """c = a + b. Symbol: `elements`; bytes as STREAM counts them, without the written line that is loaded first."""
    operation = elementwise("sum", symbol("elements"), inputs=2, function="add", dtype=dtype)
    return Workload("vector-sum", (operation,), (), FrozenDict(elements=1_000_000.0), FrozenDict({WORK: "kernel"}))
