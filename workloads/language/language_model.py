"""A language model as its configuration states it: shapes, exact parameter counts, bytes of the cache.

Counts follow the modelling files of the Hugging Face transformers library for each architecture; the tests hold the
published totals. A multiply-add is two flop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from slipstick.common.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Numbers = TypeVar("Numbers", float, "npt.NDArray[np.float64]")
"""A number, or an array of them."""


@dataclass(frozen=True)
class Experts:
    """Feed-forward layers of which each token visits a few.

    `count`, `per_token`: routed experts of a layer, and how many of them a token visits.
    `feed_forward`: inner width of one expert.
    `shared_feed_forward`: inner width of the experts that every token visits, together; 0 where there are none.
    `shared_gate`: whether the shared experts' output is scaled by a gate of its own (one weight vector).
    `score_bias`: whether the router adds a learned number to each expert's score.
    """

    count: int
    per_token: int
    feed_forward: int
    shared_feed_forward: int = 0
    shared_gate: int = 0
    score_bias: int = 0

    def distinct(self, tokens: Numbers) -> Numbers:
        """Experts of a layer that at least one of `tokens` visits, each as likely: E (1 - (1 - k/E)^tokens)."""
        missed: Numbers = (1.0 - self.per_token / self.count) ** tokens
        return self.count * (1.0 - missed)


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434, section 2.1): ranks and head sizes."""

    query_rank: int
    rank: int
    plain: int
    rotary: int
    value: int


@dataclass(frozen=True)
class LinearAttention:
    """Layers whose state does not grow with the context: linear attention, state spaces, short convolutions.

    `name`: in the field's words ("gated delta rule", "Mamba 2").
    `layers`, `heads`: how many there are, and heads of each that ranks can share.
    `inputs`, `outputs`: numbers a token that the product with the stream makes, and that the product back to it takes.
    `between`: weights of the products between the two (low ranks of gates and time steps).
    `small`: other parameters of a layer: convolutions, decays, norms.
    `state_numbers`: numbers that one sequence keeps in one layer.
    `measured`: whether the runs that serving is fitted to hold such layers.
    """

    name: str
    layers: int
    heads: int
    inputs: int
    outputs: int
    between: int
    small: int
    state_numbers: int
    measured: int = 0


BYTES_ALONE, UNREAD, UNPACKED = 1.65, 1.2, 2.0
"""Factors by which a time may be off, either way, where a kind of layer is counted by its bytes and flop alone or not
at all, where numbers of a file were not understood, and where weights are stored in an unknown type. Judgements."""


def impossible(numbers: Mapping[str, Any], words: Mapping[str, str] | None = None) -> list[str]:
    """What cannot be of a model's numbers, a sentence each.

    `numbers`: by the fields of `LanguageModel`; None where one is not known.
    `words`: what a file calls them (and `per_token`, `linear_heads`), where not by these names.
    """
    known: dict[str, int] = {name: value for name, value in numbers.items() if isinstance(value, int)}
    experts, linear = numbers.get("experts"), numbers.get("linear")
    if experts is not None:
        known |= {"experts": experts.count, "per_token": experts.per_token}
    if linear is not None:
        known |= {"linear_layers": linear.layers, "linear_heads": linear.heads}

    def stated(name: str) -> str:
        return f"{(words or {}).get(name, name)} = {known[name]:,}"

    one = ("layers", "width", "heads", "kv_heads", "head_dim", "vocabulary", "per_token", "window", "linear_heads")
    wrong = [f"{stated(name)}: want at least 1" for name in one if known.get(name, 1) < 1]
    if min(known.get("kv_heads", 0), known.get("heads", 0)) > 0 and known["heads"] % known["kv_heads"]:
        wrong.append(f"{stated('kv_heads')}: want a divisor of {stated('heads')}")
    parts = ("window_layers", "dense_layers", "linear_layers", "bare_layers")
    limits = {"per_token": "experts"} | dict.fromkeys(parts, "layers")
    for part, whole in limits.items():
        if whole in known and known.get(part, 0) > known[whole]:
            wrong.append(f"{stated(part)}: want at most {stated(whole)}")
    return wrong


