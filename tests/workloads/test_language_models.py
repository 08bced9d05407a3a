"""Language models from their own files: published totals of parameters, bytes of the cache, flop of a step."""

from __future__ import annotations

import contextlib
import json
import random
import struct
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.workloads.importers.configs.huggingface import from_config
from slipstick.workloads.language.language_model import Experts, LanguageModel
from slipstick.workloads.language.language_step import language_step
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import weight_bytes, weight_type
from slipstick.workloads.language_catalog import language_model, language_model_names, shipped_documents

PARAMETERS = {  # totals of the published checkpoints, and what a token visits
    "llama-2-7b": (6_738_415_616, None),
    "llama-2-70b": (68_976_648_192, None),
    "llama-3.1-8b": (8_030_261_248, None),
    "llama-3.1-70b": (70_553_706_496, None),
    "llama-3.1-405b": (405_853_388_800, None),
    "llama-3.2-1b": (1_235_814_400, None),
    "mistral-7b": (7_241_732_096, None),
    "mixtral-8x7b": (46_702_792_704, 12_879_925_248),
    "qwen2.5-7b": (7_615_616_512, None),
    "qwen3-8b": (8_190_735_360, None),
    "qwen3-32b": (32_762_123_264, None),
    "qwen3-30b-a3b": (30_532_122_624, 3_353_032_704),
    "qwen3-235b-a22b": (235_093_634_560, 22_190_763_520),
    "gpt-oss-120b": (116_829_156_672, None),
    "gpt-oss-20b": (20_914_757_184, None),
    "llama-3.2-3b": (3_212_749_824, None),
    "qwen2.5-0.5b": (494_032_768, None),
    "qwen2.5-3b": (3_085_938_688, None),
    "qwen2.5-32b": (32_763_876_352, None),
    "qwen2.5-72b": (72_706_203_648, None),
    "gemma-2-2b": (2_614_341_888, None),
    "gemma-2-9b": (9_241_705_984, None),
    "gemma-2-27b": (27_227_128_320, None),
    "gemma-3-1b": (999_885_952, None),
    "gemma-3-4b": (3_880_263_168, None),
    "mistral-7b-v0.3": (7_248_023_552, None),
    "mistral-nemo-12b": (12_247_782_400, None),
    "mistral-large-123b": (122_610_069_504, None),
    "phi-3-mini": (3_821_079_552, None),
    "phi-4": (14_659_507_200, None),
    "phi-4-mini": (3_836_021_760, None),
    "tinyllama-1.1b": (1_100_048_384, None),
    "smollm2-1.7b": (1_711_376_384, None),
    "codellama-34b": (33_743_970_304, None),
}
CARDS = {  # billions of parameters, and of those that a token visits, on the publishers' cards
    "qwen3-next-80b-a3b": (80, 3), "qwen3.5-27b": (27, 27), "qwen3.5-35b-a3b": (35, 3), "qwen3.5-122b-a10b": (122, 10),
    "glm-4.5": (355, 32),
}  # fmt: skip
CACHE_BYTES = {
    "llama-2-7b": 524_288,
    "llama-3.1-8b": 131_072,
    "llama-3.1-70b": 327_680,
    "llama-3.1-405b": 516_096,
    "qwen2.5-7b": 57_344,
    "qwen3-32b": 262_144,
    "qwen3-235b-a22b": 192_512,
    "gpt-oss-120b": 73_728,
    "deepseek-v3": 70_272,
}


@pytest.mark.parametrize(("name", "totals"), PARAMETERS.items())
def test_parameters_to_the_last_one(name: str, totals: tuple[int, int | None]) -> None:
    model = language_model(name)
    assert model.parameters == totals[0]
    if totals[1] is not None:
        assert model.active_parameters == totals[1]


@pytest.mark.parametrize(("name", "totals"), CARDS.items())
def test_parameters_as_cards_round_them(name: str, totals: tuple[int, int]) -> None:
    model = language_model(name)
    assert model.parameters == pytest.approx(totals[0] * 1e9, rel=0.012)
    assert model.active_parameters == pytest.approx(totals[1] * 1e9, abs=0.9e9 if totals[1] < 20 else 2e9)


