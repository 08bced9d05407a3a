"""Reading one ATen operation: its name, arguments and results become kinds of the taxonomy with dims.

Serves the recorder and the execution traces alike. About forty readers cover the operations that networks use;
functions of single elements are known by torch's own tag. What is not known is said to be so, never counted as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy

from workloads.importers.assembly import Number, Piece, Tensor
from workloads.kinds import AXES, product


@dataclass(frozen=True)
class Call:
    """One operation as seen by a recorder: results and arguments, tensors as `Tensor`."""

    name: str
    arguments: tuple[Any, ...]
    results: tuple[Tensor, ...]
    tags: frozenset[str] = frozenset()

    def tensors(self) -> list[Tensor]:
        found: list[Tensor] = []
        for a in self.arguments:
            if isinstance(a, Tensor):
                found.append(a)
            elif isinstance(a, (list, tuple)):
                found += [x for x in a if isinstance(x, Tensor)]
        return found


Reader: TypeAlias = Callable[[Call], list[Piece]]


def _gemm(batch: Number, rows: Number, inner: Number, columns: Number, **attributes: Any) -> list[Piece]:
    return [Piece("gemm", {"batch": batch, "m": columns, "n": rows, "k": inner}, attributes)]


def _mm(call: Call) -> list[Piece]:
    a, b = call.tensors()[-2:]
    bias = {"bias": True} if call.name in ("addmm", "addmv", "baddbmm") else {}
    if len(a.shape) == 3:
        return _gemm(a.shape[0], a.shape[1], a.shape[2], b.shape[2], **bias)
    if len(a.shape) == 1:
        return _gemm(1, 1, a.shape[0], 1)
    return _gemm(1, a.shape[0], a.shape[1], b.shape[1] if len(b.shape) > 1 else 1, **bias)


def _linear(call: Call) -> list[Piece]:
    x, w = call.tensors()[:2]
    bias = {"bias": True} if len(call.tensors()) > 2 else {}
    return _gemm(1, product(x.shape[:-1]), w.shape[1], w.shape[0], **bias)


def _triple(values: Sequence[Any]) -> tuple[Any, Any, Any]:
    v = tuple(values)
    return (1,) * (3 - len(v)) + v


def _conv_dims(x: Tensor, y: Tensor, w: Tensor, groups: int, *, transposed: bool) -> dict[str, Number]:
    dims: dict[str, Number] = {"batch": x.shape[0] if len(x.shape) == len(w.shape) else 1}
    dims["channels_in"] = w.shape[0] if transposed else w.shape[1] * groups
    dims["channels_out"] = w.shape[1] * groups if transposed else w.shape[0]
    dims["groups"] = groups
    space = len(w.shape) - 2
    for prefix, t in (("in", x), ("out", y), ("kernel", w)):
        for axis, size in zip(AXES, _triple(t.shape[len(t.shape) - space :]), strict=True):
            dims[f"{prefix}_{axis}"] = size
    return dims


def _convolution(call: Call) -> list[Piece]:
    x, w, bias, stride, padding, dilation, transposed, _, groups = call.arguments[:9]
    attributes: dict[str, Any] = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation)}
    if transposed:
        attributes["transposed"] = True
    if bias is not None:
        attributes["bias"] = True
    return [Piece("convolution", _conv_dims(x, call.results[0], w, groups, transposed=transposed), attributes)]


def _convolution_backward(call: Call) -> list[Piece]:
    dy, x, w, _, stride, padding, dilation, transposed, _, groups, mask = call.arguments[:11]
    dims = _conv_dims(x, dy, w, groups, transposed=transposed)
    attributes: dict[str, Any] = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation)}
    if transposed:
        attributes["transposed"] = True
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


def _attention(call: Call) -> list[Piece]:
    q, k, v = call.tensors()[:3]
    return [Piece("attention", _attention_dims(q, k, v), {})]


def _attention_backward(call: Call) -> list[Piece]:
    _, q, k, v = call.tensors()[:4]
    return [Piece("attention", _attention_dims(q, k, v), {"pass": "backward"})]


def _norm(function: str, rows: Callable[[Call], Number]) -> Reader:
    def read(call: Call) -> list[Piece]:
        backward = "backward" in call.name
        x = call.tensors()[1 if backward else 0]
        attributes: dict[str, Any] = {"function": function}
        if backward:
            attributes["pass"] = "backward"
        if function == "batch" and not _trains(call):
            attributes["statistics"] = "running"
        return [Piece("norm", {"elements": x.elements, "groups": rows(call)}, attributes)]

    return read


def _trains(call: Call) -> bool:
    if "no_training" in call.name:
        return False
    flags = [a for a in call.arguments if isinstance(a, bool)]
    return flags[0] if flags else True


def _layer_rows(call: Call) -> Number:
    i = 1 if "backward" in call.name else 0
    x = call.tensors()[i]
    shape = next(
        a for a in call.arguments if isinstance(a, (list, tuple)) and not (a and isinstance(a[0], (Tensor, bool)))
    )
    return product(x.shape[: len(x.shape) - len(shape)])


def _group_rows(call: Call) -> Number:
    i = 1 if "backward" in call.name else 0
    x = call.tensors()[i]
    numbers = [a for a in call.arguments if not isinstance(a, (Tensor, bool, float, list, tuple)) and a is not None]
    return x.shape[0] * numbers[3]


def _batch_rows(call: Call) -> Number:
    return call.tensors()[1 if "backward" in call.name else 0].shape[1]


def _softmax(call: Call) -> list[Piece]:
    x = call.tensors()[0]
    dim = next(a for a in call.arguments if isinstance(a, int) and not isinstance(a, bool))
    columns = x.shape[dim] if x.shape else 1
    attributes: dict[str, Any] = {"function": "log_softmax" if "log" in call.name else "softmax"}
    if "backward" in call.name:
        attributes["pass"] = "backward"
    rows = product(s for i, s in enumerate(x.shape) if i != dim % max(1, len(x.shape)))
    return [Piece("softmax", {"rows": rows, "columns": columns}, attributes)]


def _pool(call: Call) -> list[Piece]:
    backward = "backward" in call.name
    x = call.tensors()[1 if backward else 0]
    y = call.tensors()[0] if backward else call.results[0]
    attributes: dict[str, Any] = {"function": "max" if "max" in call.name else "average"}
    if backward:
        attributes["pass"] = "backward"
    if "adaptive" in call.name:
        # A window per output; windows of neighbours may share a row when sizes do not divide.
        space = len(call.arguments[1]) if not backward else len(x.shape) - 2
        window = product(_ceiling(i, o) for i, o in zip(x.shape[-space:], y.shape[-space:], strict=True))
    else:
        space = int("".join(c for c in call.name.split("_with")[0] if c.isdigit()) or 2)
        kernel = next(a for a in call.arguments if isinstance(a, (list, tuple)))
        window = product(kernel) if len(kernel) > 1 else kernel[0] ** space
    return [Piece("pool", {"inputs": x.elements, "outputs": y.elements, "window": window}, attributes)]


def _quotient(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else a / b if b else 0
    return a / b


def _ceiling(a: Number, b: Number) -> Number:
    return -(-a // b) if isinstance(a, int) and isinstance(b, int) else sympy.ceiling(sympy.sympify(a) / b)


def _elementwise(call: Call, function: str | None = None) -> list[Piece]:
    out = call.results[0].elements if call.results else call.tensors()[0].elements
    reads = sum(t.stored for t in call.tensors())
    name = function or call.name.removesuffix("_")
    return [
        Piece(
            "elementwise",
            {"elements": out, "reads": reads, "writes": sum(r.elements for r in call.results) or out},
            {"function": name},
        )
    ]


def _reduction(call: Call) -> list[Piece]:
    x = call.tensors()[0]
    out = call.results[0].elements if call.results else 1
    return [Piece("reduction", {"elements": x.elements, "outputs": out}, {"function": call.name.removesuffix("_")})]


def _scan(call: Call) -> list[Piece]:
    x = call.tensors()[0]
    return [
        Piece(
            "reduction",
            {"elements": x.elements, "outputs": sum(r.elements for r in call.results)},
            {"function": call.name.removesuffix("_")},
        )
    ]


def _move(call: Call) -> list[Piece]:
    reads = sum(t.stored for t in call.tensors()) if call.name not in ("copy_",) else call.tensors()[1].stored
    writes = sum(r.elements for r in call.results)
    return [Piece("move", {"reads": reads, "writes": writes}, {"function": call.name.removesuffix("_")})]


def _fill(call: Call) -> list[Piece]:
    writes = sum(r.elements for r in call.results)
    return [Piece("move", {"reads": 0, "writes": writes}, {"function": "fill"})]


def _view(call: Call) -> list[Piece]:
    return [
        Piece(
            "view", {"elements": call.results[0].elements if call.results else 0}, {"function": call.name.lstrip("_")}
        )
    ]


def _gather(call: Call) -> list[Piece]:
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


def _upsample(call: Call) -> list[Piece]:
    taps = 1
    for word, n in (("bilinear", 4), ("bicubic", 16), ("trilinear", 8), ("linear1d", 2), ("grid_sampler_2d", 4)):
        if word in call.name:
            taps = n
    backward = "backward" in call.name
    x = call.tensors()[0]
    y = call.results[0]
    fine, coarse = (x, y) if backward else (y, x)
    attributes: dict[str, Any] = {"function": call.name.replace("_backward", "")}
    if backward:
        attributes["pass"] = "backward"
    return [Piece("upsample", {"inputs": coarse.elements, "outputs": fine.elements, "taps": taps}, attributes)]


def _nothing(call: Call) -> list[Piece]:
    return []


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(groups: Mapping[str, Reader]) -> dict[str, Reader]:
    return {name: reader for names, reader in groups.items() for name in names.split()}


READERS: Mapping[str, Reader] = _table(
    {
        "mm addmm bmm baddbmm mv addmv dot vdot addbmm": _mm,
        "linear": _linear,
        "convolution _convolution convolution_overrideable": _convolution,
        "convolution_backward": _convolution_backward,
        """
        _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
        _scaled_dot_product_fused_attention_overrideable scaled_dot_product_attention
        """: _attention,
        """
        _scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu_backward
        _scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention_backward
        """: _attention_backward,
        """
        native_batch_norm native_batch_norm_backward cudnn_batch_norm cudnn_batch_norm_backward
        _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
        _batch_norm_with_update batch_norm_backward
        """: _norm("batch", _batch_rows),
        "native_layer_norm native_layer_norm_backward": _norm("layer", _layer_rows),
        "_fused_rms_norm _fused_rms_norm_backward": _norm("rms", _layer_rows),
        "native_group_norm native_group_norm_backward": _norm("group", _group_rows),
        """
        _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data _safe_softmax
        """: _softmax,
        """
        max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d avg_pool1d adaptive_max_pool2d
        adaptive_max_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d mkldnn_max_pool2d max_pool2d
        max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward
        _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward
        """: _pool,
        """
        embedding embedding_dense_backward max_unpool2d max_unpool3d
        index index_select gather scatter scatter_ scatter_add scatter_add_
        index_put index_put_ _index_put_impl_ index_add index_add_ index_copy index_copy_ take masked_scatter
        select_scatter slice_scatter _unsafe_index _unsafe_index_put
        """: _gather,
        """
        cat stack clone copy_ _to_copy constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad1d_backward
        reflection_pad2d_backward replication_pad1d replication_pad2d replication_pad3d replication_pad2d_backward
        repeat roll flip slice_backward select_backward im2col col2im pixel_shuffle pixel_unshuffle
        channel_shuffle native_channel_shuffle tril triu diag_embed copy unfold_backward repeat_interleave
        contiguous split_with_sizes_copy alias_copy view_copy rot90 tril_ triu_ cat_out tile
        """: _move,
        """
        fill_ zero_ zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full arange
        scalar_tensor linspace eye one_hot fill tril_indices triu_indices
        """: _fill,
        "_unsafe_view _reshape_alias as_strided_": _view,
        """
        upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_bicubic2d
        upsample_linear1d upsample_trilinear3d _upsample_nearest_exact2d _upsample_bilinear2d_aa
        _upsample_bicubic2d_aa grid_sampler_2d upsample_nearest2d_backward upsample_bilinear2d_backward
        upsample_bicubic2d_backward upsample_nearest1d_backward upsample_linear1d_backward
        upsample_trilinear3d_backward upsample_nearest3d_backward
        """: _upsample,
        """
        sum mean amax amin max min argmax argmin var var_mean std prod any all norm linalg_vector_norm logsumexp
        nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward mse_loss smooth_l1_loss
        huber_loss binary_cross_entropy nansum count_nonzero median std_mean aminmax _euclidean_dist
        """: _reduction,
        """
        cumsum cumprod logcumsumexp cummax topk sort argsort cumsum_ searchsorted bucketize nonzero
        unique_consecutive _unique2
        """: _scan,
        """
        empty empty_like empty_strided new_empty new_empty_strided detach detach_ alias lift_fresh lift_fresh_copy
        resize_ set_ _local_scalar_dense is_same_size sym_size sym_stride sym_numel sym_storage_offset
        record_stream _linalg_check_errors _assert_async _assert_scalar
        """: _nothing,
    }
)

# Functions of single elements: those that torch does not tag so, and the usual ones, for traces that carry no tags.
POINTWISE = _names(
    """
    _fused_dropout _prelu_kernel _prelu_kernel_backward abs add addcdiv addcmul atan2
    binary_cross_entropy_backward bitwise_and bitwise_not bitwise_or ceil celu celu_backward clamp clamp_max
    clamp_min complex cos div elu elu_backward eq erf exp expm1 floor floor_divide fmod ge gelu gelu_backward glu
    glu_backward gt hardshrink hardsigmoid hardsigmoid_backward hardswish hardswish_backward hardtanh
    hardtanh_backward huber_loss_backward imag isin isinf isnan le leaky_relu leaky_relu_backward lerp log log1p
    log2 log_sigmoid_backward log_sigmoid_forward logical_and logical_not logical_or lt masked_fill maximum
    minimum mish mish_backward mse_loss_backward mul nan_to_num native_dropout native_dropout_backward ne neg
    normal_functional polar pow prelu real reciprocal relu remainder round rrelu_with_noise rsqrt rsub selu
    sigmoid sigmoid_backward sign silu silu_backward sin smooth_l1_loss_backward softplus softplus_backward
    softshrink sqrt square sub tanh tanh_backward threshold threshold_backward where
    """
)
VIEWS = _names(
    "view t transpose transpose_ permute expand as_strided slice select unsqueeze unsqueeze_ squeeze squeeze_ narrow "
    "diagonal unfold flatten split split_with_sizes chunk unbind movedim swapaxes"
)
RANDOM = _names(
    "bernoulli bernoulli_ exponential_ normal_ rand rand_like randint randn randn_like random_ randperm uniform_"
)


def read_call(call: Call) -> list[Piece] | None:
    """Kinds and dims of one call; an empty list when it does nothing; None when it is not known."""
    reader = READERS.get(call.name)
    if reader is not None:
        return reader(call)
    if call.name in RANDOM:
        return _elementwise(call, "random")
    if call.name.removesuffix("_") in POINTWISE or "pointwise" in call.tags:
        return _elementwise(call)
    if "reduction" in call.tags:
        return _reduction(call)
    if call.name in VIEWS or "view" in call.tags:
        return _view(call)
    return None
