"""Asynchronous dispatch: laws, and recurrence = simulation where nothing contends."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.records import FrozenDict
from slipstick.estimators.schedules.critical_path import CriticalPath
from slipstick.estimators.schedules.dispatch import AsynchronousDispatch
from slipstick.estimators.simulation.contended_dispatch import ContendedDispatch
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.workload import Op, Workload


def host(issue: float, mode: str = "eager", streams: int = 1) -> Machine:
    return machine("v100-sxm").using(
        {"runtime.issue_overhead": issue, "runtime.mode": mode, "runtime.streams": streams}
    )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Workload, np.ndarray]:
    size = draw(st.integers(1, 12))
    streams = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    waits = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    pairs = draw(st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=15))
    operations = tuple(
        Op(f"op{i}", "gemm", attributes=FrozenDict({"stream": stream, "synchronise": wait}))
        for i, (stream, wait) in enumerate(zip(streams, waits, strict=True))
    )
    edges = tuple((f"op{a}", f"op{b}") for a, b in sorted(pairs) if a < b)
    times = draw(st.lists(st.floats(0.0, 10.0), min_size=size, max_size=size))
    return Workload("net", operations, edges), np.array(times)


@settings(max_examples=150)
@given(graphs(), st.floats(0.0, 3.0))
def test_recurrence_equals_simulation_without_contention(case: tuple[Workload, np.ndarray], issue: float) -> None:
    workload, times = case
    on = host(issue)
    formula = AsynchronousDispatch().combine(workload, times, on, {})
    simulated = ContendedDispatch().combine(workload, times, on, {})
    assert simulated.time == pytest.approx(formula.time, rel=1e-9, abs=1e-12)


@given(graphs(), st.floats(0.0, 3.0))
def test_never_below_the_critical_path_the_host_or_a_stream_and_never_above_the_sum(
    case: tuple[Workload, np.ndarray], issue: float
) -> None:
    workload, times = case
    answer = AsynchronousDispatch().combine(workload, times, host(issue), {})
    path = CriticalPath().combine(workload, times, host(issue), {})
    streams = np.array([int(op.attributes["stream"]) for op in workload])
    fullest = max(times[streams == stream].sum() for stream in set(streams.tolist()))
    assert answer.time >= max(path.time, issue * len(workload), fullest) - 1e-9
    assert answer.time <= times.sum() + issue * len(workload) + 1e-9


def chain(count: int, kind: str = "gemm", **attributes: object) -> Workload:
    names = [f"op{i}" for i in range(count)]
    operations = tuple(Op(name, kind, attributes=FrozenDict(attributes)) for name in names)  # type: ignore[arg-type]
    return Workload("chain", operations, tuple(pairwise(names)))


def test_short_kernels_are_bound_by_the_host_and_long_ones_are_not() -> None:
    ten = np.full(10, 1.0)
    assert AsynchronousDispatch().combine(chain(10), ten, host(3.0), {}).time == pytest.approx(10 * 3 + 1)
    assert AsynchronousDispatch().combine(chain(10), ten, host(0.5), {}).time == pytest.approx(0.5 + 10)
    replayed = AsynchronousDispatch().combine(chain(10), ten, host(3.0, "graph_replay"), {})
    assert replayed.time == pytest.approx(3 + 10)
    waiting = AsynchronousDispatch().combine(chain(10, synchronise=True), ten, host(3.0), {})
    assert waiting.time == pytest.approx(10 * (3 + 1))


def test_collectives_take_the_last_stream_and_overlap() -> None:
    operations = (Op("a", "gemm"), Op("sum", "collective"), Op("b", "gemm"))
    workload = Workload("overlap", operations, (("a", "sum"), ("a", "b")))
    times = np.array([2.0, 5.0, 5.0])
    assert AsynchronousDispatch().combine(workload, times, host(0.0, streams=2), {}).time == pytest.approx(7)
    assert AsynchronousDispatch().combine(workload, times, host(0.0, streams=1), {}).time == pytest.approx(12)


def test_streams_that_want_more_than_the_bandwidth_slow_each_other_down() -> None:
    on = host(0.0, streams=2)
    rate = on.bandwidth(on.main_memory)
    operations = tuple(
        Op(name, "elementwise", cost=Cost({"read": rate * share}), attributes=FrozenDict({"stream": stream}))
        for name, share, stream in (("a", 1.0, 0), ("b", 1.0, 1))
    )
    both = Workload("both", operations)
    assert ContendedDispatch().combine(both, np.array([1.0, 1.0]), on, {}).time == pytest.approx(2.0)
    light = Workload(
        "light", tuple(Op(op.name, op.kind, cost=op.cost * 0.5, attributes=op.attributes) for op in operations)
    )
    assert ContendedDispatch().combine(light, np.array([1.0, 1.0]), on, {}).time == pytest.approx(1.0)


def test_the_order_of_the_operations_does_not_matter_only_their_edges() -> None:
    workload, times = chain(5), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    turned = Workload("turned", workload.operations[::-1], workload.edges)
    answer = AsynchronousDispatch().combine(turned, times[::-1], host(0.1), {})
    assert answer.time == pytest.approx(AsynchronousDispatch().combine(workload, times, host(0.1), {}).time)
