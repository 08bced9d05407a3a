"""Timelines, whatever tool wrote them: events as one table, and the graph of what waited for what."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from slipstick.workloads.importers.formats.registry import identify
from slipstick.workloads.importers.profilers.nsys import read_nsys
from slipstick.workloads.importers.profilers.rocprof_csv import read_rocprof_csv
from slipstick.workloads.importers.profilers.rocprof_json import read_rocprof_json
from slipstick.workloads.importers.traces.chrome_trace import read_events
from slipstick.workloads.importers.traces.kineto_graph import build_device_graph, build_graph, launches
from slipstick.workloads.importers.traces.trace_graph import TraceGraph
from slipstick.workloads.runs.event_table import EventTable

READERS = {"nsys": read_nsys, "rocprof-json": read_rocprof_json, "rocprof-csv": read_rocprof_csv}
"""Readers of profilers' files by the name of the format; every other file is read as a Chrome trace."""


def read_timeline(path: str | os.PathLike[str], arguments: Sequence[str] = ("correlation", "stream")) -> EventTable:
    """The events of a profiler's file, found by its content.

    Parameters
    ----------
    arguments
        Numeric arguments to keep of a Chrome trace; of other files correlation, stream and bytes.

    Raises
    ------
    InputError
        Where the file cannot be read or is no timeline.
    """
    kind = identify(path)
    reader = READERS.get(kind.key) if kind else None
    return reader(Path(path)) if reader else read_events(Path(path), arguments)


def timeline_graph(path: str | os.PathLike[str]) -> TraceGraph:
    """What waited for what in a profiler's file; where its host was not recorded, the device with its gaps.

    Raises
    ------
    InputError
        Where the file is no timeline, or shows no work of a device.
    """
    kind = identify(path)
    table = read_timeline(path)
    known = kind is not None and kind.key in READERS
    return build_device_graph(table, str(path)) if known and not launches(table) else build_graph(table, str(path))
