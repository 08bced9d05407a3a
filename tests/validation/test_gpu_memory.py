"""A GPU's memory as kernels reach it: laws, and left-out devices of the public microbenchmarks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.gpu.kernels.memory_hierarchy import reached_in_words
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.scoreboards.gpu import gpu_memory_board as cache_scores
from slipstick.hwmodels.catalog import machine


@given(st.floats(1e2, 1e12), st.floats(1.01, 1e3), st.sampled_from(["vega-fe", "a100-sxm-80gb", "mi100"]))
def test_more_data_is_never_faster_and_less_cache_neither(size: float, factor: float, name: str) -> None:
    on, model = machine(name), cache_scores.MemoryCurves()
    base = model.rate(on, [size, size * factor])
    assert base[1] <= base[0] * (1 + 1e-12)
    for level in ("L1", "L2"):
        off = on.using({f"memory.{level}.capacity": 0})
        assert (model.rate(off, [size, size * factor]) <= base * (1 + 1e-12)).all()


def test_ends_are_levels_and_latency() -> None:
    on, model = machine("vega-fe"), cache_scores.MemoryCurves()
    ends = [model.reached(on, "L1"), model.reached(on, "HBM2")]
    assert model.rate(on, [100, 1e10]).tolist() == pytest.approx(ends)
    few, many = model.in_flight(on, [640.0, 1e9])
    assert few == pytest.approx(640 / model.latency, rel=1e-3) and many == pytest.approx(ends[1], rel=1e-3)
    with pytest.raises(InputError, match="no rate of level 'L3'"):
        model.reached(on, "L3")
    assert "L2 1.4" in reached_in_words(on) and reached_in_words(machine("xeon-phi-7120p")) == ""


def test_left_out_devices() -> None:
    if training_file(cache_scores.FILE) is None:
        pytest.skip(why_missing(cache_scores.FILE))
    rows = {row.case: row for row in cache_scores.BOARD.rows()}
    assert rows["plateaus and knees, all"].ok
    flight = rows["main memory by bytes in flight"]
    assert flight.ours is not None and flight.ours < 0.5 * flight.baselines["data sheet"]
    assert np.isfinite([row.ours for row in rows.values() if row.ours is not None]).all()
