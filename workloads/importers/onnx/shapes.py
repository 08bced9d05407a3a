"""Shapes of ONNX tensors with named axes: what the file states, and rules where ONNX's own inference gives up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.workloads.graph.assembly import Number, words
from slipstick.workloads.graph.kinds import product

Shape: TypeAlias = tuple[Number, ...]


# Element types of ONNX by number (onnx.proto: TensorProto.DataType).
DTYPES: Mapping[int, str] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8",
    18: "float8",
    19: "float8",
    20: "float8",
}


MAX_SIZE = 10**12


MAX_RANK = 32


def stated_shape(value: Any, where: str, *, given: bool = False) -> Shape | None:
    """The shape that a file states, names as symbols; None where an axis is open without a name.

    `given`: whether it is an input's, whose open axes are named here: the first is the batch.

    Raises InputError where a size is negative or absurd, or a name is none.
    """
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    axes = value.type.tensor_type.shape.dim
    if len(axes) > MAX_RANK:
        raise InputError(f"{where}: {len(axes)} axes, more than {MAX_RANK}")
    shape: list[Number] = []
    for axis in axes:
        if axis.HasField("dim_value"):
            if not 0 <= axis.dim_value <= MAX_SIZE:
                raise InputError(f"{where}: size {axis.dim_value} lies outside [0, {MAX_SIZE}]")
            shape.append(int(axis.dim_value))
        elif axis.dim_param and not axis.dim_param.startswith("unk__"):
            shape.append(symbol(_name(axis.dim_param, where)))
        elif given:  # tf2onnx numbers what it does not know: of an input the first axis is the batch
            shape.append(symbol("batch" if not shape else _name(f"{value.name}_{len(shape)}", where)))
        else:
            return None
    return tuple(shape)


def _name(text: str, where: str) -> str:
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in text[:64])
    if not name.isidentifier():
        raise InputError(f"{where}: axis name {text[:40]!r} is no name")
    return name


_SAME = words(
    """
    Relu Sigmoid Tanh Erf Gelu Exp Log Sqrt Clip LeakyRelu Elu Selu HardSigmoid HardSwish Softplus Neg Abs Cast Identity
    Dropout BatchNormalization InstanceNormalization LayerNormalization GroupNormalization LRN Softmax LogSoftmax
    Softsign Mish Not Floor Ceil Round Reciprocal Sign Sin Cos PRelu CumSum QuantizeLinear DequantizeLinear
    DynamicQuantizeLinear ThresholdedRelu Celu CastLike Trilu MultiHeadAttention GroupQueryAttention
    """
)


_BROADCAST = words(
    "Add Sub Mul Div Pow Where Equal Greater Less GreaterOrEqual LessOrEqual And Or Max Min Sum Mean Mod"
)


def result_shapes(
    kind: str,
    attributes: Mapping[str, Any],
    shapes: Sequence[Shape | None],
    values: Sequence[Any],
    stated: Sequence[Shape | None],
    where: str,
) -> list[Shape | None]:
    """Shapes of a node's results: as stated, else by the rule of its kind, else None.

    Raises InputError where the rule and the inputs do not fit.
    """
    if all(shape is not None for shape in stated) or not shapes or shapes[0] is None:
        return list(stated)
    first = shapes[0]
    made: Shape | None = None
    if kind in _SAME:
        made = first
    elif kind in _BROADCAST and all(shape is not None for shape in shapes):
        made = _broadcast([shape for shape in shapes if shape is not None], where)
    elif kind in ("Conv", "MaxPool", "AveragePool", "LpPool"):
        weight = shapes[1] if kind == "Conv" else None
        kernel = attributes.get("kernel_shape") or (weight[2:] if weight else None)
        if kernel is not None:
            channels = weight[0] if weight else first[1]
            made = (first[0], channels, *_windows(first[2:], kernel, attributes, where))
    elif kind in ("GlobalAveragePool", "GlobalMaxPool"):
        made = (*first[:2], *(1 for _ in first[2:]))
    elif kind == "MatMul" and shapes[1] is not None:
        lead = _broadcast([first[:-2], shapes[1][:-2]], where)
        made = (*lead, first[-2], shapes[1][-1]) if len(first) > 1 and len(shapes[1]) > 1 else None
    elif kind == "Gemm" and shapes[1] is not None:
        rows = first[1] if attributes.get("transA") else first[0]
        made = (rows, shapes[1][0] if attributes.get("transB") else shapes[1][1])
    elif kind == "MatMulNBits":
        made = (*first[:-1], int(attributes.get("N", 0)))
    elif kind == "Attention" and "num_heads" in attributes and len(shapes) > 1 and shapes[1] is not None:
        made = (*first[:-1], shapes[1][-1] // 3)
    elif kind == "Attention":
        made = first
    elif kind == "Transpose":
        order = list(attributes.get("perm") or range(len(first) - 1, -1, -1))
        made = tuple(first[axis] for axis in order) if sorted(order) == list(range(len(first))) else None
    elif kind == "Flatten":
        axis = int(attributes.get("axis", 1))
        made = (product(first[:axis]), product(first[axis:]))
    elif kind == "Reshape" and len(values) > 1 and values[1] is not None:
        made = _reshaped(first, values[1])
    elif kind == "Concat" and all(shape is not None for shape in shapes):
        axis = int(attributes.get("axis", 0)) % len(first)
        joined: Number = sum((shape[axis] for shape in shapes if shape is not None), start=sp.Integer(0))
        made = (*first[:axis], joined, *first[axis + 1 :])
    elif kind in ("LSTM", "GRU", "RNN"):
        directions = 2 if attributes.get("direction") == b"bidirectional" else 1
        hidden = int(attributes.get("hidden_size", 0))
        made = (first[0], directions, first[1], hidden)
    return [stated[0] if stated and stated[0] is not None else made, *stated[1:]]


def _broadcast(shapes: Sequence[Shape], where: str) -> Shape:
    rank = max(len(shape) for shape in shapes)
    result: list[Number] = []
    for axis in range(rank):
        sizes = {shape[axis - rank + len(shape)] for shape in shapes if axis - rank + len(shape) >= 0} - {1}
        if len(sizes) > 1 and all(isinstance(size, int) for size in sizes):
            raise InputError(f"{where}: sizes {sorted(sizes)} of axis {axis} do not fit together")
        result.append(max(sizes, key=str) if sizes else 1)
    return tuple(result)


def _windows(sizes: Shape, kernel: Sequence[Number], attributes: Mapping[str, Any], where: str) -> tuple[Number, ...]:
    """Places of a window along each axis (ONNX operator Conv: output shape)."""
    rank = len(sizes)
    strides = list(attributes.get("strides") or [1] * rank)
    dilations = list(attributes.get("dilations") or [1] * rank)
    padding = list(attributes.get("pads") or [0] * 2 * rank)
    if not len(kernel) == len(strides) == len(dilations) == rank or len(padding) != 2 * rank or min(strides) < 1:
        raise InputError(f"{where}: kernel, strides, dilations and pads do not fit an input of {rank} axes")
    same = attributes.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")
    places: list[Number] = []
    for axis, (size, k, stride, dilation) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        if same:
            count = sp.ceiling(sp.sympify(size, strict=True) / stride)
        else:
            reach = dilation * (k - 1) + 1
            room = sp.sympify(size, strict=True) + padding[axis] + padding[axis + rank] - reach
            rounded = sp.ceiling if attributes.get("ceil_mode") else sp.floor
            count = (rounded(room / stride) if stride > 1 else room) + 1
        if count.is_number and count < 1:
            raise InputError(f"{where}: a window of {k} does not fit into {size}")
        places.append(int(count) if count.is_Integer else count)
    return tuple(places)


def _reshaped(shape: Shape, wanted: Any) -> Shape | None:
    if not isinstance(wanted, list) or any(not isinstance(size, int) for size in wanted):
        return None
    sizes: list[Number] = [shape[i] if size == 0 and i < len(shape) else size for i, size in enumerate(wanted)]
    if -1 in sizes:
        rest = product(size for size in sizes if size != -1)
        left = sp.sympify(product(shape), strict=True) / rest
        sizes[sizes.index(-1)] = int(left) if left.is_Integer else left
    return tuple(sizes)
