"""Kernels of serving that Frontier's profiler timed, by the default answer: no row of them is in any fit.

NetX-lab/Frontier timed vLLM's kernels alone on an H800 (Llama 3.1 405B with FP8 weights, Llama 2 7B), and FlashInfer's
attention on an H100 with whatever starts it, in whole microseconds: these are not mixed. Of other models in its tables
the head size is not stated. What is marked as faster than reading the cache is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from slipstick.common.frames import csv_frame
from slipstick.experiments.scoreboards.gpu.other_programs import scored_operations
from slipstick.experiments.scoring.score import Data, Scored
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.op import Op
from slipstick.workloads.layers.single import gemm

if TYPE_CHECKING:
    import pandas as pd

LINEAR, ATTENTION = "gpu/frontier/linear.csv.gz", "gpu/frontier/attention.csv.gz"
HEAD = 128
"""Numbers a head of each model below (their config.json)."""
TYPES = {"Llama-3.1-405B-Instruct-FP8": "float8", "llama2_7b_dense_example": "float16"}
"""Models whose head size is known, and the type of their products."""
MACHINES = {"h800": "h800-sxm", "h100": "h100-sxm", "a100": "a100-sxm-80gb"}
PRODUCTS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
EVERY = 8
"""So many rows apart are scored: neighbours in tokens are alike."""


def rows(data: Data) -> Iterator[Scored]:
    """Products, decode and prefill attention by device."""
    frame = _plain(csv_frame(data.judged(LINEAR)))
    for (device, model), part in frame[frame["operation"].isin(PRODUCTS)].groupby(["device", "model"]):
        mine = part.iloc[::EVERY]
        products = [_product(row, TYPES[str(model)]) for row in mine.itertuples()]
        yield from scored_operations(
            f"products of {model}, H800", machine(MACHINES[str(device)]), products, mine["time_s"]
        )
    frame = _plain(csv_frame(data.judged(ATTENTION)), "qwen2_moe_example")
    one = frame["file"] != "attention_combined_kernel_only"  # those mix sequences that are read and decoded
    for (device, name), part in frame[one].groupby(["device", "operation"]):
        if name in ("attn_decode", "attn_prefill"):
            mine = part.iloc[::EVERY]
            made = [_attention(row) for row in mine.itertuples()]
            what = f"{str(name).removeprefix('attn_')} attention, {str(device).upper()}"
            yield from scored_operations(what, machine(MACHINES[str(device)]), made, mine["time_s"])


def _plain(frame: pd.DataFrame, *more: str) -> pd.DataFrame:
    known = frame["model"].isin([*TYPES, *more]) & frame["device"].isin(list(MACHINES))
    return frame[known & frame["suspicious"].isna() & (frame["time_s"] > 0)]


def _product(row: Any, dtype: str) -> Op:
    """A product of a layer under tensor parallelism; a gated network's first product makes both halves."""
    ways, width, inner = row.num_tensor_parallel_workers, row.n_embd, row.n_expanded_embd
    features, inputs = {
        "attn_pre_proj": ((row.n_head + 2 * max(row.n_kv_head, ways)) * HEAD / ways, width),
        "attn_post_proj": (width, row.n_head * HEAD / ways),
        "mlp_up_proj": (2 * inner / ways, width),
        "mlp_down_proj": (width, inner / ways),
    }[row.operation]
    return gemm("product", float(features), float(row.num_tokens), float(inputs), dtype=dtype)


def _attention(row: Any) -> Op:
    """Sequences of one length: their new tokens read the cache and themselves."""
    ways, queries = row.num_tensor_parallel_workers, max(1, row.prefill_chunk_size)
    heads = {"heads": row.n_q_head / ways, "kv_heads": max(1, row.n_kv_head / ways)}
    sizes = {"queries": queries, "keys": row.kv_cache_size + queries, "head_dim": HEAD, "value_dim": HEAD}
    causal = row.operation == "attn_prefill"
    return operation(
        "attention", "attention", {"batch": row.batch_size, **heads, **sizes}, "bfloat16", {"causal": causal}
    )
