"""GNMT, the translation network of the SeqPoint study and of MLPerf.

Sources: Wu et al., "Google's Neural Machine Translation System", arXiv:1609.08144; MLPerf training reference v0.5
(rnn_translator); sizes as in Pati et al., "SeqPoint", ISPASS 2020, Table I and Section VI-A.
"""

from __future__ import annotations

from typing import Literal

from slipstick.common.expressions import symbol
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.tape import NetworkTape, Value

VOCABULARY = 36_549
WIDTH = 1024


def gnmt(
    purpose: Literal["training", "inference", "encode", "decode"] = "training",
    layers: int = 8,
    width: int = WIDTH,
    vocabulary: int = VOCABULARY,
    optimizer: str = "adam",
    dtype: str = "float32",
) -> Workload:
    """Eight LSTM layers encode (the first both ways), eight decode with attention, a classifier names words.

    Symbols: `batch` (sentences), `seq_len` (words of the padded source and target; default 64 and 25).
    Parameters are those of the MLPerf reference, its embedding shared between languages.

    `purpose`: training and inference know the target. encode and decode are what a beam search runs: the encoder once,
        and a step of the decoder for each word of the longest answer, with `batch` the sentences times the width of the
        beam.
    """
    batch, length = symbol("batch"), symbol("seq_len")
    tape = NetworkTape("gnmt", dtype)
    if purpose == "decode":
        return _decoder_step(tape, layers, width, vocabulary)
    source = tape.embedding("embedding", tape.input(batch, length), vocabulary, width)
    x = tape.recurrent("encoder.0", source, width, "lstm", bidirectional=True)
    for index in range(1, layers):
        y = tape.recurrent(f"encoder.{index}", x, width, "lstm")
        x = tape.elementwise(f"encoder.{index}.residual", "add", y, x) if index >= 2 else y
    memory = x
    if purpose == "encode":
        tape.dense("attention.key", memory, width, bias=False)
        return tape.inference(batch=64, seq_len=25)
    target = tape.embedding("decoder.embedding", tape.input(batch, length), vocabulary, width, shared_with="embedding")
    projected = tape.dense("attention.key", memory, width, bias=False)
    scores = _decoder(tape, target, memory, projected, layers, width, vocabulary)
    return tape.classified(scores, purpose, optimizer, {"batch": 64, "seq_len": 25}, batch=64, seq_len=25)


def _decoder(
    tape: NetworkTape, target: Value, memory: Value, projected: Value, layers: int, width: int, vocabulary: int
) -> Value:
    """From embedded words of the target to scores of the vocabulary."""
    x = tape.recurrent("decoder.0", target, width, "lstm")
    context = additive_attention(tape, "attention", x, memory, projected, width)
    for index in range(1, layers):
        both = tape.concatenate(f"decoder.{index}.concatenate", x, context)
        y = tape.recurrent(f"decoder.{index}", both, width, "lstm")
        x = tape.elementwise(f"decoder.{index}.residual", "add", y, x) if index >= 2 else y
    return tape.dense("classifier", x, vocabulary)


def _decoder_step(tape: NetworkTape, layers: int, width: int, vocabulary: int) -> Workload:
    """One word of every beam: the decoder over a target of one word, log-softmax, and the totals of the beams.

    Sorting the totals is not counted.
    """
    batch, length = symbol("batch"), symbol("seq_len")
    memory, projected = tape.input(batch, length, width), tape.input(batch, length, width)
    target = tape.embedding("decoder.embedding", tape.input(batch, 1), vocabulary, width)
    scores = _decoder(tape, target, memory, projected, layers, width, vocabulary)
    shares = tape.softmax("beam.log_softmax", scores, "log_softmax")
    tape.elementwise("beam.totals", "add", shares, tape.input(batch, 1, 1))
    return tape.inference(batch=320, seq_len=25)


def additive_attention(
    tape: NetworkTape, name: str, query: Value, memory: Value, projected: Value, width: int
) -> Value:
    """Bahdanau attention: softmax(v . tanh(W q + U m)) over the memory, for all queries at once; U m is given."""
    batch, queries, _ = query.shape
    keys = memory.shape[1]
    q = tape.dense(f"{name}.query", query, width, bias=False)
    pairs = tape.pairs(f"{name}.sum", q, projected)
    bent = tape.elementwise(f"{name}.tanh", "tanh", pairs)
    scores = tape.dense(f"{name}.score", bent, 1, bias=False)
    shares = tape.softmax(f"{name}.softmax", tape.view(f"{name}.squeeze", scores, batch, queries, keys))
    return tape.batched_product(f"{name}.context", shares, memory, queries, keys, width, (batch, queries, width))
