"""A language model from a Hugging Face config.json.

The names of fields are those of the transformers library's configuration classes; what an architecture has that its
configuration does not say (a norm of queries and keys, biases) stands in `_HABITS`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import read_json, require_mapping, unknown_name
from slipstick.workloads.language.language_model import Experts, LanguageModel, Latent, LinearAttention, impossible
from slipstick.workloads.language.weight_types import CACHE_BYTES

_LIMIT_BYTES = 4_000_000
_LARGEST = 10**9
MOST_LAYERS = 10_000

_HABITS: Mapping[str, Mapping[str, int]] = {
    "llama": {},
    "mistral": {},
    "mixtral": {},
    "qwen2": {"qkv_bias": 1},
    "qwen2_moe": {"qkv_bias": 1},
    "qwen3": {"head_norm": 1},
    "qwen3_moe": {"head_norm": 1},
    "qwen3_next": {"head_norm": 1, "output_gate": 1},
    "qwen3_5_text": {"head_norm": 1, "output_gate": 1},
    "qwen3_5_moe_text": {"head_norm": 1, "output_gate": 1},
    "gemma": {"tied": 1},
    "gemma2": {"tied": 1, "norms": 4},
    "gemma3_text": {"tied": 1, "norms": 4, "head_norm": 1},
    "gpt_oss": {"qkv_bias": 1, "output_bias": 1, "expert_bias": 1, "sinks": 1},
    "minimax_m2": {"head_norm": 2},
    "deepseek_v2": {},
    "deepseek_v3": {},
    "kimi_k2": {},
    "kimi_k25": {},
    "glm_moe_dsa": {},
    "glm4_moe": {"qkv_bias": 1},
    "phi3": {},
    "llama4_text": {},
}
"""What each architecture has beside what its configuration states (transformers, models/NAME/modeling_NAME.py)."""

_SHARED_GATE = ("qwen2_moe", "qwen3_next", "qwen3_5_moe_text")
_SCORE_BIAS = ("deepseek_v3", "kimi_k2", "kimi_k25", "glm4_moe", "glm_moe_dsa")
_SHARED_AS_ROUTED = ("llama4_text",)
"""Architectures with a shared expert as wide as a routed one; their dense layers are `intermediate_size_mlp` wide."""


def read_config(path: str | os.PathLike[str]) -> LanguageModel:
    """The model of a config.json (see `from_config`); its name is that of the file's folder, or of the file.

    How weights and cache are stored stands in it, or in the hf_quant_config.json beside it (NVIDIA's Model Optimizer).
    Raises InputError where the file is no such configuration, or a number in it cannot be meant.
    """
    document = require_mapping(read_json(path, _LIMIT_BYTES), path, "the document")
    file = Path(path).resolve()
    beside = file.parent / "hf_quant_config.json"
    if "quantization_config" not in document and file.name == "config.json" and beside.is_file():
        facts = require_mapping(read_json(beside, _LIMIT_BYTES), beside, "the document")
        quantised = require_mapping(facts.get("quantization"), beside, "quantization")
        document = {**document, "quantization_config": {"quant_method": "modelopt", **quantised}}
    name = file.parent.name if file.stem == "config" else file.stem
    return from_config(document, path, str(document.get("_name_or_path") or name))


def is_config(path: str | os.PathLike[str]) -> bool:
    """Whether a JSON file is the configuration of a model: it names its type."""
    if os.fspath(path).endswith(".gz"):
        return False
    try:
        document = read_json(path, _LIMIT_BYTES)
    except InputError:
        return False
    return isinstance(document, Mapping) and "model_type" in document


def from_config(document: Mapping[str, Any], where: object, name: str) -> LanguageModel:
    """The model that a configuration in Hugging Face's words describes; the text part of one that also sees or hears.

    Raises InputError, which names the file, every field that is wrong and what is wanted.
    """
    whole = document
    if isinstance(document.get("text_config"), Mapping):
        document = {
            **{key: value for key, value in whole.items() if key == "tie_word_embeddings"},
            **whole["text_config"],
        }
    fields = _Fields(document, where)
    kind = fields.text("model_type")
    if kind not in _HABITS:
        raise unknown_name(f"model_type in {where}:", kind, sorted(_HABITS))
    habits = dict(_HABITS[kind])
    heads, width = fields.whole("num_attention_heads"), fields.whole("hidden_size")
    known_layers = fields.whole("num_hidden_layers", MOST_LAYERS)
    layers = known_layers or 0
    experts = _experts(fields, kind)
    latent = _latent(fields)
    size = fields.optional("head_dim", 1) or (latent.plain + latent.rotary if latent else None)
    if size is None and width and heads:
        if width % heads:
            fields.wrong.append(f"no head_dim, and num_attention_heads = {heads} does not divide hidden_size = {width}")
        size = width // heads
    linear = _linear(fields, layers)
    window, window_layers = _windows(fields, kind, layers)
    if kind not in ("gpt_oss", "qwen2") and fields.switch("attention_bias"):
        habits["qkv_bias"] = 1
        habits["output_bias"] = 1 if kind == "llama" else habits.get("output_bias", 0)
    if "tie_word_embeddings" in document:
        habits["tied"] = fields.switch("tie_word_embeddings")
    if kind == "minimax_m2" and not fields.switch("use_qk_norm", 1):
        habits["head_norm"] = 0
    dense = _dense_layers(fields, layers) if experts else layers
    own_width = kind in ("mixtral", "gpt_oss", "minimax_m2")  # intermediate_size is the experts'
    inner = 0 if experts and (own_width or not dense) else _feed_forward(fields, kind)
    given = fields.optional("num_key_value_heads")
    numbers: dict[str, Any] = {
        "layers": known_layers, "width": width, "heads": heads, "kv_heads": heads if given is None else given,
        "head_dim": size, "feed_forward": inner, "vocabulary": fields.whole("vocab_size"), "window": window,
        "window_layers": window_layers, "dense_layers": dense if experts else 0, "experts": experts, "latent": latent,
        "linear": linear, "context": fields.optional("max_position_embeddings", 1),
    }  # fmt: skip
    if not isinstance(quantised := whole.get("quantization_config"), (Mapping, type(None))):
        fields.wrong.append(f"quantization_config = {str(quantised)[:40]!r}: want an object")
    fields.check(impossible(numbers, _WORDS))
    numbers |= {**habits, **_cached(whole, where)}
    return LanguageModel(name=name, weights=_stored(whole), **numbers)


_WORDS = {
    "layers": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads", "vocabulary": "vocab_size", "window": "sliding_window",
    "window_layers": "layers with a window", "dense_layers": "dense layers", "linear_layers": "linear layers",
    "per_token": "num_experts_per_tok", "key_heads": "linear_num_key_heads", "value_heads": "linear_num_value_heads",
}  # fmt: skip
"""What a configuration calls the numbers of a model, where not as `LanguageModel` does."""


def _experts(fields: _Fields, kind: str) -> Experts | None:
    count = fields.first("num_local_experts", "num_experts", "n_routed_experts")
    if not count:
        return None
    inner = fields.optional("moe_intermediate_size", 1) or fields.whole("intermediate_size") or 0
    beside = 1 if kind in _SHARED_AS_ROUTED else fields.optional("n_shared_experts") or 0
    shared = fields.optional("shared_expert_intermediate_size") or inner * beside
    per_token = fields.first("num_experts_per_tok", "experts_per_token")
    if per_token is None:
        fields.wrong.append(f"{count} experts, but no num_experts_per_tok")
    bias = kind in _SCORE_BIAS or fields.switch("use_routing_bias")
    return Experts(count, 1 if per_token is None else per_token, inner, shared, int(kind in _SHARED_GATE), int(bias))


def _feed_forward(fields: _Fields, kind: str) -> int | None:
    return fields.whole("intermediate_size_mlp" if kind in _SHARED_AS_ROUTED else "intermediate_size")


def _latent(fields: _Fields) -> Latent | None:
    rank = fields.optional("kv_lora_rank")
    if not rank:
        return None
    sizes = [fields.whole(name) or 0 for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")]
    return Latent(fields.optional("q_lora_rank") or 0, rank, *sizes)


def _linear(fields: _Fields, layers: int) -> LinearAttention | None:
    if fields.optional("linear_num_value_heads", 1) is None:
        return None
    kinds = fields.layer_types(layers)
    interval = fields.optional("full_attention_interval", 1) or 4
    count = kinds.count("linear_attention") if kinds else layers - layers // interval
    names = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    return LinearAttention(count, *[fields.whole(name) or 0 for name in (*names, "linear_conv_kernel_dim")])


def _windows(fields: _Fields, kind: str, layers: int) -> tuple[int | None, int]:
    window = fields.optional("sliding_window")
    if window is None or (kind.startswith("qwen") and not fields.switch("use_sliding_window")):
        return None, 0
    kinds = fields.layer_types(layers)
    if kinds:
        return window, kinds.count("sliding_attention")
    pattern = fields.optional("sliding_window_pattern", 1)
    if pattern:
        return window, layers - layers // pattern
    every_second = kind in ("gemma2", "gpt_oss")
    return window, layers - layers // 2 if every_second else layers


def _dense_layers(fields: _Fields, layers: int) -> int:
    listed = fields.places("mlp_only_layers", layers)
    step = fields.first("decoder_sparse_step", "interleave_moe_layer_step", low=1) or 1
    first = fields.optional("first_k_dense_replace", 0, layers or MOST_LAYERS) or 0
    return sum(i < first or i in listed or (i + 1) % step != 0 for i in range(layers))


def _stored(document: Mapping[str, Any]) -> str:
    """The scheme of the weights that `quantization_config` names; what it does not say is bf16."""
    quantised = document.get("quantization_config")
    if not isinstance(quantised, Mapping):
        return "fp32" if document.get("torch_dtype") == "float32" else "bf16"
    method, bits = str(quantised.get("quant_method", "")), quantised.get("bits")
    algorithm = str(quantised.get("quant_algo", "")).lower()
    for word, scheme in (("mxfp4", "mxfp4"), ("nvfp4", "nvfp4"), ("fp8", "fp8")):
        if word in method or word in algorithm:
            return scheme
    if method in ("awq", "gptq") and bits in (4, 8):
        return f"int{bits}"
    if method == "compressed-tensors" and '"num_bits": 4' in json.dumps(quantised):
        return "int4_experts" if "self_attn" in str(quantised.get("ignore", "")) else "int4"
    return "bf16"


def _cached(document: Mapping[str, Any], where: object) -> dict[str, str]:
    """The type of cache that `quantization_config` wants, and the program that wrote it: "" where there is none.

    `kv_cache_quant_algo` ("FP8") is of hf_quant_config.json, `kv_cache_scheme` of compressed-tensors and of newer
    releases of the Model Optimizer. A file that stores its weights narrow and says neither keeps 16 bits.
    """
    quantised = document.get("quantization_config")
    if not isinstance(quantised, Mapping):
        return {}
    scheme, kind = quantised.get("kv_cache_scheme"), str(quantised.get("kv_cache_quant_algo") or "").lower()
    if isinstance(scheme, Mapping) and not kind:
        word = {"float": "fp", "int": "int"}.get(str(scheme.get("type")), "?")
        kind = f"{word}{scheme.get('num_bits')}".replace("fp4", "nvfp4")
    if kind not in ("", "none", *CACHE_BYTES):
        raise unknown_name(f"type of cache in quantization_config of {where}:", kind[:40], sorted(CACHE_BYTES))
    method = str(quantised.get("quant_method", ""))
    quantiser = "modelopt" if method.startswith("modelopt") else method
    return {"cache": kind if kind in CACHE_BYTES else "bf16", "quantiser": quantiser}


class _Fields:
    """The fields of one configuration; what is wrong of any is kept until all are read (`check`)."""

    def __init__(self, document: Mapping[str, Any], where: object) -> None:
        self.document, self.where = document, where
        self.wrong: list[str] = []

    def check(self, more: Sequence[str] = ()) -> None:
        """Raise InputError where something is wrong: all of it."""
        if wrong := [*dict.fromkeys(self.wrong), *more]:
            missing = "; is this a language model's config.json?" if any(one.startswith("no ") for one in wrong) else ""
            raise InputError(f"{self.where}: {'; '.join(wrong)}{missing}")

    def optional(self, name: str, low: int = 0, high: int = _LARGEST) -> int | None:
        value = self.document.get(name)
        if value is None or (not isinstance(value, bool) and isinstance(value, int) and low <= value <= high):
            return value
        shown = f"{value:,}" if type(value) is int else repr(str(value)[:40])
        self.wrong.append(f"{name} = {shown[:40]}: want a whole number from {low} to {high:,}")
        return None

    def whole(self, name: str, high: int = _LARGEST) -> int | None:
        """A number that has to be there, at least 1; None where it is wrong."""
        if self.document.get(name) is None:
            self.wrong.append(f"no {name}")
        return self.optional(name, 1, high)

    def first(self, *names: str, low: int = 0) -> int | None:
        values = (self.optional(name, low) for name in names)
        return next((value for value in values if value is not None), None)

    def text(self, name: str) -> str:
        value = self.document.get(name)
        if not isinstance(value, str):
            raise InputError(f"{self.where}: no field {name!r}; is this a language model's config.json?")
        return value

    def switch(self, name: str, default: int = 0) -> int:
        value = self.document.get(name, default)
        if value not in (None, 0, 1):
            self.wrong.append(f"{name} = {str(value)[:40]!r}: want true or false")
        return int(bool(value))

    def layer_types(self, layers: int) -> list[str]:
        """What each layer attends with; empty where the file does not say."""
        value = self.document.get("layer_types") or []
        if not isinstance(value, list) or (value and layers and len(value) != layers):
            count = f"{len(value):,} entries" if isinstance(value, list) else repr(str(value)[:40])
            self.wrong.append(f"layer_types of {count}: want one for each of num_hidden_layers = {layers:,}")
            return []
        return [str(word) for word in value]

    def places(self, name: str, layers: int) -> list[int]:
        """Numbers of layers, of which the first is 0."""
        value = self.document.get(name) or []
        most = (layers or MOST_LAYERS) - 1
        if not isinstance(value, list) or not all(type(one) is int and 0 <= one <= most for one in value):
            self.wrong.append(f"{name} = {str(value)[:40]}: want numbers of layers from 0 to {most:,}")
            return []
        return value
