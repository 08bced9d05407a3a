"""A language model from the header of a GGUF file; the weights themselves are not read.

Layout of the file: ggml-org/ggml, docs/gguf.md (versions 2 and 3, little-endian).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from slipstick.common.errors import InputError
from slipstick.common.opener import opened
from slipstick.common.readers import unknown_name
from slipstick.workloads.language.language_model import Experts, LanguageModel, impossible
from slipstick.workloads.language.weight_types import GGUF_BITS

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K",
    13: "Q5_K", 14: "Q6_K", 20: "IQ4_NL", 23: "IQ4_XS", 30: "BF16",
}  # fmt: skip
_LARGEST_HEADER = 1 << 28
_MOST_KEYS, _MOST_TENSORS, _LONGEST_TEXT, _LONGEST_ARRAY = 10_000, 200_000, 1_000_000, 5_000_000
_HABITS: Mapping[str, Mapping[str, int]] = {
    "llama": {},
    "qwen2": {"qkv_bias": 1},
    "qwen3": {"head_norm": 1},
    "qwen3moe": {"head_norm": 1},
    "gemma2": {"norms": 4},
    "gemma3": {"norms": 4, "head_norm": 1},
    "phi3": {},
}

_WORDS = {
    "layers": "block_count", "width": "embedding_length", "heads": "attention.head_count",
    "kv_heads": "attention.head_count_kv", "head_dim": "attention.key_length", "vocabulary": "vocab_size",
    "experts": "expert_count", "per_token": "expert_used_count",
}  # fmt: skip

Value = float | str | int


def read_gguf(path: str | os.PathLike[str]) -> LanguageModel:
    """The model that a GGUF file holds; `weights` states its bits a weight as its tensors have them.

    Raises InputError where the file is no GGUF, is cut short, or its architecture is not known.
    """
    with opened(path, _LARGEST_HEADER) as stream:
        return _model(_HeaderReader(stream, path), Path(path))


def _model(read: _HeaderReader, path: Path) -> LanguageModel:
    if read.bytes(4) != b"GGUF":
        raise InputError(f"{path}: no GGUF file (it does not begin with GGUF)")
    version = read.number("I")
    if version not in (2, 3):
        raise InputError(f"{path}: GGUF version {version}: want 2 or 3")
    tensors = read.count("tensors", _MOST_TENSORS)
    facts = read.facts(read.count("keys", _MOST_KEYS))
    shapes = [read.tensor() for _ in range(tensors)]
    kind = str(facts.get("general.architecture", ""))
    if kind not in _HABITS:
        raise unknown_name(f"architecture in {path}:", kind, sorted(_HABITS))

    wrong: list[str] = []

    def number(name: str, default: int | None = None) -> int:
        value = facts.get(f"{kind}.{name}", default)
        if isinstance(value, (int, float)) and 0 <= value <= 1e9:
            return int(value)
        wrong.append(f"{kind}.{name} is missing or no number of a model")
        return 1

    heads, width, layers = number("attention.head_count"), number("embedding_length"), number("block_count")
    inner, count = number("feed_forward_length", 0), number("expert_count", 0)
    window, habits = number("attention.sliding_window", 0), _HABITS[kind]
    experts = None
    if count:
        experts = Experts(count, number("expert_used_count"), number("expert_feed_forward_length", inner))
    numbers: dict[str, Any] = {
        "layers": layers, "width": width, "heads": heads, "kv_heads": number("attention.head_count_kv", heads),
        "head_dim": number("attention.key_length", width // max(heads, 1)), "experts": experts,
        "vocabulary": number("vocab_size", int(facts.get("tokens", 0))),
    }  # fmt: skip
    if wrong := wrong or impossible(numbers, {name: f"{kind}.{word}" for name, word in _WORDS.items()}):
        raise InputError(f"{path}: {'; '.join(wrong)}")
    return LanguageModel(
        **numbers,
        name=str(facts.get("general.name") or path.stem)[:100],
        feed_forward=0 if experts else inner,
        tied=int(not any(name == "output.weight" for name, _, _ in shapes)),
        window=window or None,
        window_layers=_windows(kind, layers) if window else 0,
        weights=_stored(shapes, path),
        context=number("context_length", 0) or None,
        qkv_bias=habits.get("qkv_bias", 0),
        head_norm=habits.get("head_norm", 0),
        norms=habits.get("norms", 2),
    )


def _windows(kind: str, layers: int) -> int:
    """Layers with a window: five of six in Gemma 3, every second in Gemma 2."""
    return {"gemma3": layers - layers // 6, "gemma2": layers // 2}.get(kind, layers)


def _stored(shapes: list[tuple[str, int, str]], path: Path) -> str:
    """Mean bits a weight of layers, experts and the rest, as `weight_types.weight_type` reads them."""
    groups: dict[str, list[float]] = {"linear": [0.0, 0.0], "experts": [0.0, 0.0], "rest": [0.0, 0.0]}
    for name, numbers, kind in shapes:
        inside = name.startswith("blk.") and "norm" not in name and numbers > 1_000_000
        group = groups["experts" if "_exps" in name else "linear" if inside else "rest"]
        group[0] += numbers * GGUF_BITS[kind]
        group[1] += numbers
    if not groups["linear"][1]:
        raise InputError(f"{path}: holds no tensors of layers")
    linear = groups["linear"][0] / groups["linear"][1]
    bits = [group[0] / group[1] if group[1] else linear for group in groups.values()]
    return "bits " + "/".join(f"{bit:.4g}" for bit in bits)


class _HeaderReader:
    """A bounded reader of one header."""

    def __init__(self, stream: BinaryIO, path: object) -> None:
        self.stream, self.path, self.place = stream, path, 0

    def bytes(self, count: int) -> bytes:
        data = self.stream.read(count)
        if len(data) < count:
            raise InputError(f"{self.path}: cut short at byte {self.place + len(data)}")
        self.place += count
        return data

    def number(self, code: str) -> int:
        return int(struct.unpack("<" + code, self.bytes(struct.calcsize("<" + code)))[0])

    def count(self, thing: str, most: int) -> int:
        value = self.number("Q")
        if value > most:
            raise InputError(f"{self.path}: {value} {thing}: want at most {most:,}")
        return value

    def text(self) -> str:
        return self.bytes(self.count("bytes of one text", _LONGEST_TEXT)).decode("utf-8", "replace")

    def value(self, kind: int) -> Value:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self.array()
        if kind not in _SCALARS:
            raise InputError(f"{self.path}: unknown type of value {kind}")
        return struct.unpack("<" + _SCALARS[kind], self.bytes(struct.calcsize("<" + _SCALARS[kind])))[0]  # type: ignore[no-any-return]

    def array(self) -> int:
        """The length of an array, which is skipped; of numbers a layer, the first."""
        kind, count = self.number("I"), self.count("entries of one array", _LONGEST_ARRAY)
        if kind == _ARRAY:
            raise InputError(f"{self.path}: an array of arrays")
        if kind == _STRING:
            for _ in range(count):
                self.text()
        elif kind in _SCALARS:
            self.bytes(count * struct.calcsize("<" + _SCALARS[kind]))
        else:
            raise InputError(f"{self.path}: unknown type of value {kind}")
        return count

    def facts(self, count: int) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for _ in range(count):
            key, kind = self.text(), self.number("I")
            value = self.value(kind)
            if kind == _ARRAY:
                if key == "tokenizer.ggml.tokens":
                    values["tokens"] = value
            else:
                values[key] = value
        return values

    def tensor(self) -> tuple[str, int, str]:
        name, dims = self.text(), self.number("I")
        if dims > 8:
            raise InputError(f"{self.path}: tensor {name[:40]!r} of {dims} dimensions")
        numbers = 1
        for _ in range(dims):
            numbers *= self.number("Q")
        kind = self.number("I")
        self.number("Q")
        if kind not in _TYPES:
            raise InputError(f"{self.path}: tensor {name[:40]!r}: unknown type {kind}")
        return name, numbers, _TYPES[kind]
