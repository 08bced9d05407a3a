"""Why a step was missed: constructed traces in which the answer is known exactly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.sensitivity.attribution import shapley
from slipstick.experiments.cli.cli import run
from slipstick.experiments.replay.gap_attribution import GapAttribution, miss_of
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.importers.traces.kineto_graph import read_trace_graph
from slipstick.workloads.importers.traces.trace_graph import TraceGraph

KERNEL, LAUNCH, LOAD, BACK = 40.0, 5.0, 60.0, 4.0


def event(name: str, category: str, thread: int, start: float, duration: float, number: int = -1) -> dict[str, object]:
    arguments = {"correlation": number} if number >= 0 else {}
    fields = {"ph": "X", "name": name, "cat": category, "pid": 1, "tid": thread, "ts": start, "dur": duration}
    return fields | {"args": arguments}


def step_of(tmp_path: Path, streams: int, idle: float) -> TraceGraph:
    """Three equal steps: the host works for `idle`, launches one kernel on each stream, and waits for all."""
    events, time, number = [], 0.0, 0
    for step in range(3):
        begin = time
        time += idle
        ends = []
        for stream in range(streams):
            number += 1
            events.append(event("cudaLaunchKernel", "cuda_runtime", 1, time, 1.0, number))
            events.append(event("k", "kernel", 7 + stream, time + LAUNCH, KERNEL, number))
            ends.append(time + LAUNCH + KERNEL)
            time += 2.0
        number += 1
        finish = max(ends) + BACK
        events.append(event("cudaDeviceSynchronize", "cuda_runtime", 1, time, finish - time, number))
        events.append(event(f"ProfilerStep#{step}", "user_annotation", 1, begin, finish - begin))
        time = finish
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return read_trace_graph(path)


def miss(graph: TraceGraph, predicted: float, clocked: float, unfused: float = 0.0) -> GapAttribution:
    kernels = np.array([node.kind == "kernel" for node in graph.nodes])
    here = np.where(kernels, predicted * 1e-6, graph.service)
    return GapAttribution(graph, here, np.where(kernels, clocked * 1e-6, graph.service), unfused)


def test_explain_and_replay_are_of_one_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps of 10, 20 and 90 us: the median is 20, the mean of which explain spoke 40."""
    monkeypatch.chdir(tmp_path)
    events: list[dict[str, object]] = []
    time = 0.0
    for number, length in enumerate((10.0, 20.0, 90.0)):
        events.append(event("cudaLaunchKernel", "cuda_runtime", 1, time, 1.0, number))
        events.append(event("k", "kernel", 7, time + 2.0, length - 4.0, number))
        events.append(event("cudaDeviceSynchronize", "cuda_runtime", 1, time + 1.0, length - 1.0))
        events.append(event(f"ProfilerStep#{number}", "user_annotation", 1, time, length))
        time += length
    Path("own.json").write_text(json.dumps({"traceEvents": events}))
    for words in (
        ["replay", "own.json", "--recorded-on", "v100-sxm"],
        ["explain", "--trace", "own.json", "--on", "v100-sxm"],
    ):
        assert run(words) == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert first.startswith("own.json, the median of 3 steps on Tesla V100 SXM2 16 GB: 20 µs")
        assert first.endswith("; measured")


def test_gaps_alone(tmp_path: Path) -> None:
    found = miss(step_of(tmp_path, 1, LOAD), KERNEL, KERNEL).account()
    assert found["gaps"] * 1e6 == pytest.approx(LOAD + LAUNCH + BACK, rel=1e-6)
    assert found["overlap"] == pytest.approx(0.0, abs=1e-12)
    assert set(found) == {"gaps", "overlap"}


def test_clock_kernels_and_fusion_apart(tmp_path: Path) -> None:
    graph = step_of(tmp_path, 1, LOAD)
    # predicted 20 us; the clock makes 25 of them, the kernel chosen 40; 7 us were predicted for what was fused away
    found = miss(graph, 20.0, 25.0, 7e-6).account()
    assert found["fusion"] * 1e6 == pytest.approx(-7.0, rel=1e-6)
    assert found["gaps"] * 1e6 == pytest.approx(LOAD + LAUNCH + BACK, rel=1e-6)
    # times that multiply: 20 x 1.25 x 1.6, shared out evenly over both orders
    assert found["clock"] * 1e6 == pytest.approx((5 + 8) / 2, rel=1e-6)
    assert found["kernels"] * 1e6 == pytest.approx((15 + 12) / 2, rel=1e-6)


def test_overlap_is_what_the_streams_hide(tmp_path: Path) -> None:
    graph = step_of(tmp_path, 2, LOAD)
    found = miss(graph, KERNEL, KERNEL).account()
    assert found["overlap"] * 1e6 == pytest.approx(-(KERNEL - 2.0), rel=1e-6)
    assert found["gaps"] * 1e6 == pytest.approx(LOAD + LAUNCH + BACK, rel=1e-6)


@given(st.floats(5.0, 80.0), st.floats(5.0, 80.0), st.floats(0.0, 50.0), st.sampled_from([1, 2, 3]))
def test_the_account_sums_to_the_miss(
    tmp_path_factory: pytest.TempPathFactory, predicted: float, clocked: float, unfused: float, streams: int
) -> None:
    graph = step_of(tmp_path_factory.mktemp("t"), streams, LOAD)
    one = miss(graph, predicted, clocked, unfused * 1e-6)
    total = float(np.mean(graph.measured_steps)) - (streams * predicted + unfused) * 1e-6
    assert sum(one.account().values()) == pytest.approx(total, rel=1e-9, abs=1e-12)


def test_a_machine_says_what_unknown_kernels_cost_as_measured(tmp_path: Path) -> None:
    graph = step_of(tmp_path, 1, LOAD)
    assert set(miss_of(graph, {}, machine("v100-sxm")).account()) == {"gaps", "overlap"}


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(-5, 5), min_size=1))
def test_additive_terms_get_what_they_add(amounts: dict[str, float]) -> None:
    shares = shapley(list(amounts), lambda chosen: sum(amounts[name] for name in chosen))
    for name, amount in amounts.items():
        assert shares[name] == pytest.approx(amount, abs=1e-9)


def test_too_many_terms_are_refused() -> None:
    with pytest.raises(InputError, match="at most 10"):
        shapley([str(i) for i in range(11)], len)
