"""Operations that a probe may time on a processor, each as a call of torch and as a workload of one operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from slipstick.experiments.measure.clocks.timing import Task
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.layers.single import convolution, dense, elementwise

IMAGES = (
    (8, 3, 32, 7, 2, 56), (8, 64, 64, 3, 1, 28), (1, 64, 128, 3, 2, 28), (8, 64, 256, 1, 1, 28),
    (1, 256, 256, 3, 1, 14), (1, 128, 128, 3, 1, 56), (1, 512, 128, 1, 1, 14),
    (4, 32, 32, 3, 1, 28), (1, 16, 32, 3, 1, 16),
)  # fmt: skip
"""Of convolutions: batch, channels before and after, kernel, stride, side of the output."""

MOST_FRESH = 200_000
"""Elements of a new result beyond which the system gives pages anew at each call, which networks seldom see."""


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
    """Products, convolutions, sums, softmaxes, norms and attention, small to large."""
    return [*_products(), *_convolutions(), *_streams()]


def _row(name: str, op: Op, make: Callable[[], Task]) -> ProbeRow:
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
    for batch, before, after, kernel, stride, side in IMAGES:
        name = f"convolution {batch} x {before} to {after}, {kernel} x {kernel} / {stride}, {side} x {side}"
        op = convolution(name, batch, before, after, (kernel, kernel), (side, side), stride)
        yield _row(name, op, _convolve(batch, before, after, kernel, stride, side))


def _convolve(batch: int, before: int, after: int, kernel: int, stride: int, side: int) -> Callable[[], Task]:
    def make() -> Task:
        import torch

        whole = (side - 1) * stride + kernel
        x, weights = torch.randn(batch, before, whole, whole), torch.randn(after, before, kernel, kernel)
        return lambda: torch.nn.functional.conv2d(x, weights, stride=stride)

    return make


def _streams() -> Iterator[ProbeRow]:
    for elements in (64, 4096, 200_000, 4_000_000, 16_000_000):
        name = f"sum of {elements:,}"
        yield _row(name, elementwise(name, elements, inputs=2), _call("add", (elements,)))
        if elements > MOST_FRESH:
            continue
        # a gelu begins with six microseconds of its own (oneDNN's), which the start of all others does not say
        for function in ("relu", "gelu") if elements == MOST_FRESH else ("relu",):
            name = f"{function} of {elements:,}"
            yield _row(name, elementwise(name, elements, function=function), _call(function, (elements,)))
    for rows, columns in ((16, 64), (1024, 256), (2048, 512)):
        name = f"softmax of {rows} x {columns}"
        yield _row(
            name, operation(name, "softmax", {"rows": rows, "columns": columns}), _call("softmax", (rows, columns))
        )
        name = f"norm of {rows} x {columns}"
        dims = {"elements": rows * columns, "groups": rows}
        yield _row(name, operation(name, "norm", dims), _call("norm", (rows, columns)))


def _call(name: str, shape: tuple[int, ...]) -> Callable[[], Task]:
    def make() -> Task:
        import torch

        x, y = torch.randn(shape), torch.randn(shape)
        weights, out = torch.randn(shape[-1]), torch.empty(shape)
        calls: dict[str, Callable[[], Any]] = {
            "add": lambda: torch.add(x, y, out=out),
            "relu": lambda: torch.relu(x),
            "gelu": lambda: torch.nn.functional.gelu(x),
            "softmax": lambda: torch.softmax(x, -1),
            "norm": lambda: torch.nn.functional.layer_norm(x, shape[-1:], weights, weights),
        }
        return calls[name]

    return make
