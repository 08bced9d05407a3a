"""Reading one ATen operation: its name, arguments and results become kinds of the taxonomy with dims.

Serves the recorder and the execution traces alike. About forty readers cover the operations that networks use;
functions of single elements are known by torch's own tag. What is not known is reported, never counted as nothing.

Calls of torch that reduce: sums, losses, scans, bags of embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipstick.workloads.graph.assembly import Piece, by_word, words
from slipstick.workloads.importers.torch.aten_contractions import read_distances, read_trilinear, read_weight_norm
from slipstick.workloads.importers.torch.aten_readers import (
    Call,
    Reader,
    read_attention,
    read_attention_backward,
    read_batch_rows,
    read_convolution,
    read_convolution_backward,
    read_elementwise,
    read_fill,
    read_gather,
    read_group_rows,
    read_layer_rows,
    read_linear,
    read_mm,
    read_move,
    read_norm,
    read_nothing,
    read_pool,
    read_softmax,
    read_upsample,
    read_view,
)

LOSSES_OF_TWO = ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "_euclidean_dist")


def read_reduction(call: Call) -> list[Piece]:
    """A reduction from the elements of its input to those of its results.

    Losses write a value an element, and reduce those (aten/src/ATen/native/Loss.cpp).
    """
    x = call.tensors()[0]
    out = call.results[0].elements if call.results else 1
    read = x.elements
    if call.name in LOSSES_OF_TWO:  # an input and a target of its shape
        read = sum(tensor.elements for tensor in call.tensors()[:2])
        dims = {"elements": x.elements, "reads": read, "writes": x.elements}
        each = Piece("elementwise", dims, {"function": call.name})
        mean = Piece("reduction", {"elements": x.elements, "outputs": out}, {"function": "mean"}, "mean", after=(0,))
        return [each] if out == x.elements else [each, mean]
    if call.name.startswith("_embedding_bag"):  # the rows of the table that the index picks
        read = call.tensors()[1].elements * x.shape[-1]
    return [Piece("reduction", {"elements": read, "outputs": out}, {"function": call.name.removesuffix("_")})]


def read_scan(call: Call) -> list[Piece]:
    """A reduction that keeps every partial result (cumsum), or several results (max with its place)."""
    x = call.tensors()[0]
    return [
        Piece(
            "reduction",
            {"elements": x.elements, "outputs": sum(r.elements for r in call.results)},
            {"function": call.name.removesuffix("_")},
        )
    ]


__all__ = ["Call", "read_call"]


READERS: Mapping[str, Reader] = by_word(
    {
        "mm addmm bmm baddbmm mv addmv dot vdot addbmm": read_mm,
        "linear": read_linear,
        "_trilinear": read_trilinear,
        "_cdist_forward": read_distances,
        "_weight_norm_interface _weight_norm_interface_backward": read_weight_norm,
        "convolution _convolution convolution_overrideable": read_convolution,
        "convolution_backward": read_convolution_backward,
        """
        _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
        _scaled_dot_product_fused_attention_overrideable scaled_dot_product_attention
        """: read_attention,
        """
        _scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu_backward
        _scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention_backward
        """: read_attention_backward,
        """
        native_batch_norm native_batch_norm_backward cudnn_batch_norm cudnn_batch_norm_backward
        _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
        _batch_norm_with_update batch_norm_backward
        """: read_norm("batch", read_batch_rows),
        "native_layer_norm native_layer_norm_backward": read_norm("layer", read_layer_rows),
        "_fused_rms_norm _fused_rms_norm_backward": read_norm("rms", read_layer_rows),
        "native_group_norm native_group_norm_backward": read_norm("group", read_group_rows),
        """
        _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data _safe_softmax
        """: read_softmax,
        """
        max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d avg_pool1d adaptive_max_pool2d
        adaptive_max_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d mkldnn_max_pool2d max_pool2d
        max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward
        _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward
        """: read_pool,
        """
        embedding embedding_dense_backward max_unpool2d max_unpool3d
        index index_select gather scatter scatter_ scatter_add scatter_add_
        index_put index_put_ _index_put_impl_ index_add index_add_ index_copy index_copy_ take masked_scatter
        select_scatter slice_scatter _unsafe_index _unsafe_index_put
        """: read_gather,
        """
        cat stack clone copy_ _to_copy constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad1d_backward
        reflection_pad2d_backward replication_pad1d replication_pad2d replication_pad3d replication_pad2d_backward
        repeat roll flip slice_backward select_backward im2col col2im pixel_shuffle pixel_unshuffle
        channel_shuffle native_channel_shuffle tril triu diag_embed copy unfold_backward repeat_interleave
        contiguous split_with_sizes_copy alias_copy view_copy rot90 tril_ triu_ cat_out tile
        """: read_move,
        """
        fill_ zero_ zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full arange
        scalar_tensor linspace eye one_hot fill tril_indices triu_indices
        """: read_fill,
        "_unsafe_view _reshape_alias as_strided_": read_view,
        """
        upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_bicubic2d
        upsample_linear1d upsample_trilinear3d _upsample_nearest_exact2d _upsample_bilinear2d_aa
        _upsample_bicubic2d_aa grid_sampler_2d upsample_nearest2d_backward upsample_bilinear2d_backward
        upsample_bicubic2d_backward upsample_nearest1d_backward upsample_linear1d_backward
        upsample_trilinear3d_backward upsample_nearest3d_backward
        """: read_upsample,
        """
        sum mean amax amin max min argmax argmin var var_mean std prod any all norm linalg_vector_norm logsumexp
        _embedding_bag _embedding_bag_forward_only
        nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward mse_loss smooth_l1_loss
        huber_loss binary_cross_entropy nansum count_nonzero median std_mean aminmax _euclidean_dist
        """: read_reduction,
        """
        cumsum cumprod logcumsumexp cummax topk sort argsort cumsum_ searchsorted bucketize nonzero
        unique_consecutive _unique2
        """: read_scan,
        """
        empty empty_like empty_strided new_empty new_empty_strided detach detach_ alias lift_fresh lift_fresh_copy
        resize_ set_ _local_scalar_dense is_same_size sym_size sym_stride sym_numel sym_storage_offset
        record_stream _linalg_check_errors _assert_async _assert_scalar
        """: read_nothing,
    }
)

# Functions of single elements: those that torch does not tag so, and the usual ones, for traces that carry no tags.
POINTWISE = words(
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
    softshrink sqrt square sub tanh tanh_backward threshold threshold_backward where xlogy
    """
)
VIEWS = words(
    "view t transpose transpose_ permute expand as_strided slice select unsqueeze unsqueeze_ squeeze squeeze_ narrow "
    "diagonal unfold flatten split split_with_sizes unsafe_split unsafe_split_with_sizes unsafe_chunk chunk unbind "
    "movedim swapaxes"
)
RANDOM = words(
    "bernoulli bernoulli_ exponential_ normal_ rand rand_like randint randn randn_like random_ randperm uniform_"
)


def read_call(call: Call) -> list[Piece] | None:
    """Kinds and dims of one call; an empty list when it does nothing; None when it is not known."""
    reader = READERS.get(call.name)
    if reader is not None:
        return reader(call)
    if call.name in RANDOM:
        return read_elementwise(call, "random")
    if call.name.removesuffix("_") in POINTWISE or "pointwise" in call.tags:
        return read_elementwise(call)
    if "reduction" in call.tags:
        return read_reduction(call)
    if call.name in VIEWS or "view" in call.tags:
        return read_view(call)
    return None
