"""Decoders and their cache of keys and values, against the parameters published and closed forms."""

from __future__ import annotations

import pytest

import slipstick as ss
from slipstick.workloads.networks.llama import llama

# Parameters of the published weights: huggyllama/llama-7b, meta-llama/Meta-Llama-3-8B.
PUBLISHED = {"llama-7b": 6_738_415_616, "llama-3-8b": 8_030_261_248}
KV_WIDTH = {"llama-7b": 4096, "llama-3-8b": 8 * 128}
FEED_FORWARD = {"llama-7b": 11_008, "llama-3-8b": 14_336}
VOCABULARY = {"llama-7b": 32_000, "llama-3-8b": 128_256}


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("batch", [1, 16])
def test_a_step_reads_the_weights_and_the_cache(name: str, batch: int) -> None:
    step = ss.workload(f"{name}-decode").bind(batch=batch, seq_len=4096)
    assert step.metadata["parameters"] == PUBLISHED[name]
    table = VOCABULARY[name] * 4096  # of which a step reads one row a sequence
    weights = PUBLISHED[name] - table - 65 * 4096  # of products: there are 65 norms
    cache = 2 * 32 * KV_WIDTH[name] * 4096
    layer = 23 * 4096 + 8 * KV_WIDTH[name] + 8 * FEED_FORWARD[name] + 8  # what goes in and out of its operations
    ends = 5 * 4096 + 4 + VOCABULARY[name]
    assert step.cost.bytes_moved == 2 * weights + batch * (2 * (cache + 32 * layer + ends) + 8)
    assert 2 * (32 * layer + ends) < 0.002 * 2 * weights  # weights and cache are all there is to see
    (flop,) = (amount for resource, amount in step.cost.items() if resource.startswith("flop.matrix."))
    assert flop == 2 * batch * (weights + 2 * 32 * 4096 * 4096)  # two products a layer with the cache, 4096 wide


def test_one_sequence_is_bound_by_main_memory() -> None:
    # 13.21 GB of weights and 0.54 GB of cache at the data sheet's 2,039 GB/s: 148 words a second at the best
    step = ss.workload("llama-7b-decode").bind(batch=1, seq_len=1024)
    answer = ss.estimator("roofline").estimate(
        step, ss.machine("a100-sxm-80gb").using(**{"runtime.launch_overhead": 0})
    )
    assert 1 / answer.time == pytest.approx(148, rel=0.01)
    shares = sum(part.contribution for part in answer.parts if part.bound_by == "memory") / answer.time
    assert shares > 0.999


def test_a_prompt_does_the_work_of_its_words_at_once() -> None:
    one, prompt = llama("decode", layers=2), llama("inference", layers=2)
    words = {"batch": 1, "seq_len": 512}
    each, whole = one.bind(**words), prompt.bind(**words)
    assert whole.cost["flop.matrix.float16"] == 512 * each.cost["flop.matrix.float16"]
    assert whole.cost["read"] < 3 * each.cost["read"]


def test_training_s_products_are_three_times_the_forward_s() -> None:
    words = {"batch": 1, "seq_len": 512}
    learns, reads = llama("training", layers=1).bind(**words), llama("inference", layers=1).bind(**words)
    products = [[op for op in graph if op.kind == "gemm"] for graph in (learns, reads)]
    flop = [sum(op.cost["flop.matrix.float16"] for op in graph) for graph in products]
    assert flop[0] == 3 * flop[1]


def test_heads_must_share_evenly() -> None:
    with pytest.raises(ss.InputError, match="width 4096, heads = 32, kv_heads = 5: want each to divide the last"):
        llama(kv_heads=5)
