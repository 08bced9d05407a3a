"""How torch runs an operation of the taxonomy: the calls that probes and measurements of devices time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import torch
from slipstick.common.readers import unknown_name
from slipstick.experiments.measure.clocks.timing import Task
from slipstick.workloads.graph.op import Op

DTYPES = ("float32", "bfloat16", "float16", "float8")
"""Data types that are measured; float8 in products alone, on a GPU."""


def call_of(op: Op, place: str = "cpu") -> Task:
    """An operation of numbers as a call of torch on a device, whose tensors are made here.

    Raises InputError where torch has no such operation for the data type, or the device has not the memory.
    """

    if op.dtype not in DTYPES or (op.dtype == "float8" and (op.kind != "gemm" or place == "cpu")):
        raise InputError(f"{op.kind}.{op.dtype} cannot be measured on {place} (known: {', '.join(DTYPES)})")
    made = {"gemm": _gemm, "convolution": _convolution, "elementwise": _elementwise, "softmax": _softmax}
    made |= {"norm": _norm, "attention": _attention}
    if op.kind not in made:
        raise unknown_name("kind of operation to measure", op.kind, list(made))
    try:
        return made[op.kind]({name: round(float(size)) for name, size in op.dims.items()}, op, place)
    except torch.OutOfMemoryError as error:
        raise InputError(f"{op.kind}: not enough memory on {place} ({str(error)[:80]})") from None


def _tensor(shape: tuple[int, ...], dtype: str, place: str) -> Any:
    return torch.randn(shape, dtype=getattr(torch, dtype), device=place)


def _gemm(d: Mapping[str, int], op: Op, place: str) -> Task:
    """Y (n, m) = X (n, k) W (m, k)', as a linear layer; several as torch.bmm."""

    if op.dtype == "float8":
        narrow = torch.float8_e4m3fn
        x, w = (_tensor(s, "bfloat16", place).to(narrow) for s in ((d["n"], d["k"]), (d["m"], d["k"])))
        one = torch.ones((), device=place)
        return lambda: torch._scaled_mm(x, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    if d["batch"] == 1:
        x, w = _tensor((d["n"], d["k"]), op.dtype, place), _tensor((d["m"], d["k"]), op.dtype, place)
        return lambda: torch.nn.functional.linear(x, w)
    x, w = (_tensor((d["batch"], *s), op.dtype, place) for s in ((d["n"], d["k"]), (d["k"], d["m"])))
    return lambda: torch.bmm(x, w)


def _elementwise(d: Mapping[str, int], op: Op, place: str) -> Task:
    from torch.nn import functional

    x, y, z = (_tensor((d["elements"],), op.dtype, place) for _ in range(3))
    if (name := str(op.attributes.get("function", "add"))) == "add":
        return lambda: torch.add(x, y, out=z)
    called: Any = getattr(functional if name in ("gelu", "silu", "elu") else torch, name)
    return lambda: called(x)


def _convolution(d: Mapping[str, int], op: Op, place: str) -> Task:
    x = _tensor((d["batch"], d["channels_in"], d["in_height"], d["in_width"]), op.dtype, place)
    window = d["channels_in"] // d["groups"], d["kernel_height"], d["kernel_width"]
    weights, stride = _tensor((d["channels_out"], *window), op.dtype, place), op.attributes["stride"]
    return lambda: torch.nn.functional.conv2d(x, weights, stride=stride, groups=d["groups"])


def _softmax(d: Mapping[str, int], op: Op, place: str) -> Task:
    x = _tensor((d["rows"], d["columns"]), op.dtype, place)
    return lambda: torch.softmax(x, -1)


def _norm(d: Mapping[str, int], op: Op, place: str) -> Task:
    columns = d["elements"] // d["groups"]
    x, w, b = (_tensor(shape, op.dtype, place) for shape in ((d["groups"], columns), (columns,), (columns,)))
    return lambda: torch.nn.functional.layer_norm(x, (columns,), w, b)


def _attention(d: Mapping[str, int], op: Op, place: str) -> Task:
    q = _tensor((d["batch"], d["heads"], d["queries"], d["head_dim"]), op.dtype, place)
    k = _tensor((d["batch"], d["kv_heads"], d["keys"], d["head_dim"]), op.dtype, place)
    v = _tensor((d["batch"], d["kv_heads"], d["keys"], d["value_dim"]), op.dtype, place)
    causal, grouped = bool(op.attributes.get("causal")), d["kv_heads"] != d["heads"]
    function = torch.nn.functional.scaled_dot_product_attention
    return lambda: function(q, k, v, is_causal=causal, enable_gqa=grouped)
