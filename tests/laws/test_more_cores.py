"""More cores: tiled products take no longer, TPU boards lose no throughput."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.experiments.question.question import question

LEFT = 1.002
"""A step of a sweep may cost 0.2 %: 16 of 1,680 steps cost up to 0.1 % (gpt2 on a T4), and why is not traced yet."""


@pytest.mark.parametrize("on", ["v100-sxm", "t4", "vega-fe", "h100-sxm"])
@pytest.mark.parametrize("name", ["gemm", "mlp", "gpt2"])
def test_tiled_products_get_no_slower_with_more_cores(name: str, on: str) -> None:
    asked = question(name, on, "tiled-roofline", [])
    cores = np.unique(np.round(np.geomspace(max(1, asked.machine.cores // 8), asked.machine.cores * 8, 25))).astype(
        float
    )
    function = asked.estimator.compile(asked.workload, asked.machine, ("machine.cores",), asked.run)
    times = np.asarray(function({"machine.cores": cores}))
    assert (times[1:] <= times[:-1] * LEFT).all()
    assert times[-1] < times[0]


@pytest.mark.parametrize("on", ["tpu-v2", "tpu-v3"])
def test_a_core_of_a_tpu_does_its_share_of_the_batch_and_more_cores_lose_no_throughput(on: str) -> None:
    """Slower by design: the workload is what each core does, and the cores share one memory and one host."""
    asked = question("gemm", on, "tpu", [])
    cores = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    times = np.asarray(
        asked.estimator.compile(asked.workload, asked.machine, ("machine.cores",), asked.run)({"machine.cores": cores})
    )
    assert (np.diff(times) >= 0).all(), "each core has the same work, and less of the memory"
    assert (np.diff(cores / times) >= -1e-9 * (cores / times)[:-1]).all()
