"""Timelines, whatever tool wrote them: events as one table, and the graph of what waited for what."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.workloads.importers.formats.registry import identify
from slipstick.workloads.importers.profilers.nsys import read_nsys
from slipstick.workloads.importers.profilers.rocprof import read_rocprof_csv, read_rocprof_json
from slipstick.workloads.importers.traces.chrome_trace import read_events
from slipstick.workloads.importers.traces.kineto_graph import build_device_graph, build_graph, launches
from slipstick.workloads.importers.traces.trace_graph import TraceGraph
from slipstick.workloads.runs.event_steps import step_marker, step_number
from slipstick.workloads.runs.event_table import EventTable

READERS = {"nsys": read_nsys, "rocprof-json": read_rocprof_json, "rocprof-csv": read_rocprof_csv}
"""Readers of profilers' files by the name of the format; every other file is read as a Chrome trace."""


def read_timeline(
    path: str | os.PathLike[str], arguments: Sequence[str] = ("correlation", "stream"), lists: Sequence[str] = ()
) -> EventTable:
    """The events of a profiler's file, found by its content.

    `arguments`, `lists`: numeric arguments, and arguments that are lists, to keep of a Chrome trace; of other files
        correlation, stream and bytes.
    Raises InputError where the file cannot be read or is no timeline.
    """
    kind = identify(path)
    reader = READERS.get(kind.key) if kind else None
    return reader(Path(path)) if reader else read_events(Path(path), arguments, lists)


def graph_of_events(table: EventTable, path: str | os.PathLike[str], marker: str | None = None) -> TraceGraph:
    """What waited for what in a file's events; where its host was not recorded, the device with its gaps; in seconds.

    `marker`: pattern of the ranges that are steps, whose first group holds their number ("iteration (\\d+)"); None for
        those of PyTorch's profiler (ProfilerStep#N).
    Raises InputError where they show no work of a device, or no range fits the marker.
    """
    table = table if marker is None else marked(table, marker, path)
    alone = _from_profiler(path) and not launches(table)
    return build_device_graph(table, str(path)) if alone else build_graph(table, str(path))


def replays(table: EventTable, path: str | os.PathLike[str]) -> bool:
    """Whether `graph_of_events` can tell what waited for what: a Chrome trace must hold the calls that launch."""
    return _from_profiler(path) or launches(table)


def _from_profiler(path: str | os.PathLike[str]) -> bool:
    kind = identify(path)
    return kind is not None and kind.key in READERS


def marked(table: EventTable, marker: str, path: object) -> EventTable:
    """The events with the ranges that fit a marker named as steps are by PyTorch's profiler.

    Raises InputError as `step_marker` and `step_number`, and where nothing fits.
    """
    pattern = step_marker(marker)
    fitting = [pattern.fullmatch(name) for name in table.names]
    if not any(fitting):
        raise InputError(
            f"{path}: no range fits --step-pattern {marker[:60]!r} (names: {', '.join(table.names[:5])}, ...)"
        )
    names = (
        f"ProfilerStep#{step_number(found)}" if found else name
        for found, name in zip(fitting, table.names, strict=True)
    )
    return replace(table, names=tuple(names))
