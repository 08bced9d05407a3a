"""XPlane profiles (NAME.xplane.pb) of TPUs, JAX and TensorFlow, and the traces that TensorBoard makes of them.

The fields are those of tsl/profiler/protobuf/xplane.proto (github.com/openxla/xla). Only events are kept; the programs
that a profile holds beside them are passed over.

Fields of a protocol buffer, read without its description: numbers and the bytes of nested messages.

Encoding: protobuf.dev/programming-guides/encoding. Lengths are checked against what is there, so a broken file ends in
one line and never in a long loop.

Steps of profiles that XLA wrote (TPUs, JAX, TensorFlow): what each step did, from lines of events.

A profile has planes (a device, or the host) with lines (threads, streams, "Steps", "XLA Ops"); both its forms, XPlane
and the trace of TensorBoard, hand the same events here. Steps are the line "Steps" of a device; without one the host's
step annotations (argument step_num, as `jax.profiler.StepTraceAnnotation` writes); without those the runs of modules on
the line "XLA Modules". Operations are those of the lines "XLA Ops", or any event that names its hlo_op; an operation
that holds others (a loop) counts its own time alone.

Steps of the profiles of TPUs, JAX and TensorFlow, whichever of their forms a file has.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.opener import head, read_bytes
from slipstick.workloads.importers.traces.chrome_trace import iterate_events
from slipstick.workloads.runs.step_profiles import Place, StepProfile, operations_of


class Message(dict[int, list[int | memoryview]]):
    """The fields of a message by their numbers, in file order; of a field that is to be there once, the last counts."""

    def number(self, field: int) -> int:
        """A whole number, as unsigned 64 bits; 0 where there is none."""
        return next((one for one in reversed(self.get(field, ())) if isinstance(one, int)), 0)

    def text(self, field: int) -> str:
        """A text, broken letters replaced; "" where there is none."""
        return next((bytes(one).decode("utf-8", "replace") for one in self.messages(field)[::-1]), "")

    def messages(self, field: int) -> list[memoryview]:
        """Nested messages."""
        return [one for one in self.get(field, ()) if isinstance(one, memoryview)]


def parsed(message: memoryview, source: str) -> Message:
    """The fields of a message.

    Raises InputError where the bytes are no message.
    """
    fields = Message()
    place, end = 0, len(message)
    while place < end:
        tag, place = _number(message, place, source)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, place = _number(message, place, source)
            fields.setdefault(number, []).append(value)
            continue
        if wire == 2:
            length, place = _number(message, place, source)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise InputError(f"{source}: not a protocol buffer (wire type {wire})")
        if length > end - place:
            raise InputError(f"{source}: a field of {length} bytes, {end - place} are left: cut, or no protocol buffer")
        fields.setdefault(number, []).append(message[place : place + length])
        place += length
    return fields


def _number(message: memoryview, place: int, source: str) -> tuple[int, int]:
    value = shift = 0
    while place < len(message) and shift < 70:
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
    raise InputError(f"{source}: a number that does not end: cut, or no protocol buffer")


def signed(value: int) -> int:
    """A number that stands for a signed one of 64 bits."""
    return value - (1 << 64) if value >= 1 << 63 else value


STEP_LINES, OPERATION_LINES, MODULE_LINES = ("Steps",), ("XLA Ops", "Async XLA Ops"), ("XLA Modules",)
FEEDING = re.compile(r"infeed|outfeed|TransferBuffer|Linearize|IteratorGetNext|DecodeAndCrop", re.IGNORECASE)
"""Events of the host that feed the device: counted where they start."""
MOST_STEPS = 2_000_000
_NUMBER = re.compile(r"(\d{1,18})\s*$")


@dataclass(frozen=True)
class ProfiledEvent:
    """One event: where it is shown, its name, start and duration [s], and what its arguments say of it."""

    plane: str
    line: str
    name: str
    start: float
    duration: float
    step: int | None = None
    operation: str | None = None

    @property
    def on_device(self) -> bool:
        """Whether the plane is an accelerator's."""
        return self.plane.startswith("/device:") and "CPU" not in self.plane


