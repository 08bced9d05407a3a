"""What the classes of models in transformers have that their configurations do not say, and their defaults.

Source: https://github.com/huggingface/transformers, models/NAME/modeling_NAME.py and configuration_NAME.py; of models
whose code lies beside their weights (chatglm, hunyuan_v1_moe, baichuan), their repository on the hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GENERIC: Mapping[str, int] = {
    "matrices": 3, "tied": 0, "norms": 2, "norm_bias": 0, "qkv_bias": 0, "output_bias": 0, "mlp_bias": 0,
    "head_bias": 0, "expert_bias": 0, "head_norm": 0, "sinks": 0, "output_gate": 0, "positions": 0,
    "output_follows": 1, "shared_gate": 0, "score_bias": 0, "shared_as_routed": 0, "encodes": 0,
}  # fmt: skip
"""A decoder as Llama has it; `HABITS` says what differs.

`norm_bias`, `mlp_bias`, `head_bias`: 1 where these have biases. `positions`: 1 + spare rows of a learned table of
positions. `output_follows`: whether attention_bias means the output's, too. `shared_gate`, `score_bias`: of experts.
`shared_as_routed`: a shared expert as wide as a routed one. `encodes`: num_layers are the encoder's.
"""
LEGACY: Mapping[str, int] = {
    "matrices": 2, "tied": 1, "norm_bias": 1, "qkv_bias": 1, "output_bias": 1, "mlp_bias": 1, "positions": 1,
}  # fmt: skip
"""GPT-2 and those that are laid out as it is."""
BIASED: Mapping[str, int] = {**LEGACY, "tied": 0, "positions": 0}
UNGATED = ("gelu", "gelu_new", "gelu_fast", "relu", "relu2", "squared_relu", "gelu_pytorch_tanh", "quick_gelu", "xielu")
"""Activations of feed-forward layers without a gate, in classes that are not known."""

HABITS: Mapping[str, Mapping[str, int]] = {
    "llama": {}, "mistral": {}, "mistral3": {}, "ministral": {}, "mixtral": {},
    "qwen2": {"qkv_bias": 1},
    "qwen2_moe": {"qkv_bias": 1, "shared_gate": 1, "output_follows": 0},
    "qwen2_vl_text": {"qkv_bias": 1}, "qwen2_vl": {"qkv_bias": 1},
    "qwen2_5_vl_text": {"qkv_bias": 1}, "qwen2_5_vl": {"qkv_bias": 1},
    "qwen3": {"head_norm": 1},
    "qwen3_moe": {"head_norm": 1},
    "qwen3_vl_text": {"head_norm": 1}, "qwen3_vl_moe_text": {"head_norm": 1},
    "qwen3_next": {"head_norm": 1, "output_gate": 1, "shared_gate": 1},
    "qwen3_5_text": {"head_norm": 1, "output_gate": 1},
    "qwen3_5_moe_text": {"head_norm": 1, "output_gate": 1, "shared_gate": 1},
    "gemma": {"tied": 1},
    "gemma2": {"tied": 1, "norms": 4},
    "gemma3_text": {"tied": 1, "norms": 4, "head_norm": 1},
    "gpt_oss": {"qkv_bias": 1, "output_bias": 1, "expert_bias": 1, "sinks": 1},
    "minimax_m2": {"head_norm": 2},
    "deepseek_v2": {}, "minicpm3": {},
    "deepseek_v3": {"score_bias": 1}, "kimi_k2": {"score_bias": 1}, "kimi_k25": {"score_bias": 1},
    "kimi_linear": {"score_bias": 1},
    "glm_moe_dsa": {"score_bias": 1},
    "glm4_moe": {"qkv_bias": 1, "score_bias": 1, "output_follows": 0},
    "glm": {"qkv_bias": 1, "output_follows": 0}, "glm4": {"qkv_bias": 1, "norms": 4, "output_follows": 0},
    "chatglm": {"output_follows": 0},
    "phi3": {},
    "phimoe": {"qkv_bias": 1, "output_bias": 1, "norm_bias": 1, "head_bias": 1},
    "llama4_text": {"shared_as_routed": 1},
    "gpt2": LEGACY, "gpt_bigcode": LEGACY, "opt": {**LEGACY, "positions": 3},
    "gptj": {**BIASED, "qkv_bias": 0, "output_bias": 0, "head_bias": 1, "norms": 1},
    "gpt_neox": BIASED, "phi": {**BIASED, "head_bias": 1, "norms": 1},
    "gpt_neo": {**LEGACY, "qkv_bias": 0}, "biogpt": {**LEGACY, "positions": 3}, "xglm": {**LEGACY, "positions": 0},
    "persimmon": BIASED, "qwen": {"qkv_bias": 1}, "stablelm_epoch": {"norm_bias": 1},
    "codegen": {**BIASED, "qkv_bias": 0, "output_bias": 0, "head_bias": 1, "norms": 1},
    "bloom": {**LEGACY, "positions": 0},
    "falcon": {"matrices": 2, "tied": 1, "norm_bias": 1},
    "mpt": {"matrices": 2, "tied": 1},
    "dbrx": {},
    "starcoder2": {**LEGACY, "positions": 0},
    "stablelm": {"norm_bias": 1},
    "nemotron": {"matrices": 2, "norm_bias": 1},
    "cohere": {"tied": 1, "norms": 1}, "cohere2": {"tied": 1, "norms": 1},
    "olmo": {"norms": 0}, "olmo2": {"head_norm": 2}, "olmo3": {"head_norm": 2}, "olmoe": {"head_norm": 2},
    "granite": {}, "granitemoe": {}, "granitemoeshared": {}, "granitemoehybrid": {},
    "exaone": {}, "exaone4": {"head_norm": 1}, "smollm3": {"tied": 1}, "seed_oss": {"qkv_bias": 1},
    "internlm2": {}, "internlm3": {}, "baichuan": {}, "minicpm": {"tied": 1}, "arcee": {"matrices": 2},
    "apertus": {"matrices": 2, "head_norm": 1}, "ernie4_5": {"tied": 1}, "ernie4_5_moe": {"tied": 1, "score_bias": 1},
    "hunyuan_v1_moe": {"head_norm": 1}, "hunyuan_v1_dense": {"head_norm": 1},
    "dots1": {"head_norm": 1, "score_bias": 1},
    "bailing_moe": {}, "mimo": {"qkv_bias": 1},
    "mamba": {"tied": 1}, "mamba2": {"tied": 1}, "falcon_mamba": {"tied": 0},
    "jamba": {}, "bamba": {}, "nemotron_h": {"matrices": 2}, "lfm2": {"tied": 1, "head_norm": 1},
    "minimax": {}, "minimax_text_01": {},
    "t5": {"matrices": 2, "tied": 1, "encodes": 1}, "mt5": {"encodes": 1},
    "bart": {**LEGACY, "positions": 3}, "mbart": {**LEGACY, "positions": 3}, "whisper": LEGACY,
    "marian": {**LEGACY, "positions": 0}, "m2m_100": {**LEGACY, "positions": 0},
}  # fmt: skip
"""What each class has beside what its configuration states."""

ENCODERS = (
    "bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "deberta", "deberta-v2", "mpnet", "modernbert",
    "nomic_bert", "vit", "clip", "siglip", "siglip_vision_model", "wav2vec2", "hubert", "swin", "dinov2", "longformer",
)  # fmt: skip
"""Classes that make no tokens."""
_LLAMA = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32,
}  # fmt: skip
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "gemma": {"vocab_size": 256000, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256},
    "gemma2": {"vocab_size": 256000, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256},
    "gemma3_text": {
        "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window_pattern": 6,
    },
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "phimoe": {"num_local_experts": 16, "num_experts_per_tok": 2},
    "falcon": {"vocab_size": 65024, "multi_query": True, "parallel_attn": True},
    "gpt2": {"n_positions": 1024, "vocab_size": 50257}, "gpt_bigcode": {"n_positions": 1024, "multi_query": True},
    "gptj": {"rotary_dim": 64, "vocab_size": 50400}, "codegen": {"rotary_dim": 64},
    "mpt": {"expansion_ratio": 4, "alibi": True}, "cohere": {"vocab_size": 256000},
    "mamba": {"state_size": 16, "vocab_size": 50280}, "falcon_mamba": {"state_size": 16},
    "mamba2": {"state_size": 128, "head_dim": 64, "n_groups": 8},
    "jamba": {
        "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "num_experts": 16, "num_experts_per_tok": 2,
        "expert_layer_period": 2, "expert_layer_offset": 1, "attn_layer_period": 8, "attn_layer_offset": 4,
    },
    "t5": {"d_kv": 64}, "mt5": {"d_kv": 64},
    "opt": {"max_position_embeddings": 2048}, "bloom": {"vocab_size": 250880},
}  # fmt: skip
"""Defaults that published files leave out; sizes of the whole Llama class are those of a section alone."""
OF_SECTIONS: Mapping[str, Mapping[str, Any]] = {
    "llama": _LLAMA,
    "mistral": {**_LLAMA, "intermediate_size": 14336, "num_key_value_heads": 8, "head_dim": 128},
    "qwen2": {**_LLAMA, "vocab_size": 151936, "intermediate_size": 22016, "num_key_value_heads": 32},
}
"""The same of classes whose files are complete unless they are sections of another one (LLaVA's text_config)."""