@dataclass(frozen=True)
class LanguageModel:
    """A decoder of tokens.

    Parameters
    ----------
    width, heads, kv_heads, head_dim
        Of the stream between layers, and of attention; `head_dim` is a number of its own, not width / heads.
    feed_forward
        Inner width of the dense feed-forward layers; 0 where every layer has experts.
    matrices
        Of a feed-forward layer: 3 with a gate (SwiGLU), 2 without.
    tied
        1 where the head uses the embedding's weights.
    window, window_layers
        The last tokens that some layers attend to, and how many layers do.
    dense_layers
        Layers before (or between) those with experts that have a dense feed-forward.
    bare_layers
        Layers that have no feed-forward at all.
    qkv_bias, output_bias, expert_bias, head_norm, sinks, output_gate
        1 where these exist: biases, a norm of queries and keys ("head": over each head, 2: over all heads together),
        a learned number a head in the softmax, a gate on attention's output.
    norms
        Norms of a layer; half of them of a layer without a feed-forward.
    beside
        Parameters beside all these, stored in 16 bits: biases, learned positions, what sees, hears or encodes.
    doubts
        What is to be known of how the model was read: a phrase each.
    omitted
        What of its steps is not counted, or only by its bytes, and the factor by which a time may be off for it, either
        way.
    weights
        How the file says its weights are stored ("bf16", "fp8", "mxfp4", ...; see `weight_types`).
    published
        The same of the checkpoint of fewer bits that its publisher offers beside; "" where there is none.
    cache, quantiser
        How the checkpoint's file says keys and values are to be cached ("fp8"; "" where it is not known), and the
        program that wrote so (`quant_method`): engines read the one and not the other.
    typed
        The name that was typed, where that is another model's, or another release's, of the same shapes.
    """

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int
    matrices: int = 3
    tied: int = 0
    window: int | None = None
    window_layers: int = 0
    dense_layers: int = 0
    qkv_bias: int = 0
    output_bias: int = 0
    expert_bias: int = 0
    head_norm: int = 0
    sinks: int = 0
    output_gate: int = 0
    norms: int = 2
    bare_layers: int = 0
    beside: int = 0
    experts: Experts | None = None
    latent: Latent | None = None
    linear: LinearAttention | None = None
    weights: str = "bf16"
    published: str = ""
    cache: str = ""
    quantiser: str = ""
    typed: str = ""
    context: int | None = None
    doubts: tuple[str, ...] = ()
    omitted: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if wrong := impossible(vars(self)):
            raise InputError(f"{self.name}: {'; '.join(wrong)}")

    @property
    def stands_for(self) -> str:
        """That its numbers answer for another name, and what they leave out; "" where they are all its own."""
        sibling = [f"{self.typed} by the numbers of {self.name}, whose shapes it shares"] if self.typed else []
        return "; ".join([*sibling, *self.doubts, *(words for words, _ in self.omitted)])

    @property
    def unmeasured(self) -> float:
        """What is not counted, or only by its bytes, adds to the half width of the log of a time."""
        return math.hypot(*(math.log(factor) for _, factor in self.omitted))

    @cached_property
    def attention_layers(self) -> int:
        """Layers whose cache grows with the context (or its window)."""
        return self.layers - (self.linear.layers if self.linear else 0)

    @cached_property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.dense_layers - self.bare_layers if self.experts else 0

    @property
    def plain_layers(self) -> int:
        """Layers with a dense feed-forward."""
        return self.layers - self.expert_layers - self.bare_layers

    @property
    def attention_weights(self) -> int:
        """Weights of the products of one attention layer, norms and biases left out."""
        if self.latent:
            m = self.latent
            queries = self.heads * (m.plain + m.rotary)
            q = self.width * m.query_rank + m.query_rank * queries if m.query_rank else self.width * queries
            return q + self.width * (m.rank + m.rotary) + self._latent_expansion + self.heads * m.value * self.width
        inner = self.heads * self.head_dim
        return self.width * (inner * (2 + self.output_gate) + 2 * self.kv_heads * self.head_dim)

    @property
    def _latent_expansion(self) -> int:
        m = self.latent
        return m.rank * self.heads * (m.plain + m.value) if m else 0

    @property
    def linear_weights(self) -> int:
        """Weights of the products of one layer of linear attention."""
        a = self.linear
        return self.width * (a.inputs + a.outputs) + a.between if a else 0

    @property
    def expert_weights(self) -> int:
        """Weights of one routed expert."""
        return self.matrices * self.width * self.experts.feed_forward if self.experts else 0

    @property
    def shared_weights(self) -> int:
        """Weights of the shared experts of a layer."""
        return self.matrices * self.width * self.experts.shared_feed_forward if self.experts else 0

    @cached_property
    def router_weights(self) -> int:
        """Weights of the router of a layer."""
        return self.width * self.experts.count if self.experts else 0

    @property
    def dense_weights(self) -> int:
        """Weights of one dense feed-forward layer."""
        return self.matrices * self.width * self.feed_forward

    @cached_property
    def head_weights(self) -> int:
        """Weights of the product that scores the vocabulary; the embedding's where the two are tied."""
        return self.width * self.vocabulary

    @property
    def token_weights(self) -> int:
        """Weights that each token is multiplied with in all layers, the head left out."""
        attention = self.attention_layers * self.attention_weights
        linear = self.linear.layers * self.linear_weights if self.linear else 0
        feed = self.plain_layers * self.dense_weights
        if self.experts:
            routed = self.experts.per_token * self.expert_weights
            gate = self.width if self.experts.shared_gate else 0
            feed += self.expert_layers * (routed + self.shared_weights + self.router_weights + gate)
        return attention + linear + feed

    @property
    def multiplied(self) -> int:
        """Weights that each token meets, the output layer's included."""
        return self.token_weights + self.head_weights

    @cached_property
    def parameters(self) -> int:
        """All parameters, to the last one; heads that guess further tokens (MTP) left out."""
        embedding = self.head_weights * (1 if self.tied else 2)
        attention = self.attention_weights + self._attention_small
        norms = self.layers * self.norms - self.bare_layers * (self.norms // 2)
        total = embedding + self.beside + (1 + norms) * self.width + self.attention_layers * attention
        if self.linear:
            total += self.linear.layers * (self.linear_weights + self.linear.small)
        total += self.plain_layers * self.dense_weights
        if self.experts:
            e = self.experts
            biases = e.count * (2 * e.feed_forward + self.width) + e.count if self.expert_bias else 0
            small = biases + (e.count if e.score_bias else 0) + (self.width if e.shared_gate else 0)
            layer = e.count * self.expert_weights + self.shared_weights + self.router_weights + small
            total += self.expert_layers * layer
        return total

    @property
    def active_parameters(self) -> int:
        """Parameters less those of the experts that a token does not visit."""
        if self.experts is None:
            return self.parameters
        e = self.experts
        one = self.expert_weights + (2 * e.feed_forward + self.width if self.expert_bias else 0)
        return self.parameters - self.expert_layers * (e.count - e.per_token) * one

    @property
    def _attention_small(self) -> int:
        if self.latent:
            return self.latent.rank + self.latent.query_rank
        inner, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        norm = {0: 0, 1: 2 * self.head_dim, 2: inner + keys}[self.head_norm]
        bias = (inner + 2 * keys if self.qkv_bias else 0) + (self.width if self.output_bias else 0)
        return norm + bias + (self.heads if self.sinks else 0)

    @cached_property
    def cache_numbers(self) -> int:
        """Numbers that one token leaves in the cache of one layer."""
        if self.latent:
            return self.latent.rank + self.latent.rotary
        return 2 * self.kv_heads * self.head_dim

    def cache_bytes(self, bytes_per_number: float = 2.0) -> float:
        """Bytes that one token leaves in the cache of all layers; windows are not looked at (see `cache_tokens`)."""
        return self.attention_layers * self.cache_numbers * bytes_per_number

    def attended(self, context: Numbers) -> Numbers:
        """Sum over layers of the tokens of the cache that one new token attends to."""
        if self.window is None:
            return self.attention_layers * context
        full = self.attention_layers - self.window_layers
        near: Numbers = (context <= self.window) * context + (context > self.window) * float(self.window)
        return full * context + self.window_layers * near

    def score_numbers(self) -> int:
        """Multiply-adds of one query of all heads of a layer with one key and one value.

        With latent attention the cached vectors are used as they are (weights absorbed), as decoding does.
        """
        if self.latent:
            return self.heads * (2 * self.latent.rank + self.latent.rotary)
        return 2 * self.heads * self.head_dim

    def prompt_score_numbers(self) -> int:
        """The same for a prompt, whose latent vectors are expanded to heads first."""
        if self.latent:
            return self.heads * (self.latent.plain + self.latent.rotary + self.latent.value)
        return 2 * self.heads * self.head_dim
