"""Readers of ATen operations: what one call amounts to, from the shapes of its arguments and results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from slipstick.common.expressions import sp
from slipstick.workloads.graph.assembly import Number, Piece, Tensor
from slipstick.workloads.graph.kinds import SIZE_BYTES, convolution_dims, product, stored_norm


@dataclass(frozen=True)
class Call:
    """One operation as seen by a recorder: results and arguments, tensors as `Tensor`."""

    name: str
    arguments: tuple[Any, ...]
    results: tuple[Tensor, ...]
    tags: frozenset[str] = frozenset()

    def tensors(self) -> list[Tensor]:
        """All tensors among the arguments, those inside lists too, in order."""
        values: list[Tensor] = []
        for a in self.arguments:
            if isinstance(a, Tensor):
                values.append(a)
            elif isinstance(a, (list, tuple)):
                values += [x for x in a if isinstance(x, Tensor)]
        return values

    @property
    def backward(self) -> bool:
        """Whether it is one of a backward pass."""
        return "backward" in self.name

    @property
    def input(self) -> Tensor:
        """The first tensor that is not the gradient of its result."""
        return self.tensors()[1 if self.backward else 0]

    def facts(self, **given: Any) -> dict[str, Any]:
        """Attributes: those that hold, and whether it is one of a backward pass."""
        held = {name: value for name, value in given.items() if value is not False}
        return {**held, "pass": "backward"} if self.backward else held


Reader: TypeAlias = Callable[[Call], list[Piece]]


def _gemm(batch: Number, rows: Number, inner: Number, columns: Number, **attributes: Any) -> list[Piece]:
    return [Piece("gemm", {"batch": batch, "m": columns, "n": rows, "k": inner}, attributes)]


def read_mm(call: Call) -> list[Piece]:
    """A product of two matrices, of stacks of them, or of vectors, as one gemm (m, n, k)."""
    a, b = call.tensors()[-2:]
    bias = {"bias": True} if call.name in ("addmm", "addmv", "baddbmm") else {}
    if len(a.shape) == 3:
        return _gemm(a.shape[0], a.shape[1], a.shape[2], b.shape[2], **bias)
    if len(a.shape) == 1:
        return _gemm(1, 1, a.shape[0], 1)
    return _gemm(1, a.shape[0], a.shape[1], b.shape[1] if len(b.shape) > 1 else 1, **bias)


def read_linear(call: Call) -> list[Piece]:
    """A dense layer as a gemm: m rows of the input, n outputs, k inputs."""
    x, w = call.tensors()[:2]
    bias = {"bias": True} if len(call.tensors()) > 2 else {}
    return _gemm(1, product(x.shape[:-1]), w.shape[1], w.shape[0], **bias)


def _conv_dims(x: Tensor, y: Tensor, w: Tensor, groups: int, *, transposed: bool) -> dict[str, Number]:
    batch, space = x.shape[0] if len(x.shape) == len(w.shape) else 1, len(w.shape) - 2
    channels = (w.shape[0], w.shape[1] * groups) if transposed else (w.shape[1] * groups, w.shape[0])
    return convolution_dims(batch, *channels, groups, *(t.shape[len(t.shape) - space :] for t in (x, y, w)))


def read_convolution(call: Call) -> list[Piece]:
    """A convolution of one to three dimensions, transposed or not."""
    x, w, bias, stride, padding, dilation, transposed, _, groups = call.arguments[:9]
    sizes = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation)}
    attributes = call.facts(**sizes, transposed=transposed, bias=bias is not None)
    return [Piece("convolution", _conv_dims(x, call.results[0], w, groups, transposed=transposed), attributes)]


def read_convolution_backward(call: Call) -> list[Piece]:
    """Gradients of input, weight and bias, as far as the call's mask wants them."""
    dy, x, w, _, stride, padding, dilation, transposed, _, groups, mask = call.arguments[:11]
    dims = _conv_dims(x, dy, w, groups, transposed=transposed)
    sizes = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation)}
    attributes = call.facts(**sizes, transposed=transposed)
    pieces = []
    if mask[0]:
        pieces.append(Piece("convolution", dims, {**attributes, "pass": "backward_data"}, "data", makes=0))
    if mask[1]:
        pieces.append(Piece("convolution", dims, {**attributes, "pass": "backward_weight"}, "weight", makes=1))
    if mask[2]:
        pieces.append(
            Piece(
                "reduction",
                {"elements": dy.elements, "outputs": dims["channels_out"]},
                {"function": "sum"},
                "bias",
                makes=2,
            )
        )
    return pieces


