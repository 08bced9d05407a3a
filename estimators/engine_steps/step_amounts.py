"""What one step of a server makes one device read, multiply and send: numbers of a batch, no graph.

The same amounts as the graph of `workloads.language.language_step` (a test holds them equal); a server simulates
millions of steps, so that here they are plain arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import WeightType

SHORT_CONTEXT = 1024.0
"""Tokens in the cache up to which runs of llama.cpp were fitted: what these take is in the fitted numbers."""


class Batch(NamedTuple):
    """What a step works on, in one group of ranks that share a cache; arrays of one shape are many steps.

    `decodes`: sequences that get one more token.
    `context`: tokens in the cache of each of these, on average.
    `prompt`: tokens of prompts read in this step.
    `past`: tokens of the cache that each of those attends to beside its own chunk, on average.
    `chunk`: tokens of one prompt read at once.
    `finished`: prompts whose last token is among those read (they are scored against the vocabulary).
    """

    decodes: float = 0.0
    context: float = 0.0
    prompt: float = 0.0
    past: float = 0.0
    chunk: float = 0.0
    finished: float = 0.0

    @property
    def tokens(self) -> float:
        """Tokens that pass the layers."""
        return self.decodes + self.prompt


class Amounts(NamedTuple):
    """One device's share of a step, in bytes, flop, messages."""

    weight_bytes: float
    expert_bytes: float
    cache_bytes: float
    linear_flop: float
    expert_flop: float
    head_flop: float
    score_flop: float
    messages: float
    message_bytes: float
    exchanges: float
    exchange_bytes: float
    tokens: float


