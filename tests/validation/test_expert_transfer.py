"""Layers of experts moved between machines: residuals at the nearest shapes, and what stands in for the unmeasured."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.experiments.scoreboards.experts.expert_data import ExpertCase, standing_in
from slipstick.experiments.scoreboards.experts.experts_board import MovedCases, at_nearest_shapes
from slipstick.hwmodels.catalog import machine

pd = pytest.importorskip("pandas")
CASE = ExpertCase("prefill", "trtllm", "bfloat16")


def calls(seed: int, count: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    sizes = {"batch_size": 2 ** generator.integers(0, 6, count), "isl": 2 ** generator.integers(7, 14, count)}
    sizes |= {"num_heads": 2 ** generator.integers(3, 8, count), "step": np.zeros(count, int)}
    return pd.DataFrame({**sizes, "kv_cache_dtype": "bfloat16"})


def test_a_known_shape_gives_its_own_value_and_others_a_mean() -> None:
    known = calls(0, 200).drop_duplicates()
    values = np.random.default_rng(1).normal(0, 0.5, len(known))
    assert np.allclose(at_nearest_shapes(CASE, known, known, values), values, atol=0.15)
    far = at_nearest_shapes(CASE, known.assign(isl=known["isl"] * 2**20), known, values)
    assert values.min() <= far.min() and far.max() <= values.max()


def test_a_machine_that_behaves_as_its_relative_is_predicted_by_it() -> None:
    """All times are the formula's times a factor of the shape: what one machine took over it holds for another."""
    from slipstick.experiments.scoreboards.experts.expert_layers import LayerParameters

    has = LayerParameters(block=64.0)
    frames = []
    for name in ("a100-sxm-80gb", "h100-sxm", "b200-sxm"):
        frame = calls(2, 400)
        factor = np.where(frame["num_heads"] > 32, 1.6, 1.0)
        frames.append(frame.assign(machine=name, time=CASE.predicted(frame, machine(name), has) * factor))
    *_, target = frames
    moved = MovedCases({CASE: pd.concat(frames, ignore_index=True)})
    logs, half = moved.predicted(CASE, target, machine("b200-sxm"))
    error = np.abs(logs - np.log(target["time"]))
    assert np.median(error) < 0.15
    assert np.mean(error <= half) > 0.8


def test_rows_of_the_target_s_generation_change_nothing() -> None:
    """The generation in question is left out, of its own case and of the others that weights are learned from."""
    one, two = calls(4, 300), calls(5, 300)
    names = ("a100-sxm-80gb", "h100-sxm", "b200-sxm")
    times = np.random.default_rng(6).lognormal(-8, 1, (3, 300))
    frames = [one.assign(machine=name, time=time) for name, time in zip(names, times, strict=True)]
    strange = [*frames[:2], frames[2].assign(time=1.0), two.assign(machine="b300-sxm", time=2.0)]
    found = [
        MovedCases({CASE: pd.concat(parts, ignore_index=True)}).predicted(CASE, two, machine("b200-sxm"))
        for parts in (frames, strange)
    ]
    assert np.array_equal(found[0], found[1])


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
