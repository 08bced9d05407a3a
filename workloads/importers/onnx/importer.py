"""ONNX files as workloads: forward passes, named axes as symbols; weights are not read, other files not opened.

What ONNX operators amount to in the taxonomy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE, read_bytes
from slipstick.common.records import FrozenDict
from slipstick.common.renamed_arguments import checked
from slipstick.workloads.graph.assembly import ImportedNode, Number, Piece, Tensor, assemble, by_word
from slipstick.workloads.graph.kinds import convolution_dims, product, stored_norm
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import WORK, program_kind
from slipstick.workloads.importers.onnx.shapes import DTYPES, Shape, result_shapes, stated_shape
from slipstick.workloads.importers.torch.recurrent import recurrent_pieces

Facts: TypeAlias = Mapping[str, Any]
Tensors: TypeAlias = Sequence[Tensor | None]
Reader: TypeAlias = Callable[[str, Facts, list[Tensor], list[Tensor]], list[Piece]]


PLAIN: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "FusedConv": ("Conv", (0, 1, 2)), "QLinearConv": ("Conv", (0, 3, 8)), "ConvInteger": ("Conv", (0, 1)),
    "FusedGemm": ("Gemm", (0, 1, 2)), "QGemm": ("Gemm", (0, 3, 6)), "FusedMatMul": ("MatMul", (0, 1)),
    "TransposeMatMul": ("MatMul", (0, 1)), "QLinearMatMul": ("MatMul", (0, 3)), "MatMulInteger": ("MatMul", (0, 1)),
    "MatMulIntegerToFloat": ("MatMul", (0, 1)), "DynamicQuantizeMatMul": ("MatMul", (0, 1)),
    "QLinearAdd": ("Add", (0, 3)), "QLinearMul": ("Mul", (0, 3)), "QLinearSigmoid": ("Sigmoid", (0,)),
    "QLinearLeakyRelu": ("LeakyRelu", (0,)), "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    "QLinearAveragePool": ("AveragePool", (0,)), "BiasGelu": ("Gelu", (0,)), "FastGelu": ("Gelu", (0,)),
    "QuickGelu": ("Gelu", (0,)), "BiasAdd": ("Add", (0, 1)), "RotaryEmbedding": ("Mul", (0, 0)),
    "SkipLayerNormalization": ("LayerNormalization", (0,)), "RMSNormalization": ("LayerNormalization", (0,)),
    "SimplifiedLayerNormalization": ("LayerNormalization", (0,)), "GroupNorm": ("GroupNormalization", (0,)),
    "SkipSimplifiedLayerNormalization": ("LayerNormalization", (0,)), "DynamicQuantizeLSTM": ("LSTM", (0, 1)),
}  # fmt: skip
"""Fused and quantised operators (ONNX, and those of onnxruntime's com.microsoft): the plain one, and its inputs."""


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
    dims = convolution_dims(x.shape[0], x.shape[1], y.shape[1], groups, x.shape[2:], y.shape[2:], w.shape[2:])
    same = a.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")
    facts = {
        "stride": tuple(a.get("strides", (1,) * rank)),
        "padding": tuple(a.get("pads", (0,) * 2 * rank)) if not same else "same",
        "dilation": tuple(a.get("dilations", (1,) * rank)),
        "transposed": transposed,
        "bias": len(reads) > 2,
    }
    return [Piece("convolution", dims, facts)]


def _turned(one: Tensor) -> Tensor:
    return Tensor((*one.shape[:-2], one.shape[-1], one.shape[-2]), one.dtype)


def _gemm(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    x, w, y = reads[0], reads[1], writes[0]
    if kind == "Gemm":
        k, other = (x.shape[0], x.shape[1]) if a.get("transA") else (x.shape[1], x.shape[0])
        return [Piece("gemm", {"batch": 1, "m": y.shape[1], "n": other, "k": k}, {"bias": len(reads) > 2})]
    x, w = (_turned(one) if a.get(name) else one for one, name in ((x, "transA"), (w, "transB")))  # FusedMatMul
    inner = x.shape[-1]
    if w.shape[0 if len(w.shape) == 1 else -2] != inner:
        raise ValueError(f"shapes {x.shape} and {w.shape} have no common inner size")
    if len(w.shape) <= 2:
        m = w.shape[1] if len(w.shape) == 2 else 1
        return [Piece("gemm", {"batch": 1, "m": m, "n": product(x.shape[:-1]), "k": inner})]
    return [Piece("gemm", {"batch": product(y.shape[:-2]), "m": y.shape[-1], "n": y.shape[-2], "k": inner})]


def _few_bits(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    """A product with weights of 2 to 8 bits, stored in blocks (com.microsoft.MatMulNBits)."""
    dims = {"batch": 1, "m": int(a["N"]), "n": product(reads[0].shape[:-1]), "k": int(a["K"])}
    return [Piece("gemm", dims)]


def _attention(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    """Attention of onnxruntime, with its projection where that is inside, and of ONNX since operator set 23."""
    x, y = reads[0], writes[0]
    heads = int(a.get("num_heads") or a.get("q_num_heads") or (x.shape[1] if len(x.shape) == 4 else 0))
    batch, queries = x.shape[0], x.shape[1 if len(x.shape) == 5 else -2]  # 5: packed, batch x tokens x heads x 3 x size
    inside = kind == "Attention" and "num_heads" in a and len(reads) > 1 and len(reads[1].shape) == 2
    width = y.shape[-1] if len(y.shape) == 3 else heads * y.shape[-1]
    kv_heads = int(a.get("kv_num_heads") or heads)
    keys = queries if inside or len(reads) < 2 or len(reads[1].shape) < 3 else reads[1].shape[-2]
    if len(writes) > 1 and len(writes[1].shape) == 4:  # with the cache of earlier tokens
        keys = writes[1].shape[-2]
    apart = not inside and len(reads) > 1 and len(reads[1].shape) in (3, 4)  # else queries lie beside keys and values
    queried = (x.shape[-1] * heads if len(x.shape) == 4 else x.shape[-1]) if apart else width
    queried = a.get("qkv_hidden_sizes", [queried])[0]
    dims = {
        "batch": batch, "heads": heads, "kv_heads": kv_heads, "queries": queries, "keys": keys,
        "head_dim": queried // heads, "value_dim": width // heads,
    }  # fmt: skip
    scores = Piece("attention", dims, {}, "scores" if inside else "", (0,) if inside else ())
    if not inside:
        return [scores]
    projection = {"batch": 1, "m": reads[1].shape[1], "n": batch * queries, "k": reads[1].shape[0]}
    return [Piece("gemm", projection, {"bias": len(reads) > 2}, "projection"), scores]


def _einsum(kind: str, a: Facts, reads: list[Tensor], writes: list[Tensor]) -> list[Piece]:
    """A product of two tensors by letters: those of both and the result are batches, those of both alone are summed."""
    equation = bytes(a["equation"]).decode().replace(" ", "")
    given, _, made = equation.partition("->")
    left, right = given.split(",")  # of two tensors alone
    size = {**dict(zip(left, reads[0].shape, strict=True)), **dict(zip(right, reads[1].shape, strict=True))}
    groups: dict[tuple[bool, bool, bool], Number] = {}
    for letter in size:
        where = (letter in left, letter in right, letter in made)
        groups[where] = groups.get(where, 1) * size[letter]
    both, summed = groups.get((True, True, True), 1), groups.get((True, True, False), 1)
    n, m = groups.get((True, False, True), 1), groups.get((False, True, True), 1)
    return [Piece("gemm", {"batch": both, "m": m, "n": n, "k": summed})]


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


_READERS: Mapping[str, Reader] = by_word(
    {
        "Conv ConvTranspose": _convolution,
        "Gemm MatMul": _gemm,
        "MatMulNBits": _few_bits,
        "Attention MultiHeadAttention GroupQueryAttention": _attention,
        "Einsum": _einsum,
        "LSTM GRU RNN": _recurrent,
        "BatchNormalization LayerNormalization InstanceNormalization GroupNormalization LRN": _norm,
        "Softmax LogSoftmax": _softmax,
        "MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool": _pool,
        """
        Add Sub Mul Div Pow Relu Sigmoid Tanh Erf Gelu Exp Log Sqrt Clip LeakyRelu PRelu Elu Selu HardSigmoid
        HardSwish Softplus Softsign Mish Neg Abs Where Equal Greater Less GreaterOrEqual LessOrEqual Not And Or
        Cast Sum Max Min Mean Floor Ceil Round Reciprocal Sign Mod Sin Cos QuantizeLinear DequantizeLinear
        DynamicQuantizeLinear ThresholdedRelu Celu HardMax IsNaN BitShift Xor CastLike Trilu
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


LIMIT_BYTES = 512 * MEGABYTE
MAX_NODES = 200_000


@checked
def import_onnx(path: str | os.PathLike[str], defaults: Mapping[str, float] | None = None) -> Workload:
    """The forward pass of an ONNX model (.onnx, or .onnx.gz).

    Axes with names (``batch``, ``seq_len``) become symbols. Shapes come from the file, from ONNX's own inference, and
    where that gives up (a convolution over a named axis) from the rules of `onnx.shapes`.

    Raises
    ------
    InputError
        Where onnx is not installed, or the file is truncated, hostile, cyclic or contradicts itself.
    """
    try:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from onnx import shape_inference
    except ImportError:
        raise InputError("reading ONNX needs onnx: pip install 'slipstick[onnx]'") from None
    try:
        model = onnx.load_model_from_string(read_bytes(path, LIMIT_BYTES))
    except DecodeError:
        raise InputError(f"{path}: no ONNX model, or truncated") from None
    if not model.graph.node:
        raise InputError(f"{path}: no ONNX model (its graph has no nodes)")
    if len(model.graph.node) > MAX_NODES:
        raise InputError(f"{path}: {len(model.graph.node)} nodes, more than {MAX_NODES}")
    try:
        model = shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # onnx raises several kinds, RuntimeError among them
        raise InputError(f"{path}: shapes contradict each other: {' '.join(str(error).split())[:200]}") from None
    try:
        return _Reader(model.graph, str(path)).workload(dict(defaults or {}))
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        # A damaged file may hold any field of the format, empty or of another type.
        raise InputError(f"{path}: contradicts the format ({type(error).__name__}: {str(error)[:120]})") from None


class _Reader:
    """Walks the nodes of one graph in order."""

    def __init__(self, graph: Any, path: str) -> None:
        self.graph, self.path = graph, path
        self.shapes: dict[str, Shape] = {}
        self.dtypes: dict[str, str] = {}
        self.constants: dict[str, Any] = {}
        self.parameters: dict[str, Any] = {}
        self.made_by: dict[str, int | None] = {}
        self.nodes: list[ImportedNode] = []

    def workload(self, defaults: dict[str, float]) -> Workload:
        graph = self.graph
        inputs = {value.name for value in graph.input}
        for value in (*graph.value_info, *graph.input, *graph.output):
            where = f"{self.path}: tensor {value.name!r}"
            stated = stated_shape(value, where, given=value.name in inputs)
            if stated is not None:
                self.shapes[value.name] = stated
            self.dtypes[value.name] = DTYPES.get(value.type.tensor_type.elem_type, "float32")
        for constant in graph.initializer:
            self.shapes[constant.name] = tuple(int(size) for size in constant.dims)
            self.dtypes[constant.name] = DTYPES.get(constant.data_type, "float32")
            self._constant(constant.name, constant)
        for value in graph.input:
            if value.name not in self.constants:
                self.made_by[value.name] = None
        for node in graph.node:
            self._node(node)
        built = assemble(self.nodes)
        parameters = sum(self.parameters.values())
        metadata = {"parameters": parameters, WORK: program_kind(built.operations), "purpose": "inference"}
        metadata |= {"source": "onnx", "assumptions": ()}
        open_names = sorted(frozenset().union(*(op.symbols for op in built.operations)))
        known = FrozenDict({name: defaults.get(name, 1.0) for name in open_names})
        return Workload(
            str(graph.name or "onnx"), built.operations, built.edges, known, FrozenDict(metadata), built.uncounted
        )

    def _constant(self, name: str, tensor: Any) -> None:
        from onnx import numpy_helper

        # Values are wanted only of small integers (shapes, axes); weights stay where they are.
        small = product(int(size) for size in tensor.dims) <= 64 and tensor.data_type in (6, 7)
        try:
            readable = small and not tensor.external_data
            self.constants[name] = numpy_helper.to_array(tensor).tolist() if readable else None
        except Exception:  # data shorter than its shape
            raise InputError(f"{self.path}: constant {name!r}: its data do not fill its shape") from None

    def _node(self, node: Any) -> None:
        from onnx import helper

        if not all(isinstance(text, str) for text in (node.name, node.op_type, *node.input, *node.output)):
            raise InputError(f"{self.path}: a node has names that are not UTF-8 text")
        where = f"{self.path}: node {node.name or node.op_type!r}"
        inputs = [name for name in node.input if name]
        for name in inputs:
            if name not in self.made_by and name not in self.constants:
                raise InputError(f"{where}: reads {name!r}, which no earlier node makes (cyclic or out of order)")
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        shapes = [self.shapes.get(name) if name else None for name in node.input]
        values = [self.constants.get(name) for name in node.input]
        if node.op_type == "Constant" or (inputs and all(name in self.constants for name in inputs)):
            self._fold(node, attributes, values)
            return
        kind, chosen = PLAIN.get(node.op_type, (node.op_type, tuple(range(len(node.input)))))
        chosen = tuple(place for place in chosen if place < len(node.input))
        taken = [node.input[place] for place in chosen]
        stated = [self.shapes.get(name) for name in node.output]
        results = result_shapes(
            kind, attributes, [shapes[i] for i in chosen], [values[i] for i in chosen], stated, where
        )
        for name, shape in zip(node.output, results, strict=False):
            if name and shape is not None:
                self.shapes[name] = shape
        self._learned(node, inputs)
        index = len(self.nodes)
        before: set[tuple[int, int | None]] = {
            (made, None) for name in inputs if (made := self.made_by.get(name)) is not None
        }
        reads, writes = self._tensors(taken), self._tensors(node.output)
        needed = filter(None, (*taken, *node.output[:1]))
        known = all(self.shapes.get(name) is not None for name in needed)
        pieces = read_node(kind, attributes, reads, writes, where) if known else None
        self.nodes.append(
            ImportedNode(node.op_type, "forward", node.name, _known(reads), _known(writes), pieces, before)
        )
        for name in filter(None, node.output):  # an output without a name is left out
            if name in self.made_by:
                raise InputError(f"{where}: makes {name!r}, which an earlier node has made")
            self.made_by[name] = index

    def _fold(self, node: Any, attributes: Mapping[str, Any], values: list[Any]) -> None:
        """What is made of constants alone is a constant: the light models make their weights so."""
        for name in node.output:
            self.constants[name] = None
        if node.op_type == "Constant" and "value" in attributes:
            tensor = attributes["value"]
            self.shapes[node.output[0]] = tuple(int(size) for size in tensor.dims)
            self._constant(node.output[0], tensor)
        elif node.op_type == "ConstantOfShape" and values[0] is not None:
            self.shapes[node.output[0]] = tuple(int(size) for size in values[0])

    def _learned(self, node: Any, inputs: list[str]) -> None:
        # Statistics of a batch norm are data, not parameters; integers are shapes and axes.
        kept = inputs[:3] if node.op_type == "BatchNormalization" else inputs
        for name in kept:
            shape = self.shapes.get(name)
            if name in self.constants and shape and "float" in self.dtypes.get(name, "float32"):
                self.parameters[name] = product(shape)

    def _tensors(self, names: Any) -> list[Tensor | None]:
        return [
            Tensor(shape, self.dtypes.get(name, "float32"))
            if name and (shape := self.shapes.get(name)) is not None
            else None
            for name in names
        ]


def _known(tensors: list[Tensor | None]) -> tuple[Tensor, ...]:
    return tuple(tensor for tensor in tensors if tensor is not None)
