"""A language model from a Hugging Face config.json.

The layout is made from fields, whatever the names of them that the configuration classes of transformers use; what an
architecture has that its configuration does not say (a norm of queries and keys, biases) stands in `HABITS`, and what
a file leaves out because its class has a default, in `DEFAULTS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import read_json, require_mapping, unknown_name
from slipstick.workloads.importers.configs.config_fields import LARGEST, MOST_LAYERS, ConfigFields
from slipstick.workloads.importers.configs.model_classes import (
    DEFAULTS,
    ENCODERS,
    GENERIC,
    HABITS,
    LEGACY,
    OF_SECTIONS,
    UNGATED,
)
from slipstick.workloads.importers.configs.state_layers import STATES, state_layers
from slipstick.workloads.language.language_model import (
    BYTES_ALONE,
    UNPACKED,
    UNREAD,
    Experts,
    LanguageModel,
    Latent,
    impossible,
)
from slipstick.workloads.language.weight_types import CACHE_BYTES, partly, weight_type

_LIMIT_BYTES = 4_000_000
TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config", "text_model_config")
"""Sections that describe the language model of one that also sees or hears."""
TOWERS = ("vision_config", "audio_config", "vision_tower_config")
SUBSECTIONS = ("attn_config", "ffn_config", "linear_attn_config", "ssm_cfg")
KEPT_LISTS = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "llm_int8_skip_modules")
"""What programs that quantise call the list of modules that they leave in 16 bits."""


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
    """The model that a configuration in Hugging Face's words describes; what sees, hears or encodes is a prefix of it.

    Raises InputError, which names the file, every field that is wrong and what is wanted.
    """
    whole = document
    while part := next((part for part in TEXT_PARTS if isinstance(document.get(part), Mapping)), ""):
        outer = {key: document[key] for key in ("tie_word_embeddings", "model_type") if key in document}
        document = {**outer, **document[part]}  # a section may hold another one
    nested = document is not whole
    for part in SUBSECTIONS:
        if isinstance(document.get(part), Mapping):
            document = {**document[part], **document}
    kind = ConfigFields(document, where).text("model_type")
    if kind in ENCODERS:
        raise InputError(
            f"{where}: model_type {kind!r}: an encoder, which writes no tokens; export it to ONNX, then slipstick "
            "workloads import FILE.onnx"
        )
    left_out = {**(OF_SECTIONS.get(kind, {}) if nested else {}), **DEFAULTS.get(kind, {})}
    fields = ConfigFields({**left_out, **document}, where, kind)
    habits = _habits(fields, kind)
    doubts = [] if kind in HABITS else [f"model_type {kind[:40]!r} is not known: laid out by its fields"]
    omitted: list[tuple[str, float]] = []
    numbers = _numbers(fields, kind, habits, omitted)
    if not isinstance(quantised := whole.get("quantization_config"), (Mapping, type(None))):
        fields.wrong.append(f"quantization_config = {str(quantised)[:40]!r}: want an object")
    fields.check(impossible(numbers, _WORDS))
    if (linear := numbers["linear"]) and linear.layers and not linear.measured:
        omitted.append((f"{linear.layers} layers of {linear.name} are counted by bytes and flop alone", BYTES_ALONE))
    numbers["beside"], prefix = _beside(fields, whole, numbers, habits)
    if unread := fields.unread():
        omitted.append((f"not counted, as their meaning is not known: {', '.join(unread)}", UNREAD))
    numbers |= {**{key: habits[key] for key in _OWN}, **_cached(whole, where)}
    model = LanguageModel(name=name, **numbers, doubts=(*doubts, *prefix), omitted=tuple(omitted))
    beside = whole.get("published_quantization")  # of a checkpoint of fewer bits
    published = _stored(model, {"quantization_config": beside}).weights if beside else ""
    return replace(_stored(model, whole), published=published)


_OWN = (
    "matrices", "tied", "qkv_bias", "output_bias", "expert_bias", "head_norm", "sinks", "output_gate", "norms",
)  # fmt: skip
"""Habits that are numbers of a `LanguageModel`."""
_WORDS = {
    "layers": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads", "vocabulary": "vocab_size", "window": "sliding_window",
    "window_layers": "layers with a window", "dense_layers": "dense layers", "linear_layers": "linear layers",
    "per_token": "num_experts_per_tok", "linear_heads": "heads of linear layers", "bare_layers": "layers of a mixer",
}  # fmt: skip
"""What a configuration calls the numbers of a model, where not as `LanguageModel` does."""
_WIDTH = ("hidden_size", "n_embd", "d_model", "n_embed", "model_dim", "hidden_dim")
_LAYERS = ("num_hidden_layers", "n_layer", "num_decoder_layers", "decoder_layers", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "decoder_attention_heads", "num_heads", "attention_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "num_query_groups", "n_kv_heads")
_INNER = ("intermediate_size", "n_inner", "ffn_dim", "decoder_ffn_dim", "d_ff", "ffn_hidden_size", "block_ff_dim")
_COUNTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_PER_TOKEN = (
    "num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k",
    "top_k_experts", "num_selected_experts",
)  # fmt: skip
ALWAYS_BIASED = ("qwen2", "gpt_oss")
STATE_CLASSES = ("mamba", "mamba2", "falcon_mamba")
"""Classes of which every layer keeps a state, and none has a feed-forward."""
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "n_ctx")


def _habits(fields: ConfigFields, kind: str) -> dict[str, int]:
    """What the layers have beside their products, from the class and from the switches of the file."""
    legacy = bool(fields.document.keys() & {"n_embd", "n_head"})
    habits = {**GENERIC, **HABITS.get(kind, LEGACY if legacy else {})}
    activation = str(fields.given("hidden_act", "hidden_activation", "activation_function", "feed_forward_proj") or "")
    if kind not in HABITS and activation in UNGATED:
        habits["matrices"] = 2
    if "gated" in activation or "glu" in activation:
        habits["matrices"] = 3
    for name, targets in (
        ("bias", ("qkv_bias", "output_bias", "mlp_bias")),
        ("use_bias", ("qkv_bias", "output_bias", "mlp_bias")),
        ("attention_bias", ("qkv_bias", "output_bias") if habits["output_follows"] else ("qkv_bias",)),
        ("attention_out_bias", ("output_bias",)), ("use_qkv_bias", ("qkv_bias",)), ("add_qkv_bias", ("qkv_bias",)),
        ("mlp_bias", ("mlp_bias",)), ("lm_head_bias", ("head_bias",)), ("tie_word_embeddings", ("tied",)),
        ("attn_output_gate", ("output_gate",)),
    ):  # fmt: skip
        if fields.document.get(name) is not None and (name != "attention_bias" or kind not in ALWAYS_BIASED):
            habits |= dict.fromkeys(targets, fields.switch(name))
    norm = fields.given("use_qk_norm", "qk_norm", "qk_layernorm")
    if norm is not None:
        habits["head_norm"] = (habits["head_norm"] or 1) if norm else 0
    if kind == "falcon":
        parallel, new = fields.switch("parallel_attn"), fields.switch("new_decoder_architecture")
        habits["norms"] = 1 if parallel and not new else fields.optional("num_ln_in_parallel_attn", low=1) or 2
    return habits


def _numbers(
    fields: ConfigFields, kind: str, habits: dict[str, int], omitted: list[tuple[str, float]]
) -> dict[str, Any]:
    width, known_layers = fields.whole(*_WIDTH), fields.whole(*_LAYERS, high=MOST_LAYERS)
    letters = fields.letters("hybrid_override_pattern", known_layers or 0)
    mixed = [letter for letter in letters if letter in "M*"]
    if letters:  # each letter is a mixer or a feed-forward; here a layer is a mixer, and may have a feed-forward
        known_layers = len(mixed)
    layers = known_layers or 0
    kinds = ["mamba" if one == "M" else "full" for one in mixed] or fields.mixers(layers, omitted)
    linear = state_layers(fields, kind, sum(one in STATES for one in kinds) if kinds else layers, width or 0)
    alone = linear is not None and linear.layers == layers  # then intermediate_size is the mixer's own
    bare = max(0, 2 * layers - len(letters)) if letters else layers if alone and kind in STATE_CLASSES else 0
    heads = 1 if alone and kind in STATE_CLASSES else fields.whole(*_HEADS)
    experts = _experts(fields, habits) if not letters or "E" in letters else None
    latent = _latent(fields)
    size = fields.optional("head_dim", "attention_head_dim", "kv_channels", "d_kv", "head_size", low=1)
    if latent:
        size = size or latent.plain + latent.rotary
    if size is None and width and heads:
        if width % heads:
            fields.wrong.append(f"no head_dim, and num_attention_heads = {heads} does not divide hidden_size = {width}")
        size = width // heads
    window, window_layers = _windows(fields, kind, layers, kinds)
    dense = letters.count("-") if letters else _dense_layers(fields, layers) if experts else layers
    inner = 0 if bare == layers or (experts and not dense) else _feed_forward(fields, kind, width or 0)
    return {
        "layers": known_layers, "width": width, "heads": heads, "kv_heads": _kv_heads(fields, kind, heads),
        "head_dim": size, "feed_forward": inner,
        "vocabulary": fields.whole("vocab_size", "padded_vocab_size", "n_vocab"), "window": window,
        "window_layers": window_layers, "dense_layers": dense if experts else 0, "bare_layers": bare,
        "experts": experts, "latent": latent, "linear": linear, "context": fields.optional(*_CONTEXT, low=1),
    }  # fmt: skip


def _kv_heads(fields: ConfigFields, kind: str, heads: int | None) -> int | None:
    if fields.switch("multi_query") and not fields.switch("new_decoder_architecture"):
        return 1
    if fields.switch("multi_query_attention"):
        return fields.whole("multi_query_group_num")
    if kind == "falcon" and not fields.switch("new_decoder_architecture"):
        return heads
    given = fields.optional(*_KV_HEADS)
    return heads if given is None else given


def _experts(fields: ConfigFields, habits: Mapping[str, int]) -> Experts | None:
    count = fields.optional(*_COUNTS)
    if not count or count == 1:
        return None
    inner = fields.optional("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size", low=1)
    inner = inner or fields.whole(*_INNER) or 0
    beside = fields.optional("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
    beside = 1 if habits["shared_as_routed"] else beside or 0
    shared = fields.optional("shared_expert_intermediate_size", "shared_intermediate_size") or 0
    shared = shared or (fields.optional("moe_shared_expert_intermediate_size") or inner) * beside
    per_token = fields.optional(*_PER_TOKEN)
    if per_token is None:
        fields.wrong.append(f"{count} experts, but no num_experts_per_tok")
    bias = habits["score_bias"] or fields.switch("use_routing_bias")
    return Experts(count, 1 if per_token is None else per_token, inner, shared, habits["shared_gate"], int(bias))


def _feed_forward(fields: ConfigFields, kind: str, width: int) -> int | None:
    if "intermediate_size_mlp" in fields.document:
        return fields.whole("intermediate_size_mlp")
    inner = fields.optional(*_INNER, low=1)
    if inner is not None and kind == "qwen":  # its intermediate_size counts both halves
        return inner // 2
    if inner is not None or any(name in fields.wrong_names for name in _INNER):
        return inner
    ratio = fields.optional("expansion_ratio", "ffn_expansion_factor", low=1)
    if ratio or kind in ("falcon", "bloom", "mpt", "gpt_neo") or fields.document.keys() & {"n_embd"}:
        return (ratio or 4) * width
    return fields.whole(*_INNER)


def _latent(fields: ConfigFields) -> Latent | None:
    rank = fields.optional("kv_lora_rank")
    if not rank:
        return None
    sizes = [fields.whole(name) or 0 for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")]
    return Latent(fields.optional("q_lora_rank") or 0, rank, *sizes)


def _windows(fields: ConfigFields, kind: str, layers: int, kinds: Sequence[str]) -> tuple[int | None, int]:
    window = fields.optional("sliding_window", "sliding_window_size", "attention_chunk_size")
    if window is None or (kind.startswith("qwen") and not fields.switch("use_sliding_window")):
        return None, 0
    if kinds:
        return window, sum(one == "window" for one in kinds)
    pattern = fields.given("sliding_window_pattern", "_sliding_window_pattern")
    if isinstance(pattern, str):  # "LLLG": local and global layers by turns
        return window, sum(pattern[i % len(pattern)] == "L" for i in range(layers)) if pattern else 0
    every = fields.optional("sliding_window_pattern", "_sliding_window_pattern", low=1)
    if every:
        return window, layers - layers // every
    if kind == "llama4_text":  # three of four layers attend in chunks
        return window, layers - layers // 4
    return window, layers - layers // 2 if kind in ("gemma2", "gpt_oss") else layers


def _dense_layers(fields: ConfigFields, layers: int) -> int:
    kinds = fields.listed("mlp_layer_types", layers)
    if kinds:
        return kinds.count("dense")
    chosen = fields.document.get("moe_layer_freq")
    if isinstance(chosen, list):
        return sum(not one for one in chosen[:layers])
    if (period := fields.optional("expert_layer_period", low=1)) is not None:
        offset = fields.optional("expert_layer_offset") or 0
        return sum(i % period != offset % period for i in range(layers))
    listed = fields.places("mlp_only_layers", layers)
    step = fields.optional("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", low=1) or 1
    names = ("first_k_dense_replace", "moe_layer_num_skipped", "moe_layer_start_index")
    first = fields.optional(*names, high=layers or MOST_LAYERS) or 0
    return sum(i < first or i in listed or (i + 1) % step != 0 for i in range(layers))


def _beside(
    fields: ConfigFields, whole: Mapping[str, Any], n: Mapping[str, Any], habits: Mapping[str, int]
) -> tuple[int, list[str]]:
    """Parameters that belong to none of the layers' products, and a phrase for each part that no time is known of."""
    layers, width = n["layers"], n["width"]
    plain = 0 if n["experts"] else layers - n["bare_layers"]
    norms = 1 + layers * habits["norms"] - n["bare_layers"] * (habits["norms"] // 2)
    beside = habits["norm_bias"] * norms * width + habits["head_bias"] * n["vocabulary"]
    beside += habits["mlp_bias"] * plain * ((habits["matrices"] - 1) * n["feed_forward"] + width)
    rotary = fields.document.keys() & {"rotary_dim", "rope_theta", "rotary_pct"} or fields.document.get("alibi")
    if habits["positions"] and not rotary:
        beside += ((n["context"] or 0) + habits["positions"] - 1) * width
    words: list[str] = []
    encoder = fields.optional("encoder_layers") or (fields.optional("num_layers") if habits["encodes"] else 0) or 0
    if encoder and (fields.switch("is_encoder_decoder", 1)):
        inner = n["heads"] * n["head_dim"]
        feed = habits["matrices"] * width * (fields.optional("encoder_ffn_dim") or n["feed_forward"])
        held = encoder * (4 * width * inner + feed) + layers * (4 * width * inner + width)
        held += habits["positions"] and (fields.optional("max_source_positions") or n["context"] or 0) * width
        held += 3 * width * ((fields.optional("num_mel_bins") or 0) + width) if fields.given("num_mel_bins") else 0
        words.append(
            f"an encoder of {encoder} layers and the attention to it ({held:,} parameters) are held in memory, their "
            "time is not counted"
        )
        beside += held
    for part in TOWERS:
        if isinstance(tower := whole.get(part), Mapping) and (held := _tower(ConfigFields(tower, part), width)):
            name = part.partition("_")[0]
            words.append(
                f"a {name} tower of about {held / 1e6:,.0f} million parameters is a prefix: held in memory, its time "
                "is not counted"
            )
            beside += held
    return beside, words


def _tower(fields: ConfigFields, text_width: int) -> int:
    """Parameters of an encoder of images or sound (a vision transformer) and of its projection to the text's width."""
    width = fields.optional("embed_dim", *_WIDTH, low=1)
    layers = fields.optional("depth", "num_hidden_layers", "n_layer", "encoder_layers", low=1, high=MOST_LAYERS)
    if not width or not layers or fields.wrong:
        return 0
    inner = fields.optional("intermediate_size", "encoder_ffn_dim") or width * (fields.optional("mlp_ratio") or 4)
    patch, image = fields.optional("patch_size") or 0, fields.optional("image_size") or 0
    gated = str(fields.given("hidden_act") or "").startswith("silu")
    layer = 4 * width * (width + 1) + (3 if gated else 2) * width * inner + inner + 5 * width
    merged = (fields.optional("spatial_merge_size") or 1) ** 2
    positions = (image // patch) ** 2 * width if patch and image else 0
    projected = merged * width * (text_width if merged == 1 else merged * width + text_width)
    return min(layers * layer + 3 * patch**2 * width + positions + projected, LARGEST * 100)


def _stored(model: LanguageModel, document: Mapping[str, Any]) -> LanguageModel:
    """The model with its weights stored as `quantization_config` says, less what that leaves in 16 bits."""
    quantised = document.get("quantization_config")
    if not isinstance(quantised, Mapping):
        dtype = document.get("torch_dtype") or document.get("dtype")
        return replace(model, weights="fp32") if dtype == "float32" else model
    scheme = _scheme(quantised)
    if not scheme:
        method = str(quantised.get("quant_method") or quantised.get("quant_algo"))[:40]
        words = f"weights quantised by {method!r} are counted in 16 bits"
        return replace(model, omitted=(*model.omitted, (words, UNPACKED)))
    named = [str(one) for key in KEPT_LISTS for one in (quantised.get(key) or ()) if isinstance(one, str)]
    kind = weight_type(scheme)
    attention, feed = (
        _kept(named, words, model.layers)
        for words in (
            r"(?:self_)?attn|attention",
            r"(?:mlp|feed_forward|ffn)(?!\.gate$|\.shared_expert_gate|\.router)",
        )
    )
    if kind.linear >= 16 or not (attention or feed):
        return replace(model, weights=scheme)
    if attention == 1 and model.experts and f"{scheme}_experts" in ("int4_experts", "nvfp4_experts"):
        return replace(model, weights=f"{scheme}_experts")
    attended = model.attention_layers * model.attention_weights
    fed = model.plain_layers * model.dense_weights + model.expert_layers * model.shared_weights
    share = (attention * attended + feed * fed) / (attended + fed or 1)
    return replace(model, weights=partly(scheme, share))


def _scheme(quantised: Mapping[str, Any]) -> str:
    """The way of storing weights that a program that quantises names; "" where it is not known."""
    method = str(quantised.get("quant_method", ""))
    algorithm = f"{quantised.get('quant_algo', '')} {quantised.get('format', '')}".lower()
    for word, scheme in (("mxfp4", "mxfp4"), ("nvfp4", "nvfp4"), ("fp8", "fp8"), ("int8", "int8")):
        if word in method or word in algorithm:
            return scheme
    bits, kind = quantised.get("bits"), "int"
    groups = quantised.get("config_groups")
    if isinstance(groups, Mapping) and groups:
        first = next(iter(groups.values()))
        weights = first.get("weights") if isinstance(first, Mapping) else None
        if isinstance(weights, Mapping):
            bits, kind = weights.get("num_bits"), str(weights.get("type"))
    if method == "bitsandbytes":
        bits = 4 if quantised.get("load_in_4bit") else 8
    if bits in (4, 8):
        return ("nvfp4" if bits == 4 else "fp8") if kind == "float" else f"int{bits}"
    return "bf16" if bits is None and not algorithm.replace("none", "").strip() and method in ("", "modelopt") else ""


def _kept(named: Sequence[str], words: str, layers: int) -> float:
    """The share of the layers whose modules of a kind a list leaves in 16 bits, by number or all at once."""
    whole, numbered = False, set[int]()
    for one in named[:100_000]:
        named_module = re.search(rf"(?:layers\.(\d{{1,5}})\.)?(?:[\w*]+\.)?\b(?:{words})", one[:300])
        if named_module is None or "norm" in one:
            continue
        place = re.search(r"layers?\.(\d{1,5})\.", one[:300])
        if place:
            numbered.add(int(place[1]))
        else:
            whole = True
    return 1.0 if whole else min(1.0, len(numbered) / max(layers, 1))


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
