"""What the kernels of a profiler's trace compute: the operation that launched each, with its input shapes.

Kineto writes "Input Dims", "Input type" and, in newer versions, "Concrete Inputs" beside each operation of the host
where shapes were recorded (torch.profiler, record_shapes=True), and the operation's "External id" beside each kernel.
Results are not written: they follow from the inputs for the operations that decide the time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstick.hwmodels.files.readers import InputError
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.importers.assembly import DTYPES, Tensor
from slipstick.workloads.importers.torch.aten import Call, read_call
from slipstick.workloads.importers.traces.activity import CALLS, HOST
from slipstick.workloads.importers.traces.chrome_trace import iterate_events

MOST_OPERATIONS = 5_000_000
_CONVOLUTIONS = ("cudnn_convolution", "miopen_convolution", "mkldnn_convolution", "miopen_depthwise_convolution")
_FLASH = ("_flash_attention_forward", "_efficient_attention_forward", "flash_attn::_flash_attn_forward")
_FLASH_BACKWARD = ("_flash_attention_backward", "_efficient_attention_backward", "flash_attn::_flash_attn_backward")


def read_kernel_operations(path: str | Path) -> dict[int, Op]:
    """The operation behind each kernel, by the kernel's correlation number; only where its shapes are known.

    It is the one of the same "External id"; where a profiler wrote none, the innermost around the launch.

    Raises
    ------
    InputError
        Where the trace cannot be read.
    """
    called: dict[int, str] = {}  # External id -> the call as text: repeated calls share one
    texts: dict[str, str] = {}
    kernels: dict[int, int] = {}
    spans: dict[str, list[tuple[float, float, int]]] = {}  # thread -> (start, end, External id)
    launches: dict[int, tuple[str, float]] = {}
    for event in iterate_events(path):
        arguments = event.get("args")
        if event.get("ph") != "X" or not isinstance(arguments, dict):
            continue
        category, start = str(event.get("cat", "")).lower(), event.get("ts")
        number = arguments.get("External id", arguments.get("external id"))
        correlation = arguments.get("correlation")
        if category in HOST and isinstance(number, int):
            kept = [arguments.get(key) for key in ("Input Dims", "Input type", "Concrete Inputs")]
            text = json.dumps([str(event.get("name", "")), *kept])
            called[number] = texts.setdefault(text, text)
            if isinstance(start, (int, float)) and isinstance(event.get("dur"), (int, float)):
                spans.setdefault(str(event.get("tid")), []).append((start, start + event["dur"], number))
            if len(called) > MOST_OPERATIONS:
                raise InputError(f"{path}: more than {MOST_OPERATIONS:,} operations")
        elif category == "kernel" and isinstance(correlation, int):
            kernels[correlation] = number if isinstance(number, int) else -1
        elif category in CALLS and isinstance(correlation, int) and isinstance(start, (int, float)):
            launches[correlation] = (str(event.get("tid")), start)
    around = _innermost(spans, launches)
    known: dict[str, Op | None] = {}
    operations = {}
    for correlation, number in kernels.items():
        text = called.get(number) or called.get(around.get(correlation, -1), "")
        if text and text not in known:
            known[text] = _operation(*json.loads(text))
        if (op := known.get(text)) is not None:
            operations[correlation] = op
    return operations


def _innermost(
    spans: Mapping[str, list[tuple[float, float, int]]], launches: Mapping[int, tuple[str, float]]
) -> dict[int, int]:
    """The innermost span of a launch's thread around its start, by correlation."""
    innermost: dict[int, int] = {}
    by_thread: dict[str, list[tuple[float, int]]] = {}
    for correlation, (thread, start) in launches.items():
        by_thread.setdefault(thread, []).append((start, correlation))
    for thread, starts in by_thread.items():
        opened = sorted(spans.get(thread, []), key=lambda span: (span[0], -span[1]))
        stack: list[tuple[float, float, int]] = []
        at = 0
        for start, correlation in sorted(starts):
            while at < len(opened) and opened[at][0] <= start:
                while stack and stack[-1][1] < opened[at][0]:
                    stack.pop()
                stack.append(opened[at])
                at += 1
            while stack and stack[-1][1] < start:
                stack.pop()
            if stack:
                innermost[correlation] = stack[-1][2]
    return innermost


def _operation(name: str, dims: Any, types: Any, concrete: Any) -> Op | None:
    """One operation; None where its name or shapes do not say what it computes."""
    try:
        call = kineto_call(name, dims, types, concrete)
        pieces = None if call is None else read_call(call)
        if not call or not pieces:
            return None
        floating = [t.dtype for t in call.tensors() if "float" in t.dtype]
        dtype = floating[0] if floating else "int64"
        made = [operation(name[:60], p.kind, p.dims, dtype, p.attributes, times=p.times) for p in pieces]
    except (InputError, KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, StopIteration, AttributeError):
        return None
    return made[0]  # the two products of a backward convolution are alike


