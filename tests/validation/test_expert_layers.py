"""Layers of experts and latent attention as questions: who gets which rows, flop and bytes by hand, classes."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.estimators.gpu.kernels.kernel_classes import class_of
from slipstick.experiments.scoreboards.experts.expert_data import ExpertCase, routed
from slipstick.experiments.scoring.unseen_answers import answers
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation

pd = pytest.importorskip("pandas")


def rows_of(tokens: float, ranks: float = 1.0, routing: str = "balanced") -> tuple[float, float]:
    """Of 256 experts, eight of which a token chooses (DeepSeek-V3)."""
    rows, active = routed(*(np.array([one]) for one in (tokens, 8.0, 256.0, ranks)), [routing])
    return float(rows[0]), float(active[0])


def test_rows_and_experts_of_one_rank() -> None:
    """Every token goes to eight; balanced, to as many different experts as there are."""
    assert [rows_of(one) for one in (1.0, 16.0, 4096.0)] == [(8.0, 8.0), (128.0, 128.0), (32768.0, 256.0)]


@pytest.mark.parametrize(("ranks", "rows"), [(2.0, 8.0), (8.0, 8.0), (32.0, 2.0)])
def test_a_token_goes_to_no_more_ranks_than_it_chose_experts(ranks: float, rows: float) -> None:
    """Each rank brings its own tokens: rows a token stay, until there are more ranks than choices."""
    assert rows_of(1000.0, ranks)[0] == pytest.approx(1000.0 * rows)


def test_the_busiest_rank_of_a_steep_power_law_gets_all() -> None:
    for ranks in (2.0, 64.0):
        assert rows_of(512.0, ranks, "busiest")[0] == pytest.approx(512.0 * 8)
    assert rows_of(512.0, 128.0, "skewed")[0] == pytest.approx(512.0 * 8 / 2)


def layers(tokens: list[int]) -> pd.DataFrame:
    sizes = {"hidden_size": 7168, "inter_size": 2048, "topk": 8, "num_experts": 256, "moe_tp_size": 1, "moe_ep_size": 1}
    return pd.DataFrame({"num_tokens": tokens, **sizes, "distribution": "balanced", "time": 1.0})


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
