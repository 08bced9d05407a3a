"""Damaged traces: whatever stands in the file, the answer is a graph or one line that names the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.schedules.trace_replay import replay
from slipstick.experiments.replay.replay import read_recorded

KINETO = {
    "deviceProperties": [{"id": 0, "name": "Tesla V100-SXM2-16GB"}],
    "traceEvents": [
        {
            "ph": "X",
            "name": "ProfilerStep#1",
            "cat": "user_annotation",
            "pid": 1,
            "tid": 1,
            "ts": 0,
            "dur": 90,
            "args": {},
        },
        {
            "ph": "X",
            "name": "aten::mm",
            "cat": "cpu_op",
            "pid": 1,
            "tid": 1,
            "ts": 1,
            "dur": 9,
            "args": {"External id": 5, "Input Dims": [[8, 8], [8, 8]], "Input type": ["float", "float"]},
        },
        {
            "ph": "X",
            "name": "cudaLaunchKernel",
            "cat": "cuda_runtime",
            "pid": 1,
            "tid": 1,
            "ts": 2,
            "dur": 3,
            "args": {"correlation": 5, "External id": 5},
        },
        {
            "ph": "X",
            "name": "volta_sgemm",
            "cat": "kernel",
            "pid": 0,
            "tid": 7,
            "ts": 9,
            "dur": 40,
            "args": {"correlation": 5, "External id": 5, "stream": 7},
        },
    ],
}
CHAKRA = {
    "schema": "1.1.1-chakra.0.0.4",
    "nodes": [
        {"id": 1, "name": "mm", "type": "COMP_NODE", "data_deps": [], "duration_micros": 5, "attr": [{"name": "a"}]},
        {"id": 2, "name": "relu", "type": "COMP_NODE", "ctrl_deps": 1, "duration_micros": 5},
    ],
}
VALUES: list[Any] = [None, True, -1, 1e308, "x" * 50, [], {}, [[]], {"a": [1]}, "9" * 400, -(10**30), float("nan")]


def changed(document: Any, places: list[int], value: Any) -> Any:
    """The document with one value, found by walking along `places`, replaced."""
    if isinstance(document, dict) and document and places:
        key = sorted(document)[places[0] % len(document)]
        return {**document, key: changed(document[key], places[1:], value)}
    if isinstance(document, list) and document and places:
        at = places[0] % len(document)
        return [*document[:at], changed(document[at], places[1:], value), *document[at + 1 :]]
    return value


def taken(path: Path) -> None:
    try:
        read = read_recorded(str(path))
        replay(read.graph)
    except InputError as error:
        assert str(error)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from([KINETO, CHAKRA]), st.lists(st.integers(0, 9), min_size=1, max_size=5), st.sampled_from(VALUES))
def test_a_wrong_value_anywhere(tmp_path: Path, document: Any, places: list[int], value: Any) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(changed(document, places, value)))
    taken(path)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from([KINETO, CHAKRA]), st.integers(0, 700), st.binary(max_size=3))
def test_cut_or_scrambled(tmp_path: Path, document: Any, at: int, put: bytes) -> None:
    path = tmp_path / "trace.json"
    text = json.dumps(document).encode()
    path.write_bytes(text[:at] + put + text[at + len(put) :] if put else text[:at])
    taken(path)


def test_the_whole_ones_are_read(tmp_path: Path) -> None:
    for name, document in (("kineto", KINETO), ("chakra", CHAKRA)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(document))
        assert replay(read_recorded(str(path)).graph).step > 0
    with pytest.raises(InputError, match="no such file"):
        read_recorded("trace.pt")
