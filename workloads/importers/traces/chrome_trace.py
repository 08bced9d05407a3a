"""Chrome / Kineto traces, streamed.

A trace of a real training run holds a million events in hundreds of megabytes. It is read here in chunks of a few
megabytes, never as one document: `iterate_events` yields every event as a dictionary, `read_events` keeps only
columns (name, category, process, thread, start, duration and the wanted numeric arguments).

Format: "Trace Event Format" (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU); a bare list
of events or an object whose `traceEvents` is that list, times in microseconds. Kineto writes it with the fields
`ph, cat, name, pid, tid, ts, dur, args`.

Traces in the wild are not quite JSON: Windows paths with single backslashes, truncated ends, trailing commas. These
are tolerated, and counted.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.opener import opened
from slipstick.workloads.runs.event_table import EventTable, TraceNotes

_DIGITS = re.compile(r"-?[0-9]{1,18}(\.[0-9]*)?")
_NUMBER = re.compile(r"-?[\d.]+")
_ENDLESS = 1e18
"""Microseconds (31,000 years) that no clock shows."""


def _microseconds(texts: Sequence[str], origin: int) -> npt.NDArray[np.float64]:
    """Microseconds since `origin`, exact to a nanosecond: clocks since 1970 with a fraction do not fit a double."""
    if len(max(texts, key=len, default="")) <= 17:  # a space, a point and 15 digits
        return np.fromiter(map(float, texts), dtype=np.float64, count=len(texts)) - origin
    try:
        return (np.fromiter(map(int, texts), dtype=np.int64, count=len(texts)) - origin).astype(np.float64)
    except (ValueError, OverflowError):
        pass
    parts = (text.partition(".") for text in texts)
    return np.array(
        [int(whole) - origin + float(f"0.{fraction or 0}") for whole, _, fraction in parts], dtype=np.float64
    )


def _clock(value: Any) -> str | None:
    """Microseconds as text that `_microseconds` reads; None where the value is no finite number."""
    if type(value) is str and _DIGITS.fullmatch(value):
        return value
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not abs(number) < _ENDLESS:
        return None
    return str(value) if type(value) is int else f"{number:.3f}"


_Block = tuple[
    npt.NDArray[np.int32],
    npt.NDArray[np.float64],
    npt.NDArray[np.float64],
    list[npt.NDArray[np.float64]],
    npt.NDArray[np.int32],
]
"""Codes of labels, start and duration in microseconds, the wanted arguments, codes of texts."""
TOGETHER = 1 << 16
"""Events that are held as objects of Python before they become arrays."""


class Columns:
    """Complete events as they come: what is kept of each, and blocks of arrays of those before."""

    def __init__(self, wanted: Sequence[str], lists: Sequence[str] = ()) -> None:
        self.wanted = [(key, key[:1].lower() + key[1:]) for key in wanted]
        self.lists = tuple(lists)
        self.labels: dict[tuple[Any, ...], int] = {}
        self.texts: dict[tuple[str, ...], int] = {}
        self.known: dict[str, int] = {}
        self.blocks: list[_Block] = []
        self.origin: int | None = None
        self.open: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.clear()

    def clear(self) -> None:
        """Begin a new block."""
        self.label: list[int] = []
        self.start: list[str] = []
        self.duration: list[str] = []
        self.arguments: list[list[float]] = [[] for _ in self.wanted]
        self._kept = [(*keys, values.append) for keys, values in zip(self.wanted, self.arguments, strict=True)]
        self.text: list[int] = []

    def add(self, event: dict[str, Any], notes: TraceNotes) -> None:
        """Take one event; B and E of a thread are matched as brackets are."""
        phase = event.get("ph")
        if phase == "B":
            self.open.setdefault((str(event.get("pid")), str(event.get("tid"))), []).append(event)
            return
        if phase == "E":
            stack = self.open.get((str(event.get("pid")), str(event.get("tid"))))
            if not stack:
                notes.skipped += 1
                return
            begin = stack.pop()
            try:
                event = begin | {
                    "ph": "X",
                    "dur": float(event["ts"]) - float(begin["ts"]),
                    "args": begin.get("args") or event.get("args"),
                }
            except (KeyError, TypeError, ValueError):
                notes.skipped += 1
                return
            phase = "X"
        if phase != "X":
            return
        start, duration = _clock(event.get("ts")), _clock(event.get("dur", 0))
        if start is None or duration is None or (duration[0] == "-" and float(duration) < 0):
            notes.skipped += 1
            return
        label = event.get("name", ""), event.get("cat", ""), event.get("pid", ""), event.get("tid", "")
        try:
            code = self.labels.setdefault(label, len(self.labels))
        except TypeError:  # a list or an object
            code = self.labels.setdefault(tuple(map(str, label)), len(self.labels))
        self.label.append(code)
        self.start.append(start)
        self.duration.append(duration)
        arguments = event.get("args")
        if not isinstance(arguments, dict):
            arguments = {}
        for key, lower, keep in self._kept:
            value = arguments[key] if key in arguments else arguments.get(lower)
            keep(value if type(value) is int and -_ENDLESS < value < _ENDLESS else _number(value))
        if self.lists:
            self.text.append(self._text(arguments))
        if len(self.label) >= TOGETHER:
            self.flush()

    def _text(self, arguments: dict[str, Any]) -> int:
        """The code of the wanted lists as they are written."""
        if not isinstance(arguments.get(self.lists[0]), list):
            return -1
        values = [arguments.get(key) for key in self.lists]
        known = self.known.get(seen := str(values))
        if known is None:
            text = tuple(json.dumps(value) if isinstance(value, list) else "" for value in values)
            known = self.known[seen] = self.texts.setdefault(text, len(self.texts))
        return known

    def flush(self) -> None:
        """Make a block of the events that came since the last one."""
        if self.start and self.origin is None:
            self.origin = int(float(self.start[0]))
        self.blocks.append(
            (
                np.array(self.label, dtype=np.int32),
                _microseconds(self.start, self.origin or 0),
                _microseconds(self.duration, 0),
                [np.array(values, dtype=np.float64) for values in self.arguments],
                np.array(self.text, dtype=np.int32),
            )
        )
        self.clear()

    def table(self, notes: TraceNotes) -> EventTable:
        """All events; what was begun and never ended is counted as skipped."""
        self.flush()
        notes.skipped += sum(len(stack) for stack in self.open.values())
        label, start, duration, arguments, text = zip(*self.blocks, strict=True)
        codes = np.concatenate(label)
        parts: list[tuple[tuple[str, ...], npt.NDArray[np.int32]]] = []
        for each in zip(*self.labels, strict=True) if self.labels else [()] * 4:
            known: dict[str, int] = {}
            of_label = np.array([known.setdefault(str(one), len(known)) for one in each], dtype=np.int32)
            parts.append((tuple(known), of_label[codes]))
        (names, name), (categories, category), (processes, process), (threads, thread) = parts
        return EventTable(
            names=names,
            categories=categories,
            processes=processes,
            threads=threads,
            name=name,
            category=category,
            process=process,
            thread=thread,
            start=np.concatenate(start) * 1e-6,
            duration=np.concatenate(duration) * 1e-6,
            arguments={
                key: np.concatenate(values)
                for (key, _), values in zip(self.wanted, zip(*arguments, strict=True), strict=True)
            },
            origin=(self.origin or 0) * 1e-6,
            notes=notes,
            texts=tuple(self.texts),
            text=np.concatenate(text) if self.lists else None,
        )


def _number(value: Any) -> float:
    """A number, or the one that a text begins with; nan of anything else."""
    try:
        match = _NUMBER.match(value) if isinstance(value, str) else None
        return math.nan if value is None or isinstance(value, bool) else float(match.group() if match else value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


CHUNK = 1 << 22
"""Characters read at a time."""
LARGEST_EVENT = 1 << 26
"""Characters that one event, or one value beside the events, may take."""
LARGEST_TRACE = 1 << 35
"""Bytes of one trace after decompression (32 GiB): a bomb ends here."""

_DECODER = json.JSONDecoder(strict=False)
_TEXT_DECODER = json.JSONDecoder(strict=False, parse_float=str)  # clocks with a fraction do not fit a double
_SEPARATOR = re.compile(r"[\s,]*")
_SPACE = re.compile(r"\s*")
_ESCAPE = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')
_EACH = "give each a file of its own"


class _Window:
    """A sliding window of text over the file: `text` from `position` is what has not been consumed yet."""

    def __init__(self, file: IO[bytes], name: str, decoder: json.JSONDecoder = _DECODER) -> None:
        self.file = file
        self.decoder = decoder
        self.name = name
        self.text = ""
        self.position = 0
        self.ended = False
        self.repaired = 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def grow(self) -> bool:
        """Drop what was consumed and append the next chunk; False at the end of the file."""
        if self.ended:
            return False
        if len(self.text) - self.position > LARGEST_EVENT:
            raise InputError(
                f"{self.name}: one event takes more than {LARGEST_EVENT:,} characters; not a trace, or a damaged one"
            )
        block = self.file.read(CHUNK)
        self.ended = not block
        self.text = self.text[self.position :] + self._decode(block, self.ended)
        self.position = 0
        return bool(block)

    def repair(self) -> bool:
        """Double every backslash that starts no JSON escape; False when there was none."""
        text = self.text[self.position :]
        end = len(text) if self.ended else len(text) - 6  # an escape may be cut by the end of the chunk
        broken = 0

        def double(match: re.Match[str]) -> str:
            nonlocal broken
            if match.group(1) or match.start() >= end:
                return match.group()
            broken += 1
            return "\\\\"

        self.text = _ESCAPE.sub(double, text)
        self.position = 0
        self.repaired += broken
        return broken > 0

    def peek(self, pattern: re.Pattern[str] = _SPACE) -> str:
        """The next character after what `pattern` skips, "" at the end of the file."""
        while True:
            match = pattern.match(self.text, self.position)
            self.position = match.end() if match else self.position
            if self.position < len(self.text):
                return self.text[self.position]
            if not self.grow():
                return ""

    def value(self, decoder: json.JSONDecoder | None = None) -> Any:
        """Decode the JSON value that starts at the position. Raises EOFError where the file ends inside it."""
        while True:
            try:
                value, end = (decoder or self.decoder).raw_decode(self.text, self.position)
            except json.JSONDecodeError as error:
                if error.msg.startswith("Invalid \\") and self.repair():
                    continue
                if self.grow():
                    continue
                # the decoder stops within a few characters of the end when the file is cut; elsewhere the text is wrong
                if error.pos >= len(self.text) - 8 or "Unterminated" in error.msg:
                    raise EOFError(self.name) from error
                around = self.text[max(error.pos - 30, 0) : error.pos + 30]
                raise InputError(f"{self.name}: not JSON ({error.msg}) near {around!r}") from error
            except RecursionError as error:
                raise InputError(f"{self.name}: values nested too deeply") from error
            except ValueError as error:
                raise InputError(f"{self.name}: an integer of thousands of digits") from error
            if end == len(self.text) and self.grow():  # a number may go on in the next chunk
                continue
            self.position = end
            return value


def _enter(window: _Window, notes: TraceNotes) -> Iterator[Literal["events"]]:
    """Walk the document around the events: suspends once, standing just after the `[` of the events."""
    first = window.peek()
    if first == "[":
        window.position += 1
        yield "events"
        _refuse_second(window)
        return
    if first != "{":
        raise InputError(f"{window.name}: a trace starts with '{{' or '[', not {first!r}: broken, or no event recorded")
    window.position += 1
    entered = False
    while window.peek(_SEPARATOR) not in ("}", ""):
        try:
            key = window.value()
            if not isinstance(key, str) or window.peek() != ":":
                raise InputError(f"{window.name}: expected a key and ':' beside the events, found {str(key)[:40]!r}")
            window.position += 1
            if key == "traceEvents" and window.peek() == "[":
                if entered:
                    raise InputError(f"{window.name}: a second list `traceEvents`: two traces in one file; {_EACH}")
                entered = True
                window.position += 1
                yield "events"
                if notes.truncated:
                    return
            else:
                window.peek()
                notes.metadata[key] = window.value(_DECODER)
        except EOFError:
            notes.truncated = True
            break
    if not entered:
        raise InputError(
            f"{window.name}: no list `traceEvents`; want a list of events, or an object that holds `traceEvents`"
        )
    window.position += 1
    _refuse_second(window)


def _refuse_second(window: _Window) -> None:
    """Refuse what stands behind the end of a trace, if it is another one: its events would be dropped."""
    if window.peek(_SEPARATOR) in ("{", "["):
        raise InputError(f"{window.name}: another trace begins behind the end of the first; {_EACH}")


def iterate_events(path: str | Path, notes: TraceNotes | None = None) -> Iterator[dict[str, Any]]:
    """Yield every event of a trace as a dictionary, in file order, in bounded memory.

    `notes` is filled on the way. Raises InputError (file, place) where the file cannot be read or is no trace.
    """
    return _events(Path(path), TraceNotes() if notes is None else notes, _DECODER)


def read_events(
    path: str | Path, arguments: Sequence[str] = ("correlation", "stream"), lists: Sequence[str] = ()
) -> EventTable:
    """Read the complete events of a trace into columns, in bounded memory beside the columns themselves.

    `arguments` names numeric event arguments to keep, `lists` those that are lists. Raises InputError (file, place)
    where the file cannot be read or is no trace.
    """
    notes, columns = TraceNotes(), Columns(arguments, lists)
    for event in _events(Path(path), notes, _TEXT_DECODER):
        columns.add(event, notes)
    return columns.table(notes)


def _events(path: Path, notes: TraceNotes, decoder: json.JSONDecoder) -> Iterator[dict[str, Any]]:
    with opened(path, LARGEST_TRACE) as file:
        window = _Window(file, str(path), decoder)
        for _ in _enter(window, notes):
            while (character := window.peek(_SEPARATOR)) != "]":
                if character == "":
                    notes.truncated = True
                    break
                try:
                    event = window.value()
                except EOFError:
                    notes.truncated = True
                    break
                notes.repaired_escapes = window.repaired
                notes.count(event, window.name)
                if isinstance(event, dict):
                    yield event
            window.position += 1
        notes.repaired_escapes = window.repaired