def steps_of(events: Iterable[ProfiledEvent], source: str) -> list[StepProfile]:
    """Step profiles of a profile's events.

    Raises InputError where the profile shows no steps.
    """
    steps: dict[str, list[ProfiledEvent]] = defaultdict(list)
    noted: list[ProfiledEvent] = []
    modules: dict[str, list[ProfiledEvent]] = defaultdict(list)
    work: dict[tuple[str, str], list[ProfiledEvent]] = defaultdict(list)
    host: list[ProfiledEvent] = []
    for event in events:
        if event.on_device and event.line in STEP_LINES:
            steps[event.plane].append(event)
        elif event.on_device and event.line in MODULE_LINES:
            modules[event.plane].append(event)
        elif (event.on_device and event.line in OPERATION_LINES) or event.operation is not None:
            work[event.plane, event.line].append(event)
        elif event.step is not None:
            noted.append(event)
        elif FEEDING.search(event.name):
            host.append(event)
    chosen, device = _steps(steps, noted, modules, work)
    if not chosen:
        raise InputError(
            f"{source}: shows no steps: no line 'Steps', no event with step_num, no 'XLA Modules' "
            "(profile with jax.profiler.StepTraceAnnotation)"
        )
    if len(chosen) > MOST_STEPS:
        raise InputError(f"{source}: {len(chosen)} steps: more than {MOST_STEPS}")
    ops = [
        operation for (plane, _), lines in work.items() if device in (None, plane) for operation in _own_times(lines)
    ]
    return _divided(chosen, ops, [(event.name, event.start, event.duration) for event in host])


def _steps(
    steps: dict[str, list[ProfiledEvent]],
    noted: list[ProfiledEvent],
    modules: dict[str, list[ProfiledEvent]],
    work: dict[tuple[str, str], list[ProfiledEvent]],
) -> tuple[list[tuple[int, float, float]], str | None]:
    """Number, start and end of every step, and the device they are of; the busiest of several stands for all."""

    def busy(plane: str) -> float:
        return sum(event.duration for (device, _), lines in work.items() if device == plane for event in lines)

    if steps:
        device = max(sorted(steps), key=busy)
        return _numbered(steps[device]), device
    if noted:
        return _numbered(noted), None
    if modules:
        device = max(sorted(modules), key=busy)
        runs = sorted(modules[device], key=lambda event: event.start)
        return [(i, event.start, event.start + event.duration) for i, event in enumerate(runs)], device
    return [], None


def _numbered(events: Sequence[ProfiledEvent]) -> list[tuple[int, float, float]]:
    """Steps by start; of several events of one number (host threads) the first counts."""
    steps: dict[int, tuple[int, float, float]] = {}
    for place, event in enumerate(sorted(events, key=lambda event: event.start)):
        match = _NUMBER.search(event.name)
        number = event.step if event.step is not None else int(match.group(1)) if match else place
        steps.setdefault(number, (number, event.start, event.start + event.duration))
    return sorted(steps.values(), key=lambda step: step[1])


def _own_times(events: Sequence[ProfiledEvent]) -> list[tuple[str, float, float]]:
    """Name, start and own time of the events of one line: what an event holds is its own where it is shown."""
    ordered = sorted(events, key=lambda event: (event.start, -event.duration))
    durations = [event.duration for event in ordered]
    open_: list[int] = []
    for index, event in enumerate(ordered):
        while open_ and _end(ordered[open_[-1]]) <= event.start:
            open_.pop()
        if open_ and _end(event) <= _end(ordered[open_[-1]]) * (1 + 1e-12):
            durations[open_[-1]] -= event.duration
        open_.append(index)
    names = (short_name(event.operation or event.name) for event in ordered)
    return [(name, event.start, max(0.0, time)) for name, event, time in zip(names, ordered, durations, strict=True)]


def _end(event: ProfiledEvent) -> float:
    return event.start + event.duration


def short_name(name: str) -> str:
    """The name of an operation shown as its whole text: what stands before ` = `, without `%`."""
    return name.partition(" = ")[0].lstrip("%").strip() or "unnamed"


