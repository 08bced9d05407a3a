"""Layers of experts and latent attention as questions: who gets which rows, flop and bytes by hand, classes."""

from __future__ import annotations

import pytest

from slipstick.common.records import FrozenDict
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters, class_of
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.experiments.scoreboards.experts.expert_data import ExpertCase, routed
from slipstick.experiments.scoring.unseen_answers import answers
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation

pd = pytest.importorskip("pandas")


def rows_of(tokens: int, ranks: int = 1, exponent: float = 0.0) -> tuple[float, float, float]:
    """Of 256 experts, eight of which a token chooses (DeepSeek-V3)."""
    return routed(tokens, 8, 256, ranks, exponent)


def test_rows_and_experts_of_one_rank() -> None:
    """Every token goes to eight; balanced, to as many different experts as there are."""
    assert [rows_of(one) for one in (1, 16, 4096)] == [(8, 0, 8), (128, 0, 128), (32768, 0, 256)]


@pytest.mark.parametrize(("ranks", "sent"), [(2, 1024), (8, 1024), (32, 256)])
def test_a_rank_gets_its_share_and_tokens_that_chose_elsewhere_too(ranks: int, sent: int) -> None:
    """Token t chooses t, t + 32, t + 64, ...: eight ranks have one of its choices each, of 32 ranks a quarter has."""
    rows, others, active = rows_of(1024, ranks)
    assert (rows, rows + others, active) == (1024 * 8 / ranks, sent * 8, 256 / ranks)


@pytest.mark.parametrize("exponent", [1.01, 1.2])
def test_the_busiest_rank_of_a_power_law_gets_more_than_its_share(exponent: float) -> None:
    """And no token more than its eight choices; one rank has all rows."""
    assert rows_of(512, 1, exponent)[:2] == (512 * 8, 0)
    rows, others, active = rows_of(512, 32, exponent)
    assert 512 * 8 / 32 < rows < rows + others <= 512 * 8
    assert 0 < active <= 256 / 32


def layers(tokens: list[int]) -> pd.DataFrame:
    sizes = {"hidden_size": 7168, "inter_size": 2048, "topk": 8, "num_experts": 256, "moe_tp_size": 1, "moe_ep_size": 1}
    return pd.DataFrame({"num_tokens": tokens, **sizes, "distribution": "balanced", "others": "", "time": 1.0})


def test_a_layer_of_experts_is_two_products_by_the_experts_that_have_rows() -> None:
    (asked,) = ExpertCase("experts", "triton", "fp8_block").questions(layers([16]))
    up, down = asked.operations
    assert [(op.dims["batch"], op.dims["m"], op.dims["n"], op.dims["k"]) for op in (up, down)] == [
        (128, 4096, 1, 7168), (128, 7168, 1, 2048),
    ]  # fmt: skip
    assert up.cost["read"] + down.cost["read"] == 128 * 3 * 7168 * 2048 + 2 * 128 * (7168 + 2048)
    assert {class_of(op) for op in asked.operations} == {"gemm.float8_block.experts"}
    (timed,) = ExpertCase("experts", "triton", "fp8_block").timed(layers([16]), machine("h100-sxm"))
    assert 2 * timed.amount("operation.flop")[0] == pytest.approx(sum(op.cost.flop for op in asked.operations))


def test_a_latent_is_read_once_for_all_heads() -> None:
    columns = {"batch_size": [64], "num_heads": [16], "isl": [1], "step": [65535], "kv_cache_dtype": ["bfloat16"]}
    (asked,) = ExpertCase("decode", "trtllm", "bfloat16").questions(pd.DataFrame(columns))
    (op,) = asked.operations
    assert op.cost["read"] == 64 * (65536 * 576 * 2 + 16 * 576 * 2)
    assert class_of(op) == "attention.bfloat16.latent"
    on = machine("h100-sxm").using({"runtime.library": "trtllm"})
    read = 64 * 65536 * 576 * 2 / on.bandwidth(on.main_memory)
    assert read < answers([(asked, on)]).seconds[0] < 2 * read  # measured by a public table: 1.566 ms, 1.09 x


def test_prompts_and_stored_types_are_classes_of_their_own() -> None:
    columns = {"batch_size": [4], "num_heads": [16], "isl": [4096], "step": [0], "kv_cache_dtype": ["bfloat16"]}
    (prompt,) = ExpertCase("prefill", "trtllm", "bfloat16").questions(pd.DataFrame(columns))
    assert class_of(prompt.operations[0]) == "attention.bfloat16.prompts.latent"
    (narrow,) = ExpertCase("experts", "marlin", "int4_wo").questions(layers([16]))
    assert class_of(narrow.operations[0]) == "gemm.bfloat16.experts.int4"
    plain = operation("a", "gemm", {"batch": 1, "m": 64, "n": 64, "k": 64}, "bfloat16", {"weights": "int4"})
    assert class_of(plain) == "gemm.bfloat16"


@pytest.mark.parametrize(("name", "slower"), [("a100-sxm-80gb", 1), ("h100-sxm", 2), ("b200-sxm", 4)])
def test_weights_widened_in_registers_meet_an_a100s_instructions(name: str, slower: int) -> None:
    """Flop a core and cycle of matrix units (data sheets): 2,048, 4,096, 8,192; mma.sync has 2,048 on each of them."""
    slow = TiledRoofline(FrozenDict({"default": KernelParameters(compute_efficiency=1e-3)}))  # arithmetic decides
    dims = {"batch": 8, "m": 4096, "n": 4096, "k": 4096}
    facts = [{"role": "experts.up", **more} for more in ({}, {"weights": "int4"})]
    wide, narrow = slow.times([operation("up", "gemm", dims, "bfloat16", each) for each in facts], machine(name))
    assert narrow / wide == pytest.approx(slower, rel=0.1)
