"""How the numbers of a language model are stored: bits a weight with the scales of their blocks, by group of tensors.

Sources: NVFP4, 4-bit numbers with an 8-bit scale for each 16 (NVIDIA, "Introducing NVFP4", 2025); MXFP4, an 8-bit scale
for each 32 (OCP Microscaling Formats Specification v1.0, 2023); FP8 by blocks of 128 x 128 with a float32 scale
(DeepSeek-AI, arXiv 2412.19437, section 3.3); GPTQ and AWQ, 16-bit scale and 4-bit zero for each 128; routed
experts alone in 4-bit integers, a 16-bit scale for each 32 (moonshotai/Kimi-K2-Thinking, config.json); GGUF types:
ggml/src/ggml-common.h of ggml-org/llama.cpp (bytes of a block over its numbers); GGUF mixtures (Q4_K_M, ...), whole
files of Llama 2 7B: examples/quantize/README.md of the same at commit b8c1476e.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.workloads.language.language_model import LanguageModel


@dataclass(frozen=True)
class WeightType:
    """Bits a weight of the layers' products (`linear`), of routed experts, and of embedding, head and the rest.

    `compute` is the data type that the machine's matrix engine multiplies in where it has one; without it, weights are
    widened to bfloat16 on the way (weight-only).
    """

    name: str
    linear: float
    experts: float
    rest: float
    compute: str


_MIXTURES = {
    "q2_k": 3.35, "q3_k_s": 3.50, "q3_k_m": 3.91, "q3_k_l": 4.27, "q4_0": 4.5, "q4_k_s": 4.58, "q4_k_m": 4.84,
    "q5_0": 5.5, "q5_k_s": 5.52, "q5_k_m": 5.68, "q6_k": 6.56, "q8_0": 8.5,
}  # fmt: skip

WEIGHT_TYPES: Mapping[str, WeightType] = {
    kind.name: kind
    for kind in (
        WeightType("fp32", 32, 32, 32, "tfloat32"),
        WeightType("bf16", 16, 16, 16, "bfloat16"),
        WeightType("fp16", 16, 16, 16, "float16"),
        WeightType("fp8", 8, 8, 16, "float8"),
        WeightType("fp8_block", 8 + 32 / 128**2, 8 + 32 / 128**2, 16, "float8"),
        WeightType("int8", 8 + 16 / 128, 8 + 16 / 128, 16, "int8"),
        WeightType("int4", 4 + 20 / 128, 4 + 20 / 128, 16, "bfloat16"),
        WeightType("int4_experts", 16, 4 + 16 / 32, 16, "bfloat16"),
        WeightType("nvfp4", 4.5, 4.5, 16, "nvfp4"),
        WeightType("nvfp4_experts", 16, 4.5, 16, "nvfp4"),
        WeightType("mxfp4", 16, 4.25, 16, "mxfp4"),
        WeightType("mxfp4_dense", 4.25, 4.25, 16, "mxfp4"),
        WeightType("mxfp4_gguf", 8.5, 4.25, 8.5, "bfloat16"),
        WeightType("mxfp6", 6.25, 6.25, 16, "mxfp6"),
        WeightType("mxfp8", 8.25, 8.25, 16, "mxfp8"),
    )
} | {name: WeightType(name, bits, bits, bits, "bfloat16") for name, bits in _MIXTURES.items()}

GGUF_BITS: Mapping[str, float] = {
    "F32": 32.0,
    "F16": 16.0,
    "BF16": 16.0,
    "Q8_0": 34 * 8 / 32,
    "Q6_K": 210 * 8 / 256,
    "Q5_K": 176 * 8 / 256,
    "Q5_0": 22 * 8 / 32,
    "Q5_1": 24 * 8 / 32,
    "Q4_K": 144 * 8 / 256,
    "Q4_0": 18 * 8 / 32,
    "Q4_1": 20 * 8 / 32,
    "Q3_K": 110 * 8 / 256,
    "Q2_K": 84 * 8 / 256,
    "IQ4_XS": 136 * 8 / 256,
    "IQ4_NL": 18 * 8 / 32,
}
"""Bits a number of one tensor by its GGUF type."""

SPELLINGS = {
    "f16": "fp16", "f32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float8": "fp8", "float32": "fp32",
    "fp4": "nvfp4", "float8_block": "fp8_block", "int4_weights": "int4", "tf32": "fp32",
    "tfloat32": "fp32",
}  # fmt: skip
"""Other words for ways of storing weights."""

CACHE_BYTES: Mapping[str, float] = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "nvfp4": 4.5 / 8, "fp32": 4.0}
"""Bytes of one number of the cache of keys and values."""
AUTO = "auto"
"""The type of cache that the engine makes of what the checkpoint says."""


_KEPT = re.compile(r"(\w{2,20}) \((\d{1,3}(?:\.\d{1,3})?)% in 16 bits\)")


def weight_type(name: str) -> WeightType:
    """A way of storing weights by its name, or "bits LINEAR/EXPERTS/REST" as a GGUF file's tensors have them.

    Raises InputError where it is not known.
    """
    if name.startswith("bits "):
        return _own_type(name)
    if match := _KEPT.fullmatch(name):
        base, share = weight_type(match[1]), float(match[2]) / 100
        return replace(base, name=name, linear=share * 16 + (1 - share) * base.linear)
    if name not in WEIGHT_TYPES:
        raise unknown_name("type of weights", name, list(WEIGHT_TYPES))
    return WEIGHT_TYPES[name]


def partly(stored: str, share: float) -> str:
    """The name of a way of storing weights that leaves a share of the layers' products in 16 bits.

    >>> partly("fp8", 0.18), weight_type(partly("fp8", 0.5)).linear, whole_name(partly("fp8", 0.18))
    ('fp8 (18% in 16 bits)', 12.0, 'fp8')
    """
    return f"{stored} ({100 * share:.3g}% in 16 bits)" if share else stored


def whole_name(stored: str) -> str:
    """The same without what is left in 16 bits."""
    return stored.partition(" (")[0]


def is_gguf(name: str) -> bool:
    """Whether weights are stored as in GGUF files, which llama.cpp runs: a mixture, or the bits of their tensors."""
    return name in _MIXTURES or name.endswith("_gguf") or name.startswith("bits ")


def in_gguf(stored: str) -> str:
    """How a GGUF file stores what a checkpoint stores so: beside experts in MXFP4 all weights are Q8_0.

    gpt-oss-20b takes 12.07 GB so, as its file does (ggml-org/gpt-oss-20b-GGUF, 12.1 GB).
    """
    return "mxfp4_gguf" if stored == "mxfp4" else stored


def stored_as(model: LanguageModel, dtype: str | None) -> str:
    """The type of weights by the words of a user; None: as the model's file says.

    4-bit weights of a model with experts leave attention in bfloat16 and 8-bit ones have scales by blocks, as published
    checkpoints do; what the publisher's own checkpoint leaves in 16 bits stays so. "mxfp4" is that of gpt-oss where
    there are experts, and of all layers where there are none.
    Raises InputError where the type is unknown.
    """
    if dtype is None:
        return model.weights
    name = stored_name(dtype, model.weights, model.experts is not None)
    return next((stored for stored in (model.weights, model.published) if whole_name(stored) == name), name)


def stored_name(dtype: str, weights: str, experts: bool) -> str:  # noqa: FBT001
    """The same for a model whose file stores `weights`, and that has experts or not.

    Raises InputError where the type is unknown.
    """
    name = SPELLINGS.get(dtype.lower(), dtype.lower())
    if name == "fp8" and experts:
        return "fp8_block"
    if name == "nvfp4" and experts:
        return "mxfp4" if weights == "mxfp4" else "nvfp4_experts"
    if name == "mxfp4" and not experts:
        return "mxfp4_dense"
    if name not in WEIGHT_TYPES and not name.startswith("bits "):
        raise unknown_name("type of weights", dtype, sorted(WEIGHT_TYPES))
    return name


def _own_type(name: str) -> WeightType:
    words = name.removeprefix("bits ").split("/")
    try:
        linear, experts, rest = (float(word) for word in words)
    except ValueError:
        raise InputError(f"type of weights {name[:60]!r}: want 'bits LINEAR/EXPERTS/REST', three numbers") from None
    if not all(0.5 <= bits <= 64 for bits in (linear, experts, rest)):
        raise InputError(f"type of weights {name[:60]!r}: want 0.5 to 64 bits a weight")
    return WeightType(name, linear, experts, rest, "bfloat16")


def weight_bytes(model: LanguageModel, kind: WeightType) -> float:
    """Bytes of all weights of a model stored in one way."""
    linear, routed = weights_by_group(model)
    return (linear * kind.linear + routed * kind.experts + (model.parameters - linear - routed) * kind.rest) / 8


def weights_by_group(model: LanguageModel) -> tuple[int, int]:
    """Weights of the layers' products, and of routed experts; the other parameters are the rest."""
    routed = model.expert_layers * model.experts.count * model.expert_weights if model.experts else 0
    linear = model.attention_layers * model.attention_weights + model.plain_layers * model.dense_weights
    linear += model.expert_layers * model.shared_weights
    if model.linear:
        linear += model.linear.layers * model.linear_weights
    return linear, routed
