"""Tables of operators in the columns of two public simulators: what they sum up to is the step."""

import csv
from pathlib import Path

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.errors import InputError

READ_BY_VIDUR = {
    "mlp.csv": [
        *(f"time_stats.{name}.median" for name in (
            "attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj", "mlp_act", "input_layernorm",
            "post_attention_layernorm", "attn_rope", "add",
        )),
        "num_tokens", "n_head", "n_kv_head", "n_embd", "n_expanded_embd", "use_gated_mlp", "vocab_size",
        "num_tensor_parallel_workers",
    ],
    "attention.csv": [
        "time_stats.attn_prefill.median", "time_stats.attn_decode.median", "time_stats.attn_kv_cache_save.median",
        "n_embd", "n_q_head", "n_kv_head", "block_size", "num_tensor_parallel_workers", "batch_size",
        "prefill_chunk_size", "kv_cache_size",
    ],
    "all_reduce.csv": ["time_stats.all_reduce.median", "num_workers", "devices_per_node", "collective", "size"],
}  # fmt: skip
"""microsoft/vidur 7d47513, vidur/execution_time_predictor/: what its sklearn predictor loads."""


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def _found(rows: list[dict[str, str]], column: str, **wanted: object) -> float:
    return next(float(row[column]) for row in rows if all(row[name] == str(value) for name, value in wanted.items()))


def test_a_step_of_vidur_sums_to_ours(tmp_path: Path) -> None:
    step = ss.oracle("llama-3.1-8b", "h100-sxm", "vllm 0.19.0", devices=2)
    assert [file.name for file in ss.write_profile(step, tmp_path, "vidur")] == list(READ_BY_VIDUR)
    tables = {name: _rows(tmp_path / name) for name in READ_BY_VIDUR}
    for name, columns in READ_BY_VIDUR.items():
        assert set(columns) <= set(tables[name][0])
    for decodes, context in ((1, 512), (16, 2048), (128, 4096)):
        products = [f"time_stats.{name.split('.')[1]}.median" for name in READ_BY_VIDUR["mlp.csv"][:9]]
        layer = sum(_found(tables["mlp.csv"], name, num_tokens=decodes) for name in products)
        layer += 2 * _found(tables["all_reduce.csv"], "time_stats.all_reduce.median", size=decodes * 4096 * 2)
        decode = {"batch_size": decodes, "kv_cache_size": context, "prefill_chunk_size": 0}
        layer += _found(tables["attention.csv"], "time_stats.attn_decode.median", **decode)
        assert 32 * layer / 1e3 == pytest.approx(step(decodes, context).seconds, rel=0.03)
    layer = sum(_found(tables["mlp.csv"], name, num_tokens=512) for name in products)
    layer += 2 * _found(tables["all_reduce.csv"], "time_stats.all_reduce.median", size=512 * 4096 * 2)
    prompt = {"prefill_chunk_size": 512, "kv_cache_size": 1024}
    layer += _found(tables["attention.csv"], "time_stats.attn_prefill.median", **prompt)
    assert 32 * layer / 1e3 == pytest.approx(step(0, 0, 512, past=1024).seconds, rel=0.03)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b"])
def test_a_step_of_llmservingsim_sums_to_ours(tmp_path: Path, model: str) -> None:
    step = ss.oracle(model, "h100-sxm", "vllm 0.19.0")
    ss.write_profile(step, tmp_path, "llmservingsim")
    dense, attention = _rows(tmp_path / "tp1/dense.csv"), _rows(tmp_path / "tp1/attention.csv")
    heads = _rows(tmp_path / "tp1/per_sequence.csv")
    experts = model.startswith("qwen")
    layers, twice, once = 48 if experts else 32, ("layernorm",), ("embedding", "final_layernorm")
    for decodes, context, chunk in ((1, 512, 0), (16, 2048, 0), (128, 4096, 128), (64, 1024, 2048 - 64)):
        tokens = min((int(row["tokens"]) for row in dense), key=lambda n: abs(n - decodes - chunk))
        layer = sum(
            float(row["time_us"]) * (2 if row["layer"] in twice else 1)
            for row in dense
            if int(row["tokens"]) == tokens and row["layer"] not in once
        )
        nearest = 2048 if chunk > 1000 else chunk
        at = {"prefill_chunk": nearest, "kv_prefill": 0, "n_decode": decodes, "kv_decode": context}
        layer += _found(attention, "time_us", **at)
        if experts:
            moe = [row for row in _rows(tmp_path / "tp1/moe.csv") if int(row["tokens"]) == tokens]
            known = ([float(row["activated_experts"]) for row in moe], [float(row["time_us"]) for row in moe])
            layer += float(np.interp(128 * (1 - (1 - 8 / 128) ** tokens), *known))
        whole = sum(_found(dense, "time_us", layer=name, tokens=tokens) for name in once)
        whole += sum(_found(heads, "time_us", layer=name, sequences=decodes) for name in ("lm_head", "sampler"))
        ours = step(decodes, context, chunk).seconds
        assert (layers * layer + whole) / 1e6 == pytest.approx(ours, rel=0.06)


def test_what_a_simulator_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="qwen3-30b-a3b: Vidur's tables hold dense layers"):
        ss.write_profile(ss.oracle("qwen3-30b-a3b", "h100-sxm"), tmp_path, "vidur")
    with pytest.raises(InputError, match=r"unknown simulator 'genz'.*vidur, llmservingsim"):
        ss.write_profile(ss.oracle("llama-3.1-8b", "h100-sxm"), tmp_path, "genz")
    assert list(tmp_path.iterdir()) == []
