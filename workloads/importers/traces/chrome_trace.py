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
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from slipstick.common.errors import InputError
from slipstick.common.opener import opened
from slipstick.workloads.importers.traces.event_columns import Columns, IrregularError
from slipstick.workloads.runs.event_table import EventTable, TraceNotes

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
_BLOCK = 1 << 18
"""Characters taken by the short road at a time: what is irregular sends no more than this over the general road."""


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
    notes = TraceNotes() if notes is None else notes
    path = Path(path)
    with opened(path, LARGEST_TRACE) as file:
        window = _Window(file, str(path))
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


def read_events(
    path: str | Path, arguments: Sequence[str] = ("correlation", "stream"), lists: Sequence[str] = ()
) -> EventTable:
    """Read the complete events of a trace into columns, in bounded memory beside the columns themselves.

    `arguments` names numeric event arguments to keep, `lists` those that are lists. Raises InputError (file, place)
    where the file cannot be read or is no trace.
    """
    notes = TraceNotes()
    path = Path(path)
    columns = Columns(arguments, lists)
    with opened(path, LARGEST_TRACE) as file:
        window = _Window(file, str(path), _TEXT_DECODER)
        for _ in _enter(window, notes):
            _read_list(window, columns, notes)
            window.position += 1
    notes.repaired_escapes = window.repaired
    return columns.table(notes)


def _read_list(window: _Window, columns: Columns, notes: TraceNotes) -> None:
    """Consume the events up to the closing bracket."""
    while True:
        text = window.text
        first = text.find('"ph"', window.position, window.position + _BLOCK)
        general = 1 if first >= 0 else 16  # a block without a phase is not searched again for each event
        last = text.rfind('"ph"', first + 4, first + _BLOCK) if first >= 0 else -1
        # The short road needs two events in sight, and to stand at the first key of the next one.
        if last > 0 and text[window.position : first].strip(" \t\r\n,") == "{":
            block = text[first + 4 : last]
            columns.flush()
            try:
                notes.phases.update(columns.add_block(block))
                window.position = text.rindex("{", window.position, last)
                continue
            except IrregularError:
                general = block.count('"ph"') + 1
        for _ in range(general):
            if not _read_one(window, columns, notes):
                return


def _read_one(window: _Window, columns: Columns, notes: TraceNotes) -> bool:
    """Take one event over the general road; False at the end of the list or the file."""
    character = window.peek(_SEPARATOR)
    if character == "]":
        return False
    try:
        if not character:
            raise EOFError
        event = window.value()
    except EOFError:
        notes.truncated = True
        return False
    notes.count(event, window.name)
    if isinstance(event, dict):
        columns.add(event, notes)
    return True
