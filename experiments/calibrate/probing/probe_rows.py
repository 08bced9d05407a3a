"""Operations that a probe may time on a processor, each as a call of torch and as a workload of one operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from slipstick.common.records import Table
from slipstick.estimators.cpu.torch_cpu_kernels import KEPT
from slipstick.experiments.measure.clocks.timing import Task
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.layers.single import convolution, dense, elementwise

IMAGES = (
    (8, 3, 32, 7, 2, 56, 1), (8, 64, 64, 3, 1, 28, 1), (1, 64, 128, 3, 2, 28, 1), (8, 64, 256, 1, 1, 28, 1),
    (1, 256, 256, 3, 1, 14, 1), (1, 128, 128, 3, 1, 56, 1), (1, 512, 128, 1, 1, 14, 1),
    (4, 32, 32, 3, 1, 28, 1), (1, 16, 32, 3, 1, 16, 1),
    (16, 3, 16, 3, 1, 128, 1), (8, 3, 32, 3, 1, 192, 1), (4, 8, 16, 3, 1, 96, 1), (64, 1, 6, 5, 1, 24, 1),
    (16, 16, 32, 3, 1, 64, 1),
    (8, 32, 32, 3, 1, 48, 32), (2, 96, 96, 5, 1, 28, 96), (4, 64, 64, 3, 2, 28, 64), (8, 64, 128, 3, 1, 28, 4),
)  # fmt: skip
"""Of convolutions: batch, channels before and after, kernel, stride, side of the output, groups."""

WINDOWS = ((8, 16, 32, 2, 2), (1, 32, 55, 3, 2), (2, 32, 28, 5, 1))
"""Of pools: batch, channels, side of the output, side of the window, stride."""

HEADS = ((1, 8, 256, 64), (4, 3, 64, 64))
"""Of attention: batch, heads, tokens, size of a head."""

FUNCTIONS = ("gelu", "silu", "tanh", "exp", "elu")

MOST_KEPT = 31 * 2**20
"""Bytes of a result that glibc keeps from call to call once a block of that size was freed."""
FRESH = 10_000_000
"""Elements of a result beyond that, whose memory the system gives anew at each call."""
MEDIUM = 200_000
"""Elements that the caches hold."""


@dataclass(frozen=True)
class ProbeRow:
    """An operation to time.

    `workload`: of this operation alone.
    `make`: makes the call of torch that runs it.
    """

    name: str
    workload: Workload
    make: Callable[[], Task]


def cpu_rows() -> list[ProbeRow]:
    """Products, convolutions, attention, pools, sums, functions, softmaxes and norms, small to large."""
    return [*_products(), *_convolutions(), *_attentions(), *_pools(), *_streams(), *_functions()]


def _row(name: str, op: Op, make: Callable[[], Task]) -> ProbeRow:
    """With the memory of its result kept from call to call, as `probe` has the allocator do up to `MOST_KEPT`."""
    written = op.cost["written"]
    if isinstance(written, (int, float)) and written <= MOST_KEPT:
        op = replace(op, attributes=Table({**op.attributes, **KEPT}))
    return ProbeRow(name, Workload(name, (op,)), make)


def _products() -> Iterator[ProbeRow]:
    shapes = [*product((1, 16, 128, 512), ((64, 64), (512, 512), (768, 3072), (2048, 2048))), (1, (4096, 4096))]
    for rows, (inputs, outputs) in shapes:
        name = f"product {rows} x {inputs} x {outputs}"
        yield _row(name, dense(name, rows, inputs, outputs), _linear(rows, inputs, outputs))


def _linear(rows: int, inputs: int, outputs: int) -> Callable[[], Task]:
    def make() -> Task:
        import torch

        x, weights = torch.randn(rows, inputs), torch.randn(outputs, inputs)
        return lambda: torch.nn.functional.linear(x, weights)

    return make


def _convolutions() -> Iterator[ProbeRow]:
    for batch, before, after, kernel, stride, side, groups in IMAGES:
        shared = f" in {groups} groups" if groups > 1 else ""
        name = f"convolution {batch} x {before} to {after}{shared}, {kernel} x {kernel} / {stride}, {side} x {side}"
        op = convolution(name, batch, before, after, (kernel, kernel), (side, side), stride, groups)
        yield _row(name, op, _convolve(batch, before, after, kernel, stride, side, groups))


def _convolve(
    batch: int, before: int, after: int, kernel: int, stride: int, side: int, groups: int
) -> Callable[[], Task]:
    def make() -> Task:
        import torch

        whole = (side - 1) * stride + kernel
        x, weights = torch.randn(batch, before, whole, whole), torch.randn(after, before // groups, kernel, kernel)
        return lambda: torch.nn.functional.conv2d(x, weights, stride=stride, groups=groups)

    return make


def _attentions() -> Iterator[ProbeRow]:
    for batch, heads, tokens, size in HEADS:
        name = f"attention {batch} x {heads} heads of {size}, {tokens} tokens"
        dims = {"batch": batch, "heads": heads, "kv_heads": heads, "queries": tokens, "keys": tokens,
                "head_dim": size, "value_dim": size}  # fmt: skip
        yield _row(name, operation(name, "attention", dims), _attend((batch, heads, tokens, size)))


def _attend(shape: tuple[int, ...]) -> Callable[[], Task]:
    def make() -> Task:
        import torch

        x = torch.randn(shape)
        return lambda: torch.nn.functional.scaled_dot_product_attention(x, x, x)

    return make


def _pools() -> Iterator[ProbeRow]:
    for function in ("max", "average"):
        for batch, channels, side, window, stride in WINDOWS:
            name = f"{function} pool {batch} x {channels}, {window} x {window} / {stride}, {side} x {side}"
            whole = (side - 1) * stride + window
            dims = {"inputs": batch * channels * whole**2, "outputs": batch * channels * side**2, "window": window**2}
            op = operation(name, "pool", dims, "float32", {"function": function})
            yield _row(name, op, _pool(function, (batch, channels, whole, whole), window, stride))


def _pool(function: str, shape: tuple[int, ...], window: int, stride: int) -> Callable[[], Task]:
    def make() -> Task:
        import torch

        x = torch.randn(shape)
        called = torch.nn.functional.max_pool2d if function == "max" else torch.nn.functional.avg_pool2d
        return lambda: called(x, window, stride)

    return make


def _streams() -> Iterator[ProbeRow]:
    for elements in (64, 4096, 200_000, 1_000_000, 2_000_000, 4_000_000, 16_000_000):
        name = f"sum of {elements:,}"
        yield _row(name, elementwise("add_", elements, inputs=2), _call("add", (elements,)))
    for elements in (64, 4096, MEDIUM, FRESH):
        name = f"relu of {elements:,}"
        yield _row(name, elementwise(name, elements, function="relu"), _call("relu", (elements,)))
    for rows, columns in ((16, 64), (1024, 256), (2048, 512)):
        name = f"softmax of {rows} x {columns}"
        yield _row(
            name, operation(name, "softmax", {"rows": rows, "columns": columns}), _call("softmax", (rows, columns))
        )
        name = f"norm of {rows} x {columns}"
        dims = {"elements": rows * columns, "groups": rows}
        yield _row(name, operation(name, "norm", dims), _call("norm", (rows, columns)))


def _functions() -> Iterator[ProbeRow]:
    for function in FUNCTIONS:
        for elements in (4096, MEDIUM):
            name = f"{function} of {elements:,}"
            yield _row(name, elementwise(name, elements, function=function), _call(function, (elements,)))


def _call(name: str, shape: tuple[int, ...]) -> Callable[[], Task]:
    def make() -> Task:
        import torch

        x, y = torch.randn(shape), torch.randn(shape)
        weights, out = torch.randn(shape[-1]), torch.empty(shape)
        calls: dict[str, Callable[[], Any]] = {
            "add": lambda: torch.add(x, y, out=out),
            "relu": lambda: torch.relu(x),
            "gelu": lambda: torch.nn.functional.gelu(x),
            "silu": lambda: torch.nn.functional.silu(x),
            "elu": lambda: torch.nn.functional.elu(x),
            "tanh": lambda: torch.tanh(x),
            "exp": lambda: torch.exp(x),
            "softmax": lambda: torch.softmax(x, -1),
            "norm": lambda: torch.nn.functional.layer_norm(x, shape[-1:], weights, weights),
        }
        return calls[name]

    return make
