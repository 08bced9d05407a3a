"""Llama-style decoders, training, prefill, and autoregressive decoding with a KV cache.

Sources: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", arXiv 2302.13971, 2023, Table 2 (7B:
4096 wide, 32 heads, 32 layers; SwiGLU of 2/3 x 4 x 4096, up to the next 256); Grattafiori et al., "The Llama 3 Herd of
Models", arXiv 2407.21783, 2024, Table 3 (8B: 8 key and value heads, 14,336); vocabularies as their weights have them.
"""

from __future__ import annotations

from typing import Literal

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import WORK
from slipstick.workloads.layers.tape import NetworkTape, Value


def llama(
    purpose: Literal["training", "inference", "decode"] = "decode",
    layers: int = 32,
    width: int = 4096,
    heads: int = 32,
    kv_heads: int = 32,
    feed_forward: int = 11_008,
    vocabulary: int = 32_000,
    optimizer: str = "adamw",
    dtype: str = "float16",
    name: str = "llama",
) -> Workload:
    """A decoder with rotary positions, RMS norms, SwiGLU and a head of its own; Llama-7B by default.

    Symbols: `batch` (sequences), `seq_len`. "inference" reads prompts of `seq_len` words; "decode" makes one new word
    for each sequence, which attends to the keys and values of `seq_len` words (itself among them) in the cache.
    Attention is one fused operation; where `kv_heads` < `heads`, groups of heads share keys and values.
    Raises InputError where heads do not divide the width, or key and value heads the heads.
    """
    if width % heads or heads % kv_heads:
        raise InputError(f"llama: width {width}, heads = {heads}, kv_heads = {kv_heads}: want each to divide the last")
    batch, length = symbol("batch"), symbol("seq_len")
    tape = NetworkTape("llama", dtype)
    x = tape.embedding("embedding.words", tape.input(batch, 1 if purpose == "decode" else length), vocabulary, width)
    for index in range(layers):
        layer = f"layer{index}"
        y = tape.norm(f"{layer}.attention.norm", x, "rms")
        y = _attention(tape, f"{layer}.attention", y, heads, kv_heads, length)
        x = tape.elementwise(f"{layer}.attention.add", "add", y, x)
        y = _swiglu(tape, f"{layer}.feed_forward", tape.norm(f"{layer}.feed_forward.norm", x, "rms"), feed_forward)
        x = tape.elementwise(f"{layer}.feed_forward.add", "add", y, x)
    scores = tape.dense("head.words", tape.norm("head.norm", x, "rms"), vocabulary, bias=False)
    if purpose == "training":
        tape.loss("loss", scores)
        return tape.training(optimizer, batch=1, seq_len=2048)
    made = tape.inference(batch=1, seq_len=1024)
    if purpose == "inference":
        return made
    facts = FrozenDict({**made.metadata, WORK: "step"})
    return Workload(f"{name}-decode", made.operations, made.edges, made.defaults, facts)


def _attention(tape: NetworkTape, name: str, x: Value, heads: int, kv_heads: int, keys: Amount) -> Value:
    """Self-attention over `keys` words; where x holds fewer, their keys and values join those in the cache."""
    width = x.shape[-1]
    size = width // heads
    query = tape.elementwise(f"{name}.query.rotary", "rotary", tape.dense(f"{name}.query", x, width, bias=False))
    key = tape.dense(f"{name}.key", x, kv_heads * size, bias=False)
    key = tape.elementwise(f"{name}.key.rotary", "rotary", key)
    value = tape.dense(f"{name}.value", x, kv_heads * size, bias=False)
    if x.shape[1] != keys:
        key, value = tape.kept(f"{name}.cache.keys", key), tape.kept(f"{name}.cache.values", value)
    mixed = tape.attention(f"{name}.mix", query, key, value, heads, kv_heads, keys)
    return tape.dense(f"{name}.output", mixed, width, bias=False)


def _swiglu(tape: NetworkTape, name: str, x: Value, wide: int) -> Value:
    gate = tape.elementwise(f"{name}.silu", "silu", tape.dense(f"{name}.gate", x, wide, bias=False))
    up = tape.dense(f"{name}.up", x, wide, bias=False)
    return tape.dense(f"{name}.down", tape.elementwise(f"{name}.mul", "mul", gate, up), x.shape[-1], bias=False)