def _attention_dims(q: Tensor, k: Tensor, v: Tensor) -> dict[str, Number]:
    heads, kv = (q.shape[1], k.shape[1]) if len(q.shape) == 4 else (1, 1)
    return {
        "batch": q.shape[0],
        "heads": heads,
        "kv_heads": kv,
        "queries": q.shape[-2],
        "keys": k.shape[-2],
        "head_dim": q.shape[-1],
        "value_dim": v.shape[-1],
    }


_IS_CAUSAL = {
    "_scaled_dot_product_flash_attention": 4,
    "_scaled_dot_product_flash_attention_for_cpu": 4,
    "_scaled_dot_product_efficient_attention": 6,
    "_scaled_dot_product_cudnn_attention": 6,
    "_scaled_dot_product_fused_attention_overrideable": 5,
    "scaled_dot_product_attention": 5,
    "_scaled_dot_product_flash_attention_backward": 11,
    "_scaled_dot_product_flash_attention_for_cpu_backward": 7,
    "_scaled_dot_product_efficient_attention_backward": 11,
    "_scaled_dot_product_cudnn_attention_backward": 14,
}
"""Place of the argument ``is_causal`` (PyTorch's native_functions.yaml)."""


def _causal(call: Call) -> dict[str, Any]:
    at = _IS_CAUSAL.get(call.name)
    return {"causal": True} if at is not None and len(call.arguments) > at and call.arguments[at] is True else {}


def read_attention(call: Call) -> list[Piece]:
    """Fused attention forward; causal as the call says."""
    q, k, v = call.tensors()[:3]
    return [Piece("attention", _attention_dims(q, k, v), _causal(call))]


def read_attention_backward(call: Call) -> list[Piece]:
    """Fused attention backward, which makes all three gradients."""
    _, q, k, v = call.tensors()[:4]
    return [Piece("attention", _attention_dims(q, k, v), {"pass": "backward", **_causal(call)})]


def read_norm(function: str, rows: Callable[[Call], Number]) -> Reader:
    """A reader of norms; `rows` says how many groups of elements have statistics of their own."""

    def read(call: Call) -> list[Piece]:
        x, stored = call.input, function == "batch" and not _trains(call)
        if stored and not call.backward:
            return [Piece(*stored_norm(x.elements, rows(call)))]
        attributes = call.facts(function=function, statistics="running" if stored else False)
        return [Piece("norm", {"elements": x.elements, "groups": rows(call)}, attributes)]

    return read


def _trains(call: Call) -> bool:
    if "no_training" in call.name:
        return False
    flags = [a for a in call.arguments if isinstance(a, bool)]
    return flags[0] if flags else True


def read_layer_rows(call: Call) -> Number:
    """Groups of a layer norm: the product of the axes before the normalised ones."""
    x = call.input
    shape = next(
        a for a in call.arguments if isinstance(a, (list, tuple)) and not (a and isinstance(a[0], (Tensor, bool)))
    )
    return product(x.shape[: len(x.shape) - len(shape)])


def read_group_rows(call: Call) -> Number:
    """Groups of a group norm: batch times groups."""
    numbers = [a for a in call.arguments if not isinstance(a, (Tensor, bool, float, list, tuple)) and a is not None]
    return call.input.shape[0] * numbers[3]


def read_batch_rows(call: Call) -> Number:
    """Groups of a batch norm: the channels."""
    return call.input.shape[1]


def read_softmax(call: Call) -> list[Piece]:
    """A softmax over one axis (columns), for each place of the others (rows)."""
    x = call.tensors()[0]
    dim = next(a for a in call.arguments if isinstance(a, int) and not isinstance(a, bool))
    columns = x.shape[dim] if x.shape else 1
    attributes = call.facts(function="log_softmax" if "log" in call.name else "softmax")
    rows = product(s for i, s in enumerate(x.shape) if i != dim % max(1, len(x.shape)))
    return [Piece("softmax", {"rows": rows, "columns": columns}, attributes)]