def test_deepseek_v3() -> None:
    model = language_model("deepseek-v3")
    assert model.parameters == pytest.approx(671.03e9, rel=1e-4)
    assert model.active_parameters == pytest.approx(37.55e9, rel=1e-3)


@pytest.mark.parametrize(("name", "total", "active"), [("kimi-k2.5", 1.03e12, 32e9), ("glm-5", 744e9, 40e9)])
def test_latent_attention_before_many_experts(name: str, total: float, active: float) -> None:
    """The publishers' cards: a trillion and 744 billion parameters; the indexer of GLM-5's attention is not counted."""
    model = language_model(name)
    assert model.parameters == pytest.approx(total, rel=0.005)
    assert model.active_parameters == pytest.approx(active, rel=0.03)


def test_experts_of_four_bit_integers_are_read_from_the_configuration() -> None:
    """Kimi-K2.5's checkpoint is 595 GB: routed experts at 4.5 bits, all else at 16 (the publisher's files)."""
    model = language_model("kimi-k2.5")
    assert model.weights == "int4_experts"
    assert weight_bytes(model, weight_type(model.weights)) == pytest.approx(595e9, rel=0.03)


@pytest.mark.parametrize(
    ("name", "total", "active"), [("llama-4-scout-17b-16e", 109e9, 17e9), ("llama-4-maverick-17b-128e", 400e9, 17e9)]
)
def test_llama_4_shares_an_expert_of_the_routed_width(name: str, total: float, active: float) -> None:
    """Meta's model cards: 109B and 400B with 17B active; the text part lacks the 0.9B that see."""
    model = language_model(name)
    assert model.parameters == pytest.approx(total, rel=0.015)
    assert model.active_parameters == pytest.approx(active, rel=0.015)


@pytest.mark.parametrize(("name", "expected"), CACHE_BYTES.items())
def test_cache_bytes_of_a_token_in_16_bits(name: str, expected: int) -> None:
    assert language_model(name).cache_bytes() == expected


def test_head_size_is_a_number_of_its_own() -> None:
    assert [language_model(n).head_dim for n in ("qwen3-32b", "qwen3-235b-a22b", "gpt-oss-120b")] == [128, 128, 64]


def test_half_of_gpt_oss_stops_at_its_window() -> None:
    model = language_model("gpt-oss-120b")
    assert model.attended(100_000) == 18 * 100_000 + 18 * 128


def test_distinct_experts() -> None:
    experts = language_model("deepseek-v3").experts
    assert experts is not None
    assert [experts.distinct(b) for b in (1, 16, 64)] == pytest.approx([8, 102.0, 222.4], abs=0.06)


def test_bytes_of_405b() -> None:
    assert weight_bytes(language_model("llama-3.1-405b"), weight_type("bf16")) == pytest.approx(811.7e9, rel=1e-4)


def test_flop_of_8b() -> None:
    step = language_step(language_model("llama-3.1-8b"))

    def flop(**sizes: float) -> float:
        values = {"decodes": 0, "context": 1, "prompt": 0, "past": 0, "chunk": 1, "finished": 0, **sizes}
        return float(step.bind(**values).bound().cost["flop.matrix.bfloat16"])

    none, thousand = flop(decodes=1, context=0), flop(decodes=1, context=1000)
    assert none == pytest.approx(15.01e9, rel=1e-3)
    assert thousand - none == 524_288 * 1000
    assert flop(prompt=8192, chunk=8192, finished=1) == pytest.approx(131.9e12, rel=1e-3)


def test_every_shipped_model_has_a_source_and_a_step() -> None:
    for name in language_model_names():
        assert shipped_documents()[name]["source"]
        assert len(language_step(language_model(name))) > 8


CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072,
    "vocab_size": 151936, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_own_config(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    model = language_model(str(folder / "config.json"))
    assert model.name == "my-model"
    assert model.parameters == language_model("qwen3-0.6b").parameters
    assert language_model(str(folder)) == model


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "bert"}, "an encoder, which writes no tokens"),
        ({"hidden_size": "many"}, "hidden_size = 'many'"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9, "num_experts": 4, "num_experts_per_tok": 2}, "from 1 to 10,000"),
        ({"num_key_value_heads": 3}, "num_key_value_heads = 3: want a divisor of num_attention_heads = 16"),
        ({"vocab_size": None}, "vocab_size"),
        ({"num_experts": 4, "num_experts_per_tok": 9}, "num_experts_per_tok = 9: want at most experts = 4"),
        ({"num_key_value_heads": 0}, "num_key_value_heads = 0: want at least 1"),
        ({"head_dim": 0}, "head_dim = 0"),
        ({"num_experts": 4, "num_experts_per_tok": 0}, "num_experts_per_tok = 0: want at least 1"),
        ({"num_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 0}, "moe_intermediate_size = 0"),
        ({"use_sliding_window": True, "sliding_window": 0}, "sliding_window = 0"),
        ({"use_sliding_window": "no", "sliding_window": 8}, "use_sliding_window = 'no': want true or false"),
        ({"num_experts": 4, "num_experts_per_tok": 1, "mlp_only_layers": [28]}, r"mlp_only_layers = \[28\]"),
        ({"num_experts": 4, "num_experts_per_tok": 1, "decoder_sparse_step": 0}, "decoder_sparse_step = 0"),
        ({"num_experts": 4, "num_experts_per_tok": 1, "first_k_dense_replace": 29}, "first_k_dense_replace = 29"),
        (
            {"use_sliding_window": True, "sliding_window": 8, "layer_types": ["full_attention"]},
            "layer_types of 1 entries",
        ),
        ({"max_position_embeddings": 0}, "max_position_embeddings = 0"),
        ({"quantization_config": "fp8"}, "quantization_config = 'fp8'"),
    ],
)
def test_broken_configs_are_refused(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**CONFIG, **change}))
    with pytest.raises(InputError, match=words):
        language_model(str(path))


def test_all_that_is_wrong_of_a_configuration_is_said_at_once() -> None:
    wrong = {"num_key_value_heads": 0, "num_hidden_layers": 0, "vocab_size": 0, "num_experts_per_tok": 9}
    wrong |= {"intermediate_size": "wide"}
    with pytest.raises(InputError) as caught:
        from_config({**CONFIG, **wrong, "num_experts": 4}, "a config", "odd")
    for field in wrong:
        assert f"{field} = " in str(caught.value)
    assert str(caught.value).count("want") == 5
    with pytest.raises(InputError, match="kv_heads = 0: want at least 1; per_token = 9: want at most experts = 4"):
        LanguageModel("one", 2, 64, 8, 0, 8, 64, 100, experts=Experts(4, 9, 64))


def test_what_is_wrong_of_a_gguf_is_said_in_its_words(tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    path.write_bytes(gguf(TENSORS, {**FACTS, "llama.attention.head_count_kv": 0, "llama.block_count": 0}))
    with pytest.raises(InputError, match=r"llama.block_count = 0: .*llama.attention.head_count_kv = 0: want at least"):
        language_model(str(path))


FP8_CACHE = {"num_bits": 8, "type": "float", "dynamic": False}


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, ("", "")),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ("bf16", "fp8")),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, ("fp8", "modelopt")),
        ({"quant_method": "modelopt_fp4", "quant_algo": "NVFP4", "kv_cache_scheme": FP8_CACHE}, ("fp8", "modelopt")),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": None}, ("bf16", "modelopt")),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": FP8_CACHE}, ("fp8", "compressed-tensors")),
    ],
)
def test_the_cache_that_a_checkpoint_asks_for(stated: dict[str, object], expected: tuple[str, str]) -> None:
    quantised = {"quantization_config": stated} if stated else {}
    model = from_config({**CONFIG, **quantised}, "a config", "one")
    assert (model.cache, model.quantiser) == expected


