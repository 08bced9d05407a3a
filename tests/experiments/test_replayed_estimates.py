"""A replayed step is an estimate too: `replay`, `whatif --trace` and Python give the same figures."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import slipstick as ss
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.schedules.trace_replay import median_steps, replay
from slipstick.experiments.cli.cli import run
from slipstick.experiments.replay.replay import changes, read_recorded
from slipstick.experiments.replay.trace_whatif import trace_whatif

KERNELS = [
    ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", 400.0),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>()", 100.0),
]
STEPS, ISSUE, LAUNCH = 4, 10.0, 6.0


def trace(folder: Path, repeats: int = 4) -> str:
    """Steps of kernels on one stream, each launched `ISSUE` us after the one before, and a wait at the end."""
    events: list[dict[str, object]] = []

    def add(name: str, kind: str, place: int, start: float, length: float, **facts: object) -> None:
        event = {"ph": "X", "cat": kind, "name": name, "pid": place, "tid": place, "ts": start, "dur": length}
        events.append({**event, "args": facts})

    time, free, number = 1000.0, 0.0, 0
    for step in range(STEPS):
        begin = time
        for name, length in KERNELS * repeats:
            number += 1
            add("cudaLaunchKernel", "cuda_runtime", 1, time, 4.0, correlation=number)
            start = max(time + LAUNCH, free)
            add(name, "kernel", 0, start, length, device=0, stream=7, correlation=number, grid=[64, 1, 1])
            free, time = start + length, time + ISSUE
        end = max(time, free) + 3.0
        add("cudaDeviceSynchronize", "cuda_runtime", 1, time, end - time, correlation=number + 10**6)
        add(f"ProfilerStep#{step}", "user_annotation", 1, begin, end - begin)
        time = end
    path = folder / "step.pt.trace.json"
    properties = [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "warpSize": 32, "numSms": 108}]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": properties, "traceEvents": events}))
    return str(path)


def estimates(path: str, on: str | None, vary: list[str], settings: list[str]) -> list[Estimate]:
    """The step under each change as an answer."""
    read = read_recorded(path, ss.machine("a100-sxm-80gb"))
    wanted = changes(vary, read.machine, ss.machine(on) if on else None, settings)
    return [trace_whatif(read.graph, change, operations=read.operations).estimate for change in wanted]


QUESTIONS: list[tuple[str | None, list[str], list[str]]] = [
    (None, [], []),
    (None, ["run.host_ratio=0.5"], []),
    (None, ["run.host_ratio=2"], []),
    ("h100-sxm", [], []),
    ("h100-sxm", ["run.host_ratio=0.8"], []),
    ("v100-sxm2-16gb", [], []),
    ("mi300x", [], []),
    (None, [], ["machine.runtime.mode=graph_replay"]),
    (None, [], ["machine.runtime.mode=compiled"]),
    (None, [], ["machine.clock=1.1GHz"]),
]


@pytest.mark.parametrize(("on", "vary", "settings"), QUESTIONS)
def test_every_verb_replays_the_same_step(
    on: str | None, vary: list[str], settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace(tmp_path)
    words = ["--recorded-on", "a100-sxm-80gb", *(["--on", on] if on else [])]
    words += [word for text in vary for word in ("--vary", text)]
    words += [word for text in settings for word in ("--set", text)]
    rows = []
    for verb in (["replay", path], ["whatif", "--trace", path]):
        assert run([*verb, *words, "--format", "json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        rows.append(row)
    (mine,) = ss.replay(path, on, vary, recorded_on="a100-sxm-80gb", settings=settings).rows()
    (answer,) = estimates(path, on, vary, settings)
    assert rows[0] == rows[1]
    assert (answer.time, answer.interval()) == (rows[0]["step_s"], (rows[0]["low_s"], rows[0]["high_s"]))
    assert mine["step_s"] == answer.time and answer.metrics["busy"] == min(1.0, rows[0]["busy"])
    assert answer.quantities["measured"].value == rows[0]["measured_step_s"]
    assert math.fsum(part.contribution for part in answer.parts) == pytest.approx(answer.time)


def test_kernels_and_idle_time_of_a_step_are_those_of_the_trace(tmp_path: Path) -> None:
    """Eight kernels of 2,000 us in all behind one launch of 6 us and a wait of 3: closed form."""
    (answer,) = estimates(trace(tmp_path), None, [], [])
    assert answer.time * 1e6 == pytest.approx(2000 + LAUNCH + 3)
    assert answer.quantities["kernels"].value * 1e6 == pytest.approx(2000, rel=1e-3)
    assert answer.metrics["idle"] == pytest.approx((LAUNCH + 3) / (2000 + LAUNCH + 3), rel=1e-2)
    assert answer.about("kernels").time == answer.quantities["kernels"].value


@pytest.mark.parametrize("settings", [[], ["machine.clock=0.705GHz"]])
def test_the_timeline_of_a_replay_holds_its_kernels_and_step(
    settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, drawn = trace(tmp_path), tmp_path / "drawn.json"
    words = [word for text in settings for word in ("--set", text)]
    assert run(["replay", path, *words, "--timeline", str(drawn), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    events = json.loads(drawn.read_text())["traceEvents"]
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    names = {name for name, _ in KERNELS}
    kernels = [event for event in events if event["ph"] == "X" and event["name"] in names]
    assert len(kernels) == STEPS * 8 and len({lanes[event["tid"]] for event in kernels}) == 1
    (answer,) = estimates(path, None, [], settings)
    spent = math.fsum(event["dur"] for event in kernels) / 1e6
    assert spent == pytest.approx(STEPS * answer.quantities["kernels"].value, rel=1e-2)
    ends = sorted(event["ts"] + event["dur"] for event in kernels)
    last = ends[7::8]
    assert (last[-1] - last[0]) / (STEPS - 1) / 1e6 == pytest.approx(row["step_s"], rel=1e-3)


def test_a_host_that_waits_for_nothing_keeps_the_pace_of_its_device(tmp_path: Path) -> None:
    """Kernels of 8 us every 10 us and no wait: on a device four times as slow a step takes its kernels' time."""
    events: list[dict[str, object]] = []
    for number in range(40):
        time = 1000.0 + 10.0 * number
        facts = {"correlation": number + 1}
        launch = {"name": "cudaLaunchKernel", "cat": "cuda_runtime", "pid": 1, "tid": 1, "ts": time, "dur": 4.0}
        kernel = {"name": "ampere_sgemm_128x64", "cat": "kernel", "pid": 0, "tid": 7, "ts": time + 5.0, "dur": 8.0}
        events += [{"ph": "X", **launch, "args": facts}]
        events += [{"ph": "X", **kernel, "args": {**facts, "device": 0, "stream": 7, "grid": [64, 1, 1]}}]
    for step in range(4):
        mark = {"name": f"ProfilerStep#{step}", "cat": "user_annotation", "pid": 1, "tid": 1}
        events.append({"ph": "X", **mark, "ts": 1000.0 + 100.0 * step, "dur": 100.0, "args": {}})
    path = tmp_path / "async.pt.trace.json"
    properties = [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "warpSize": 32, "numSms": 108}]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": properties, "traceEvents": events}))
    graph = read_recorded(str(path), ss.machine("a100-sxm-80gb")).graph
    service = graph.service
    kernels = graph.of_kind("kernel")
    measured = replay(graph).step
    assert measured == pytest.approx(100e-6)
    for slower in (0.5, 1.0, 1.25, 2.0, 4.0):
        changed = np.where(kernels, slower * service, service)
        assert replay(graph, changed).step == pytest.approx(max(measured, slower * 10 * 8e-6), rel=1e-6)
        many = median_steps(graph, np.stack([service, changed], axis=1))
        assert many == pytest.approx([measured, replay(graph, changed).step])
    quick = np.where(graph.of_kind("host"), 0.1 * service, service)
    assert replay(graph, quick, 0.1 * graph.lags).step >= 10 * 8e-6 * (
        1 - 1e-6
    )  # a host ten times as fast waits for it
