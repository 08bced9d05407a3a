"""Transformers: BERT (encoder, masked language model) and GPT (decoder).

Sources: Devlin et al., "BERT", NAACL 2019; Radford et al., "Language Models are Unsupervised Multitask Learners", 2019;
Brown et al., "Language Models are Few-Shot Learners", NeurIPS 2020, Table 2.1.
"""

from __future__ import annotations

from typing import Literal

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.tape import NetworkTape, Value


def bert(
    purpose: Literal["training", "inference"] = "training",
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = 30_522,
    positions: int = 512,
    optimizer: str = "adamw",
    dtype: str = "float32",
    head: Literal["words", "classes", "spans"] = "words",
) -> Workload:
    """BERT; base by default.

    Heads: the masked language model with weights tied to the embedding ("words"), two classes of a sequence
    ("classes"), begin and end of an answer ("spans"). Symbols: `batch`, `seq_len`. Norms stand after the additions.
    """
    batch, length = symbol("batch"), symbol("seq_len")
    tape = NetworkTape("bert", dtype)
    x = _embeddings(tape, batch, length, {"words": vocabulary, "positions": positions, "types": 2}, width)
    x = tape.norm("embedding.norm", x, "layer")
    for index in range(layers):
        name = f"layer{index}"
        y = _attention(tape, f"{name}.attention", x, width, heads)
        x = tape.norm(f"{name}.attention.norm", tape.elementwise(f"{name}.attention.add", "add", y, x), "layer")
        y = _feed_forward(tape, f"{name}.feed_forward", x, width)
        x = tape.norm(f"{name}.feed_forward.norm", tape.elementwise(f"{name}.feed_forward.add", "add", y, x), "layer")
    scores = _bert_head(tape, x, width, vocabulary, head)
    return tape.classified(scores, purpose, optimizer, {"batch": 1, "seq_len": 128}, batch=16, seq_len=128)


def _bert_head(tape: NetworkTape, x: Value, width: int, vocabulary: int, head: str) -> Value:
    if head == "spans":
        return tape.dense("head.spans", x, 2)
    if head == "classes":  # of the first position
        first = tape.view("head.first", x, x.shape[0], width)
        return tape.dense(
            "head.classes", tape.elementwise("head.tanh", "tanh", tape.dense("head.pool", first, width)), 2
        )
    x = tape.elementwise("head.gelu", "gelu", tape.dense("head.transform", x, width))
    x = tape.norm("head.norm", x, "layer")
    return tape.dense("head.words", x, vocabulary, shared_with="embedding.words")


def gpt(
    purpose: Literal["training", "inference"] = "training",
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = 50_257,
    positions: int = 1024,
    optimizer: str = "adamw",
    dtype: str = "float32",
) -> Workload:
    """A GPT-style language model, weights of its head tied to the embedding; GPT-2 small by default.

    Symbols: `batch`, `seq_len`. The causal mask saves nothing in the products, as kernels compute them unfused: all
    scores are computed, and those of later words are then filled.
    """
    batch, length = symbol("batch"), symbol("seq_len")
    tape = NetworkTape("gpt", dtype)
    x = _embeddings(tape, batch, length, {"words": vocabulary, "positions": positions}, width)
    for index in range(layers):
        name = f"layer{index}"
        y = _attention(
            tape, f"{name}.attention", tape.norm(f"{name}.attention.norm", x, "layer"), width, heads, "causal"
        )
        x = tape.elementwise(f"{name}.attention.add", "add", y, x)
        y = _feed_forward(tape, f"{name}.feed_forward", tape.norm(f"{name}.feed_forward.norm", x, "layer"), width)
        x = tape.elementwise(f"{name}.feed_forward.add", "add", y, x)
    x = tape.norm("head.norm", x, "layer")
    scores = tape.dense("head.words", x, vocabulary, bias=False, shared_with="embedding.words")
    return tape.classified(scores, purpose, optimizer, {"batch": 1, "seq_len": 1024}, batch=8, seq_len=1024)


def _embeddings(tape: NetworkTape, batch: Amount, length: Amount, tables: dict[str, int], width: int) -> Value:
    """Words and positions (and types) looked up and added; positions are one row for all of the batch."""
    parts = []
    for name, entries in tables.items():
        rows = tape.input(1 if name == "positions" else batch, length)
        parts.append(tape.embedding(f"embedding.{name}", rows, entries, width))
    x = parts[0]
    for part in parts[1:]:
        x = tape.elementwise(f"embedding.add{len(tape.operations)}", "add", x, part)
    return x


def _attention(
    tape: NetworkTape, name: str, x: Value, width: int, heads: int, mask: Literal["none", "causal"] = "none"
) -> Value:
    """Multi-head self-attention, unfused: scores, mask, softmax, weighted values, output projection."""
    if width % heads:
        raise InputError(f"{name}: {heads} heads do not divide a width of {width}")
    batch, length, _ = x.shape
    size = width // heads
    split = {
        part: tape.view(f"{name}.{part}.heads", tape.dense(f"{name}.{part}", x, width), batch * heads, length, size)
        for part in ("query", "key", "value")
    }
    square = (batch * heads, length, length)
    scores = tape.batched_product(f"{name}.scores", split["query"], split["key"], length, size, length, square)
    scores = tape.elementwise(f"{name}.scale", "mul", scores)
    if mask == "causal":
        scores = tape.elementwise(f"{name}.mask", "masked_fill", scores)
    shares = tape.softmax(f"{name}.softmax", scores)
    mixed = tape.batched_product(
        f"{name}.mix", shares, split["value"], length, length, size, (batch * heads, length, size)
    )
    return tape.dense(f"{name}.output", tape.view(f"{name}.merge", mixed, batch, length, width), width)


def _feed_forward(tape: NetworkTape, name: str, x: Value, width: int) -> Value:
    wide = tape.elementwise(f"{name}.gelu", "gelu", tape.dense(f"{name}.up", x, 4 * width))
    return tape.dense(f"{name}.down", wide, width)