def _divided(
    steps: list[tuple[int, float, float]],
    device: Iterable[tuple[str, float, float]],
    host: Iterable[tuple[str, float, float]],
) -> list[StepProfile]:
    """Operations by the step in which they start."""
    begins = [begin for _, begin, _ in steps]
    inside: list[list[tuple[str, Place, float]]] = [[] for _ in steps]
    kinds: tuple[tuple[Place, Iterable[tuple[str, float, float]]], ...] = (("device", device), ("host", host))
    for place, events in kinds:
        for name, start, time in events:
            at = bisect_right(begins, start) - 1
            if at >= 0 and start < steps[at][2]:
                inside[at].append((name, place, time))
    each = zip(steps, inside, strict=True)
    return [StepProfile(number, begin, end - begin, operations_of(timed)) for (number, begin, end), timed in each]


def profiled_steps(path: Path) -> list[StepProfile] | None:
    """Steps of an XPlane, of a trace of JAX or TensorBoard, or of a summary of TensorBoard; None for other files.

    Raises InputError where the file is one of these and cannot be read, or shows no steps.
    """
    from slipstick.workloads.importers.traces import tensorboard_profile

    name = path.name.removesuffix(".gz")
    if name.endswith(".xplane.pb"):
        return read_xplane(path)
    if name.endswith("input_pipeline.json"):
        return tensorboard_profile.read_input_pipeline(path)
    if name.endswith("pod_viewer.json"):
        return tensorboard_profile.read_pod_viewer(path)
    if name.endswith(".json") and path.is_file() and is_profile_of_xla(path):
        return read_trace(path)
    return None


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
    for plane in parsed(memoryview(read_bytes(path, LARGEST)), source).messages(_PLANES):
        fields = parsed(plane, source)
        events, stats = (_names(fields.messages(field), source) for field in (_EVENT_NAMES, _STAT_NAMES))
        for line in fields.messages(_LINES):
            yield from _line_events(parsed(line, source), fields.text(_NAME), events, stats, source)


def _names(entries: Sequence[memoryview], source: str) -> dict[int, str]:
    """A map's names by their keys: of events, or of arguments."""
    made = [parsed(entry, source) for entry in entries]
    return {one.number(1): "".join(parsed(inner, source).text(2) for inner in one.messages(2)[-1:]) for one in made}


def _line_events(
    line: Message, plane: str, names: dict[int, str], stats: dict[int, str], source: str
) -> Iterator[ProfiledEvent]:
    shown, clock = line.text(_SHOWN_NAME) or line.text(_LINE_NAME), signed(line.number(_LINE_CLOCK)) * NANO
    wanted = {key for key, label in stats.items() if label in (STEP, OPERATION)}
    for entry in line.messages(_LINE_EVENTS):
        event = parsed(entry, source)
        given = [parsed(one, source) for one in event.messages(4)] if wanted else []
        arguments = {stats[one.number(1)]: _value(one, stats) for one in given if one.number(1) in wanted}
        offset, duration = signed(event.number(2)), max(0, signed(event.number(3)))
        yield ProfiledEvent(
            plane,
            shown,
            names.get(event.number(1), ""),
            clock + offset * PICO,
            duration * PICO,
            _whole(arguments.get(STEP, "")),
            arguments.get(OPERATION),
        )


def _value(stat: Message, names: dict[int, str]) -> str:
    """The value of an argument, as text; it may be the name of another argument."""
    if 5 in stat:
        return stat.text(5)
    if 7 in stat:
        return names.get(stat.number(7), "")
    return "".join(str(signed(stat.number(field))) for field in (3, 4) if field in stat)


def _whole(text: str) -> int | None:
    """The number of a step, where a text says one."""
    return int(text) if text.isdecimal() and len(text) < 19 else None


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
            _whole(step),
            str(operation) if operation else None,
        )


def is_profile_of_xla(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a trace with planes as XLA's profiler names them: these stand before the events."""
    text = head(path, HEAD)
    return '"process_name"' in text and ('"/device:' in text or '"/host:' in text)
