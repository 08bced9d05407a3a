"""Layers of neural networks as operations: dims, exact flop (a multiply-add is two) and least bytes."""

from __future__ import annotations

from hwmodels.records import Table
from workloads.cost import Amount, Cost
from workloads.workload import Attribute, Op

SIZE_BYTES = {
    "float64": 8,
    "float32": 4,
    "tfloat32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8": 1,
    "int8": 1,
    "int32": 4,
    "int64": 8,
}


def gemm(
    name: str, m: Amount, n: Amount, k: Amount, batch: Amount = 1, dtype: str = "float32", **attributes: Attribute
) -> Op:
    """Matrix products (batch, m, k) x (batch, k, n): 2 batch m n k flop; both inputs read, the output written."""
    size = SIZE_BYTES[dtype]
    cost = {
        f"flop.matrix.{dtype}": 2 * batch * m * n * k,
        "read": size * batch * (m * k + k * n),
        "written": size * batch * m * n,
        "launches": 1,
    }
    dims = Table({"m": m, "n": n, "k": k, "batch": batch})
    return Op(name, "gemm", dims, dtype, Cost(cost), attributes=Table(attributes))


def dense(name: str, batch: Amount, inputs: Amount, outputs: Amount, dtype: str = "float32") -> Op:
    """A fully connected layer, forward: input (batch, inputs), output (batch, outputs), no bias."""
    return gemm(name, m=batch, n=outputs, k=inputs, dtype=dtype)


def convolution(
    name: str,
    batch: Amount,
    channels_in: Amount,
    channels_out: Amount,
    kernel: tuple[int, int],
    out: tuple[Amount, Amount],
    stride: int = 1,
    groups: int = 1,
    dtype: str = "float32",
    **attributes: Attribute,
) -> Op:
    """A 2-D convolution, forward, without padding: output (batch, channels_out, *out)."""
    size = SIZE_BYTES[dtype]
    weights = (
        channels_out * channels_in * kernel[0] * kernel[1] / groups
        if groups > 1
        else (channels_out * channels_in * kernel[0] * kernel[1])
    )
    high = (out[0] - 1) * stride + kernel[0]
    wide = (out[1] - 1) * stride + kernel[1]
    outputs = batch * channels_out * out[0] * out[1]
    cost = {
        f"flop.matrix.{dtype}": 2 * batch * out[0] * out[1] * weights,
        "read": size * (batch * channels_in * high * wide + weights),
        "written": size * outputs,
        "launches": 1,
    }
    dims = Table(
        {
            "batch": batch,
            "channels_in": channels_in,
            "channels_out": channels_out,
            "kernel_height": kernel[0],
            "kernel_width": kernel[1],
            "out_height": out[0],
            "out_width": out[1],
        }
    )
    return Op(
        name,
        "convolution",
        dims,
        dtype,
        Cost(cost),
        attributes=Table({"stride": stride, "groups": groups, **attributes}),
    )


def pool(
    name: str,
    batch: Amount,
    channels: Amount,
    kernel: tuple[int, int],
    out: tuple[Amount, Amount],
    dtype: str = "float32",
) -> Op:
    """Pooling over windows that do not overlap: one comparison or addition an input element."""
    size = SIZE_BYTES[dtype]
    inputs = batch * channels * out[0] * out[1] * kernel[0] * kernel[1]
    outputs = batch * channels * out[0] * out[1]
    dims = Table({"batch": batch, "channels": channels, "window": kernel[0] * kernel[1], "outputs": out[0] * out[1]})
    cost = {f"flop.vector.{dtype}": inputs, "read": size * inputs, "written": size * outputs, "launches": 1}
    return Op(name, "pool", dims, dtype, Cost(cost))


def elementwise(
    name: str,
    elements: Amount,
    inputs: int = 1,
    flop_per_element: int = 1,
    dtype: str = "float32",
    **attributes: Attribute,
) -> Op:
    """One output element from `inputs` elements each."""
    size = SIZE_BYTES[dtype]
    cost = {
        f"flop.vector.{dtype}": flop_per_element * elements,
        "read": size * inputs * elements,
        "written": size * elements,
        "launches": 1,
    }
    dims = Table({"elements": elements, "inputs": inputs})
    return Op(name, "elementwise", dims, dtype, Cost(cost), attributes=Table(attributes))
