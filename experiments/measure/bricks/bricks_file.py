"""Bricks as a text file: what somebody else's machine needs to run them, and nothing of the models they come from.

A sheet holds each brick's operations with the shapes of its inputs and weights (no values), under its identity, in a
drawn order. Models named beside one's own put their bricks among them as decoys. The file is data, so that
another's sheet can be measured: every brick runs on shapes first, and what it takes is bounded before a byte is
allocated.

Operations that a sheet may name take tensors and make tensors; nothing else is touched. They are listed by name and
overload, because `torch.ops.aten` also holds operations that open files, print, change settings of the process or reach
storage that is not theirs. Arguments are checked against the operation's own schema: torch.fx writes their names into
Python source.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import fx, torch
from slipstick.common.readers import read_json
from slipstick.common.writer import write_json
from slipstick.experiments.measure.bricks.brick_modules import synthetic

MAX_BYTES = 8 << 30
MAX_STEPS = 50_000
MAX_PARTS = 10_000
MAX_FLOP = 1e14
_PARTED = {"unbind": "dim", "split": "split_size", "chunk": "chunks", "tensor_split": "sections"}


@contextmanager
def shapes_only(where: str) -> Iterator[None]:
    """Inside, torch computes shapes and allocates nothing.

    Raises InputError where the results take more than 8 GiB together, or take more than 50,000 steps or 1e14 flop.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    from torch.utils.flop_counter import FlopCounterMode

    class Bounded(TorchDispatchMode):  # type: ignore[misc]  # a class of torch's, which is imported only where bricks are measured
        def __init__(self) -> None:
            super().__init__()
            self.steps = 0
            self.taken = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise InputError(f"{where}: takes more than {MAX_STEPS} steps")
            result = func(*args, **(kwargs or {}))
            for value in tree_leaves(result):
                size = getattr(value, "nbytes", 0)
                if size > MAX_BYTES:
                    raise InputError(f"{where}: a result of {func} takes more than {MAX_BYTES >> 30} GiB")
                if func.is_view:
                    continue
                self.taken += size
            if self.taken > MAX_BYTES:
                raise InputError(f"{where}: its results take more than {MAX_BYTES >> 30} GiB together")
            return result

    with FakeTensorMode(), FlopCounterMode(display=False) as counter, Bounded():
        yield
        if counter.get_total_flops() > MAX_FLOP:
            raise InputError(f"{where}: takes more than {MAX_FLOP:g} flop")


def check_parts(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], where: str) -> None:
    """Check into how many parts an operation would cut a tensor.

    Raises InputError where they are more than 10,000, or the dimension does not exist.
    """
    name = getattr(target, "_overloadname", None) and target._opname
    if name not in _PARTED:
        return
    schema = [argument.name for argument in target._schema.arguments]
    given = {**dict(zip(schema, args, strict=False)), **kwargs}
    tensor = next(iter(given.values()))
    place = given.get("dim", 0)
    if not isinstance(place, int) or not -tensor.dim() <= place < max(1, tensor.dim()):
        raise InputError(f"{where}: {target} along dimension {str(place)[:40]}")
    length = int(tensor.shape[place]) if tensor.dim() else 1
    wanted = given.get(_PARTED[name])
    if name == "unbind":
        parts = length
    elif name == "split":
        parts = length // wanted if isinstance(wanted, int) and wanted > 0 else 0
    else:
        parts = wanted if isinstance(wanted, int) else 0
    if parts > MAX_PARTS:
        raise InputError(f"{where}: {target} makes {parts} parts, more than {MAX_PARTS}")