def kineto_call(name: str, dims: Any, types: Any, concrete: Any) -> Call | None:
    """The call that Kineto's arguments describe, with the shape of its result; None where there are none."""
    if not isinstance(dims, list) or not isinstance(types, list):
        return None
    values = concrete if isinstance(concrete, list) else [""] * len(dims)
    values = values + [""] * (len(dims) - len(values))
    arguments = tuple(_argument(d, str(t), c) for d, t, c in zip(dims, types, values, strict=False))
    base = name.removeprefix("aten::")
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    if not tensors and not any(isinstance(a, tuple) for a in arguments):
        return None
    if base in _CONVOLUTIONS:
        x, w = tensors[:2]
        lists = [a for a in arguments if isinstance(a, (list, tuple))]
        padding, stride, dilation = (lists + [None] * 3)[:3] if len(lists) >= 3 else (None, None, None)
        groups = x.shape[1] // w.shape[1]
        base, arguments = "convolution", (x, w, None, stride, padding, dilation, False, None, groups)
    if base in _FLASH + _FLASH_BACKWARD:
        inputs = tensors[1:4] if base in _FLASH_BACKWARD else tensors[:3]
        swapped = tuple(Tensor((t.shape[0], t.shape[2], t.shape[1], t.shape[3]), t.dtype) for t in inputs)
        back = base in _FLASH_BACKWARD
        base = "_scaled_dot_product_flash_attention" + ("_backward" if back else "")
        arguments = (swapped[0], *swapped) if back else swapped
    call = Call(base, _filled(base, arguments), ())
    return Call(base, call.arguments, _results(call))


def _filled(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Old traces leave out what is no tensor: what decides no shape takes its usual value."""
    if name == "convolution_backward":
        usual = (None, None, None, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, True, False))
        known = arguments[:11] + (None,) * (11 - len(arguments))
        return tuple(u if a is None and u is not None else a for a, u in zip(known, usual, strict=True))
    if name.removesuffix("_data").removesuffix("_backward").endswith("softmax") and not any(
        isinstance(a, int) and not isinstance(a, bool) for a in arguments
    ):
        return (*arguments, -1)
    if "layer_norm" in name and not any(isinstance(a, (list, tuple)) for a in arguments):
        return (*arguments, (1,))
    return arguments


def _argument(dims: Any, kind: str, concrete: Any) -> Any:
    if kind in DTYPES and (dims or concrete in ("", None)):
        return Tensor(_sizes(dims), DTYPES[kind])
    if dims and isinstance(dims, list) and isinstance(dims[0], list):  # a list of tensors
        inner = kind.removeprefix("GenericList[").removesuffix("]").split(",")
        return tuple(Tensor(_sizes(d), DTYPES.get(inner[0], "float32")) for d in dims)
    if not isinstance(concrete, str) or not concrete:
        return None
    if len(concrete) > 1000:
        return None
    text = {"True": "true", "False": "false"}.get(concrete, concrete)
    try:
        value = json.loads(text.replace("True", "true").replace("False", "false"))
    except (ValueError, RecursionError):
        return text
    return tuple(value) if isinstance(value, list) else value


def _sizes(dims: Any) -> tuple[int, ...]:
    if not isinstance(dims, list) or not all(
        isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= 10**12 for size in dims
    ):
        raise InputError(f"sizes {str(dims)[:40]!r} are no whole numbers in [0, 1e12]")
    return tuple(dims)


def _results(call: Call) -> tuple[Tensor, ...]:
    """Shapes of what is made, where they follow from what is read."""
    tensors = call.tensors()
    match call.name:
        case "convolution" | "_convolution":
            x, w, stride, padding, dilation = (call.arguments[i] for i in (0, 1, 3, 4, 5))
            if not isinstance(stride, tuple) or not isinstance(padding, tuple):
                raise InputError("a convolution whose stride was not recorded")
            if call.arguments[6]:
                raise InputError("a transposed convolution")
            axes = len(w.shape) - 2
            spread = dilation if isinstance(dilation, tuple) else (1,) * axes
            out = tuple(
                (x.shape[2 + i] + 2 * padding[i] - spread[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1
                for i in range(axes)
            )
            return (Tensor((x.shape[0], w.shape[0], *out), x.dtype),)
        case "embedding":
            return (Tensor((*tensors[1].shape, tensors[0].shape[-1]), tensors[0].dtype),)
        case "cat" | "stack":
            return (Tensor((sum(t.elements for t in tensors),), tensors[0].dtype),)
        case "sum" | "mean" | "max_pool2d_with_indices":
            return ()
    shape: tuple[int, ...] = ()
    for t in tensors:
        longest = max(len(shape), len(t.shape))
        one, other = (1,) * (longest - len(shape)) + shape, (1,) * (longest - len(t.shape)) + t.shape
        shape = tuple(max(a, b) for a, b in zip(one, other, strict=True))
    if call.name.endswith("_") and tensors:
        shape = tensors[0].shape
    if math.prod(shape) > 10**15:
        raise InputError("a result beyond all memory")
    return (Tensor(shape, tensors[0].dtype),) if tensors else ()
