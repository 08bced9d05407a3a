"""Broken traces, recordings and logs: always an InputError of one line, never another exception, never NaN."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run as command
from slipstick.experiments.methods.iterations.step_logs import read_steps
from slipstick.workloads.importers.iteration_logs import read_log
from slipstick.workloads.importers.traces.chrome_trace import read_events

MARKER = r"ProfilerStep#(\d+)"
PIECES = [b"NaN", b"-1", b"1e999", b"null", b"[]", b"{}", b'""', b"true", b"1e30", b"Infinity", b"9" * 400]
PIECES += [b"\\", b'"', b"}", b"]", b",", b"\xff\xfe", b"\x00", b"1_0", b"[[[["]


def trace() -> bytes:
    events = []
    for step in range(5):
        common = {"ph": "X", "pid": 1, "tid": 1}
        events.append({**common, "name": f"ProfilerStep#{step}", "cat": "user_annotation", "ts": 1000 * step, "dur": 9})
        for kind, category in enumerate(("cpu_op", "kernel", "cuda_runtime")):
            start = 1000 * step + 2.5 + kind
            facts = {"name": f"op{kind}", "cat": category, "ts": start, "dur": 1, "args": {"correlation": step}}
            events.append({**common, **facts})
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


def recorded() -> bytes:
    step = {"start_s": 1.0, "duration_s": 1.0, "operations": {"a": [1, 0.5, "host"]}, "processor_time_s": 0.9}
    return b"\n".join(json.dumps({"step": number, **step}).encode() for number in range(6))


def summary() -> bytes:
    columns = [{"id": name} for name in ("stepnum", "noninfeedTimeMs", "infeedTimeMs")]
    rows = [{"c": [{"v": step}, {"v": 20.0}, {"v": 100.0}]} for step in range(4)]
    return json.dumps([{"cols": columns, "rows": rows}]).encode()


def log() -> bytes:
    return b"iteration,seq_len,time_s\n" + b"\n".join(b"%d,%d,0.%03d" % (i, 20 + i % 7, i + 1) for i in range(30))


def broken(content: bytes, generator: random.Random) -> bytes:
    """The content with one to three bytes, numbers or texts changed, left out, doubled or cut off."""
    text = bytearray(content)
    for _ in range(generator.randint(1, 3)):
        if not text:
            break
        place = generator.randrange(len(text))
        tokens = list(re.finditer(rb'-?\d+(\.\d+)?|"[^"]*"', bytes(text)))
        match generator.randint(0, 5):
            case 0:
                text[place] = generator.randrange(256)
            case 1:
                del text[place : place + generator.randint(1, 40)]
            case 2:
                text[place:place] = generator.choice(PIECES)
            case 3:
                del text[place:]
            case 4:
                text[place:place] = text[place : place + 60]
            case _ if tokens:
                token = generator.choice(tokens)
                text[token.start() : token.end()] = generator.choice(PIECES)
    return bytes(text)


@pytest.mark.parametrize(
    ("make", "name"),
    [(trace, "a.json"), (recorded, "a.jsonl"), (summary, "input_pipeline.json"), (log, "a.csv")],
)
def test_what_is_broken_is_refused_in_one_line_or_read_as_numbers(
    make: Callable[[], bytes], name: str, tmp_path: Path
) -> None:
    generator = random.Random(name)
    refused = 0
    for number in range(150):
        content = broken(make(), generator)
        packed = number % 3 == 0 and name != "input_pipeline.json"
        path = tmp_path / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content, 1) if packed else content)
        try:
            if make is log:
                iterations = read_log(path)
                assert all(map(math.isfinite, iterations.known_times))
                continue
            steps, _ = read_steps(path, MARKER)
        except InputError as error:
            refused += 1
            assert str(path) in str(error), error
            continue
        for step in steps:
            assert math.isfinite(step.start) and 0 <= step.duration < math.inf
            assert all(0 <= each.time < math.inf and each.count >= 0 for each in step.operations.values())
    assert refused > 10


@pytest.mark.parametrize("wrong", ["NaN", "-5", "Infinity", "1e999", '"soon"', "null", "true"])
def test_events_without_a_usable_duration_are_counted(wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(trace().decode().replace('"dur": 1,', f'"dur": {wrong},', 1))
    events = read_events(path)
    assert events.notes.skipped == 1 and len(events) == 19
    steps, notes = read_steps(path, MARKER)
    assert len(steps) == 5
    assert notes == ["1 events without a usable start or duration are left out"]


def test_recordings_with_impossible_times_are_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for wrong, words in (("-1.0", "duration_s = -1 s lies outside"), ("NaN", "duration_s = nan is not finite")):
        path.write_text(recorded().decode().replace('"duration_s": 1.0', f'"duration_s": {wrong}', 2))
        with pytest.raises(InputError, match=f"line 1.*{words}"):
            read_steps(path, MARKER)


def test_lists_of_other_things_and_odd_markers_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    path.write_text("[1, null, [2], {}]")
    assert command(["phases", str(path)]) == 2
    said = capsys.readouterr().err.strip()
    assert str(path) in said and "it holds no complete events" in said and "\n" not in said
    path.write_bytes(trace())
    for marker, words in (("(", "no regular expression"), ("ProfilerStep.*", "want a group"), ("op(.*)", "")):
        code = command(["phases", str(path), "--step-pattern", marker, "--format", "json"])
        said = capsys.readouterr().err.strip()
        assert code == (2 if words else 0) and words in said and "\n" not in said


def test_a_limit_that_is_not_reached_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = random.Random(3)
    path = tmp_path / "noisy.csv"
    rows = [f"{20 + i % 12},{math.exp(generator.gauss(0, 1)):.6f}" for i in range(60)]
    path.write_text("seq_len,time_s\n" + "\n".join(rows))
    assert command(["seqpoint", str(path), "--error", "0.0001%", "--format", "json"]) == 0
    out, said = capsys.readouterr()
    (answer,) = json.loads(out)
    assert answer["error_reached"] is False and abs(answer["error_where_chosen"]) > answer["error_limit"]
    assert answer["error_limit"] == pytest.approx(1e-6)
    assert "was not reached" in said and "the closest is" in said
    assert command(["seqpoint", str(path), "--error", "90%", "--format", "json"]) == 0
    out, said = capsys.readouterr()
    assert json.loads(out)[0]["error_reached"] is True and said == ""


ODD_STARTS = {"huge": 1e308, "not a number": math.nan}


@pytest.mark.parametrize("verb", ["phases", "seqpoint"])
@pytest.mark.parametrize("start", sorted(ODD_STARTS))
def test_steps_that_start_nowhere_are_none(
    verb: str, start: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(trace())
    for event in document["traceEvents"]:
        event["ts"] = ODD_STARTS[start]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    assert command([verb, str(path)]) == 2
    assert re.search("the trace has no steps|NaN is no JSON number", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"duration_s": 1e308, "operations": {"a": [1, 0.5, "host"]}}, "line 1.*duration_s = 1e.308 s lies outside"),
        ({"duration_s": 1.0, "operations": {"a": [1, 1e308, "host"]}}, "line 1.*'a' = 1e.308 s lies outside"),
    ],
)
def test_recordings_that_say_nothing(
    record: dict[str, object], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"step": 0, "start_s": 0.0, **record}))
    assert command(["phases", str(path)]) == 2
    assert re.search(words, capsys.readouterr().err)


@pytest.mark.parametrize("steps", [1, 5])
def test_steps_without_operations_are_one_phase(steps: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.jsonl"
    one = {"start_s": 0.0, "duration_s": 1.0, "operations": {}}
    path.write_text("\n".join(json.dumps({"step": number, **one}) for number in range(steps)))
    assert command(["phases", str(path)]) == 0
    assert "three longest phases: 100.0%" in capsys.readouterr().out


def test_markers_that_never_end_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(trace().replace(b"op1", b"a" * 41 + b"!"))
    assert command(["phases", str(path), "--step-pattern", "(a+)+$"]) == 2
    assert "a group may not be repeated" in capsys.readouterr().err
