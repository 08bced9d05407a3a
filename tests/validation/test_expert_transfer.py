"""Layers of experts moved between machines: residuals at the nearest shapes, and what stands in for the unmeasured."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.experiments.evidence.validation.models.expert_data import ExpertCase, standing_in
from slipstick.experiments.evidence.validation.models.expert_transfer import at_nearest_shapes, predicted
from slipstick.hwmodels.catalog import machine

pd = pytest.importorskip("pandas")
CASE = ExpertCase("prefill", "trtllm", "bfloat16")


def calls(seed: int, count: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    sizes = {"batch_size": 2 ** generator.integers(0, 6, count), "isl": 2 ** generator.integers(7, 14, count)}
    sizes |= {"num_heads": 2 ** generator.integers(3, 8, count), "step": np.zeros(count, int)}
    return pd.DataFrame({**sizes, "kv_cache_dtype": "bfloat16"})


def test_a_known_shape_gives_its_own_value_and_far_ones_fade() -> None:
    known = calls(0, 200).drop_duplicates()
    values = np.random.default_rng(1).normal(0, 0.5, len(known))
    assert np.allclose(at_nearest_shapes(CASE, known, known, values), values, atol=0.15)
    far = known.assign(isl=known["isl"] * 2**20)
    assert np.abs(at_nearest_shapes(CASE, far, known, values)).max() < 0.05


def test_a_machine_that_behaves_as_its_relative_is_predicted_by_it() -> None:
    """All times are the formula's times a factor of the shape: what one machine took over it holds for another."""
    from slipstick.estimators.operation.gpu.expert_layers import LayerParameters

    has = LayerParameters(block=64.0)
    frames = []
    for name in ("a100-sxm-80gb", "h100-sxm", "b200-sxm"):
        frame = calls(2, 400)
        factor = np.where(frame["num_heads"] > 32, 1.6, 1.0)
        frames.append(frame.assign(machine=name, time=CASE.predicted(frame, machine(name), has) * factor))
    *others, target = frames
    logs, mixed = predicted(CASE, target, machine("b200-sxm"), pd.concat(others, ignore_index=True))
    error = np.abs(logs - np.log(target["time"]))
    assert np.median(error) < 0.1
    assert mixed.weights["nearest over the formula"] > 0.5


def test_what_stands_in_is_of_the_same_kind_and_library_first() -> None:
    known = {
        ExpertCase("experts", "triton", "bfloat16"): pd.DataFrame(),
        ExpertCase("experts", "triton", "fp8_block"): pd.DataFrame(),
        ExpertCase("experts", "marlin", "int4_wo"): pd.DataFrame(),
        ExpertCase("decode", "triton", "bfloat16"): pd.DataFrame(),
    }
    assert standing_in(ExpertCase("experts", "triton", "nvfp4"), known) == ExpertCase("experts", "triton", "fp8_block")
    assert standing_in(ExpertCase("experts", "cutlass", "nvfp4"), known) == ExpertCase("experts", "marlin", "int4_wo")
    assert standing_in(ExpertCase("prefill", "triton", "bfloat16"), known) is None