_LISTED = """
conv1d.default conv1d.padding conv2d.default conv2d.padding conv3d.default conv3d.padding conv_transpose1d.default
conv_transpose2d.input conv_transpose3d.input convolution.default linear.default matmul.default mm.default bmm.default
mv.default dot.default addmm.default baddbmm.default addbmm.default addmv.default batch_norm.default
instance_norm.default layer_norm.default group_norm.default rms_norm.default native_batch_norm.default
native_layer_norm.default native_group_norm.default _native_batch_norm_legit.default _native_batch_norm_legit.no_stats
_native_batch_norm_legit_no_training.default _batch_norm_no_update.default relu.default relu_.default relu6.default
relu6_.default leaky_relu.default leaky_relu_.default elu.default elu_.default selu.default selu_.default celu.default
celu_.default gelu.default silu.default silu_.default mish.default mish_.default prelu.default hardtanh.default
hardtanh_.default hardswish.default hardswish_.default hardsigmoid.default hardsigmoid_.default hardshrink.default
softshrink.default softplus.default log_sigmoid.default sigmoid.default sigmoid_.default tanh.default tanh_.default
threshold.default threshold_.default glu.default softmax.int _softmax.default log_softmax.int _log_softmax.default
dropout.default dropout_.default feature_dropout.default alpha_dropout.default add.Tensor add.Scalar add_.Tensor
add_.Scalar sub.Tensor sub.Scalar sub_.Tensor sub_.Scalar rsub.Tensor rsub.Scalar mul.Tensor mul.Scalar mul_.Tensor
mul_.Scalar div.Tensor div.Scalar div.Tensor_mode div.Scalar_mode div_.Tensor div_.Tensor_mode div_.Scalar
div_.Scalar_mode floor_divide.default floor_divide.Scalar remainder.Tensor remainder.Scalar remainder.Scalar_Tensor
pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar pow_.Scalar pow_.Tensor square.default sqrt.default sqrt_.default
rsqrt.default rsqrt_.default reciprocal.default neg.default neg_.default abs.default abs_.default sign.default
exp.default exp_.default exp2.default expm1.default log.default log_.default log2.default log10.default log1p.default
sin.default cos.default tan.default atan.default atan2.default asin.default acos.default sinh.default cosh.default
erf.default floor.default floor_.default ceil.default round.default round.decimals trunc.default clamp.default
clamp.Tensor clamp_.default clamp_.Tensor clamp_min.default clamp_min.Tensor clamp_min_.default clamp_min_.Tensor
clamp_max.default clamp_max.Tensor clamp_max_.default clamp_max_.Tensor maximum.default minimum.default where.self
where.ScalarOther where.ScalarSelf where.Scalar lerp.Scalar lerp.Tensor addcmul.default addcdiv.default
masked_fill.Scalar masked_fill.Tensor masked_fill_.Scalar masked_fill_.Tensor fill_.Scalar fill_.Tensor zero_.default
copy_.default eq.Tensor eq.Scalar ne.Tensor ne.Scalar lt.Tensor lt.Scalar le.Tensor le.Scalar gt.Tensor gt.Scalar
ge.Tensor ge.Scalar logical_and.default logical_or.default logical_not.default logical_xor.default bitwise_and.Tensor
bitwise_and.Scalar bitwise_or.Tensor bitwise_or.Scalar bitwise_not.default bitwise_xor.Tensor bitwise_xor.Scalar
isnan.default isinf.default isfinite.default nan_to_num.default sum.dim_IntList sum.default mean.default mean.dim
amax.default amin.default max.other max.default max.dim min.other min.default min.dim argmax.default argmin.default
prod.default prod.dim_int var.default var.dim var.correction std.default std.dim std.correction var_mean.default
var_mean.dim var_mean.correction std_mean.default std_mean.dim std_mean.correction norm.Scalar norm.ScalarOpt_dim
norm.ScalarOpt_dim_dtype norm.ScalarOpt_dtype linalg_vector_norm.default cumsum.default cumprod.default
logsumexp.default all.default all.dim all.dims any.default any.dim any.dims topk.default sort.default sort.stable
argsort.default argsort.stable view.default reshape.default flatten.using_ints unflatten.int permute.default
transpose.int t.default numpy_T.default swapaxes.default movedim.int movedim.intlist squeeze.default squeeze.dim
squeeze.dims squeeze_.default squeeze_.dim squeeze_.dims unsqueeze.default unsqueeze_.default expand.default
expand_as.default broadcast_to.default select.int slice.Tensor narrow.default split.Tensor split.sizes
split_with_sizes.default chunk.default unbind.int tensor_split.sections tensor_split.indices cat.default
concat.default stack.default repeat.default tile.default roll.default flip.default contiguous.default clone.default
detach.default detach_.default alias.default view_as.default reshape_as.default _unsafe_view.default to.device to.dtype
to.other to.dtype_layout _to_copy.default type_as.default lift_fresh_copy.default repeat_interleave.self_int
select_scatter.default slice_scatter.default tril.default triu.default diagonal.default pad.default
constant_pad_nd.default reflection_pad1d.default reflection_pad2d.default reflection_pad3d.default
replication_pad1d.default replication_pad2d.default replication_pad3d.default zeros.default ones.default full.default
empty.memory_format arange.default arange.start arange.start_step zeros_like.default ones_like.default
full_like.default empty_like.default new_zeros.default new_ones.default new_full.default new_empty.default
scalar_tensor.default embedding.default embedding_bag.default embedding_bag.padding_idx index.Tensor
index_select.default gather.default scatter.value scatter.src scatter.reduce scatter.value_reduce scatter_add.default
index_add.default take_along_dim.default avg_pool1d.default avg_pool2d.default avg_pool3d.default max_pool1d.default
max_pool2d.default max_pool3d.default max_pool2d_with_indices.default max_pool3d_with_indices.default
max_pool1d_with_indices.default max_unpool2d.default max_unpool3d.default adaptive_avg_pool1d.default
adaptive_avg_pool2d.default adaptive_avg_pool3d.default adaptive_max_pool1d.default adaptive_max_pool2d.default
adaptive_max_pool3d.default _adaptive_avg_pool2d.default _adaptive_avg_pool3d.default upsample_nearest1d.default
upsample_nearest1d.vec upsample_nearest2d.default upsample_nearest2d.vec upsample_nearest3d.default
upsample_nearest3d.vec upsample_linear1d.default upsample_linear1d.vec upsample_bilinear2d.default
upsample_bilinear2d.vec upsample_bicubic2d.default upsample_bicubic2d.vec upsample_trilinear3d.default
upsample_trilinear3d.vec _upsample_bilinear2d_aa.default _upsample_bilinear2d_aa.vec
_upsample_nearest_exact2d.default _upsample_nearest_exact2d.vec pixel_shuffle.default pixel_unshuffle.default
channel_shuffle.default native_channel_shuffle.default grid_sampler.default grid_sampler_2d.default
affine_grid_generator.default im2col.default col2im.default unfold.default lstm.input gru.input rnn_tanh.input
rnn_relu.input lstm_cell.default gru_cell.default rnn_tanh_cell.default rnn_relu_cell.default
scaled_dot_product_attention.default _scaled_dot_product_flash_attention_for_cpu.default
_scaled_dot_product_attention_math.default einsum.default outer.default cosine_similarity.default cdist.default
bilinear.default cross.default linalg_norm.default linalg_norm.ord_str meshgrid.default meshgrid.indexing
"""
OPERATIONS = frozenset(f"aten.{name}" for name in _LISTED.split())


