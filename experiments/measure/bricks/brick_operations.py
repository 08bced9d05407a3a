"""Operations that a sheet of bricks may name: tensors in, tensors out, nothing else is touched.

Listed by name and overload, because `torch.ops.aten` also holds operations that open files, print, change settings of
the process or reach storage that is not theirs. Arguments are checked against the operation's own schema: torch.fx
writes their names into Python source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipstick.common.errors import InputError

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
    import torch

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
