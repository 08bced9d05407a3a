"""Classes of the kernels of PyTorch programs.

They are what cuDNN, cuBLAS and PyTorch's own kernels distinguish: convolutions by taps, channels, groups and direction,
products by how thin they are, norms by function. Backward passes in 16 bits are classes of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from slipstick.common.errors import InputError
from slipstick.common.size_column import number, smallest
from slipstick.hwmodels.machine import HALF
from slipstick.workloads.graph.kinds import COPIES, family_of
from slipstick.workloads.graph.workload import Op

FEATURES = ("inputs", "outputs", "taps", "strided", "dilated", "unaligned")
"""Of a convolution: octaves of channels of a group below 64, octaves of taps, and what else slows its kernels."""
REDUCTIONS = {"scan": ("cumsum", "cumprod"), "place": ("argmax", "argmin")}
"""Reductions with kernels of their own: every partial result is written, or the place of the extreme one is kept."""
THIN = 16
"""Rows or columns of a product below which it only reads a matrix."""
LAST, BACKWARD, DEPTHWISE = ".last", ".backward", "convolution.depthwise"
"""Of layers whose channels lie together; of backward passes; a class."""
EITHER_WAY = ("elementwise", "move", "reduction", "gather")
"""Kinds whose backward passes run the kernels of forward ones: products have transposed operands there."""
OTHERS, COPIED = "elementwise", "move"
"""Classes for kinds that no program was timed with: any, and those that copy."""
LAST_ORDERS = ("0231", "02341")
"""Axes of images and volumes as they lie in memory where channels lie together (`torch.channels_last`)."""


def class_of(op: Op) -> str:
    """The class of kernels that serves an operation."""
    dims, kind = op.dims, op.kind
    if kind == "convolution":
        deep = float(dims["kernel_depth"]) > 1 or float(dims["in_depth"]) > 1
        if op.attributes.get("transposed"):
            return "convolution.transposed3" if deep else "convolution.transposed"
        if float(dims["groups"]) > 1:
            alone = dims["groups"] == dims["channels_in"]
            return DEPTHWISE if alone else "convolution.grouped"
        if deep:
            return "convolution.3"
        if _taps(op) == 1:
            return "convolution.point"
        return "convolution.first" if float(dims["channels_in"]) <= 4 else "convolution"
    if kind == "gemm":
        if smallest(number(dims["m"]), number(dims["n"])) <= THIN:
            return "gemm.thin"
        return "gemm.batch" if number(dims["batch"]) > 1 else "gemm"
    function = str(op.attributes.get("function", "layer"))
    if kind == "reduction":
        return next((f"reduction.{word}" for word, names in REDUCTIONS.items() if function in names), kind)
    return f"norm.{function}" if kind == "norm" else kind


def kernel_class(op: Op) -> str:
    """`class_of`, where the channels of images lie together, and of a backward pass in 16 bits: other kernels.

    What only moves bytes runs the same kernels either way.
    """
    together = op.attributes.get("order") in LAST_ORDERS and op.kind in ("convolution", "pool")
    backward = is_backward(op) and op.dtype in HALF and op.kind not in EITHER_WAY  # no other type was fitted
    return class_of(op) + (LAST if together else "") + (BACKWARD if backward else "")


def is_backward(op: Op) -> bool:
    """Whether it computes gradients."""
    return op.attributes.get("phase", "forward") != "forward"


def relative(name: str, known: Callable[[str], bool]) -> str:
    """The class itself, or the nearest that is known: without its layout, of forward passes, its kind, that of its
    family (moves of what copies), elementwise.

    Raises InputError where none of them is known.
    """
    forward, plain = name.removesuffix(BACKWARD), name.replace(LAST, "")
    kind = plain.removesuffix(BACKWARD)
    family = COPIED if family_of(kind) == COPIES else OTHERS
    candidates = (name, plain, forward, kind, kind.rpartition(".")[0], family, OTHERS)
    nearest = next(filter(known, candidates), None)
    if nearest is None:
        raise InputError(f"class of kernels {name}: neither it nor {OTHERS} is among those that were fitted")
    return nearest


def features(op: Op) -> tuple[float, ...]:
    """Numbers of a convolution, by `FEATURES` (octaves and flags); zeros for other operations."""
    if op.kind != "convolution":
        return (0.0,) * len(FEATURES)
    groups = float(op.dims["groups"])
    inputs, outputs = (float(op.dims[f"channels_{side}"]) / groups for side in ("in", "out"))
    return (
        _octaves(64 / inputs),
        _octaves(64 / outputs),
        _octaves(_taps(op)),
        float(_largest(op, "stride") > 1),
        float(_largest(op, "dilation") > 1),
        float(inputs % 4 != 0 or outputs % 4 != 0),
    )


def _taps(op: Op) -> float:
    return math.prod(float(op.dims.get(f"kernel_{axis}", 1)) for axis in ("depth", "height", "width"))


def _largest(op: Op, name: str) -> float:
    value = op.attributes.get(name, 1)
    return (
        max((float(v) for v in value if isinstance(v, (int, float))), default=1.0) if isinstance(value, tuple) else 1.0
    )


def _octaves(ratio: float) -> float:
    return math.log2(max(1.0, ratio))
