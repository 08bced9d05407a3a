"""PyTorch's kernels on a processor: pages of new memory, padded blocks, and a share for each kernel."""

from __future__ import annotations

import math

import pytest

import slipstick as ss
from slipstick.estimators.symbolic.formula import parameters
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.layers.single import convolution, dense, elementwise, pool

HOST = ss.machine("cloud-cascade-lake-host").using(cores=1)
POOLED = {"inputs": 4e6, "outputs": 1e6, "window": 4}
PAGE = 4e-10
"""Seconds a byte: a page of 4 KiB in 1.6 microseconds."""


def _time(*ops: Op, **values: float) -> float:
    model = ss.estimator("cpu-kinds").model
    known = {name: value for name, (value, _) in parameters(model).items()}
    changed = model.with_parameters({**known, **{f"operation.{name}": value for name, value in values.items()}})
    return changed.estimate(Workload("one", ops), HOST).time


@pytest.mark.parametrize(
    ("mebibytes", "share"),
    [(0.25, 0.0), (16, 0.5), (31, 0.5), (32, 1.0), (256, 1.0)],
    ids=["kept", "sometimes", "nearly", "at the limit", "always"],
)
def test_results_beyond_the_allocators_limit_are_new(mebibytes: float, share: float) -> None:
    """glibc takes every block of 32 MiB and more from the system (DEFAULT_MMAP_THRESHOLD_MAX); of others a share."""
    written = mebibytes * 2**20
    ops = [elementwise(name, written / 4, function="relu") for name in ("first", "second")]
    assert _time(*ops, first_touch=PAGE) - _time(*ops) == pytest.approx(2 * share * written * PAGE, abs=1e-12)


@pytest.mark.parametrize("mebibytes", [0.5, 1, 2, 4, 8, 12, 16, 24, 31, 33, 64])
def test_an_only_result_takes_the_memory_freed_before(mebibytes: float) -> None:
    """Page faults of relu(x) called again and again, results dropped, on glibc 2.36 with torch: none below 32 MiB, and
    all of the result's pages beyond (one process each, 32 calls; docs/notes/cpu-and-systolic.md)."""
    written = mebibytes * 2**20
    op = elementwise("relu", written / 4, function="relu")
    faults = written / 4096 if mebibytes > 32 else 0.0
    assert _time(op, first_touch=PAGE) - _time(op) == pytest.approx(faults * 4096 * PAGE, abs=1e-12)


@pytest.mark.parametrize(("mebibytes", "says"), [(0.5, False), (12, True), (33, False)])
def test_an_answer_says_when_the_result_is_dropped_where_that_counts(mebibytes: float, says: bool) -> None:
    """Held until the next call is done, six of nine results below 32 MiB had .6 to .75 of their pages new."""
    op = elementwise("relu", mebibytes * 2**20 / 4, function="relu")
    answer = ss.estimator("cpu-kinds").estimate(Workload("one", (op,)), HOST)
    assert any("dropped before the next" in text for text in answer.assumptions) == says


def test_a_convolution_alone_has_copies_that_may_be_new() -> None:
    op = convolution("conv", 4, 16, 16, (3, 3), (64, 64))
    assert _time(op, first_touch=PAGE, fresh=1.0) > _time(op, first_touch=PAGE, fresh=0.0)


def test_an_array_that_is_there_is_not_new() -> None:
    """``out=``, as STREAM writes its arrays, at any size."""
    op = elementwise("add", 20_000_000, inputs=2, memory="kept")
    assert _time(op, first_touch=PAGE) == _time(op)


def test_what_is_written_over_is_not_new() -> None:
    large = 20_000_000
    assert _time(elementwise("relu_", large, function="relu"), first_touch=PAGE) == _time(
        elementwise("relu_", large, function="relu")
    )


def test_a_convolution_writes_its_blocks_and_its_result() -> None:
    """oneDNN's blocks hold 16 channels: 8 channels fill half of them."""
    op = convolution("conv", 4, 3, 8, (3, 3), (512, 512))
    written = 4 * 8 * 512 * 512 * 4
    values = {"kinds.convolution.narrow": 8.0}
    new = _time(op, first_touch=PAGE, **values) - _time(op, **values)
    assert new == pytest.approx(3 * written * PAGE)


def test_few_channels_and_small_windows_take_longer() -> None:
    """Hockney's n1/2: as many channels as `narrow` reach half of the rate."""
    op = convolution("conv", 1, 256, 8, (3, 3), (28, 28))
    flop = 2 * 28 * 28 * 256 * 8 * 9
    arithmetic = flop / HOST.peak("vector", "float32")
    longer = _time(op, **{"kinds.convolution.narrow": 8.0}) - _time(op)
    assert longer == pytest.approx(arithmetic, rel=0.01)
    small = pool("pool", 8, 16, (2, 2), (32, 32))
    slow = {"kinds.pool.compute_efficiency": 1e-3}
    assert _time(small, **slow, **{"kinds.pool.narrow": 4.0}) == pytest.approx(2 * _time(small, **slow), rel=0.01)


def test_products_copy_their_operands_unless_one_is_a_vector() -> None:
    vector, matrix = dense("one", 1, 2048, 1024), dense("many", 512, 2048, 1024)
    packing = {"kinds.gemm.packing": 1.0}
    assert _time(vector, **packing) == _time(vector)
    elements = 2048 * (1024 + 512) * (1 - 1 / 512) * (1 - 1 / 1024)
    assert _time(matrix, **packing) - _time(matrix) == pytest.approx(elements / HOST.clock, rel=1e-6)


@pytest.mark.parametrize(
    ("kernel", "op"),
    [
        ("grouped", convolution("depthwise", 8, 64, 64, (3, 3), (56, 56), groups=64)),
        (
            "max_pool",
            operation("p", "pool", {"inputs": 4e6, "outputs": 1e6, "window": 4}, "float32", {"function": "max"}),
        ),
        ("pool", pool("average", 8, 64, (2, 2), (56, 56))),
        ("gelu", elementwise("gelu", 1e6, function="gelu")),
        ("gated", elementwise("silu", 1e6, function="silu")),
        ("tanh", elementwise("tanh", 1e6, function="tanh")),
        ("function", elementwise("exp", 1e6, function="exp")),
        ("other", elementwise("relu", 1e6, function="relu")),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_each_kernel_has_a_share_of_its_own(kernel: str, op: Op) -> None:
    assert _time(op, **{f"kinds.{kernel}.overhead": 1.0}) == pytest.approx(1.0 + _time(op))
    assert math.isfinite(_time(op))
