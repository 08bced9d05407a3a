"""Profiles of TPUs and JAX: one real JAX run in both of its files, a TPU's planes written here, broken files.

`jax_cpu.*` is one run of JAX 0.10.2 on a CPU (22 November 2026): steps 0 to 11 of a network of three products of width
256, training on 32 rows (128 from step 8 on), but steps 5 and 11 evaluate three times.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.sampling.phases import DurationScan, scan_labels
from slipstick.experiments.methods.iterations.step_logs import read_steps
from slipstick.workloads.importers.iteration_logs import read_log
from slipstick.workloads.importers.traces.tensorboard_profile import read_pod_viewer
from slipstick.workloads.importers.xla.xplane import profiled_steps, read_trace, read_xplane, short_name

DATA = Path(__file__).parent / "data"
XPLANE, TRACE = DATA / "jax_cpu.xplane.pb.gz", DATA / "jax_cpu.trace.json.gz"


def number(value: int) -> bytes:
    """A whole number as protocol buffers write it."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(key: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return number(key << 3) + number(value)
    body = value.encode() if isinstance(value, str) else value
    return number(key << 3 | 2) + number(len(body)) + body


def tpu_profile() -> bytes:
    """Two steps of a TPU: the second waits for input; a loop holds one of its products."""
    names = {1: "7", 2: "8", 3: "%fusion.1 = f32[8] fusion(p)", 4: "%while.2", 5: "%infeed-dequeue", 6: "%dot.3"}
    metadata = b"".join(field(4, field(1, key) + field(2, field(1, key) + field(2, n))) for key, n in names.items())

    def event(key: int, start: int, length: int) -> bytes:
        return field(4, field(1, key) + field(2, start) + field(3, length))

    million = 1_000_000  # picoseconds in a microsecond
    steps = field(2, "Steps") + field(3, 10) + event(1, 0, 100 * million) + event(2, 100 * million, 300 * million)
    work = field(2, "XLA Ops") + field(3, 10)
    work += event(3, 0, 60 * million) + event(4, 60 * million, 40 * million) + event(6, 70 * million, 20 * million)
    work += event(5, 100 * million, 200 * million) + event(3, 300 * million, 60 * million)
    host = field(2, "infeed thread") + field(3, 10) + event(1, 120 * million, 150 * million)
    feeding = field(4, field(1, 1) + field(2, field(1, 1) + field(2, "TransferBufferToInfeedLocked")))
    return (
        field(1, field(1, 1) + field(2, "/device:TPU:0") + field(3, steps) + field(3, work) + metadata)
        + field(1, field(2, "/host:CPU") + field(3, host) + feeding)
        + field(2, "an error text")
    )


def test_the_two_files_of_one_run_of_jax_say_the_same() -> None:
    one, other = read_xplane(XPLANE), read_trace(TRACE)
    assert [step.step for step in one] == list(range(12)) == [step.step for step in other]
    for a, b in zip(one, other, strict=True):
        assert a.duration == pytest.approx(b.duration, abs=2e-9)  # the trace rounds to nanoseconds
        assert set(a.operations) == set(b.operations) and a.operations
        for name, operation in a.operations.items():
            assert operation.count == b.operations[name].count
            assert operation.time == pytest.approx(b.operations[name].time, abs=2e-8)


def test_evaluation_is_a_phase_of_its_own_and_seqpoint_reads_both() -> None:
    steps, notes = read_steps(XPLANE, r"ProfilerStep#(\d+)")
    labels = list(scan_labels(DurationScan(0.5), steps))
    assert notes == [] and labels[5] == labels[11] != labels[4] == labels[0]
    log = read_log(TRACE)
    assert len(log) == 12 and log.total == pytest.approx(sum(step.duration for step in steps), rel=1e-6)
    assert log.profiles is not None and log.profiles.shape[0] == 12


def test_a_tpu_s_steps_are_its_own_line_and_a_loop_counts_what_is_left_of_it(tmp_path: Path) -> None:
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(tpu_profile())
    first, second = read_xplane(path)
    assert (first.step, second.step) == (7, 8)
    assert first.duration == pytest.approx(100e-6) and second.duration == pytest.approx(300e-6)
    times = {name: operation.time for name, operation in first.operations.items()}
    assert times == pytest.approx({"fusion.1": 60e-6, "while.2": 20e-6, "dot.3": 20e-6})
    assert second.operations["infeed-dequeue"].time == pytest.approx(200e-6)
    assert second.operations["TransferBufferToInfeedLocked"].place == "host"


def test_names_of_operations_are_short() -> None:
    assert short_name("%fusion.3 = (f32[2,3]{1,0}) fusion(%p)") == "fusion.3"
    assert short_name("") == "unnamed"


def test_modules_are_steps_where_nothing_else_marks_them(tmp_path: Path) -> None:
    def event(name: str, thread: int, start: float, length: float) -> dict[str, object]:
        return {"ph": "X", "pid": 1, "tid": thread, "name": name, "ts": start, "dur": length}

    named = [
        ("process_name", 1, 0, "/device:TPU:0"),
        ("thread_name", 1, 1, "XLA Modules"),
        ("thread_name", 1, 2, "XLA Ops"),
    ]
    events: list[dict[str, object]] = [
        {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": text}} for kind, pid, tid, text in named
    ]
    events += [
        event("jit_step(1)", 1, 0, 10),
        event("jit_step(1)", 1, 20, 10),
        event("dot.1", 2, 1, 5),
        event("dot.1", 2, 22, 4),
    ]
    path = tmp_path / "vm.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = profiled_steps(path)
    assert found is not None
    assert [step.operations["dot.1"].time for step in found] == pytest.approx([5e-6, 4e-6])
    assert profiled_steps(tmp_path / "other.csv") is None


def test_a_pod_viewer_s_steps_are_the_mean_over_the_cores(tmp_path: Path) -> None:
    core = {"stepNum": 4, "totalDurationUs": 100.0, "highFlopsComputeUs": 60, "hostInfeedDurationUs": 10}
    other = {**core, "totalDurationUs": 120.0, "highFlopsComputeUs": 80}
    path = tmp_path / "a.pod_viewer.json"
    path.write_text(json.dumps({"podStatsSequence": {"podStatsMap": [{"podStatsPerCore": {"1": core, "3": other}}]}}))
    (step,) = read_pod_viewer(path)
    assert step.step == 4 and step.duration == pytest.approx(110e-6)
    assert step.operations["compute"].time == pytest.approx(70e-6)
    path.write_text('{"podStatsSequence": {"podStatsMap": [{"podStatsPerCore": {"1": {"totalDurationUs": -1}}}]}}')
    with pytest.raises(InputError, match="totalDurationUs"):
        read_pod_viewer(path)


def test_broken_profiles_are_refused_in_one_line(tmp_path: Path) -> None:
    whole = gzip.decompress(XPLANE.read_bytes())
    path = tmp_path / "x.xplane.pb"
    generator = random.Random(18)
    for attempt in range(40):
        broken = bytearray(whole)
        if attempt % 2:
            broken = broken[: generator.randrange(len(broken))]
        else:
            for _ in range(20):
                broken[generator.randrange(len(broken))] = generator.randrange(256)
        path.write_bytes(broken)
        try:
            read_xplane(path)
        except InputError as error:
            assert "\n" not in str(error)
    path.write_bytes(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
    with pytest.raises(InputError, match="cut, or no protocol buffer"):
        read_xplane(path)
    path.write_bytes(struct.pack("<I", 7))
    with pytest.raises(InputError):
        read_xplane(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="shows no steps"):
        read_xplane(path)
