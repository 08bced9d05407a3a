"""What ran when, as a file of the Trace Event Format that Chrome (chrome://tracing) and Perfetto open.

Source: Trace Event Format, Google, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.writer import atomic_write

MOST_EVENTS = 1_000_000
"""Of one file: viewers open no more."""


def write_events(path: str | os.PathLike[str], events: Iterable[Mapping[str, Any]]) -> int:
    """Write events of the format; returns how many.

    Raises InputError where there are more than a million, or the file cannot be written.
    """
    kept = list(islice(events, MOST_EVENTS + 1))
    if len(kept) > MOST_EVENTS:
        raise InputError(f"{path}: more than {MOST_EVENTS:,} events; trace a run of fewer steps, copies or requests")
    with atomic_write(path) as stream:
        json.dump({"traceEvents": kept, "displayTimeUnit": "ms"}, stream)
    return len(kept)


def lane_events(stretches: Iterable[tuple[str, str, float, float]]) -> Iterator[dict[str, Any]]:
    """Events of stretches (name, lane, start and end in seconds): each lane a thread that bears its name."""
    lanes: dict[str, int] = {}
    for name, lane, start, end in stretches:
        if lane not in lanes:
            lanes[lane] = len(lanes)
            yield {"ph": "M", "name": "thread_name", "pid": 0, "tid": lanes[lane], "args": {"name": lane}}
        event = {"ph": "X", "name": name, "cat": lane, "pid": 0, "tid": lanes[lane]}
        yield {**event, "ts": start * 1e6, "dur": (end - start) * 1e6}
