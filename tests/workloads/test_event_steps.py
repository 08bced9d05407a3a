"""Steps that events number by themselves, events of a CSV, and the count of what belongs to no step."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.experiments.methods.iterations.step_logs import read_steps
from slipstick.workloads.importers.traces.event_csv import read_event_csv
from slipstick.workloads.runs.event_steps import MARKER
from slipstick.workloads.runs.step_profiles import Place, operations_of


def numbered(folder: Path, argument: str = "step") -> Path:
    """Ten steps of three operations without a category, numbered by an argument; the pipeline overlaps them."""
    events: list[dict[str, object]] = []
    for step in range(10):
        for place, name in enumerate(("load", "compute", "store")):
            start = 1000 * step + 600 * place
            events.append({"ph": "X", "name": name, "pid": 1, "tid": place, "ts": start, "dur": 500})
            events[-1]["args"] = {argument: step}
    events.append({"ph": "X", "name": "stray", "pid": 1, "tid": 9, "ts": 5, "dur": 1})
    events.append({"ph": "X", "cat": "python_function", "name": "f", "pid": 1, "tid": 9, "ts": 5, "dur": 1})
    events.append({"ph": "i", "name": "mark", "pid": 1, "tid": 9, "ts": 7})
    path = folder / "own.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@pytest.mark.parametrize("argument", ["step", "step_num", "iteration"])
def test_events_that_number_their_step_make_the_steps(tmp_path: Path, argument: str) -> None:
    steps, notes = read_steps(numbered(tmp_path, argument), MARKER)
    assert [step.step for step in steps] == list(range(10))
    assert all(set(step.operations) == {"load", "compute", "store"} for step in steps)
    assert steps[3].duration == pytest.approx(1700e-6)
    assert sum(each.count for step in steps for each in step.operations.values()) == 30
    assert notes == [
        "1 spans of category 'python_function' are no operations",
        "1 operations outside all steps are left out",
        "1 events are no spans and have no duration (i: 1)",
    ]


def test_every_event_is_in_a_step_or_counted(tmp_path: Path) -> None:
    """Markers, categories, events before the first step, instants and counters: the sums agree."""
    events: list[dict[str, object]] = []
    for step in range(4):
        name = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1}
        events.append({**name, "ts": 100 * step + 100, "dur": 90})
        events.append({"ph": "X", "name": "bare", "pid": 1, "tid": 1, "ts": 100 * step + 110, "dur": 9})
        events.append({"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 100 * step + 195, "dur": 1})
        events.append({"ph": "C", "name": "memory", "pid": 1, "ts": 100 * step, "args": {"bytes": 1}})
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    steps, notes = read_steps(path, MARKER)
    assert [set(step.operations) for step in steps] == [{"bare"}] * 4
    assert notes == ["4 operations outside all steps are left out", "4 events are no spans and have no duration (C: 4)"]


def test_a_trace_with_neither_markers_nor_numbers_says_what_it_wants(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([{"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]))
    with pytest.raises(InputError, match="none with an argument step or step_num .*: the trace has no steps"):
        read_steps(path, MARKER)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_an_operation_called_as_one_with_its_place_keeps_its_time(order: tuple[int, ...], tmp_path: Path) -> None:
    timed: list[tuple[str, Place, float]] = [("a (device)", "host", 1.0), ("a", "host", 2.0), ("a", "device", 4.0)]
    timed = [timed[at] for at in order]
    path = tmp_path / "trace.json"
    begin = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": 0, "dur": 9e6}
    categories = {"host": "cpu_op", "device": "kernel"}
    called = [
        {"ph": "X", "cat": categories[place], "name": name, "pid": 1, "tid": 1, "ts": 1, "dur": 1e6 * time}
        for name, place, time in timed
    ]
    path.write_text(json.dumps([begin, *called]))
    (step,), _ = read_steps(path, MARKER)
    for operations in (operations_of(timed), step.operations):
        assert sorted((one.time, one.place) for one in operations.values()) == [
            (1.0, "host"), (2.0, "host"), (4.0, "device"),
        ]  # fmt: skip


CSV = """step,operation,duration_ms,start_s,place
0,decode,5,0,cpu
0,matmul,8,0.004,tpu
1,decode,5,0.012,cpu
1,matmul,8,0.016,tpu
1,matmul,2,0.024,tpu
,stray,3,0,cpu
"""


def test_a_csv_of_events(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(CSV)
    steps, notes = read_event_csv(path)
    assert notes == ["1 rows without a step are left out"]
    assert [step.duration for step in steps] == pytest.approx([0.012, 0.014])
    assert steps[1].operations["matmul"].count == 2
    assert steps[1].operations["matmul"].time == pytest.approx(0.010)
    assert (steps[0].operations["decode"].place, steps[0].operations["matmul"].place) == ("host", "device")
    path.write_text("iteration,time_s\n3,1.5\n3,0.5\n4,1\n")
    steps, notes = read_event_csv(path)
    assert [(step.step, step.start, step.duration) for step in steps] == [(3, 0.0, 2.0), (4, 2.0, 1.0)]
    assert notes == ["no column of starts: a step lasts as long as its events together"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "no column of the step: want one of step, step_num"),
        ("step,b\n1,2\n", "no column of the time: want one of duration_s"),
        ("step,time_s\nx,2\n", "line 2: step = 'x': want a whole number >= 0"),
        ("step,time_s\n1,-2\n", r"line 2: time_s = -2 lies outside \[0, 1e\+09\]"),
        ("step,time_s,operation,place\n1,2,a,moon\n", "line 2: place = 'moon': known: host, cpu, device, gpu, tpu"),
        ("step,time_s\n", "has no rows with a step"),
    ],
)
def test_a_wrong_csv_is_refused_by_line_and_column(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "events.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_event_csv(path)


def test_the_command_says_what_it_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "events.csv").write_text(CSV)
    assert run(["phases", str(tmp_path / "events.csv")]) == 0
    assert "1 rows without a step are left out" in capsys.readouterr().out
    assert run(["phases", str(tmp_path / "events.csv"), "--step-pattern", r"x(\d)"]) == 2
    assert "--step-pattern is for timelines" in capsys.readouterr().err
