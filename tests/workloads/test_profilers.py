"""Timelines of profilers: what is read is what was recorded; broken and dangerous files are refused."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.schedules.trace_replay import replay
from slipstick.experiments.replay.read_files import read_any
from slipstick.experiments.replay.replay import read_recorded
from slipstick.workloads.importers.formats.registry import FORMATS, identify
from slipstick.workloads.importers.profilers.nsys import read_nsys
from slipstick.workloads.importers.timeline import graph_of_events, read_timeline
from slipstick.workloads.runs.event_steps import divided_events, profile_steps
from tests import files_made
from tests.files_made import COPIED, KERNEL, STEP

DATA = Path(os.environ.get("SLIPSTICK_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
ROCPROF = DATA / "traces" / "tracelens" / "rocprofiler_sdk_908.json.gz"
KEYS = {
    "nsys.sqlite": "nsys",
    "rocprof.json": "rocprof-json",
    "rocprof.csv": "rocprof-csv",
    "vllm.json": "vllm-bench",
    "llama-bench.json": "llama-bench",
    "llama-bench.jsonl": "llama-bench",
    "profile.cali": "caliper",
    "caliper.json": "caliper-json",
    "ncu.csv": "ncu",
    "ncu-raw.csv": "ncu",
    "pmc.csv": "rocprof-counters",
    "perf-stat.csv": "perf-stat",
    "perf-stat.txt": "perf-stat",
    "perf-stat.json": "perf-stat",
    "perf-script.txt": "perf-script",
    "likwid.csv": "likwid",
    "step.mlir": "stablehlo",
    "generic.mlir": "stablehlo",
}


def test_files_are_known_by_content_under_any_name(tmp_path: Path) -> None:
    files = files_made.write_all(tmp_path)
    assert set(KEYS) <= set(files)
    for name, key in KEYS.items():
        plain = files[name].rename(tmp_path / "a_file")
        found = identify(plain)
        assert found is not None and found.key == key, name
    assert len({one.key for one in FORMATS}) == len(FORMATS)


def test_nsys_events_are_those_of_the_tables(tmp_path: Path) -> None:
    table = read_nsys(files_made.nsys(tmp_path / "a", steps=4))
    frame = table.to_frame()
    assert frame.groupby("category", observed=True).size().to_dict() == {
        "kernel": 8, "gpu_memcpy": 4, "cuda_runtime": 12, "user_annotation": 4,
    }  # fmt: skip
    kernels = frame[frame.category == "kernel"]
    assert set(kernels.name) == {"sgemm_128x64_nn", "elementwise_kernel"}
    assert kernels.duration_s.to_numpy() == pytest.approx(KERNEL * 1e-9)
    copies = frame[frame.category == "gpu_memcpy"]
    assert set(copies.name) == {"Memcpy HtoD (Pinned -> Device)"} and set(copies.bytes) == {4096}
    assert table.origin == pytest.approx(files_made.START * 1e-9) and frame.start_s.min() == 0


def test_nsys_steps_and_replay(tmp_path: Path) -> None:
    path = files_made.nsys(tmp_path / "a", steps=2)
    steps = profile_steps(read_timeline(path), r"iteration (\d+)")
    assert [step.step for step in steps] == [1, 2]
    assert steps[0].operations["sgemm_128x64_nn"].time == pytest.approx(KERNEL * 1e-9)
    graph = graph_of_events(read_timeline(path), path)
    assert graph.device == "NVIDIA A100-SXM4-80GB"
    again = replay(graph)
    assert again.steps == pytest.approx(tuple(graph.measured_steps))
    last = (STEP + 130_000 + 2 * KERNEL) * 1e-9
    assert again.step == pytest.approx(last, rel=1e-6)
    assert again.busy == pytest.approx(2 * (COPIED + 2 * KERNEL) * 1e-9 / last, rel=1e-6)


def test_ranges_that_fit_a_marker_are_steps(tmp_path: Path) -> None:
    path = files_made.nsys(tmp_path / "a", steps=2)
    graph = graph_of_events(read_timeline(path), path, r"iteration (\d+)")
    assert graph.step_names == ("ProfilerStep#1", "ProfilerStep#2")
    assert graph.measured_steps == pytest.approx([(STEP - 1000) * 1e-9] * 2)
    for wrong, said in (
        ("step (\\d+)", "no range fits --step-pattern 'step "),
        ("(", "--step-pattern '\\(': no regular expression"),
        ("(a+)+(b)", "--step-pattern '.*': a group may not be repeated"),
        ("x" * 99, "--step-pattern 'x{60}': want a group that holds the step's number"),
        ("iter(ation) (?:\\d+)(!)?", "'iteration .': no group of --step-pattern holds a number \\('ation', 'None'\\)"),
    ):
        with pytest.raises(InputError, match=said):
            graph_of_events(read_timeline(path), path, wrong)


@pytest.mark.parametrize("pattern", [r"iteration (\d+)( of \d+)?", r"(warm-up )?iteration (\d+)"])
def test_the_first_group_with_a_number_says_the_step(tmp_path: Path, pattern: str) -> None:
    path = files_made.nsys(tmp_path / "a", steps=2)
    assert graph_of_events(read_timeline(path), path, pattern).step_names == ("ProfilerStep#1", "ProfilerStep#2")
    assert [step.step for step in profile_steps(read_timeline(path), pattern)] == [1, 2]


def test_correlation_numbers_of_several_processes_stay_apart(tmp_path: Path) -> None:
    path = files_made.nsys(tmp_path / "a", steps=1)
    database = sqlite3.connect(path)
    other = 99 << 24
    database.execute(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start, end, 1, 1, 7, correlationId, ?, demangledName, shortName "
        "FROM CUPTI_ACTIVITY_KIND_KERNEL", (other,),
    )  # fmt: skip
    database.commit()
    table = read_nsys(path)
    numbers = table.arguments["correlation"][: len(table) - 4]
    kernels = numbers[table.category[: len(numbers)] == table.categories.index("kernel")]
    assert len(np.unique(kernels)) == len(kernels) == 4


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("CREATE VIEW v AS SELECT 1", "view 'v'"),
        ("CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN SELECT 1; END", "trigger 't'"),
        ("CREATE VIRTUAL TABLE f USING fts5(a)", "virtual table 'f'"),
        ("CREATE TABLE g (a INTEGER, b INTEGER AS (a + 1))", "generated column"),
        ("DROP TABLE StringIds", "no table StringIds"),
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE rowid = 2", "row 2: start = 'soon'"),
    ],
)
def test_dangerous_and_broken_databases_are_refused(tmp_path: Path, sql: str, said: str) -> None:
    path = files_made.nsys(tmp_path / "a")
    database = sqlite3.connect(path)
    database.execute(sql)
    database.commit()
    database.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match=said):
        read_nsys(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_events_with_a_broken_clock_are_counted(tmp_path: Path) -> None:
    path = files_made.nsys(tmp_path / "a")
    database = sqlite3.connect(path)
    database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 5 WHERE rowid = 2")
    database.commit()
    table = read_nsys(path)
    assert table.notes.skipped == 1 and table.notes.words()
    database.close()
    assert "1 events without a usable start or duration" in read_any(str(path)).line
    assert "1 events without a usable start or duration" in read_recorded(str(path)).note
    assert any("1 events without" in line for line in divided_events(table, r"iteration (\d+)").lines())


def test_rocprof_json_and_csv(tmp_path: Path) -> None:
    files = files_made.write_all(tmp_path)
    graph = graph_of_events(read_timeline(files["rocprof.json"]), files["rocprof.json"])
    assert graph.device == "AMD Instinct MI300X" and graph.notes == ()
    assert {node.kind for node in graph.nodes} >= {"host", "kernel", "copy"}
    assert replay(graph).steps == pytest.approx(tuple(graph.measured_steps))
    alone = graph_of_events(read_timeline(files["rocprof.csv"]), files["rocprof.csv"])
    again = replay(alone)
    assert again.step == pytest.approx(350e-6) and again.busy == pytest.approx(300 / 350)
    assert any("not recorded" in note for note in alone.notes)


def test_rocprof_says_all_that_is_wrong_at_once(tmp_path: Path) -> None:
    made = files_made.rocprof()
    records = made["rocprofiler-sdk-tool"][0]["buffer_records"]
    records["kernel_dispatch"][1]["start_timestamp"] = "soon"
    del records["hip_api"][2]["end_timestamp"]
    (tmp_path / "a").write_text(json.dumps(made))
    with pytest.raises(InputError, match=r"kernel_dispatch\[1\].*hip_api\[2\]"):
        read_timeline(tmp_path / "a")
    (tmp_path / "c").write_text(json.dumps({"rocprofiler-sdk-tool": files_made.rocprof()["rocprofiler-sdk-tool"] * 2}))
    with pytest.raises(InputError, match="2 processes in one file"):
        read_timeline(tmp_path / "c")
    (tmp_path / "d").write_text(files_made.ROCPROF_CSV * 2)
    with pytest.raises(InputError, match="the header again"):
        read_timeline(tmp_path / "d")
    (tmp_path / "b").write_text(files_made.ROCPROF_CSV.replace("1000000", "x").replace("1350000", "-1"))
    with pytest.raises(InputError, match="line 2.*line 3"):
        read_timeline(tmp_path / "b")


@pytest.mark.slow
@pytest.mark.skipif(not ROCPROF.is_file(), reason="public traces are not here (SLIPSTICK_DATA)")
def test_a_public_record_of_rocprofv3() -> None:
    """TraceLens's record of a training run on MI350X: 43,915 dispatches, the device alone."""
    table = read_timeline(ROCPROF)
    assert len(table) == 43_915 and table.categories == ("kernel",) and table.notes.skipped == 0
    graph = graph_of_events(read_timeline(ROCPROF), ROCPROF)
    assert graph.device == "AMD Instinct MI350X"
    assert replay(graph).step == pytest.approx(graph.measured_steps[0])


@pytest.mark.parametrize("stream", ["2", [2], {"handle": "2"}, {"handle": True}])
def test_a_dispatch_on_no_stream_is_named(tmp_path: Path, stream: object) -> None:
    made = files_made.rocprof()
    made["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"][1]["stream_id"] = stream
    (tmp_path / "a").write_text(json.dumps(made))
    with pytest.raises(InputError, match=r"kernel_dispatch\[1\]"):
        read_timeline(tmp_path / "a")