@dataclass(frozen=True)
class Shares:
    """A model on the devices of a layout: what a rank of the busiest stage holds."""

    model: LanguageModel
    layout: Layout
    kind: WeightType
    cache_number_bytes: float = 2.0

    @cached_property
    def layer_share(self) -> float:
        """Layers of the busiest stage over all layers."""
        return -(-self.model.layers // self.layout.pipeline) / self.model.layers

    @cached_property
    def cache_ranks(self) -> int:
        """Ranks that share one token's cache; keys and values repeat beyond kv_heads, latent vectors always."""
        return 1 if self.model.latent else min(self.layout.tensor, self.model.kv_heads)

    @cached_property
    def token_cache_bytes(self) -> float:
        """Bytes that a token adds to one rank's cache, over all layers of its stage; windows are full length here."""
        return self.model.cache_bytes(self.cache_number_bytes) * self.layer_share / self.cache_ranks

    @property
    def state_bytes(self) -> float:
        """Bytes of a sequence's states (linear attention) on one rank, whatever its length, in 16 bits."""
        linear = self.model.linear
        return linear.layers * linear.state_numbers * 2 * self.layer_share / self.layout.tensor if linear else 0.0

    @property
    def narrow_experts(self) -> bool:
        """Whether weights of experts have less than 16 bits, so that products widen them on the way."""
        return self.model.experts is not None and self.kind.experts < 16

    @cached_property
    def linear_weights(self) -> float:
        """Weights of layers' products on one rank, routed experts left out."""
        m, tensor = self.model, self.layout.tensor
        query = float(m.attention_weights)
        if not m.latent:
            keys = 2 * m.width * m.kv_heads * m.head_dim
            query = (query - keys) / tensor + keys / self.cache_ranks
        else:
            down = m.width * (m.latent.query_rank + m.latent.rank + m.latent.rotary)
            query = (query - down) / tensor + down
        total = m.attention_layers * query
        if m.linear:
            total += m.linear.layers * m.linear_weights / tensor
        total += m.plain_layers * m.dense_weights / tensor + m.expert_layers * m.shared_weights / tensor
        return total * self.layer_share

    @cached_property
    def routed_weights(self) -> float:
        """Weights of one routed expert on one rank, over all layers of its stage."""
        return self.model.expert_layers * self.model.expert_weights * self.layer_share / self.layout.expert_tensor

    @cached_property
    def held_bytes(self) -> float:
        """Bytes of weights on one rank of the fullest stage."""
        m, kind = self.model, self.kind
        routed = self.routed_weights * (m.experts.count / self.layout.expert if m.experts else 0)
        ends = m.head_weights / self.layout.tensor * (1 if m.tied or self.layout.pipeline > 1 else 2)
        small = m.expert_layers * m.router_weights * self.layer_share + m.beside / self.layout.tensor
        return (self.linear_weights * kind.linear + routed * kind.experts + (ends + small) * kind.rest) / 8

    def attention(self, batch: Batch) -> tuple[float, float]:
        """Bytes of the cache that one rank moves in one step, and flop of its scores: all that context changes."""
        m, share = self.model, self.layer_share
        decodes, context, prompt, past, chunk, _ = batch
        attended = decodes * m.attended(context)
        pairs = chunks = reread = 0.0
        if prompt.__class__ is not float or prompt:
            pairs = prompt * m.attended(past + (chunk + 1) / 2)
            chunks = (chunk > 0) * prompt / (chunk + (chunk == 0))
            reread = (past > 0) * chunks * m.attended(past + chunk)
        cache = (attended + reread + (decodes + prompt) * m.attention_layers) * self._layer_cache_bytes
        if m.linear:
            states, tensor = m.linear.state_numbers, self.layout.tensor
            cache += 2 * (decodes + chunks) * m.linear.layers * states * 2 * share / tensor
        one, of_prompt = self._scores
        return cache, 2 * (attended * one + pairs * of_prompt) * share * (1 / self.layout.tensor)

    @cached_property
    def _layer_cache_bytes(self) -> float:
        return self.model.cache_numbers * self.cache_number_bytes * self.layer_share / self.cache_ranks

    @cached_property
    def _scores(self) -> tuple[int, int]:
        return self.model.score_numbers(), self.model.prompt_score_numbers()

    @cached_property
    def _router_weights(self) -> float:
        return self.model.expert_layers * self.model.router_weights * self.layer_share

    @cached_property
    def _messages(self) -> tuple[float, float]:
        """All-reduces of a step, and exchanges of tokens between experts' ranks."""
        m, layout, share = self.model, self.layout, self.layer_share
        shared = 2 * m.layers * share if layout.tensor > 1 else 0.0
        if m.experts and layout.data > 1:
            shared = m.layers * share if layout.tensor > 1 else 0.0
        return shared, 2 * m.expert_layers * share if layout.data > 1 else 0.0

    def amounts(self, batch: Batch) -> Amounts:
        """What one rank does in one step, or in each of many (a batch of arrays)."""
        m, layout, kind = self.model, self.layout, self.kind
        tokens = batch.tokens
        group_tokens = tokens * layout.data
        scored = batch.decodes + batch.finished
        rest = (scored > 0) * m.head_weights / layout.tensor
        small = self._router_weights
        expert_bytes = expert_flop = 0.0
        if m.experts:
            read = m.experts.distinct(group_tokens) / layout.expert
            expert_bytes = self.routed_weights * read * kind.experts / 8
            expert_flop = 2 * group_tokens * m.experts.per_token / layout.expert * self.routed_weights
        cache, score = self.attention(batch)
        shared, exchanges = self._messages
        ranks = layout.tensor
        sent = tokens * m.width * 2
        return Amounts(
            weight_bytes=(self.linear_weights * kind.linear + (rest + small) * kind.rest) / 8,
            expert_bytes=expert_bytes,
            cache_bytes=cache,
            linear_flop=2 * tokens * (self.linear_weights + small),
            expert_flop=expert_flop,
            head_flop=2 * scored * m.head_weights / layout.tensor,
            score_flop=score,
            messages=shared,
            message_bytes=shared * sent * 2 * (ranks - 1) / ranks,
            exchanges=exchanges,
            exchange_bytes=exchanges
            * sent
            * (layout.data - 1)
            / layout.data
            * (m.experts.per_token if m.experts else 0),
            tokens=tokens,
        )