def operation(name: str, where: str) -> Any:
    """The operation of torch behind a name such as ``aten.relu.default``.

    Raises InputError where the name is not listed, or this torch has none of that name.
    """
    if name not in OPERATIONS:
        raise InputError(f"{where}: operation {name[:80]!r} is none that a sheet may name")

    _, base, overload = name.split(".")
    try:
        return getattr(getattr(torch.ops.aten, base), overload)
    except AttributeError:
        raise InputError(f"{where}: operation {name!r} is unknown to torch {torch.__version__}") from None


def check_arguments(target: Any, places: int, names: Sequence[str], where: str) -> None:
    """Check that an operation takes the arguments that are given by place and by name.

    Raises InputError where it has fewer places, or no argument of a given name.
    """
    arguments = target._schema.arguments
    by_place = [argument for argument in arguments if not argument.kwarg_only]
    if places > len(by_place):
        raise InputError(f"{where}: {target} takes {len(by_place)} arguments by place, got {places}")
    known = {argument.name for argument in arguments if argument.kwarg_only} | {
        argument.name for argument in by_place[places:]
    }
    for name in names:
        if name not in known or not name.isidentifier():
            raise InputError(f"{where}: {target} has no argument {name[:60]!r} (known: {', '.join(sorted(known))})")


SCHEMA = "slipstick-brick-sheet-1"
GETITEM = "getitem"
MAX_NODES = 20_000
MAX_DIMENSIONS = 16
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
NAMED = ("dtype", "layout", "memory_format", "device")


