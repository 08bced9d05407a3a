"""Totals of parameters of published checkpoints from the fields of their configurations, to 1 %.

Each row: the configuration as it is published (fields that say sizes), the total, and where the total is printed. Cards
on huggingface.co print it as "Model size", from the checkpoint's tensors; others are the papers' or repositories'.
"""

from __future__ import annotations

from typing import Any

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.workloads.importers.configs.huggingface import from_config
from slipstick.workloads.language.language_step import language_step
from slipstick.workloads.language.weight_types import weight_bytes, weight_type


def sizes(width: int, layers: int, heads: int, kv: int, inner: int, vocabulary: int) -> dict[str, int]:
    """Under the names of most classes."""
    return {
        "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv,
        "intermediate_size": inner, "vocab_size": vocabulary,
    }  # fmt: skip


def gpt(width: int, layers: int, heads: int, vocabulary: int, positions: int) -> dict[str, int]:
    """Under the names of GPT-2."""
    return {
        "n_embd": width, "n_layer": layers, "n_head": heads, "vocab_size": vocabulary, "n_positions": positions,
    }  # fmt: skip


LATENT = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
KIMI_FULL = [4, 8, 12, 16, 20, 24, 27]
PUBLISHED: dict[str, tuple[str, dict[str, Any], float, str]] = {
    "gpt2": ("gpt2", gpt(768, 12, 12, 50257, 1024), 124_439_808, "OpenAI, gpt-2 (124M)"),
    "gpt2-medium": ("gpt2", gpt(1024, 24, 16, 50257, 1024), 354_823_168, "OpenAI, gpt-2 (355M)"),
    "gpt2-xl": ("gpt2", gpt(1600, 48, 25, 50257, 1024), 1_557_611_200, "OpenAI, gpt-2 (1558M)"),
    "gpt-j-6b": (
        "gptj", {**gpt(4096, 28, 16, 50400, 2048), "rotary_dim": 64, "tie_word_embeddings": False}, 6_050_882_784,
        "card of EleutherAI/gpt-j-6b, n_parameters",
    ),
    "gpt-neox-20b": (
        "gpt_neox", {**sizes(6144, 44, 64, 64, 24576, 50432), "tie_word_embeddings": False}, 20_554_567_680,
        "card of EleutherAI/gpt-neox-20b, n_parameters 20554567680",
    ),
    "pythia-6.9b": (
        "gpt_neox", {**sizes(4096, 32, 32, 32, 16384, 50432), "tie_word_embeddings": False}, 6_857_302_016,
        "card of EleutherAI/pythia-6.9b, total params",
    ),
    "pythia-410m": (
        "gpt_neox", {**sizes(1024, 24, 16, 16, 4096, 50304), "tie_word_embeddings": False}, 405_334_016,
        "card of EleutherAI/pythia-410m, total params",
    ),
    "opt-125m": (
        "opt", {**sizes(768, 12, 12, 12, 3072, 50272), "ffn_dim": 3072, "max_position_embeddings": 2048}, 125_239_296,
        "facebook/opt-125m (arXiv 2205.01068, table 1: 125M)",
    ),
    "opt-6.7b": (
        "opt", {**sizes(4096, 32, 32, 32, 16384, 50272), "max_position_embeddings": 2048}, 6.66e9,
        "arXiv 2205.01068, table 1: 6.7B; checkpoint of 13.3 GB in 16 bits",
    ),
    "bloom-560m": (
        "bloom", {"hidden_size": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880}, 559_214_592,
        "card of bigscience/bloom-560m: 559,214,592 parameters",
    ),
    "bloom-7b1": (
        "bloom", {"hidden_size": 4096, "n_layer": 30, "n_head": 32, "vocab_size": 250880}, 7_069_016_064,
        "card of bigscience/bloom-7b1: 7,069,016,064 parameters",
    ),
    "bloom-176b": (
        "bloom", {"hidden_size": 14336, "n_layer": 70, "n_head": 112, "vocab_size": 250880}, 176_247_271_424,
        "card of bigscience/bloom: 176,247,271,424 parameters",
    ),
    "falcon-7b": (
        "falcon",
        {**sizes(4544, 32, 71, 71, 18176, 65024), "multi_query": True, "parallel_attn": True, "bias": False},
        6_921_720_704, "checkpoint of tiiuae/falcon-7b, tied (card: 7.22B with the head apart)",
    ),
    "falcon-40b": (
        "falcon",
        {**sizes(8192, 60, 128, 8, 32768, 65024), "num_kv_heads": 8, "new_decoder_architecture": True, "bias": False},
        41.3e9, "arXiv 2311.16867, 40B; checkpoint 41.3B",
    ),
    "mpt-7b": (
        "mpt", {"d_model": 4096, "n_heads": 32, "n_layers": 32, "vocab_size": 50432, "expansion_ratio": 4}, 6.65e9,
        "card of mosaicml/mpt-7b: n_parameters 6.7B (6,649,286,656)",
    ),
    "dbrx": (
        "dbrx",
        {
            "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352, "attn_config": {"kv_n_heads": 8},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        },
        132e9, "card of databricks/dbrx-base: 132B, 36B active",
    ),
    "starcoder": (
        "gpt_bigcode", {**gpt(6144, 40, 48, 49152, 8192), "n_inner": 24576, "multi_query": True}, 15_517_456_384,
        "arXiv 2305.06161: 15.5B",
    ),
    "starcoder2-3b": (
        "starcoder2", {**sizes(3072, 30, 24, 2, 12288, 49152), "use_bias": True}, 3_030_371_328,
        "arXiv 2402.19173: 3B; card 3.03B",
    ),
    "starcoder2-7b": (
        "starcoder2", {**sizes(4608, 32, 36, 4, 18432, 49152), "use_bias": True}, 7.17e9,
        "card of bigcode/starcoder2-7b",
    ),
    "phi-2": (
        "phi", {**sizes(2560, 32, 32, 32, 10240, 51200), "tie_word_embeddings": False}, 2_779_683_840,
        "card of microsoft/phi-2: 2.78B",
    ),
    "phi-3.5-moe": (
        "phimoe",
        {**sizes(4096, 32, 32, 8, 6400, 32064), "num_local_experts": 16, "num_experts_per_tok": 2,
         "attention_bias": True, "lm_head_bias": True, "tie_word_embeddings": False},
        41_873_153_344, "card of microsoft/Phi-3.5-MoE-instruct: 41.9B, 6.6B active",
    ),
    "stablelm-2-1.6b": (
        "stablelm", {**sizes(2048, 24, 32, 32, 5632, 100352), "use_qkv_bias": True}, 1_644_417_024,
        "card of stabilityai/stablelm-2-1_6b: 1,644,417,024 parameters",
    ),
    "command-r": (
        "cohere", sizes(8192, 40, 64, 64, 22528, 256000), 34_980_831_232, "card of CohereForAI/c4ai-command-r-v01: 35B",
    ),
    "command-r7b": (
        "cohere2", {**sizes(4096, 32, 32, 8, 14336, 256000), "sliding_window": 4096, "sliding_window_pattern": 4},
        8_028_033_024, "card of CohereForAI/c4ai-command-r7b-12-2024: 8.03B",
    ),
    "olmo-7b": ("olmo", sizes(4096, 32, 32, 32, 11008, 50304), 6_888_095_744, "arXiv 2402.00838: 6.9B"),
    "olmo-2-7b": (
        "olmo2", sizes(4096, 32, 32, 32, 11008, 100352), 7_298_617_344, "card of allenai/OLMo-2-1124-7B: 7.3B",
    ),
    "olmoe-1b-7b": (
        "olmoe", {**sizes(2048, 16, 16, 16, 1024, 50304), "num_experts": 64, "num_experts_per_tok": 8}, 6_919_161_856,
        "arXiv 2409.02060: 6.9B, 1.3B active",
    ),
    "granite-3.1-8b": (
        "granite", {**sizes(4096, 40, 32, 8, 12800, 49155), "tie_word_embeddings": True}, 8_170_848_256,
        "card of ibm-granite/granite-3.1-8b-base: 8.1B",
    ),
    "granite-3.1-3b-a800m": (
        "granitemoe",
        {**sizes(1536, 32, 24, 8, 512, 49155), "num_local_experts": 40, "num_experts_per_tok": 8,
         "tie_word_embeddings": True},
        3.30e9, "card of ibm-granite/granite-3.1-3b-a800m-base: 3.3B",
    ),
    "glm-4-9b": (
        "chatglm",
        {"hidden_size": 4096, "num_layers": 40, "num_attention_heads": 32, "kv_channels": 128,
         "multi_query_attention": True, "multi_query_group_num": 2, "ffn_hidden_size": 13696,
         "padded_vocab_size": 151552, "add_qkv_bias": True, "add_bias_linear": False},
        9_399_951_360, "card of THUDM/glm-4-9b: 9.4B",
    ),
    "baichuan2-7b": ("baichuan", sizes(4096, 32, 32, 32, 11008, 125696), 7_505_973_248, "arXiv 2309.10305: 7B"),
    "internlm2-7b": (
        "internlm2", sizes(4096, 32, 32, 8, 14336, 92544), 7_737_708_544, "card of internlm/internlm2-7b: 7.74B",
    ),
    "yi-34b": ("llama", sizes(7168, 60, 56, 8, 20480, 64000), 34_388_917_248, "card of 01-ai/Yi-34B: 34.4B"),
    "seed-oss-36b": (
        "seed_oss", {**sizes(5120, 64, 80, 8, 27648, 155136), "head_dim": 128, "attention_bias": True}, 36_151_104_512,
        "card of ByteDance-Seed/Seed-OSS-36B-Base: 36B",
    ),
    "smollm3-3b": (
        "smollm3", {**sizes(2048, 36, 16, 4, 11008, 128256)}, 3_075_098_624, "card of HuggingFaceTB/SmolLM3-3B: 3.08B",
    ),
    "minitron-8b": (
        "nemotron", {**sizes(4096, 32, 48, 8, 16384, 256000), "head_dim": 128}, 8.27e9,
        "card of nvidia/Minitron-8B-Base",
    ),
    "hunyuan-a13b": (
        "hunyuan_v1_moe",
        {**sizes(4096, 32, 32, 8, 3072, 128167), "attention_head_dim": 128, "num_experts": 64, "moe_topk": [8] * 32,
         "num_shared_expert": [1] * 32, "moe_intermediate_size": [3072] * 32, "use_qk_norm": True,
         "tie_word_embeddings": True},
        80.4e9, "card of tencent/Hunyuan-A13B-Instruct: 80B, 13B active",
    ),
    "ernie-4.5-21b-a3b": (
        "ernie4_5_moe",
        {**sizes(2560, 28, 20, 4, 12288, 103424), "moe_num_experts": 64, "moe_k": 6, "moe_num_shared_experts": 2,
         "moe_intermediate_size": 1536, "moe_layer_start_index": 1, "tie_word_embeddings": True},
        21.8e9, "card of baidu/ERNIE-4.5-21B-A3B-Base-PT: 21B (21.8B of tensors)",
    ),
    "dots.llm1": (
        "dots1",
        {**sizes(4096, 62, 32, 32, 10944, 152064), "n_routed_experts": 128, "n_shared_experts": 2,
         "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "first_k_dense_replace": 1},
        142.8e9, "arXiv 2506.05767: 142B, 14B active",
    ),
    "moonlight-16b-a3b": (
        "deepseek_v3",
        {**sizes(2048, 27, 16, 16, 11264, 163840), **LATENT, "q_lora_rank": None, "n_routed_experts": 64,
         "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "first_k_dense_replace": 1},
        15.96e9, "card of moonshotai/Moonlight-16B-A3B: 16B",
    ),
    "deepseek-v2": (
        "deepseek_v2",
        {**sizes(5120, 60, 128, 128, 12288, 102400), **LATENT, "q_lora_rank": 1536, "n_routed_experts": 160,
         "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1536, "first_k_dense_replace": 1},
        235.7e9, "arXiv 2405.04434: 236B, 21B active",
    ),
    "mamba-130m": (
        "mamba", {"hidden_size": 768, "num_hidden_layers": 24, "state_size": 16, "vocab_size": 50280}, 129_135_360,
        "arXiv 2312.00752, table 12: 130M; state-spaces/mamba-130m-hf 129,135,360",
    ),
    "mamba-2.8b": (
        "mamba",
        {"hidden_size": 2560, "intermediate_size": 5120, "num_hidden_layers": 64, "state_size": 16,
         "time_step_rank": 160, "vocab_size": 50280},
        2_768_345_600, "state-spaces/mamba-2.8b-hf: 2,768,345,600",
    ),
    "falcon-mamba-7b": (
        "falcon_mamba",
        {"hidden_size": 4096, "intermediate_size": 8192, "num_hidden_layers": 64, "state_size": 16,
         "time_step_rank": 256, "vocab_size": 65024, "tie_word_embeddings": False},
        7_272_665_088, "card of tiiuae/falcon-mamba-7b: 7.27B",
    ),
    "mamba2-2.7b": (
        "mamba2",
        {"hidden_size": 2560, "num_hidden_layers": 64, "state_size": 128, "num_heads": 80, "head_dim": 64,
         "n_groups": 1, "expand": 2, "vocab_size": 50288, "tie_word_embeddings": True},
        2.70e9, "state-spaces/mamba2-2.7b (arXiv 2405.21060): 2.7B",
    ),
    "jamba-v0.1": (
        "jamba",
        {**sizes(4096, 32, 32, 8, 14336, 65536), "num_experts": 16, "num_experts_per_tok": 2, "mamba_dt_rank": 256},
        51.6e9, "arXiv 2403.19887: 52B (51.6B of tensors), 12B active",
    ),
    "nemotron-h-8b": (
        "nemotron_h",
        {**sizes(4096, 52, 32, 8, 21504, 131072), "head_dim": 128, "mamba_num_heads": 128, "mamba_head_dim": 64,
         "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4, "expand": 2,
         "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"},
        8.10e9, "arXiv 2504.03624: 8B (card 8.1B)",
    ),
    "kimi-linear-48b-a3b": (
        "kimi_linear",
        {**sizes(2304, 27, 32, 32, 9216, 163840), **LATENT, "head_dim": 72, "q_lora_rank": None, "num_experts": 256,
         "num_experts_per_token": 8, "num_shared_experts": 1, "moe_intermediate_size": 1024,
         "first_k_dense_replace": 1,
         "linear_attn_config": {"full_attn_layers": KIMI_FULL, "head_dim": 128, "num_heads": 32,
                                "kda_layers": [i for i in range(1, 28) if i not in KIMI_FULL],
                                "short_conv_kernel_size": 4}},
        49.1e9, "card of moonshotai/Kimi-Linear-48B-A3B-Base: 48B (49.1B of tensors), 3B active",
    ),
    "t5-small": (
        "t5", {"d_model": 512, "d_ff": 2048, "d_kv": 64, "num_heads": 8, "num_layers": 6, "num_decoder_layers": 6,
               "vocab_size": 32128, "is_encoder_decoder": True, "feed_forward_proj": "relu"},
        60_506_624, "google-t5/t5-small: 60.5M",
    ),
    "flan-t5-xl": (
        "t5", {"d_model": 2048, "d_ff": 5120, "d_kv": 64, "num_heads": 32, "num_layers": 24, "num_decoder_layers": 24,
               "vocab_size": 32128, "is_encoder_decoder": True, "feed_forward_proj": "gated-gelu",
               "tie_word_embeddings": False},
        2_849_757_184, "google/flan-t5-xl: 2.85B",
    ),
    "bart-large": (
        "bart", {"d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "encoder_ffn_dim": 4096,
                 "decoder_ffn_dim": 4096, "encoder_attention_heads": 16, "decoder_attention_heads": 16,
                 "vocab_size": 50265, "max_position_embeddings": 1024, "is_encoder_decoder": True},
        406_291_456, "facebook/bart-large: 406M",
    ),
    "whisper-large-v3": (
        "whisper", {"d_model": 1280, "encoder_layers": 32, "decoder_layers": 32, "encoder_ffn_dim": 5120,
                    "decoder_ffn_dim": 5120, "encoder_attention_heads": 20, "decoder_attention_heads": 20,
                    "vocab_size": 51866, "num_mel_bins": 128, "max_source_positions": 1500,
                    "max_target_positions": 448, "is_encoder_decoder": True},
        1_543_490_560, "card of openai/whisper-large-v3: 1550 M; 1.54B of tensors",
    ),
    "gemma-3-4b": (
        "gemma3",
        {"text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
                         "num_hidden_layers": 34, "sliding_window": 1024},
         "vision_config": {"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "patch_size": 14,
                           "num_attention_heads": 16, "num_hidden_layers": 27}},
        4_300_079_472, "card of google/gemma-3-4b-it: 4.3B of tensors",
    ),
    "llava-1.5-7b": (
        "llava",
        {"text_config": {"model_type": "llama", "vocab_size": 32064},
         "vision_config": {"hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "num_hidden_layers": 24,
                           "patch_size": 14, "num_attention_heads": 16}},
        7_063_427_072, "card of llava-hf/llava-1.5-7b-hf: 7.06B",
    ),
    "pixtral-12b": (
        "llava",
        {"text_config": {"model_type": "mistral", "hidden_size": 5120, "head_dim": 128, "intermediate_size": 14336,
                         "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8,
                         "vocab_size": 131072, "sliding_window": None},
         "vision_config": {"hidden_size": 1024, "head_dim": 64, "image_size": 1024, "intermediate_size": 4096,
                           "num_hidden_layers": 24, "patch_size": 16, "num_attention_heads": 16,
                           "hidden_act": "silu"}},
        12.68e9, "card of mistral-community/pixtral-12b: 12.7B",
    ),
    "gpt-neo-1.3b": (
        "gpt_neo", {"hidden_size": 2048, "num_layers": 24, "num_heads": 16, "vocab_size": 50257, "window_size": 256,
                    "max_position_embeddings": 2048, "intermediate_size": None},
        1_315_575_808, "EleutherAI/gpt-neo-1.3B: 1.3B, by its matrices",
    ),
    "codegen-350m": (
        "codegen", {**gpt(1024, 20, 16, 51200, 2048), "rotary_dim": 32, "n_inner": None, "tie_word_embeddings": False},
        356_712_448, "Salesforce/codegen-350M-mono: 350M, by its matrices",
    ),
    "xglm-564m": (
        "xglm", {"d_model": 1024, "num_layers": 24, "attention_heads": 16, "ffn_dim": 4096, "vocab_size": 256008,
                 "max_position_embeddings": 2048, "activation_function": "gelu"},
        564_463_616, "arXiv 2112.10668: 564M, by its matrices",
    ),
    "biogpt": (
        "biogpt", {**sizes(1024, 24, 16, 16, 4096, 42384), "max_position_embeddings": 1024, "hidden_act": "gelu"},
        346_763_264, "arXiv 2210.10341: 347M, by its matrices",
    ),
    "qwen-7b": (
        "qwen", {**sizes(4096, 32, 32, 32, 22016, 151936), "kv_channels": 128, "no_bias": True,
                 "tie_word_embeddings": False},
        7_721_324_544, "card of Qwen/Qwen-7B: 7.7B, by its matrices",
    ),
    "nllb-200-distilled-600m": (
        "m2m_100", {"d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "encoder_ffn_dim": 4096,
                    "decoder_ffn_dim": 4096, "encoder_attention_heads": 16, "decoder_attention_heads": 16,
                    "vocab_size": 256206, "max_position_embeddings": 1024, "is_encoder_decoder": True},
        615_073_792, "arXiv 2207.04672: 600M, by its matrices",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_totals_to_one_percent(name: str) -> None:
    kind, fields, total, source = PUBLISHED[name]
    model = from_config({"model_type": kind, **fields}, name, name)
    assert model.parameters == pytest.approx(total, rel=0.01), source


GIB = 2**30
QWEN_8B = {"model_type": "qwen3", **sizes(4096, 36, 32, 8, 12288, 151936), "head_dim": 128}


@pytest.mark.parametrize(
    ("quantised", "expected"),
    [
        ({"quant_method": "fp8", "modules_to_not_convert": ["lm_head", "model.layers.0.mlp.gate"]}, "fp8"),
        ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]},
         "fp8 (0.604% in 16 bits)"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["re:.*self_attn.*"]}, "fp8 (21.7% in 16 bits)"),
        ({"quant_method": "compressed-tensors", "format": "float-quantized",
          "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}, "ignore": ["lm_head"]}, "fp8"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}}}, "int8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
        ({"quant_method": "awq", "bits": 4}, "int4"),
    ],
)  # fmt: skip
def test_what_a_checkpoint_leaves_in_16_bits_counts(quantised: dict[str, Any], expected: str) -> None:
    """Attention of Qwen3-8B holds 41.9 of its 192.9 million weights a layer."""
    assert from_config({**QWEN_8B, "quantization_config": quantised}, "one", "one").weights == expected


def test_a_quantiser_that_is_not_known_is_named() -> None:
    model = from_config({**QWEN_8B, "quantization_config": {"quant_method": "aqlm"}}, "one", "one")
    assert "'aqlm' are counted in 16 bits" in model.stands_for


def test_the_published_fp8_checkpoint_of_405b_keeps_its_attention() -> None:
    """vllm-project/vllm#6746: 57.752 GiB of weights on each of eight H100."""
    from slipstick.workloads.language.weight_types import stored_as
    from slipstick.workloads.language_catalog import language_model

    model = language_model("llama-3.1-405b")
    assert weight_bytes(model, weight_type(stored_as(model, "fp8"))) / 8 == pytest.approx(57.752 * GIB, rel=0.03)


def test_experts_of_gpt_oss_stay_in_four_bits_in_a_gguf_of_16() -> None:
    """ggml-org/llama.cpp, discussion 15396: gpt-oss-20b F16 is a file of 13.8 GB."""
    from slipstick.estimators.serving.llama_cpp_run import as_stored
    from slipstick.workloads.language_catalog import language_model

    model = language_model("gpt-oss-20b")
    assert weight_bytes(model, weight_type(as_stored(model, "fp16"))) == pytest.approx(13.8e9, rel=0.02)


def test_a_class_that_is_not_known_is_laid_out_by_its_fields_and_says_so() -> None:
    fields = {**sizes(4096, 32, 32, 8, 14336, 128256), "memory_heads": 4, "num_loop_layers": 3}
    model = from_config({"model_type": "llamoid", **fields}, "one", "one")
    assert model.parameters == 8_030_261_248
    assert "model_type 'llamoid' is not known" in model.stands_for
    assert "memory_heads = 4, num_loop_layers = 3" in model.stands_for
    with pytest.raises(InputError, match="num_attention_heads differs from layer to layer"):
        from_config({"model_type": "openelm", **fields, "num_attention_heads": [12, 16]}, "one", "one")


def test_layers_that_keep_a_state_are_named_and_their_band_is_wider() -> None:
    kind, fields, *_ = PUBLISHED["mamba-2.8b"]
    model = from_config({"model_type": kind, **fields}, "one", "one")
    assert "64 layers of Mamba are counted by bytes and flop alone" in model.stands_for
    assert (model.cache_bytes(), model.unmeasured > 0) == (0.0, True)
    step = ss.question(language_step(model, purpose="decode"), "h100-sxm").answer()  # as wide as `serve`
    assert 1.2816 * (step.spread.total or 0.0) >= model.unmeasured
    assert any("Mamba" in one.value for one in step.conditions)
    with pytest.raises(InputError, match="an encoder, which writes no tokens"):
        from_config({"model_type": "roberta", **fields}, "one", "one")


def by_hand(kind: str, c: dict[str, Any]) -> int | None:
    """The weights of dense kinds, matrix by matrix as their papers draw them; None of the others."""
    vocabulary, width = c.get("vocab_size"), c.get("hidden_size", c.get("n_embd"))
    layers = c.get("num_hidden_layers", c.get("n_layer", c.get("num_layers")))
    if vocabulary is None or width is None or layers is None:
        return None
    matrices, norm = 12 * width * width, 2 * width  # attention and twice four widths; scale and shift
    biased = layers * (matrices + 9 * width + 2 * norm) + norm
    classic = {
        "gpt2": (vocabulary + c.get("n_positions", 0)) * width + biased,
        "gpt_neox": 2 * vocabulary * width + biased,
        "bloom": vocabulary * width + norm + biased,
        "opt": (vocabulary + c.get("max_position_embeddings", 0) + 2) * width + biased,
        "gptj": 2 * vocabulary * width + vocabulary + layers * (matrices + 5 * width + norm) + norm,
        "codegen": 2 * vocabulary * width + vocabulary + layers * (matrices + 5 * width + norm) + norm,
        "gpt_neo": (vocabulary + c.get("max_position_embeddings", 0)) * width + biased - layers * 3 * width,
        "biogpt": (vocabulary + 2 + c.get("max_position_embeddings", 0)) * width + biased,
        "qwen": 2 * vocabulary * width + layers * (4 * width**2 + 3 * width * 11008 + 5 * width) + width,
        "phi": 2 * vocabulary * width + vocabulary + layers * (matrices + 9 * width + norm) + norm,
    }
    if kind in classic:
        return classic[kind]
    gated = ("llama", "internlm2", "baichuan", "granite", "smollm3", "seed_oss", "olmo", "olmo2", "cohere")
    if kind not in gated:
        return None
    head = c.get("head_dim") or width // c["num_attention_heads"]
    queries, keys = head * c["num_attention_heads"], head * c.get("num_key_value_heads", c["num_attention_heads"])
    tied = kind in ("granite", "smollm3", "cohere")
    layer = 2 * width * (queries + keys) + 3 * width * c["intermediate_size"]
    layer += {"olmo": 0, "cohere": width}.get(kind, 2 * width)
    layer += {"olmo2": queries + keys, "seed_oss": queries + 2 * keys}.get(kind, 0)
    return (1 if tied else 2) * vocabulary * width + layers * layer + (width if kind != "olmo" else 0)


def test_published_totals_are_what_their_matrices_add_up_to() -> None:
    known = {name: (by_hand(kind, fields), total) for name, (kind, fields, total, _) in PUBLISHED.items()}
    counted = {name: (made, total) for name, (made, total) in known.items() if made is not None}
    rounded = {"opt-6.7b"}  # the paper prints two digits
    assert {name: made for name, (made, total) in counted.items() if made != total and name not in rounded} == {}
    assert len(counted) >= 20
