"""Reading traces: both roads agree, damage is tolerated and counted, bad files say what is wrong."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.workloads.importers.traces import chrome_trace
from slipstick.workloads.importers.traces.chrome_trace import iterate_events, read_events
from slipstick.workloads.importers.traces.kineto_graph import build_graph
from slipstick.workloads.runs import event_table
from slipstick.workloads.runs.event_table import TraceNotes


def kineto_text(events: list[dict[str, Any]], indent: int | None = 2) -> str:
    """A document as Kineto writes it: `ph` first, times before the arguments."""
    return json.dumps({"schemaVersion": 1, "traceEvents": events, "traceName": "x.json"}, indent=indent)


def event(name: str, start: float, duration: float, **arguments: object) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": name,
        "pid": 1,
        "tid": 2,
        "ts": start,
        "dur": duration,
        "args": arguments,
    }


def write(folder: Path, text: str, name: str = "trace.json") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
@pytest.mark.parametrize("indent", [None, 1, 2])
def test_columns_hold_what_the_events_say(tmp_path: Path, name: str, indent: int | None) -> None:
    events = [event(f"op{i % 3}", 1000 + 10 * i, 4.5, correlation=i, stream=7) for i in range(50)]
    events.insert(20, {"ph": "s", "id": 5, "pid": 1, "tid": 2, "ts": 1, "cat": "ac2g", "name": "ac2g"})
    table = read_events(write(tmp_path, kineto_text(events, indent), name))
    assert len(table) == 50
    assert [table.names[code] for code in table.name] == [f"op{i % 3}" for i in range(50)]
    np.testing.assert_allclose(table.origin + table.start, (1000 + 10 * np.arange(50)) * 1e-6, rtol=1e-12)
    np.testing.assert_allclose(table.duration, 4.5e-6)
    np.testing.assert_array_equal(table.arguments["correlation"], np.arange(50))
    assert table.notes.phases == {"X": 50, "s": 1}
    assert table.notes.metadata == {"schemaVersion": 1, "traceName": "x.json"}
    assert (table.processes, table.threads, table.categories) == (("1",), ("2",), ("cpu_op",))


names = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs", "S")), max_size=12)
arguments = st.dictionaries(names, st.one_of(st.integers(0, 9), names, st.lists(st.integers(), max_size=2)), max_size=3)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(names, st.integers(0, 2**50), st.integers(0, 10**6), arguments), max_size=12),
    st.sampled_from([None, 0, 2]),
    st.sampled_from([37, 4096]),
)
def test_the_short_road_reads_what_a_json_parser_reads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    drawn: list[tuple[str, int, int, dict[str, Any]]],
    indent: int | None,
    chunk: int,
) -> None:
    monkeypatch.setattr(chrome_trace, "CHUNK", chunk)
    events = [event(name, start, duration) | {"args": more} for name, start, duration, more in drawn]
    path = write(tmp_path, kineto_text(events, indent))
    table = read_events(path, arguments=())
    assert [table.names[code] for code in table.name] == [each["name"] for each in events]
    starts = [round((table.origin + start) * 1e6) for start in table.start]
    assert np.allclose(starts, [each["ts"] for each in events], rtol=0, atol=0.5)
    assert [round(each * 1e6) for each in table.duration] == [each["dur"] for each in events]
    assert list(iterate_events(path)) == events
    assert table.notes.repaired_escapes == 0 and not table.notes.truncated


def test_a_clock_since_1970_keeps_its_nanoseconds(tmp_path: Path) -> None:
    text = kineto_text([event("a", 0, 1), event("b", 0, 2)]).replace('"ts": 0', '"ts": 1669783687464181.250', 1)
    text = text.replace('"ts": 0', '"ts": 1669783687464181.375', 1)
    table = read_events(write(tmp_path, text))
    assert table.start[1] - table.start[0] == pytest.approx(0.125e-6, abs=1e-13)


def test_invalid_backslashes_are_kept_and_counted(tmp_path: Path) -> None:
    text = kineto_text([event("a", 1, 1), event("BAD", 2, 1), event("c", 3, 1)]).replace("BAD", r"C:\users\x \\ \" \n")
    path = write(tmp_path, text)
    notes = TraceNotes()
    found = [each["name"] for each in iterate_events(path, notes)]
    assert found == ["a", 'C:\\users\\x \\ " \n', "c"]
    assert notes.repaired_escapes == 2  # \u without four digits, and \x; the others are JSON
    table = read_events(path)
    assert [table.names[code] for code in table.name] == found
    assert table.notes.repaired_escapes == 2


def test_a_truncated_file_gives_its_whole_events(tmp_path: Path) -> None:
    text = kineto_text([event(f"op{i}", i, 1) for i in range(10)])
    table = read_events(write(tmp_path, text[: text.index("op8") + 2]))
    assert len(table) == 8
    assert table.notes.truncated


def test_a_bare_list_trailing_commas_and_begin_end_pairs(tmp_path: Path) -> None:
    text = """[{"ph": "B", "name": "outer", "pid": 1, "tid": 1, "ts": 1},
     {"ph": "B", "name": "inner", "pid": 1, "tid": 1, "ts": 2}, {"ph": "E", "pid": 1, "tid": 1, "ts": 5},
     {"ph": "E", "pid": 1, "tid": 1, "ts": 9}, {"ph": "E", "pid": 1, "tid": 1, "ts": 11},
     {"ph": "X", "name": "late", "pid": 1, "tid": 1, "ts": "20", "dur": "3"}, {"ph": "X", "name": "no time"},]"""
    table = read_events(write(tmp_path, text))
    found = {
        table.names[n]: (t, d) for n, t, d in zip(table.name, table.start + table.origin, table.duration, strict=True)
    }
    assert found["inner"] == pytest.approx((2e-6, 3e-6))
    assert found["outer"] == pytest.approx((1e-6, 8e-6))
    assert found["late"] == pytest.approx((20e-6, 3e-6))
    assert table.notes.skipped == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "starts with"),
        ("hello", "starts with"),
        ("{}", "no list `traceEvents`"),
        ('{"traceEvents": {}}', "no list `traceEvents`"),
        ('{"traceEvents": [{"ph": "X" "name"}], "more": "' + "x" * 50 + '"}', "not JSON"),
        ('{"deep": ' + "[" * 200_000, "nested too deeply"),
    ],
)
def test_what_is_no_trace_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=words) as caught:
        read_events(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("one", ["{}", "0", '{"ph": "X", "ts": 1}', '{"name": "a"}', '{"ph": "long", "name": "a"}'])
@pytest.mark.parametrize("read", [read_events, lambda path: list(iterate_events(path))])
def test_mostly_broken_events_are_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, read: Any
) -> None:
    monkeypatch.setattr(event_table, "MAX_BROKEN", 100)
    good = json.dumps(event("op", 1, 1))
    broken = ", ".join([good] * 70 + [one] * 101)
    with pytest.raises(InputError, match=r"trace\.json: 101 of the first 171 events have no phase `ph`, no name"):
        read(write(tmp_path, f'{{"traceEvents": [{broken}, ' + "{} , " * 100_000))
    read(write(tmp_path, f"[{', '.join([good] * 300 + [one] * 250)}]"))  # more than half are whole
    few = TraceNotes()
    assert list(iterate_events(write(tmp_path, f"[{', '.join(['{}'] * 100 + [good])}]"), few))[-1]["name"] == "op"
    assert few.broken == 100


def test_events_without_a_start_are_counted_and_end_a_reading_where_they_are_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_table, "MAX_BROKEN", 100)
    good, timeless = json.dumps(event("op", 1, 1)), '{"ph": "X", "name": "a", "dur": 1}'
    with pytest.raises(InputError, match=r"101 of the first 17\d events have .* no usable start"):
        read_events(write(tmp_path, f"[{', '.join([good] * 70 + [timeless] * 200)}]"))
    kept = read_events(write(tmp_path, f"[{', '.join([good] * 300 + [timeless] * 200)}]"))
    assert (len(kept), kept.notes.skipped) == (300, 200)
    assert kept.notes.words() == (
        "200 events without a usable start or duration (none, or an end before it) are left out",
    )


def test_missing_and_broken_files_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_events(tmp_path / "none.json")
    broken = tmp_path / "broken.json.gz"
    broken.write_bytes(gzip.compress(kineto_text([event("a", i, 1) for i in range(500)]).encode())[:-200])
    with pytest.raises(InputError, match="broken or truncated gzip"):
        read_events(broken)


def test_a_large_value_ends_in_an_error_not_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome_trace, "CHUNK", 1000)
    monkeypatch.setattr(chrome_trace, "LARGEST_EVENT", 5000)
    path = write(tmp_path, '{"traceEvents": [{"name": "' + "x" * 20_000)
    with pytest.raises(InputError, match="one event takes more than"):
        read_events(path)
    monkeypatch.setattr(chrome_trace, "LARGEST_TRACE", 8000)
    monkeypatch.setattr(chrome_trace, "LARGEST_EVENT", 50_000)
    with pytest.raises(InputError, match="the limit for this kind of file"):
        read_events(path)


def test_real_traces_read_the_same_on_both_roads() -> None:
    from slipstick.experiments.calibrate.public_data import data_folder

    folder = data_folder()
    paths = sorted((folder / "traces").glob("*/*.gz"), key=lambda path: path.stat().st_size)[:3] if folder else []
    if not paths:
        pytest.skip("traces: no public measurements here (set SLIPSTICK_DATA)")
    for path in paths:
        table = read_events(path)
        complete = [each for each in iterate_events(path) if each.get("ph") == "X"]
        assert len(table) == len(complete)
        assert table.duration.sum() == pytest.approx(sum(float(each["dur"]) for each in complete) * 1e-6, rel=1e-12)
        counted = dict(zip(table.names, np.bincount(table.name).tolist(), strict=True))
        assert counted == Counter(each["name"] for each in complete)


EVENT = '{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 2, "args": {"stream": 7}}'


@pytest.mark.parametrize(
    "text",
    [
        f"[{EVENT}][{EVENT}]",
        f"[{EVENT}],\n{{}}",
        f'{{"traceEvents": [{EVENT}]}}\n{{"traceEvents": [{EVENT}]}}',
        f'{{"traceEvents": [{EVENT}], "traceEvents": [{EVENT}]}}',
    ],
)
def test_two_traces_in_one_file_are_refused(tmp_path: Path, text: str) -> None:
    """Of the first two one would be dropped, the last two would be one trace."""
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError, match="(another trace begins|two traces in one file).*a file of its own"):
        read_events(path)
    path.write_text(f"[{EVENT}],\n")
    assert len(read_events(path)) == 1


def test_a_step_that_begins_twice_is_two_recordings(tmp_path: Path) -> None:
    def span(name: str, category: str, process: int, at: float) -> dict[str, object]:
        return {"ph": "X", "cat": category, "name": name, "pid": process, "tid": 1, "ts": at, "dur": 9,
                "args": {"correlation": at}}  # fmt: skip

    path = tmp_path / "a.json"
    one = [span("ProfilerStep#3", "user_annotation", 1, 0), span("cudaLaunchKernel", "cuda_runtime", 1, 1)]
    one += [span("k", "kernel", 0, 1), span("ProfilerStep#3", "gpu_user_annotation", 0, 1)]
    path.write_text(json.dumps(one))
    assert len(build_graph(read_events(path), "a").steps) == 1
    path.write_text(json.dumps([*one, span("ProfilerStep#3", "user_annotation", 2, 20)]))
    with pytest.raises(InputError, match="a: ProfilerStep#3 begins twice on the host"):
        build_graph(read_events(path), "a")
