"""16 bits on processors that compute them in 32 are never faster: every operand is converted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slipstick.estimators.cpu.cpu_library_law import cpu_library
from slipstick.estimators.roofline.roofline import widened
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op

sizes = st.integers(1, 4096)


def gemm(m: int, n: int, k: int, dtype: str) -> Op:
    return operation("gemm", "gemm", {"batch": 1, "m": m, "n": n, "k": k}, dtype)


@given(sizes, sizes, sizes, st.sampled_from(["epyc-7452", "epyc-7451", "ryzen-7-1700x"]))
def test_without_units_of_sixteen_bits_they_gain_nothing(m: int, n: int, k: int, name: str) -> None:
    on = machine(name)
    assert widened(on, "bfloat16")
    library = cpu_library(on)[0]
    added = {"elements": m * n, "reads": 2 * m * n, "writes": m * n}
    for ops in (
        [gemm(m, n, k, dtype) for dtype in ("bfloat16", "float32")],
        [operation("add", "elementwise", added, dtype, {"function": "add"}) for dtype in ("bfloat16", "float32")],
    ):
        half, single = library.times(ops, on)
        assert half >= single * (1 - 1e-9)


def test_units_of_sixteen_bits_gain_in_large_products() -> None:
    """AMX does sixteen times the multiplications of vector units in float32 (Intel: 2,048 operations a cycle)."""
    on = machine("xeon-platinum-8480")
    half, single = cpu_library(on)[0].times([gemm(4096, 4096, 4096, d) for d in ("bfloat16", "float32")], on)
    assert half < 0.5 * single
    assert not widened(on, "bfloat16")