def save_sheet(bricks: Iterable[tuple[str, Any]], path: Path, seed: int | None = None) -> int:
    """Write (identity, module of `brick_module`) in an order that is drawn anew each time; returns how many.

    Raises InputError where a brick holds what a sheet cannot say.
    """
    entries = [{"identity": identity, "nodes": _nodes(module)} for identity, module in bricks]
    random.Random(seed).shuffle(entries)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"schema": SCHEMA, "bricks": entries})
    return len(entries)


def load_sheet(path: Path) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Modules and synthetic inputs by identity.

    Raises InputError where the file is no sheet, names an operation or an argument that a sheet may not name, or takes
    too much.
    """
    sheet = read_json(path)
    if not isinstance(sheet, dict) or sheet.get("schema") != SCHEMA or not isinstance(sheet.get("bricks"), list):
        raise InputError(f"{path}: no sheet of bricks (schema {SCHEMA})")
    sheets = {}
    for number, entry in enumerate(sheet["bricks"]):
        where = f"{path}: brick {number}"
        try:
            sheets[str(entry["identity"])] = _module(entry["nodes"], where)
        except InputError:
            raise
        except Exception as error:  # torch raises dozens of kinds where shapes or arguments do not fit
            raise InputError(f"{where}: cannot be built ({one_line(error)})") from None
    return sheets


def _nodes(module: Any) -> list[dict[str, Any]]:
    place: dict[Any, int] = {}
    nodes: list[dict[str, Any]] = []
    for node in module.graph.nodes:
        entry: dict[str, Any]
        if node.op == "placeholder":
            entry = {"input": _shape(node.meta["made"])}
        elif node.op == "get_attr":
            entry = {"constant": _shape(getattr(module, node.target))}
        elif node.op == "output":
            entry = {"output": [place[one] for one in node.args[0]]}
        else:
            if node.target is operator.getitem:
                target = GETITEM
            elif isinstance(node.target, torch._ops.OpOverload) and str(node.target) in OPERATIONS:
                target = str(node.target)
            else:
                raise InputError(f"operation {node.target}: none that a sheet may name (brick_operations.py)")
            arguments = [_written(value, place) for value in node.args]
            entry = {"call": target, "args": arguments}
            if node.kwargs:
                entry["kwargs"] = {key: _written(value, place) for key, value in node.kwargs.items()}
        place[node] = len(nodes)
        nodes.append(entry)
    return nodes


def _shape(tensor: Any) -> list[Any]:
    return [list(tensor.shape), list(tensor.stride()), str(tensor.dtype).removeprefix("torch.")]


def _written(value: Any, place: dict[Any, int]) -> Any:
    if isinstance(value, fx.Node):
        return {"node": place[value]}
    if isinstance(value, (list, tuple)):
        return [_written(one, place) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    for name in NAMED:
        if isinstance(value, getattr(torch, name)):
            return {name: str(value).removeprefix("torch.")}
    raise InputError(f"argument {value!r}: a sheet holds numbers, texts and names of torch's types")


def one_line(error: BaseException) -> str:
    """An error of torch's in a few words: its kind and the first line of its text."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"


