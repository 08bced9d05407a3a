"""More cores: tiled products take no longer, nor does a batch on a board of TPUs."""

from __future__ import annotations

from itertools import pairwise

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


@pytest.mark.parametrize(
    ("name", "batch", "on"),
    [
        ("gemm", None, "tpu-v2"),
        ("resnet18-inference", 1, "tpu-v3-8"),
        ("resnet18-inference", 200, "tpu-v2"),
        ("mlp", 4096, "tpu-v3-8"),
    ],
)
def test_a_batch_on_more_cores_of_a_tpu_takes_no_longer(name: str, batch: int | None, on: str) -> None:
    """Cores beyond the batch stand by, and those whose share of the memory would cost more than they save."""
    sizes = {} if batch is None else {"workload.batch": batch}
    asked = question(name, on, "tpu", sizes)
    cores = asked.machine.cores * np.array([1.0, 1.25, 2.0, 3.0, 10.0])
    function = asked.estimator.compile(asked.workload, asked.machine, ("machine.cores",), asked.run)
    times = np.asarray(function({"machine.cores": cores.round()}))
    assert (times[1:] <= times[:-1] * (1 + 1e-9)).all()
    if batch in (None, 1):
        assert times == pytest.approx(np.full(5, times[0]))


@pytest.mark.parametrize("on", ["graviton4", "xeon-gold-6148", "epyc-7452"])
def test_streams_take_no_longer_on_more_cores_at_the_same_memory(on: str) -> None:
    """Domains stay as many as there are memory controllers: further cores join them."""
    base = question("daxpy", on, "loops", {})
    counts = [base.machine.cores + more for more in (0, 1, 14, base.machine.cores, 3 * base.machine.cores + 5)]
    times = [question("daxpy", on, "loops", {"machine.cores": count}).answer().time for count in counts]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(times))


def test_a_batch_bound_by_arithmetic_uses_the_cores_that_are_added() -> None:
    """With ten times the memory's bandwidth nothing but the matrix units holds a large product back."""
    base = {"workload.batch": 65536, "machine.memory.HBM.bandwidth": 3.6e13}
    one, ten = (question("mlp", "tpu-v3-8", "tpu", {**base, "machine.cores": n}).answer() for n in (8, 80))
    assert ten.time < 0.5 * one.time
