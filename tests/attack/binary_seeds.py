"""Small good files of binary formats, byte by byte: GGUF, xplane and ONNX."""

from __future__ import annotations

import struct

import numpy as np


def gguf() -> bytes:
    """The header of a small model."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    numbers = {
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "embedding_length": 64,
        "block_count": 2,
        "feed_forward_length": 128,
        "vocab_size": 1000,
    }
    keys = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    keys += b"".join(text(f"llama.{name}") + struct.pack("<II", 4, value) for name, value in numbers.items())
    names = ["output.weight", "token_embd.weight", "blk.0.attn_q.weight"]
    tensors = b"".join(text(name) + struct.pack("<IQQIQ", 2, 64, 1000, 1, 0) for name in names)
    return b"GGUF" + struct.pack("<IQQ", 3, len(names), 1 + len(numbers)) + keys + tensors


def xplane() -> bytes:
    """A plane with two steps of one operation, as protocol-buffer fields."""

    def field(number: int, value: bytes | int) -> bytes:
        if isinstance(value, int):
            return _varint(number << 3) + _varint(value)
        return _varint(number << 3 | 2) + _varint(len(value)) + value

    def named(key: int, name: str) -> bytes:
        return field(4, field(1, key) + field(2, field(1, key) + field(2, name.encode())))

    def event(key: int, start: int, length: int) -> bytes:
        return field(4, field(1, key) + field(2, start) + field(3, length))

    steps = field(2, b"Steps") + b"".join(event(1 + i, 10**9 * i, 9 * 10**8) for i in range(2))
    work = field(2, b"XLA Ops") + b"".join(event(3, 10**9 * i + 10**7, 5 * 10**8) for i in range(2))
    names = named(1, "0") + named(2, "1") + named(3, "fusion.1")
    return field(1, field(2, b"/device:TPU:0") + field(3, steps) + field(3, work) + names)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def onnx_model() -> bytes:
    """A product and a ReLU."""
    from onnx import TensorProto, helper

    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])
    weight = helper.make_tensor("w", TensorProto.FLOAT, [16, 8], np.zeros(128, np.float32).tobytes(), raw=True)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    content: bytes = helper.make_model(helper.make_graph(nodes, "g", [given], [made], [weight])).SerializeToString()
    return content
