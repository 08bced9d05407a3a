"""Dividing a trace among its steps, and keeping step profiles."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.workloads.importers.traces.chrome_trace import read_events
from slipstick.workloads.runs.event_steps import profile_steps
from slipstick.workloads.runs.step_profiles import (
    Operation,
    StepProfile,
    StepTable,
    load_steps,
    save_steps,
)


def trace(folder: Path) -> Path:
    def event(name: str, category: str, start: float, duration: float, **arguments: int) -> dict[str, object]:
        common = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1}
        return common | {"ts": start, "dur": duration, "args": arguments}

    events = [
        event("ProfilerStep#7", "user_annotation", 100, 50),
        event("ProfilerStep#8", "user_annotation", 150, 50),
        event("ProfilerStep#7", "gpu_user_annotation", 120, 60),
        event("matmul", "cpu_op", 101, 5),
        event("matmul", "cpu_op", 110, 7),
        event("launch", "cuda_runtime", 145, 2, correlation=3),
        event("kernel_a", "kernel", 160, 20, correlation=3),  # launched in step 7, runs in step 8
        event("kernel_b", "kernel", 190, 4, correlation=99),  # launch not recorded
        event("matmul", "cpu_op", 151, 9),
        event("before", "cpu_op", 1, 1),
        event("stack", "python_function", 151, 9),
    ]
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_operations_belong_to_the_step_that_caused_them(tmp_path: Path) -> None:
    first, second = profile_steps(read_events(trace(tmp_path)))
    assert (first.step, second.step) == (7, 8)
    assert first.duration == pytest.approx(50e-6)
    assert set(first.operations) == {"matmul", "launch", "kernel_a"}
    assert set(second.operations) == {"matmul", "kernel_b"}
    assert first.operations["matmul"].count == 2
    assert first.operations["matmul"].time == pytest.approx(12e-6)
    assert first.operations["kernel_a"].place == "device"
    assert first.operations["launch"].place == "host"


def test_a_trace_without_steps_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the trace has no steps"):
        profile_steps(read_events(trace(tmp_path)), marker=r"Step (\d+)")


def test_profiles_survive_saving(tmp_path: Path) -> None:
    steps = [
        StepProfile(1, 0.5, 0.25, {"a": Operation(3, 0.125), "k": Operation(1, 0.5, "device")}, "train"),
        StepProfile(2, 0.75, 0.25, {}, None, checkpoint=True),
    ]
    save_steps(steps, tmp_path / "steps.jsonl")
    assert list(load_steps(tmp_path / "steps.jsonl")) == steps


@pytest.mark.parametrize(
    "line", ["{}", "[]", "nonsense", '{"step": 1, "start_s": 0, "duration_s": 1, "operations": {"a": [1, 2, "moon"]}}']
)
def test_a_wrong_record_names_file_and_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "steps.jsonl"
    save_steps([StepProfile(1, 0.0, 1.0)], path)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(InputError, match="line 2: not a step profile"):
        list(load_steps(path))


def test_the_table_adds_up_to_its_steps() -> None:
    steps = [StepProfile(i, float(i), 1.0, {"a": Operation(i + 1, 0.5 * i), "b": Operation(1, 1.0)}) for i in range(4)]
    table = StepTable.of(steps)
    assert table.names == ("a", "b")
    np.testing.assert_allclose(table.counts.toarray(), [[i + 1, 1] for i in range(4)])
    np.testing.assert_allclose(table.times.toarray(), [[0.5 * i, 1.0] for i in range(4)])
    with pytest.raises(InputError, match="no step profiles"):
        StepTable.of([])
