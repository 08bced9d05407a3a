"""Types under torch.autocast, and what a training step allocates, by hand on small networks."""

from __future__ import annotations

from itertools import pairwise

import pytest

from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.live import passing_bytes, peak_bytes
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.fusion import fused
from slipstick.workloads.transforms.mixed import autocast
from tests.workloads.saved_bytes import saved_bytes

TOKENS, WIDTH = 6, 8


def product(name: str) -> Op:
    return operation(name, "gemm", {"batch": 1, "m": WIDTH, "n": TOKENS, "k": WIDTH})


def added(name: str, reads: int = 2 * TOKENS * WIDTH) -> Op:
    elements = TOKENS * WIDTH
    return operation(
        name, "elementwise", {"elements": elements, "reads": reads, "writes": elements}, attributes={"function": "add"}
    )


def norm(name: str) -> Op:
    return operation(name, "norm", {"elements": TOKENS * WIDTH, "groups": TOKENS}, attributes={"function": "layer"})


def chain(*operations: Op) -> Workload:
    return Workload("chain", operations, tuple((a.name, b.name) for a, b in pairwise(operations)))


def types(workload: Workload) -> dict[str, str]:
    return {op.name: op.dtype for op in autocast(workload, "float16")}


def test_a_norm_is_in_float32_and_the_product_after_it_reads_a_copy_in_16_bits() -> None:
    found = types(chain(product("first"), norm("norm"), product("second")))
    assert found["first"] == found["second"] == "float16" and found["norm"] == "float32"
    assert {"norm.in_float32", "second.in_float16", "first.weight_float16", "second.weight_float16"} <= set(found)


def test_what_adds_a_parameter_is_in_float32_and_so_is_what_reads_it() -> None:
    position = added("position", reads=TOKENS * WIDTH + WIDTH + 1)  # one result of the graph, and a parameter
    workload = Workload(
        "stream",
        (product("patch"), position, norm("norm"), product("inner"), added("residual")),
        (
            ("patch", "position"),
            ("position", "norm"),
            ("norm", "inner"),
            ("inner", "residual"),
            ("position", "residual"),
        ),
    )
    found = types(workload)
    assert found["position"] == found["residual"] == "float32"
    assert "norm.in_float32" not in found  # the stream is float32 already
    made = {op.name: op for op in autocast(workload, "float16")}
    elements = TOKENS * WIDTH
    assert made["residual"].cost["read"] == 4 * elements + 2 * elements  # the stream, and the product's result


def test_the_bias_of_a_dense_layer_is_converted_as_its_weights_are() -> None:
    assert types(chain(product("dense"), added("bias", reads=TOKENS * WIDTH + WIDTH)))["bias"] == "float16"


def test_each_reader_converts_for_itself_and_a_compiler_once() -> None:
    heads = [product(name) for name in ("query", "key", "value")]
    workload = Workload("heads", (norm("norm"), *heads), tuple(("norm", op.name) for op in heads))
    eager = autocast(workload, "float16")
    assert sum(op.name.endswith(".in_float16") for op in eager) == 3
    assert sum(op.name.endswith("in_float16") or "norm" in op.name for op in fused(eager)) == 1


def test_saved_bytes_of_a_block_under_autocast() -> None:
    workload = chain(product("first"), norm("norm"), product("second"))
    elements, weights = TOKENS * WIDTH, WIDTH * WIDTH
    first = 2 * elements + 2 * weights  # input and weights in 16 bits
    middle = 4 * elements + 2 * 4 * TOKENS  # the norm's input in float32, mean and deviation of each row
    second = 2 * elements + 2 * weights
    assert saved_bytes(autocast(workload, "float16")) == first + middle + second


@pytest.mark.parametrize("layers", (1, 2, 5))
def test_what_a_step_allocates_in_closed_form(layers: int) -> None:
    """Dense layers in a row: all inputs are saved; beside them lie the result, its gradient, and that of an input."""
    workload = chain(*(product(f"layer{i}") for i in range(layers)))
    one = 4 * TOKENS * WIDTH
    assert saved_bytes(workload) == layers * one
    assert peak_bytes(workload) == layers * one + (2 + (layers > 1)) * one
    assert passing_bytes(workload) == (1 if layers == 1 else 2) * one
