"""What ran when, and its file in the Trace Event Format that Chrome (chrome://tracing) and Perfetto open.

Source: Trace Event Format, Google, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.common.writer import write_json

MOST_EVENTS = 1_000_000
"""Of one file: viewers open no more."""


@dataclass(frozen=True)
class Event:
    """One stretch of a timeline: what ran where, from start to end in seconds.

    Parameters
    ----------
    lane
        Where: "thread" or "process/thread", each a row of its own.
    kind
        What kind of stretch it is; "" where its name says all.
    facts
        Numbers that a viewer shows with it.

    Examples
    --------
    >>> import slipstick as ss
    >>> ss.Event("product", "stream 0", 0.0, 2e-3).lane
    'stream 0'
    """

    name: str
    lane: str
    start: float
    end: float
    kind: str = ""
    facts: FrozenDict[float] = FrozenDict()


def write_timeline(path: str | os.PathLike[str], events: Iterable[Event]) -> int:
    """Write a timeline as a Chrome trace; returns how many stretches it has.

    Raises InputError where there are more than a million, or the file cannot be written.
    """
    kept = list(islice(events, MOST_EVENTS + 1))
    if len(kept) > MOST_EVENTS:
        raise InputError(f"{path}: more than {MOST_EVENTS:,} events; trace a run of fewer steps, copies or requests")
    write_json(path, {"traceEvents": list(_trace_events(kept)), "displayTimeUnit": "ms"})
    return len(kept)


def _trace_events(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    processes, lanes = dict[str, int](), dict[str, dict[str, int]]()
    for event in events:
        if event.lane not in lanes:
            process, _, thread = event.lane.rpartition("/")
            place = lanes[event.lane] = {"pid": processes.setdefault(process, len(processes)), "tid": len(lanes)}
            for what, name in (("process_name", process or "timeline"), ("thread_name", thread)):
                yield {"ph": "M", "name": what, **place, "args": {"name": name}}
        made = {"ph": "X", "name": event.name, "cat": event.kind, **lanes[event.lane]}
        yield {**made, "ts": event.start * 1e6, "dur": (event.end - event.start) * 1e6, "args": {**event.facts}}