def read_pool(call: Call) -> list[Piece]:
    """A pooling; the window is the product of the kernel's sides."""
    x, y = call.input, call.tensors()[0] if call.backward else call.results[0]
    if "adaptive" in call.name:
        # A window per output; windows of neighbours may share a row when sizes do not divide.
        space = len(call.arguments[1]) if not call.backward else len(x.shape) - 2
        window = product(_ceiling(i, o) for i, o in zip(x.shape[-space:], y.shape[-space:], strict=True))
    else:
        space = int("".join(c for c in call.name.split("_with")[0] if c.isdigit()) or 2)
        kernel = next(a for a in call.arguments if isinstance(a, (list, tuple)))
        window = product(kernel) if len(kernel) > 1 else kernel[0] ** space
    attributes = call.facts(function="max" if "max" in call.name else "average")
    return [Piece("pool", {"inputs": x.elements, "outputs": y.elements, "window": window}, attributes)]


def _quotient(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else a / b if b else 0
    return a / b


def _ceiling(a: Number, b: Number) -> Number:
    return -(-a // b) if isinstance(a, int) and isinstance(b, int) else sp.ceiling(sp.sympify(a) / b)


def read_elementwise(call: Call, function: str | None = None) -> list[Piece]:
    """An operation on single elements; a broadcast input counts with what it stores."""
    out = call.results[0].elements if call.results else call.tensors()[0].elements
    reads = sum(t.stored for t in call.tensors())
    writes = sum(r.elements for r in call.results) or out
    name = function or call.name.removesuffix("_")
    if name == "native_dropout":  # the mask that it keeps has a byte a number
        writes = out + out / SIZE_BYTES[call.results[0].dtype]
    if name == "native_dropout_backward":
        reads = out + out / SIZE_BYTES[call.results[0].dtype]
    return [Piece("elementwise", {"elements": out, "reads": reads, "writes": writes}, {"function": name})]


def read_move(call: Call) -> list[Piece]:
    """A copy: elements stored by its inputs, elements of its results."""
    reads = sum(t.stored for t in call.tensors()) if call.name not in ("copy_",) else call.tensors()[1].stored
    writes = sum(r.elements for r in call.results)
    return [Piece("move", {"reads": reads, "writes": writes}, {"function": call.name.removesuffix("_")})]


def read_fill(call: Call) -> list[Piece]:
    """A result written without reading."""
    writes = sum(r.elements for r in call.results)
    return [Piece("move", {"reads": 0, "writes": writes}, {"function": "fill"})]


def read_view(call: Call) -> list[Piece]:
    """A change of shape or strides, which moves nothing."""
    return [
        Piece(
            "view", {"elements": call.results[0].elements if call.results else 0}, {"function": call.name.lstrip("_")}
        )
    ]


def read_gather(call: Call) -> list[Piece]:
    """Rows of a table read or written by an index; `width` elements a row."""
    out = call.results[0]
    if call.name == "embedding":
        w = call.tensors()[0]
        return [Piece("gather", {"rows": product(out.shape[:-1]), "width": w.shape[-1]}, {"function": "gather"})]
    if call.name == "embedding_dense_backward":
        dy = call.tensors()[0]
        return [
            Piece("gather", {"rows": product(dy.shape[:-1]), "width": dy.shape[-1]}, {"function": "scatter"}, "rows"),
            Piece("move", {"reads": 0, "writes": out.elements}, {"function": "fill"}, "zero"),
        ]
    index = next((t for t in call.tensors()[1:] if t.dtype in ("int64", "int32", "bool")), None)
    rows = index.elements if index is not None else 1
    function = "scatter" if any(w in call.name for w in ("scatter", "put", "add", "copy")) else "gather"
    moved = out.elements
    if function == "scatter":
        sources = [t for t in call.tensors()[1:] if t is not index]
        moved = sources[-1].elements if sources else rows
    return [Piece("gather", {"rows": rows, "width": _quotient(moved, rows)}, {"function": function})]


def read_upsample(call: Call) -> list[Piece]:
    """An interpolation; `taps` coarse elements enter each fine one."""
    taps = 1
    for word, n in (("bilinear", 4), ("bicubic", 16), ("trilinear", 8), ("linear1d", 2), ("grid_sampler_2d", 4)):
        if word in call.name:
            taps = n
    x, y = call.tensors()[0], call.results[0]
    fine, coarse = (x, y) if call.backward else (y, x)
    attributes = call.facts(function=call.name.replace("_backward", ""))
    return [Piece("upsample", {"inputs": coarse.elements, "outputs": fine.elements, "taps": taps}, attributes)]


def read_nothing(call: Call) -> list[Piece]:
    """A call that does no work on a device."""
    return []
