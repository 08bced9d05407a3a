"""The switch transformer (mixture of experts) as operations, from its published configuration.

Encoder and decoder of T5 (Raffel et al., JMLR 21, 2020) whose every second feed-forward block is a set of experts, one
a token (Fedus, Zoph, Shazeer, JMLR 23, 2022); what is executed follows `SwitchTransformersForConditionalGeneration` of
Hugging Face: no flash attention, norms of separate operations, experts one after another.
"""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.experiments.scoreboards.gpu.model_graphs import Node


@dataclass(frozen=True)
class SwitchConfiguration:
    """Sizes by the names of the published configuration; `layers` of encoder and of decoder each."""

    d_model: int
    d_ff: int
    d_kv: int
    heads: int
    layers: int
    experts: int = 4
    capacity: int = 64
    sparse_step: int = 2
    vocabulary: int = 32128


MODELS = {
    "switch4": SwitchConfiguration(768, 3072, 64, 12, 12),
    "switchxl4": SwitchConfiguration(1024, 16384, 128, 32, 24),
}
"""NeuSight's names: google/switch-base and google/switch-xxl's shape at 24 layers, with four experts."""
NORM_OPERATIONS = 4
"""Passes over the tokens in a root-mean-square norm of separate operations: square, mean, scale, weight."""
EXPERT_LAUNCHES = 12
"""Operations of one expert: its tokens' indices (3), gathering (2), two products, activation, dropout, scattering (3).
How many tokens an expert has is read from the device, so that the host cannot run ahead and hide their launches."""


def switch_transformer(model: SwitchConfiguration, batch: int, length: int) -> list[Node]:
    """The operations of one forward pass over `batch` pairs of sequences of `length` tokens each."""
    tokens = batch * length
    nodes: list[Node] = []
    for attentions in (1, 2):  # the encoder's layers attend once, the decoder's to themselves and to the encoder
        nodes += [node for _ in range(attentions) for node in _attention(model, batch, length)]
        sparse = model.layers // model.sparse_step
        nodes += _feed_forward(model, tokens, model.layers - sparse)
        # A token beyond an expert's capacity passes by; at least as many come as experts can hold, or all.
        each = min(model.capacity * batch, tokens // model.experts)
        nodes += _feed_forward(model, each, sparse * model.experts)
        nodes += _router(model, tokens, sparse)
        nodes.append(Node("waiting", {"launches": EXPERT_LAUNCHES}, sparse * model.experts))
        norms = model.layers * (attentions + 1) + 1
        nodes.append(_elementwise(tokens * model.d_model, 1, NORM_OPERATIONS * norms))
    nodes.append(_linear(model.d_model, model.vocabulary, tokens, 1))
    return nodes


def _attention(model: SwitchConfiguration, batch: int, length: int) -> list[Node]:
    inner, tokens, times = model.heads * model.d_kv, batch * length, model.layers
    scores, blocks = batch * model.heads * length**2, batch * model.heads
    return [
        _linear(model.d_model, inner, tokens, 3 * times),
        _product(blocks, length, length, model.d_kv, times),
        _elementwise(scores, 2, times),  # the bias of relative positions
        Node("softmax", {"rows": blocks * length, "columns": length}, times),
        Node("dropout", {"elements": scores, "reads": scores, "writes": scores}, times),
        _product(blocks, model.d_kv, length, length, times),
        _elementwise(tokens * inner, 1, times),  # heads side by side again
        _linear(inner, model.d_model, tokens, times),
        _elementwise(tokens * model.d_model, 2, times),
    ]


def _feed_forward(model: SwitchConfiguration, tokens: int, times: float) -> list[Node]:
    wide = tokens * model.d_ff
    return [
        _linear(model.d_model, model.d_ff, tokens, times),
        _elementwise(wide, 1, times),
        Node("dropout", {"elements": wide, "reads": wide, "writes": wide}, times),
        _linear(model.d_ff, model.d_model, tokens, times),
        _elementwise(tokens * model.d_model, 2, times),
    ]


def _router(model: SwitchConfiguration, tokens: int, times: float) -> list[Node]:
    choices = tokens * model.experts
    return [
        _linear(model.d_model, model.experts, tokens, times),
        Node("softmax", {"rows": tokens, "columns": model.experts}, times),
        _elementwise(choices, 1, 3 * times),  # the best, its mask, tokens within capacity
        _elementwise(tokens * model.d_model, 2, times * (model.experts + 1)),  # gathered, scattered, weighted
    ]


def _linear(inputs: int, outputs: int, tokens: int, times: float) -> Node:
    return Node("linear", {"batch": 1.0, "m": outputs, "n": tokens, "k": inputs}, times)


def _product(batch: int, m: int, n: int, k: int, times: float) -> Node:
    return Node("bmm", {"batch": batch, "m": m, "n": n, "k": k}, times)


def _elementwise(elements: int, inputs: int, times: float) -> Node:
    return Node("elementwise", {"elements": elements, "reads": inputs * elements, "writes": elements}, times)
