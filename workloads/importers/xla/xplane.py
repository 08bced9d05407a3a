"""XPlane profiles (NAME.xplane.pb) of TPUs, JAX and TensorFlow, and the traces that TensorBoard makes of them.

The fields are those of tsl/profiler/protobuf/xplane.proto (github.com/openxla/xla). Only events are kept; the programs
that a profile holds beside them are passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slipstick.common.opener import head, read_bytes
from slipstick.workloads.importers.traces.chrome_trace import iterate_events
from slipstick.workloads.importers.xla.device_steps import ProfiledEvent, steps_of
from slipstick.workloads.importers.xla.wire import fields, signed, text_of
from slipstick.workloads.runs.step_profiles import StepProfile

LARGEST = 1 << 31
"""Bytes of a profile after decompression (2 GiB)."""
HEAD = 1 << 16
"""Bytes in which a trace names its planes."""
STEP, OPERATION = "step_num", "hlo_op"
LATEST = 1e18
"""Microseconds of a clock; a later one is broken."""
PICO, MICRO, NANO = 1e-12, 1e-6, 1e-9
_PLANES, _NAME, _LINES, _EVENT_NAMES, _STAT_NAMES = 1, 2, 3, 4, 5
_LINE_NAME, _LINE_CLOCK, _LINE_EVENTS, _SHOWN_NAME = 2, 3, 4, 11


def read_xplane(path: str | os.PathLike[str]) -> list[StepProfile]:
    """Steps of an XPlane profile, packed or not; times in seconds.

    Raises InputError where the file cannot be read, is no such profile, or shows no steps.
    """
    return steps_of(xplane_events(path), str(path))


def read_trace(path: str | os.PathLike[str]) -> list[StepProfile]:
    """Steps of a trace that JAX or TensorBoard wrote (NAME.trace.json.gz).

    Raises InputError as `read_xplane`.
    """
    return steps_of(trace_events(path), str(path))


def xplane_events(path: str | os.PathLike[str]) -> Iterator[ProfiledEvent]:
    """All events of an XPlane profile, plane by plane."""
    source = str(path)
    space = memoryview(read_bytes(path, LARGEST))
    for number, plane in fields(space, source):
        if number == _PLANES and isinstance(plane, memoryview):
            yield from _plane_events(plane, source)


def _plane_events(plane: memoryview, source: str) -> Iterator[ProfiledEvent]:
    name, lines = "", []
    events: dict[int, str] = {}
    stats: dict[int, str] = {}
    for number, value in fields(plane, source):
        if number == _NAME:
            name = text_of(value)
        elif isinstance(value, int):
            continue
        elif number == _LINES:
            lines.append(value)
        elif number in (_EVENT_NAMES, _STAT_NAMES):
            key, label = _entry(value, source)
            (events if number == _EVENT_NAMES else stats)[key] = label
    for line in lines:
        yield from _line_events(line, name, events, stats, source)


def _entry(entry: memoryview, source: str) -> tuple[int, str]:
    """Key and name of an entry of the map of events' or of arguments' names."""
    key, label = 0, ""
    for number, value in fields(entry, source):
        if number == 1 and isinstance(value, int):
            key = value
        elif number == 2 and isinstance(value, memoryview):
            label = next((text_of(content) for inner, content in fields(value, source) if inner == 2), "")
    return key, label


def _line_events(
    line: memoryview, plane: str, names: dict[int, str], stats: dict[int, str], source: str
) -> Iterator[ProfiledEvent]:
    name, shown, clock, events = "", "", 0, []
    for number, value in fields(line, source):
        if number == _LINE_NAME:
            name = text_of(value)
        elif number == _SHOWN_NAME:
            shown = text_of(value)
        elif number == _LINE_CLOCK and isinstance(value, int):
            clock = signed(value)
        elif number == _LINE_EVENTS and isinstance(value, memoryview):
            events.append(value)
    wanted = {key for key, label in stats.items() if label in (STEP, OPERATION)}
    for event in events:
        kind, offset, duration, step, operation = 0, 0, 0, None, None
        for number, value in fields(event, source):
            if number == 4 and isinstance(value, memoryview):
                if wanted:
                    key, stat = _stat(value, stats, source)
                    if key in wanted and stats[key] == STEP:
                        step = int(stat) if stat.isdecimal() and len(stat) < 19 else None
                    elif key in wanted:
                        operation = stat
            elif isinstance(value, int):
                if number == 1:
                    kind = value
                elif number == 2:
                    offset = signed(value)
                elif number == 3:
                    duration = max(0, signed(value))
        start = clock * NANO + offset * PICO
        yield ProfiledEvent(plane, shown or name, names.get(kind, ""), start, duration * PICO, step, operation)


def _stat(stat: memoryview, names: dict[int, str], source: str) -> tuple[int, str]:
    """Key and value, as text, of an argument; a value may be the name of another argument."""
    key, text = 0, ""
    for number, value in fields(stat, source):
        if number == 1 and isinstance(value, int):
            key = value
        elif number in (3, 4) and isinstance(value, int):
            text = str(signed(value))
        elif number == 5:
            text = text_of(value)
        elif number == 7 and isinstance(value, int):
            text = names.get(value, "")
    return key, text


def trace_events(path: str | os.PathLike[str]) -> Iterator[ProfiledEvent]:
    """All complete events of a trace, with the names of their process and thread, which stand before them."""
    planes: dict[Any, str] = {}
    lines: dict[Any, str] = {}
    for event in iterate_events(Path(path)):
        arguments = event.get("args")
        details = arguments if isinstance(arguments, dict) else {}
        process, thread = str(event.get("pid")), (str(event.get("pid")), str(event.get("tid")))
        if event.get("ph") == "M":
            if event.get("name") == "process_name":
                planes[process] = str(details.get("name"))
            elif event.get("name") == "thread_name":
                lines[thread] = str(details.get("name"))
            continue
        start, duration = event.get("ts"), event.get("dur", 0)
        if event.get("ph") != "X" or not isinstance(start, (int, float)) or not isinstance(duration, (int, float)):
            continue
        if not (abs(start) < LATEST and 0 <= duration < LATEST):
            continue
        step, operation = str(details.get(STEP, "")), details.get(OPERATION)
        yield ProfiledEvent(
            planes.get(process, ""),
            lines.get(thread, ""),
            str(event.get("name")),
            float(start) * MICRO,
            float(duration) * MICRO,
            int(step) if step.isdecimal() and len(step) < 19 else None,
            str(operation) if operation else None,
        )


def is_profile_of_xla(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a trace with planes as XLA's profiler names them: these stand before the events."""
    text = head(path, HEAD)
    return '"process_name"' in text and ('"/device:' in text or '"/host:' in text)