def test_what_the_model_optimizer_writes_beside_a_config_counts(tmp_path: Path) -> None:
    """nvidia/Llama-3.1-8B-Instruct-FP8 keeps its quantisation in hf_quant_config.json alone."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    quantised = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    beside = {"producer": {"name": "modelopt", "version": "0.27.1"}, "quantization": quantised}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    model = language_model(str(tmp_path))
    assert (model.weights, model.cache, model.quantiser) == ("fp8", "fp8", "modelopt")
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"kv_cache_quant_algo": "FP7"}}))
    with pytest.raises(InputError, match="type of cache in quantization_config"):
        language_model(str(tmp_path))


def gguf(tensors: list[tuple[str, tuple[int, ...], int]], facts: dict[str, str | int]) -> bytes:
    """The header of a GGUF file, version 3."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    body = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    for key, value in facts.items():
        body += text(key)
        body += struct.pack("<I", 8) + text(value) if isinstance(value, str) else struct.pack("<II", 4, value)
    for name, shape, kind in tensors:
        body += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        body += struct.pack("<IQ", kind, 0)
    return body


FACTS: dict[str, str | int] = {
    "general.architecture": "llama", "general.name": "tiny", "llama.block_count": 2, "llama.embedding_length": 2048,
    "llama.attention.head_count": 32, "llama.attention.head_count_kv": 8, "llama.feed_forward_length": 8192,
    "llama.vocab_size": 1000,
}  # fmt: skip
TENSORS = [
    ("blk.0.ffn_up.weight", (2048, 8192), 12),
    ("blk.0.ffn_down.weight", (8192, 2048), 14),
    ("output.weight", (2048, 1000), 14),
]


def test_gguf_header(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf(TENSORS, FACTS))
    model = language_model(str(path))
    assert (model.layers, model.width, model.kv_heads, model.head_dim, model.tied) == (2, 2048, 8, 64, 0)
    kind = weight_type(model.weights)
    assert kind.linear == pytest.approx((4.5 + 6.5625) / 2, rel=1e-3)
    assert kind.rest == pytest.approx(6.5625, rel=1e-3)


@pytest.mark.parametrize("cut", [0, 3, 10, 40, 200])
def test_cut_gguf_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(gguf(TENSORS, FACTS)[:cut])
    with pytest.raises(InputError):
        language_model(str(path))


def test_layouts_that_cannot_be() -> None:
    dense, experts = language_model("llama-3.1-8b"), language_model("gpt-oss-120b")
    with pytest.raises(InputError, match="divisor"):
        Layout(tensor=5).check(dense)
    with pytest.raises(InputError, match="no experts"):
        Layout(tensor=2, expert=2).check(dense)
    Layout(tensor=2, data=4, expert=8).check(experts)


def test_a_config_is_a_workload_of_a_step(tmp_path: Path) -> None:
    from slipstick.workloads.catalog import workload

    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    step = workload(str(path))
    assert step.symbols == {"decodes", "context"}
    step.save(tmp_path / "step.json")
    assert workload(str(tmp_path / "step.json")).cost.keys() == step.cost.keys()
    assert workload("prompt:llama-3.1-8b").bind(prompt=8192, chunk=8192).bound().cost[
        "flop.matrix.bfloat16"
    ] == pytest.approx(131.9e12, rel=1e-3)


def test_damaged_files_end_in_a_model_or_in_one_line(tmp_path: Path) -> None:
    rng = random.Random(2)
    whole, path = gguf(TENSORS, FACTS), tmp_path / "damaged.gguf"
    odd = [0, -1, 10**12, 1.5, "x", None, True, [], {}, [1, 2], {"a": 1}, "gpt_oss"]
    more = ["layer_types", "mlp_only_layers", "decoder_sparse_step", "text_config", "quantization_config"]
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        changed = {**CONFIG, **{rng.choice([*CONFIG, *more]): rng.choice(odd) for _ in range(3)}}
        with contextlib.suppress(InputError):
            assert language_model(str(path)).parameters > 0
        with contextlib.suppress(InputError):
            assert from_config(changed, "a config", "odd").parameters > 0
