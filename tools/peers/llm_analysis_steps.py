"""python llm_analysis_steps.py CASES.csv PREDICTIONS.csv: llm-analysis on the training or serving cases.

In an environment of its own (pip install llm-analysis); Slipstick is not needed. Its default efficiencies are kept;
all numbers of models and devices come from the cases. Its links inside a node are given the nearest link's bandwidth.
"""

from __future__ import annotations

import logging
import sys

from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis
from llm_analysis.config import DtypeConfig, GPUConfig, ModelConfig, ParallelismConfig
from peer_files import predict_all

BITS = {"fp8": 8, "mxfp8": 8, "mxfp4": 4, "nvfp4": 4, "nvfp4_experts": 4}
RECOMPUTE = {
    "none": ActivationRecomputation.NONE,
    "selective": ActivationRecomputation.SELECTIVE,
    "full": ActivationRecomputation.FULL,
}


def predict(case: dict[str, str]) -> float:
    """Seconds of a training step, or of a further token."""
    experts = int(case["experts"])
    inner = int(case["expert_feed_forward"] if experts else case["feed_forward"])
    model = ModelConfig(
        name=case["model"],
        num_layers=int(case["layers"]),
        n_head=int(case["heads"]),
        hidden_dim=int(case["width"]),
        vocab_size=int(case["vocabulary"]),
        num_key_value_heads=int(case["kv_heads"]),
        ffn_embed_dim=inner,
        expansion_ratio=inner / int(case["width"]),
        moe_num_experts=max(experts, 1),
        moe_top_k=max(int(case["experts_per_token"]), 1),
        max_seq_len=1 << 20,
    )
    gpu = GPUConfig(
        name="device",
        mem_per_GPU_in_GB=float(case["capacity"]) / 1e9,
        hbm_bandwidth_in_GB_per_sec=float(case["bandwidth"]) / 1e9,
        intra_node_bandwidth_in_GB_per_sec=float(case["link_bandwidth"] or 1e11) / 1e9,
        intra_node_min_message_latency=8e-6,
        peak_fp16_TFLOPS=float(case["peak_flop_per_s"]) / 1e12,
    )
    tensor, pipeline = int(case["tensor"]), int(case["pipeline"])
    if "users" in case:
        bits = BITS.get(case["weights"], 16)
        layout = ParallelismConfig(tp_size=tensor, pp_size=pipeline, dp_size=int(case["replicas"]))
        analysis = LLMAnalysis(model, gpu, DtypeConfig("serving", bits, max(bits, 8), 16), layout)
        users = max(1, round(float(case["users"]) / int(case["replicas"])))
        tokens = round(float(case["output_tokens"]))
        found = analysis.inference(users, round(float(case["input_tokens"])), tokens)
        return float(found["decode_latency"])
    bits = BITS.get(case["precision"], 16)
    layout = ParallelismConfig(tp_size=tensor, pp_size=pipeline, dp_size=int(case["data"]) * int(case["context"]))
    analysis = LLMAnalysis(model, gpu, DtypeConfig("training", bits, bits, 16), layout)
    micro = int(case["micro"])
    accumulation = max(1, int(case["batch"]) // (micro * int(case["data"])))
    stage = DSZeRO(int(case["shard"]))
    found = analysis.training(
        batch_size_per_gpu=micro,
        gradient_accumulation_steps=accumulation,
        seq_len=int(case["sequence"]) // int(case["context"]),
        activation_recomputation=RECOMPUTE[case["recompute"]],
        ds_zero=stage,
    )
    return float(found["latency_per_iter"])


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    predict_all(sys.argv[1], sys.argv[2], predict)
