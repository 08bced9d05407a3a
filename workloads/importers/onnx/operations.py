"""What ONNX operators amount to in the taxonomy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from slipstick.common.errors import InputError
from slipstick.workloads.graph.assembly import Number, Piece, Tensor
from slipstick.workloads.graph.kinds import AXES, product, stored_norm
from slipstick.workloads.importers.torch.recurrent import recurrent_pieces

Facts: TypeAlias = Mapping[str, Any]
Tensors: TypeAlias = Sequence[Tensor | None]
Reader: TypeAlias = Callable[[str, Facts, list[Tensor], list[Tensor]], list[Piece]]


def read_node(kind: str, attributes: Facts, reads: Tensors, writes: Tensors, where: str) -> list[Piece] | None:
    """Kinds and dims of one node; None where its operator is not known.

    Raises InputError where the operator's inputs cannot be what they say.
    """
    reader = _READERS.get(kind)
    if reader is None:
        return None
    try:
        return reader(kind, attributes, [t for t in reads if t], [t for t in writes if t])
    except (IndexError, KeyError, TypeError, ZeroDivisionError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: inputs do not fit the operator {kind} ({type(error).__name__}: {error})") from None


def _convolution(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    x, w, y = reads[0], reads[1], writes[0]
    transposed, groups = kind == "ConvTranspose", int(a.get("group", 1))
    rank = len(w.shape) - 2
    if not 1 <= rank <= 3 or groups < 1:
        raise ValueError(f"weights of {len(w.shape)} axes, {groups} groups")
    if x.shape[1] != (w.shape[0] if transposed else w.shape[1] * groups):
        raise ValueError(f"input has {x.shape[1]} channels, weights {w.shape} in {groups} groups want others")
    dims: dict[str, Number] = {
        "batch": x.shape[0],
        "channels_in": x.shape[1],
        "channels_out": y.shape[1],
        "groups": groups,
    }
    for prefix, shape in (("in", x.shape), ("out", y.shape), ("kernel", w.shape)):
        sizes = (1,) * (3 - rank) + tuple(shape[2:])
        dims |= {f"{prefix}_{axis}": size for axis, size in zip(AXES, sizes, strict=True)}
    facts = {
        "stride": tuple(a.get("strides", (1,) * rank)),
        "padding": tuple(a.get("pads", (0,) * 2 * rank)),
        "dilation": tuple(a.get("dilations", (1,) * rank)),
        "transposed": transposed,
        "bias": len(reads) > 2,
    }
    return [Piece("convolution", dims, facts)]


def _gemm(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    x, w, y = reads[0], reads[1], writes[0]
    if kind == "Gemm":
        k, other = (x.shape[0], x.shape[1]) if a.get("transA") else (x.shape[1], x.shape[0])
        return [Piece("gemm", {"batch": 1, "m": y.shape[1], "n": other, "k": k}, {"bias": len(reads) > 2})]
    inner = x.shape[-1]
    if w.shape[0 if len(w.shape) == 1 else -2] != inner:
        raise ValueError(f"shapes {x.shape} and {w.shape} have no common inner size")
    if len(w.shape) <= 2:
        m = w.shape[1] if len(w.shape) == 2 else 1
        return [Piece("gemm", {"batch": 1, "m": m, "n": product(x.shape[:-1]), "k": inner})]
    return [Piece("gemm", {"batch": product(y.shape[:-2]), "m": y.shape[-1], "n": y.shape[-2], "k": inner})]


def _recurrent(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    steps, batch, inputs = reads[0].shape
    config = {
        "function": kind.lower(),
        "batch": batch,
        "steps": steps,
        "inputs": inputs,
        "hidden": int(a["hidden_size"]),
        "layers": 1,
        "directions": 2 if a.get("direction") == b"bidirectional" else 1,
        "projection": 0,
        "bias": True,
    }
    return recurrent_pieces(config, backward=False)


def _norm(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    x = reads[0]
    function = {"BatchNormalization": "batch", "LayerNormalization": "layer", "InstanceNormalization": "instance"}
    groups: Number = x.shape[1]
    facts: dict[str, Any] = {"function": function.get(kind, "group" if kind.startswith("Group") else "local_response")}
    if kind == "BatchNormalization" and not a.get("training_mode"):
        return [Piece(*stored_norm(x.elements, groups))]
    if kind == "LayerNormalization":
        groups = product(x.shape[: int(a.get("axis", -1))])
    elif kind == "InstanceNormalization":
        groups = x.shape[0] * x.shape[1]
    elif kind == "GroupNormalization":
        groups = x.shape[0] * int(a["num_groups"])
    return [Piece("norm", {"elements": x.elements, "groups": groups}, facts)]


def _softmax(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    x = reads[0]
    axis = int(a.get("axis", -1)) % len(x.shape)
    rows = product(size for i, size in enumerate(x.shape) if i != axis)
    return [
        Piece(
            "softmax",
            {"rows": rows, "columns": x.shape[axis]},
            {"function": "log_softmax" if "Log" in kind else "softmax"},
        )
    ]


def _pool(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    x, y = reads[0], writes[0]
    window = product(x.shape[2:]) if kind.startswith("Global") else product(a["kernel_shape"])
    function = "max" if "Max" in kind else "average"
    return [Piece("pool", {"inputs": x.elements, "outputs": y.elements, "window": window}, {"function": function})]


# Names of ONNX that differ from the names of functions used here.
_FUNCTIONS = {
    "Clip": "hardtanh",
    "LeakyRelu": "leaky_relu",
    "PRelu": "prelu",
    "HardSigmoid": "hardsigmoid",
    "HardSwish": "hardswish",
}


def _elementwise(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    y = writes[0]
    counted: Number = y.elements * (len(reads) - 1) if kind in ("Sum", "Max", "Min", "Mean") else y.elements
    dims = {"elements": counted, "reads": sum(t.elements for t in reads), "writes": y.elements}
    return [Piece("elementwise", dims, {"function": _FUNCTIONS.get(kind, kind.lower())})]


def _reduction(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    outputs = sum(t.elements for t in writes)
    return [Piece("reduction", {"elements": reads[0].elements, "outputs": outputs}, {"function": kind.lower()})]


def _gather(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    index = reads[1]
    moved = reads[2].elements if kind.startswith("Scatter") else writes[0].elements
    rows = index.elements
    width = (
        moved // rows
        if isinstance(moved, int) and isinstance(rows, int) and rows and moved % rows == 0
        else moved / rows
    )
    return [
        Piece(
            "gather",
            {"rows": rows, "width": width},
            {"function": "scatter" if kind.startswith("Scatter") else "gather"},
        )
    ]


def _move(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    read = sum(t.elements for t in reads) if kind == "Concat" else reads[0].elements
    return [Piece("move", {"reads": read, "writes": writes[0].elements}, {"function": kind.lower()})]


def _view(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    return [Piece("view", {"elements": sum(t.elements for t in writes)}, {"function": kind.lower()})]


def _upsample(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    mode = a.get("mode", b"nearest")
    taps = {b"nearest": 1, b"linear": 4, b"cubic": 16}.get(mode, 4)
    dims = {"inputs": reads[0].elements, "outputs": writes[0].elements, "taps": taps}
    return [Piece("upsample", dims, {"function": f"upsample_{bytes(mode).decode(errors='replace')}"})]


def _nothing(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    return []


def _table(groups: Mapping[str, Reader]) -> dict[str, Reader]:
    return {name: reader for names, reader in groups.items() for name in names.split()}


_READERS: Mapping[str, Reader] = _table(
    {
        "Conv ConvTranspose": _convolution,
        "Gemm MatMul": _gemm,
        "LSTM GRU RNN": _recurrent,
        "BatchNormalization LayerNormalization InstanceNormalization GroupNormalization LRN": _norm,
        "Softmax LogSoftmax": _softmax,
        "MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool": _pool,
        """
        Add Sub Mul Div Pow Relu Sigmoid Tanh Erf Gelu Exp Log Sqrt Clip LeakyRelu PRelu Elu Selu HardSigmoid
        HardSwish Softplus Softsign Mish Neg Abs Where Equal Greater Less GreaterOrEqual LessOrEqual Not And Or
        Cast Sum Max Min Mean Floor Ceil Round Reciprocal Sign Mod Sin Cos
        """: _elementwise,
        """
        ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp ReduceSumSquare
        ArgMax ArgMin TopK CumSum
        """: _reduction,
        "Gather GatherElements GatherND ScatterND ScatterElements": _gather,
        "Concat Pad Tile DepthToSpace SpaceToDepth": _move,
        "Reshape Transpose Flatten Squeeze Unsqueeze Slice Split Expand Identity Dropout": _view,
        "Resize Upsample": _upsample,
        "Shape Size Constant ConstantOfShape Range NonZero": _nothing,
    }
)