def _module(nodes: list[dict[str, Any]], where: str) -> tuple[Any, tuple[Any, ...]]:
    """The module and its inputs; shapes are worked through before anything is allocated."""

    if len(nodes) > MAX_NODES:
        raise InputError(f"{where}: {len(nodes)} operations, more than {MAX_NODES}")
    graph = fx.Graph()
    made: list[Any] = []
    shapes: list[Any] = []  # what each node gives, as tensors without memory
    wanted: dict[str, Any] = {}
    total = 0
    with torch.inference_mode(), shapes_only(where):
        for entry in nodes:
            shaped = entry.get("input") or entry.get("constant")
            if shaped is not None:
                tensor, size = _tensor(shaped, MAX_BYTES - total, where)
                total += size
                kind = "input" if "input" in entry else "constant"
                name = f"{kind}{len(wanted)}"
                wanted[name] = shaped
                made.append(graph.placeholder(name) if kind == "input" else graph.get_attr(name))
                shapes.append(tensor)
            elif "output" in entry:
                made.append(graph.output(tuple(_at(made, place) for place in entry["output"])))
                break
            else:
                target, keywords = _target(str(entry["call"]), where), entry.get("kwargs", {})
                if target is not operator.getitem:
                    check_arguments(target, len(entry["args"]), list(keywords), where)
                elif keywords or len(entry["args"]) != 2 or type(entry["args"][1]) is not int:
                    raise InputError(f"{where}: {GETITEM} takes a node and a whole number")
                args, kwargs = ([_meant(value, made) for value in entry["args"]], _each(keywords, made))
                tried, named = ([_meant(value, shapes) for value in entry["args"]], _each(keywords, shapes))
                check_parts(target, tried, named, where)
                shapes.append(target(*tried, **named))
                made.append(graph.call_function(target, tuple(args), kwargs))
    root = torch.nn.Module()
    inputs = []
    for name, shaped in wanted.items():
        tensor = synthetic(_tensor(shaped, MAX_BYTES, where, "meta")[0])
        if name.startswith("input"):
            inputs.append(tensor)
        else:
            root.register_buffer(name, tensor)
    module = fx.GraphModule(root, graph)
    module.eval()
    return module, tuple(inputs)


def _tensor(shaped: Any, limit: int, where: str, device: str = "cpu") -> tuple[Any, int]:
    shape, strides, name = ([int(n) for n in shaped[0]], [int(n) for n in shaped[1]], str(shaped[2]))
    if name not in DTYPES or not len(shape) == len(strides) <= MAX_DIMENSIONS or min([0, *shape, *strides]) < 0:
        raise InputError(f"{where}: {str(shaped)[:100]} is no shape, strides and dtype")
    dtype = getattr(torch, name)
    span = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True) if n)
    size = max(span, math.prod(shape)) * dtype.itemsize
    if size > limit:
        raise InputError(f"{where}: its tensors take more than {MAX_BYTES >> 30} GiB")
    return torch.empty_strided(shape, strides, dtype=dtype, device=device), size


def _target(name: str, where: str) -> Any:
    return operator.getitem if name == GETITEM else operation(name, where)


def _each(keywords: dict[str, Any], made: list[Any]) -> dict[str, Any]:
    return {key: _meant(value, made) for key, value in keywords.items()}


def _at(made: list[Any], place: Any) -> Any:
    if type(place) is not int or not 0 <= place < len(made):
        raise ValueError(f"node {str(place)[:40]!r} is none of the {len(made)} before it")
    return made[place]


def _meant(value: Any, made: list[Any]) -> Any:
    if isinstance(value, list):
        return [_meant(content, made) for content in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "node":
        return _at(made, content)
    if kind == "float":
        return float(content)
    if kind == "device":
        return torch.device("cpu")
    meant = getattr(torch, str(content)) if kind in NAMED and str(content).isidentifier() else None
    if not isinstance(meant, getattr(torch, kind, ())):
        raise ValueError(f"{value!r} names no {kind} of torch")
    return meant
