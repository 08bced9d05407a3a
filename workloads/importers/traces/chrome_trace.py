"""Chrome / Kineto traces, streamed.

A trace of a real training run holds a million events in hundreds of megabytes. It is read here in chunks of a few
megabytes, never as one document: `iterate_events` yields every event as a dictionary, `read_events` keeps only
columns (name, category, process, thread, start, duration and the wanted numeric arguments).

Format: "Trace Event Format" (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU); a bare list
of events or an object whose `traceEvents` is that list, times in microseconds. Kineto writes it with the fields
`ph, cat, name, pid, tid, ts, dur, args`.

Traces in the wild are not quite JSON: Windows paths with single backslashes, truncated ends, trailing commas. These
are tolerated, and counted.

Events of a trace collected into columns, block by block or one by one.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.opener import opened
from slipstick.workloads.runs.event_table import EventTable, TraceNotes

_BETWEEN = re.compile(r"\}\s*,\s*\{\s*\Z")
_DIGITS = re.compile(r"-?[0-9]+(\.[0-9]*)?")
_LIST = r"\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*\]"
"""A JSON list, its lists and theirs."""
_ENDLESS = 1e18
"""Microseconds (31,000 years) that no clock shows."""


class IrregularError(Exception):
    """A block is not the flat text that profilers write; the general road reads it."""


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
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not abs(number) < _ENDLESS:
        return None
    text = str(value)
    return text if _DIGITS.fullmatch(text) else f"{number:.3f}"


_Block = tuple[
    npt.NDArray[np.int32],
    npt.NDArray[np.float64],
    npt.NDArray[np.float64],
    list[npt.NDArray[np.float64]],
    npt.NDArray[np.int32],
]


class Columns:
    """Collects events chunk by chunk; the repeating part of an event (its head) is decoded once for all events that
    share it.
    """

    def __init__(self, wanted: Sequence[str], lists: Sequence[str] = ()) -> None:
        self.heads: dict[str, int] = {}
        self.decoded: list[tuple[str, str, str, str]] = []
        self.wanted = tuple(wanted)
        self.patterns = [(f'{key[1:]}"', _numeric(key)) for key in self.wanted]
        self.lists = tuple(lists)
        self.list_patterns = [re.compile(rf'"{re.escape(key)}"\s*:\s*({_LIST})').search for key in self.lists]
        self.texts: dict[tuple[str, ...], int] = {}
        self._all = (*self.wanted, *(key[:1].lower() + key[1:] for key in self.wanted), *self.lists)
        self.blocks: list[_Block] = []
        self.origin: int | None = None
        self.open: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.clear()

    def clear(self) -> None:
        """Forget the texts that were collected."""
        self.head: list[int] = []
        self.start: list[str] = []
        self.duration: list[str] = []
        self.arguments: list[str] = []

    def code(self, head: str) -> int:
        """The code of a head: the text of an event between `"ph"` and `"ts"`, decoded when it is first seen."""
        try:
            fields = json.loads('{"ph"' + head.rstrip(" \t\r\n,") + "}")
        except ValueError as error:
            raise IrregularError from error
        self.decoded.append(tuple(str(fields.get(key, "")) for key in ("name", "cat", "pid", "tid")))  # type: ignore[arg-type]
        self.heads[head] = len(self.decoded) - 1
        return self.heads[head]

    def add_block(self, text: str) -> Counter[str]:
        """Take a block of regular events, all or nothing; returns their phases.

        The text stands between two keys `"ph"`, starts after the first and ends before the last. Without a
        backslash every quote delimits a string, so splitting at the key is exact; the separator before each key
        proves that it opens an event of the list.
        """
        if "\\" in text:
            raise IrregularError
        others: list[str] = []
        heads, starts, durations, arguments = [], [], [], []
        known = self.heads
        separator = "\0"  # that of the first two events, which all must have
        for piece in text.split('"ph"'):
            if not piece.endswith(separator):
                match = _BETWEEN.search(piece)
                if match is None:
                    raise IrregularError
                separator = match.group()
            letter = piece[2:5] if piece[:2] == ": " else piece[1:4]
            if letter != '"X"':
                others.append(letter)
                continue
            head, key, rest = piece.partition('"ts"')
            fields = rest.split(",", 2)
            if not (key and len(fields) == 3 and '"dur"' in fields[1]):
                raise IrregularError
            start, duration, tail = fields
            heads.append(known[head] if head in known else self.code(head))
            starts.append(start[1:])
            durations.append(duration.partition(":")[2])
            arguments.append(tail)
        phases = Counter(letter.strip('"') for letter in others)
        try:
            columns = self.arrays(heads, starts, [text.rstrip("} \t\r\n") for text in durations], arguments)
        except (ValueError, OverflowError) as error:
            raise IrregularError from error
        if not {"B", "E"}.isdisjoint(phases) or any(len(letter) != 1 for letter in phases):
            raise IrregularError
        for (key, _), values in zip(self.patterns, columns[3], strict=True):
            if sum(key in text for text in arguments) != np.count_nonzero(np.isfinite(values)):
                raise IrregularError  # an argument that is no number: the general road says whether it is JSON at all
        self.blocks.append(columns)
        phases["X"] = len(heads)
        return phases

    def arrays(
        self, heads: Sequence[int], starts: Sequence[str], durations: Sequence[str], arguments: Sequence[str]
    ) -> _Block:
        """The texts as arrays of one entry an event: codes of names, starts and durations in the trace's unit,
        arguments.
        """
        if self.origin is None and starts:
            if not abs(float(starts[0])) < _ENDLESS:
                raise IrregularError
            self.origin = int(float(starts[0]))
        columns = []
        for key, search in self.patterns:
            values = np.full(len(arguments), np.nan)
            for index in [i for i, text in enumerate(arguments) if key in text]:
                if match := search(arguments[index]):
                    values[index] = _number(match.group(1))
            columns.append(values)
        codes = np.full(len(arguments) if self.lists else 0, -1, dtype=np.int32)
        for index in [i for i, text in enumerate(arguments) if self.lists and f'"{self.lists[0]}"' in text]:
            codes[index] = self._text(arguments[index])
        start, duration = _microseconds(starts, self.origin or 0), _microseconds(durations, 0)
        # a comparison with not-a-number is false; such events are counted one by one on the general road
        if not (np.all(np.abs(start) < 2 * _ENDLESS) and np.all((duration >= 0) & (duration < _ENDLESS))):
            raise IrregularError
        return np.array(heads, dtype=np.int32), start, duration, columns, codes

    def _text(self, arguments: str) -> int:
        """The code of the wanted lists among an event's arguments; "" stands for one that is not there."""
        matches = [search(arguments) for search in self.list_patterns]
        key = tuple(match.group(1) if match else "" for match in matches)
        return self.texts.setdefault(key, len(self.texts))

    def add(self, event: dict[str, Any], notes: TraceNotes) -> None:
        """Take an event that came by the general road."""
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
        if start is None or duration is None or float(duration) < 0:
            notes.skipped += 1
            return
        label = tuple(str(event.get(key, "")) for key in ("name", "cat", "pid", "tid"))
        key = "\0".join(label)
        if key not in self.heads:
            self.heads[key] = len(self.decoded)
            self.decoded.append(label)  # type: ignore[arg-type]
        self.head.append(self.heads[key])
        self.start.append(start)
        self.duration.append(duration)
        arguments = event.get("args")
        self.arguments.append(
            json.dumps({k: arguments[k] for k in self._all if k in arguments}) if isinstance(arguments, dict) else ""
        )

    def flush(self) -> None:
        """Turn what came by the general road into a block."""
        if self.head:
            self.blocks.append(self.arrays(self.head, self.start, self.duration, self.arguments))
            self.clear()

    def table(self, notes: TraceNotes) -> EventTable:
        """All blocks as one table, in seconds."""
        self.flush()
        notes.skipped += sum(len(stack) for stack in self.open.values())
        head = np.concatenate([block[0] for block in self.blocks]) if self.blocks else np.zeros(0, dtype=np.int32)
        labels: list[tuple[str, ...]] = []
        codes: list[npt.NDArray[np.int32]] = []
        for position in range(4):
            known: dict[str, int] = {}
            of_head = np.array([known.setdefault(each[position], len(known)) for each in self.decoded], dtype=np.int32)
            labels.append(tuple(known))
            codes.append(of_head[head] if len(of_head) else head)
        start = np.concatenate([block[1] for block in self.blocks]) if self.blocks else np.zeros(0)
        duration = np.concatenate([block[2] for block in self.blocks]) if self.blocks else np.zeros(0)
        arguments = {
            key: np.concatenate([block[3][i] for block in self.blocks]) if self.blocks else np.zeros(0)
            for i, key in enumerate(self.wanted)
        }
        return EventTable(
            names=labels[0],
            categories=labels[1],
            processes=labels[2],
            threads=labels[3],
            name=codes[0],
            category=codes[1],
            process=codes[2],
            thread=codes[3],
            start=start * 1e-6,
            duration=duration * 1e-6,
            arguments=arguments,
            origin=(self.origin or 0) * 1e-6,
            notes=notes,
            texts=tuple(self.texts),
            text=np.concatenate([block[4] for block in self.blocks]) if self.lists and self.blocks else None,
        )


def _numeric(key: str) -> Callable[[str], re.Match[str] | None]:
    """Finds a key's number; "External id" is "external id" in old traces."""
    first = f"[{key[:1]}{key[:1].lower()}]"
    return re.compile(rf'"{first}{re.escape(key[1:])}"\s*:\s*"?(-?[\d.]+)').search


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")  # no number: as if it were not there


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
