"""Networks whose dispatch on a CPU is compared with what is recorded: layers of torch.nn, in the layouts people use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

zeros = torch.zeros
Network = tuple[str, nn.Module, tuple[torch.Tensor, ...]]


class Written(nn.Module):  # type: ignore[misc]
    """A forward pass as a function of this module, which holds the layers by name, and its inputs."""

    def __init__(self, function: Callable[..., Any], **layers: Any) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(zeros(shape))


def words(*shape: int) -> torch.Tensor:
    return zeros(shape, dtype=torch.int64)


def products() -> Iterator[Network]:
    """Dense layers and products: contiguous, behind a transpose, with and without bias, frozen."""
    x, heads = zeros(3, 5, 8), zeros(3, 2, 5, 4)
    yield "linear", nn.Linear(8, 12), (zeros(3, 8),)
    yield "linear of sequences", nn.Linear(8, 12), (x,)
    yield "linear without bias", nn.Linear(8, 12, bias=False), (x,)
    yield "linear behind a transpose", Written(lambda m, x: m.l(x.transpose(0, 1)), l=nn.Linear(8, 12)), (x,)
    unbiased = nn.Linear(8, 12, bias=False)
    yield "linear without bias behind a transpose", Written(lambda m, x: m.l(x.transpose(0, 1)), l=unbiased), (x,)
    yield "linear of heads", Written(lambda m, x: m.l(x.transpose(1, 2)), l=nn.Linear(4, 12)), (heads,)
    yield "linear over positions", Written(lambda m, x: m.l(x.permute(0, 2, 1)), l=nn.Linear(5, 12)), (x,)
    yield "linear of every second", Written(lambda m, x: m.l(x[:, ::2]), l=nn.Linear(8, 12)), (x,)
    frozen = nn.Linear(8, 12).requires_grad_(False)
    yield "frozen linear behind a transpose", Written(lambda m, x: m.l(x.transpose(0, 1)), l=frozen), (x,)
    yield "matrix", Written(lambda m, x: x @ m.w, w=weight(8, 12)), (x,)
    yield "matrix behind a transpose", Written(lambda m, x: x.transpose(0, 1) @ m.w, w=weight(8, 12)), (x,)
    yield "matrix from the left", Written(lambda m, x: m.w @ x, w=weight(12, 5)), (x,)
    yield "matrices of their own", Written(lambda m, x: m.w @ x, w=weight(3, 12, 5)), (x,)
    yield "vector", Written(lambda m, x: x @ m.w, w=weight(8)), (x,)
    yield "Bilinear", nn.Bilinear(6, 7, 9), (zeros(4, 6), zeros(4, 7))
    yield "Bilinear of sequences", nn.Bilinear(6, 7, 9), (zeros(4, 5, 6), zeros(4, 5, 7))
    yield "einsum", Written(lambda m, x: torch.einsum("bsd,de->bse", x, m.w), w=weight(8, 12)), (x,)
    yield "einsum into heads", Written(lambda m, x: torch.einsum("bsd,dhe->bhse", x, m.w), w=weight(8, 2, 4)), (x,)
    scores = Written(lambda _, q, k: torch.einsum("bqhd,bkhd->bhqk", q, k))
    yield "einsum of scores", scores, (zeros(3, 5, 2, 4), zeros(3, 7, 2, 4))
    merged = Written(lambda m, x: torch.einsum("bhqd,hde->bqe", x, m.w), w=weight(2, 4, 8))
    yield "einsum out of heads", merged, (heads,)
    yield "tensordot", Written(lambda m, x: torch.tensordot(x, m.w, 1), w=weight(8, 3, 4)), (x,)
    yield "cdist", Written(lambda _, a, b: torch.cdist(a, b)), (zeros(2, 5, 4), zeros(2, 6, 4))
    yield "tied head", Written(lambda m, i: m.e(i) @ m.e.weight.t(), e=nn.Embedding(20, 8)), (words(2, 5),)
    mixer = Written(lambda m, x: m.l(x.transpose(1, 2)).transpose(1, 2), l=nn.Linear(5, 7))
    yield "mixing of positions", mixer, (x,)
    yield "weight norm", nn.utils.parametrizations.weight_norm(nn.Linear(8, 12)), (x,)


def attention() -> Iterator[Network]:
    """Attention and transformers of torch.nn."""
    x, memory = zeros(3, 5, 8), zeros(3, 7, 8)
    for first in (True, False):
        layout = "batch first" if first else "sequence first"
        for needs in (True, False):
            for width in (8, 6):
                layer = nn.MultiheadAttention(8, 2, batch_first=first, kdim=width, vdim=width)
                run = Written(lambda m, x, y, needs=needs: m.a(x, y, y, need_weights=needs)[0], a=layer)
                keys = zeros(3, 7, width)
                inputs = (x, keys) if first else (x.reshape(5, 3, 8), keys.reshape(7, 3, width))
                yield f"MultiheadAttention {layout}, weights {needs}, keys of {width}", run, inputs
        itself = nn.MultiheadAttention(8, 2, batch_first=first)
        yield f"self-attention {layout}", Written(lambda m, x: m.a(x, x, x)[0], a=itself), (x,)
    biased = nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True)
    yield "self-attention with a key of its own", Written(lambda m, x: m.a(x, x, x)[0], a=biased), (x,)
    single = nn.MultiheadAttention(8, 2)
    yield "self-attention of one sequence", Written(lambda m, x: m.a(x, x, x)[0], a=single), (zeros(5, 8),)
    for norm_first in (True, False):
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
        encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        yield f"TransformerEncoder, norm first {norm_first}", encoder, (x,)
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu")
    yield "TransformerEncoder sequence first", nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (x,)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    masked = Written(
        lambda m, x: m.e(x, mask=nn.Transformer.generate_square_subsequent_mask(5), is_causal=True),
        e=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
    )
    yield "causal TransformerEncoder", masked, (x,)
    first_layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    yield "TransformerDecoder", nn.TransformerDecoder(first_layer, 2), (x, memory)
    later = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 1)
    yield "TransformerDecoder sequence first", later, (zeros(5, 3, 8), zeros(7, 3, 8))
    yield "Transformer", nn.Transformer(8, 2, 1, 1, 16, batch_first=True), (x, memory)
    causal = Written(lambda _, q: F.scaled_dot_product_attention(q, q, q, is_causal=True))
    yield "scaled_dot_product_attention", causal, (zeros(3, 2, 5, 4),)
    grouped = Written(lambda _, q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True))
    yield "attention of grouped queries", grouped, (zeros(3, 4, 5, 4), zeros(3, 2, 5, 4))
    windows = Written(
        lambda m, x: m.l(torch.roll(x, (1, 1), (1, 2)).view(2, 2, 3, 2, 3, 8).transpose(2, 3).reshape(-1, 9, 8)),
        l=nn.Linear(8, 24),
    )
    yield "shifted windows", windows, (zeros(2, 6, 6, 8),)


def images() -> Iterator[Network]:
    """Convolutions, norms, pooling, and what stands between them."""
    image = zeros(2, 3, 16, 16)
    stem = (nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
    head = (nn.Conv2d(8, 8, 3, groups=8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    yield "convolutional network", nn.Sequential(*stem, *head), (image,)
    yield "Conv1d", nn.Sequential(nn.Conv1d(3, 8, 5), nn.GELU(), nn.Conv1d(8, 8, 1)), (zeros(2, 3, 16),)
    yield "Conv3d", nn.Sequential(nn.Conv3d(3, 4, 3), nn.ReLU(), nn.MaxPool3d(2)), (zeros(2, 3, 8, 8, 8),)
    transposed = nn.Sequential(nn.ConvTranspose2d(3, 8, 4, 2, 1), nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU())
    yield "ConvTranspose2d", transposed, (image,)
    last = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    yield "channels last", last, (image.to(memory_format=torch.channels_last),)
    yield "InstanceNorm1d", nn.InstanceNorm1d(4), (zeros(2, 4, 8),)
    yield "GroupNorm", nn.Sequential(nn.GroupNorm(2, 8), nn.SiLU()), (zeros(2, 8, 6, 6),)
    yield "LayerNorm", nn.LayerNorm(8), (zeros(2, 5, 8),)
    yield "RMSNorm", nn.RMSNorm(8), (zeros(2, 5, 8),)
    yield "LocalResponseNorm", nn.LocalResponseNorm(3), (zeros(2, 8, 6, 6),)
    yield "PixelShuffle", nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.PixelShuffle(2)), (image,)
    yield "Upsample", nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(3, 4, 1)), (image,)
    padded = nn.Sequential(nn.ReflectionPad2d(1), nn.MaxPool2d(3, 2), nn.Conv2d(3, 4, 3, 1, 1, padding_mode="circular"))
    yield "paddings", padded, (zeros(2, 3, 9, 9),)
    yield "Unfold", nn.Sequential(nn.Unfold(3), nn.Linear(36, 8)), (zeros(2, 3, 8, 8),)


def others() -> Iterator[Network]:
    """Embeddings, cells, activations, losses."""
    yield "Embedding", nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 4)), (words(2, 5),)
    yield "EmbeddingBag", nn.EmbeddingBag(20, 8), (words(2, 5),)
    yield "GLU", nn.Sequential(nn.Linear(8, 16), nn.GLU(), nn.Softmax(-1)), (zeros(4, 8),)
    yield "PReLU", nn.Sequential(nn.Linear(8, 8), nn.PReLU(8), nn.Tanhshrink(), nn.Softplus()), (zeros(4, 8),)
    cell = Written(lambda m, x, h, c: m.cell(x, (h, c))[0], cell=nn.LSTMCell(6, 8))
    yield "LSTMCell", cell, (zeros(3, 6), zeros(3, 8), zeros(3, 8))
    yield "GRUCell", nn.GRUCell(6, 8), (zeros(3, 6), zeros(3, 8))
    yield "cosine_similarity", Written(lambda _, a, b: F.cosine_similarity(a, b)), (zeros(4, 8), zeros(4, 8))
    regression = Written(lambda m, x, y: F.mse_loss(m.l(x), y) + F.smooth_l1_loss(x, x * 2), l=nn.Linear(8, 4))
    yield "losses of two tensors", regression, (zeros(4, 8), zeros(4, 4))
    yield (
        "cross entropy",
        Written(lambda m, x, y: F.cross_entropy(m.l(x), y), l=nn.Linear(8, 4)),
        (zeros(4, 8), words(4)),
    )


def networks() -> Iterator[Network]:
    """All of them: name, module in evaluation mode, inputs."""
    for family in (products, attention, images, others):
        for name, module, inputs in family():
            yield name, module.eval(), inputs
