"""Layers of experts and latent attention: who gets which rows, and the machine's bounds."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.experts.expert_layers import (
    ExpertLayers,
    LatentAttentions,
    LayerParameters,
    Routing,
    expert_times,
    latent_decode_times,
    latent_prefill_times,
    routed,
)
from slipstick.hwmodels.catalog import machine


def layers(tokens: list[float], ranks: float = 1.0, routing: Routing = "balanced") -> ExpertLayers:
    """Of DeepSeek-V3's shape in BF16."""

    def of(value: float) -> FloatArray:
        return np.full(len(tokens), value)

    sizes = (of(7168.0), of(2048.0), of(8.0), of(256.0), of(ranks), of(2.0))
    return ExpertLayers(np.array(tokens), *sizes, [routing] * len(tokens))


def test_rows_and_experts_of_one_rank() -> None:
    rows, active = routed(layers([1.0, 16.0, 4096.0]))
    assert rows.tolist() == [8.0, 128.0, 32768.0]  # every token goes to eight
    assert active.tolist() == [8.0, 128.0, 256.0]  # balanced: to as many different ones as there are


@pytest.mark.parametrize(("ranks", "rows"), [(2.0, 8.0), (8.0, 8.0), (32.0, 2.0)])
def test_a_token_goes_to_no_more_ranks_than_it_chose_experts(ranks: float, rows: float) -> None:
    """Each rank brings its own tokens: rows a token stay, until there are more ranks than choices."""
    assert routed(layers([1000.0], ranks))[0][0] == pytest.approx(1000.0 * rows)


def test_the_busiest_rank_of_a_steep_power_law_gets_all() -> None:
    for ranks in (2.0, 64.0):
        assert routed(layers([512.0], ranks, "busiest"))[0][0] == pytest.approx(512.0 * 8)
    assert routed(layers([512.0], 128.0, "skewed"))[0][0] == pytest.approx(512.0 * 8 / 2)


@pytest.mark.parametrize("name", ["h100-sxm", "a100-sxm-80gb", "l40s", "mi300x"])
def test_layers_are_bounded_by_weights_and_by_arithmetic(name: str) -> None:
    on, has = machine(name), LayerParameters(compute_efficiency=1.0, memory_efficiency=1.0)
    few, many = expert_times(layers([8.0, 65536.0]), on, "bfloat16", has)
    assert few > 64 * 3 * 7168 * 2048 * 2 * 0.5 / on.bandwidth(on.main_memory)
    assert many > 6 * 65536 * 8 * 7168 * 2048 / on.peak("matrix", "bfloat16")
    times = expert_times(layers([2.0**i for i in range(17)]), on, "bfloat16", has)
    assert np.all(np.diff(times) >= 0)


def test_a_long_cache_is_read_once_for_all_heads() -> None:
    on, has = machine("h100-sxm"), LayerParameters(launch=1e-7, memory_efficiency=1.0, block=64.0)
    calls = LatentAttentions(np.array([64.0]), np.array([16.0]), np.array([65536.0]), np.array([2.0]))
    read = 64 * 65536 * 576 * 2 / on.bandwidth(on.main_memory)
    assert read < latent_decode_times(calls, on, has)[0] < 2 * read  # measured by a public table: 1.566 ms, 1.09 x
    prompts = LatentAttentions(np.array([4.0]), np.array([128.0]), np.array([4096.0]), np.array([2.0]))
    assert latent_prefill_times(prompts, on, has)[0] > 4 * 128 * 4096**2 * 320 / on.peak("matrix", "bfloat16")
