"""Collectives on a stream of their own, beside kernels: closed forms where they hide and where they stick out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.records import FrozenDict
from slipstick.estimators.schedules.dispatch import AsynchronousDispatch
from slipstick.estimators.simulation.contended_dispatch import ContendedDispatch
from slipstick.experiments.question import registry
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Op, Workload

seconds = st.floats(1e-4, 10.0)


def backward(layers: int) -> Workload:
    """A chain of kernels, each of which leaves a gradient that is summed over devices."""
    kernels = [Op(f"kernel{i}", "gemm", dims=FrozenDict(number=i)) for i in range(layers)]
    sums = [Op(f"sum{i}", "collective", dims=FrozenDict(number=i)) for i in range(layers)]
    edges = [(one.name, two.name) for one, two in pairwise(kernels)]
    edges += [(kernel.name, total.name) for kernel, total in zip(kernels, sums, strict=True)]
    order = [op for pair in zip(kernels, sums, strict=True) for op in pair]
    return Workload("backward", tuple(order), tuple(edges))


def span(layers: int, kernel: float, total: float, streams: int, schedule: object = None) -> float:
    graph = backward(layers)
    on: Machine = machine("a100-80-dgx").using({"runtime.streams": streams})
    times = [kernel if op.kind == "gemm" else total for op in graph]
    chosen = schedule or AsynchronousDispatch()
    return float(chosen.combine(graph, times, on, {}).time)  # type: ignore[attr-defined]


@given(st.integers(1, 12), seconds, seconds)
def test_on_a_second_stream_only_the_last_sum_or_the_first_kernel_shows(n: int, kernel: float, total: float) -> None:
    """n equal pairs in tandem: the longer of the two n times, the other once."""
    expected = n * max(kernel, total) + min(kernel, total)
    assert span(n, kernel, total, streams=2) == pytest.approx(expected, rel=1e-9)


@given(st.integers(1, 12), seconds, seconds)
def test_on_one_stream_everything_shows(n: int, kernel: float, total: float) -> None:
    assert span(n, kernel, total, streams=1) == pytest.approx(n * (kernel + total), rel=1e-9)


@given(st.integers(1, 6), st.floats(0.01, 10.0), st.floats(0.01, 10.0))
def test_the_simulation_says_the_same_where_nothing_is_shared(n: int, kernel: float, total: float) -> None:
    simulated = span(n, kernel, total, streams=2, schedule=ContendedDispatch())
    assert simulated == pytest.approx(span(n, kernel, total, streams=2), rel=1e-6)


def test_a_transformer_on_eight_devices_hides_most_of_its_sums() -> None:
    model, asked = registry.estimator("data-parallel-dispatch"), workload("bert-base-data-parallel")
    on, run = machine("a100-80-dgx"), {"batch": 128.0, "data_parallel": 8.0}
    beside = model.estimate(asked, on, run)
    after = model.estimate(asked, on.using({"runtime.streams": 1}), run)
    sums = sum(part.time * part.times for part in beside.parts if part.kind == "collective")
    alone = model.estimate(asked, on, {"batch": 16.0, "data_parallel": 1.0}).time
    assert after.time == pytest.approx(alone + sums, rel=0.01)
    assert alone < beside.time < alone + sums / 2
