"""The graph of a Kineto (Chrome) trace: why things ran when they did, read off the times.

A trace says when things ran, not why. The reasons are read off the times: a kernel waits for its launch and for the
kernel before it on its stream; a call that blocks waits for the device operation that ends just before it returns; a
kernel that starts right after one ends on another stream, long after it could have, waits for that one. Every other
delay is kept as it was measured, so that replaying the graph gives the trace back.

Host threads of one process that launch are merged into one lane: forward runs on one thread while backward waits on
another, one at a time.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from slipstick.common.array_types import IntArray
from slipstick.common.errors import InputError
from slipstick.workloads.importers.traces.activity import CALLS, DEVICE
from slipstick.workloads.importers.traces.chrome_trace import read_events
from slipstick.workloads.importers.traces.graph_builder import (
    AWAIT,
    RETURNED,
    Builder,
    Cut,
    rows_by_number,
    with_category,
    with_name,
)
from slipstick.workloads.importers.traces.trace_graph import TraceGraph
from slipstick.workloads.runs.event_table import EventTable

BACKWARDS = 0.001
"""Share of kernels that may start before their own launch (wrong numbers) before the clocks count as different."""


def read_trace_graph(path: str | os.PathLike[str]) -> TraceGraph:
    """The graph of a Kineto (Chrome) trace; without ProfilerStep annotations the whole trace is one step.

    Raises InputError where the trace has no device operations or no launches.
    """
    table = read_events(Path(path), arguments=("correlation", "stream"))
    return build_graph(table, str(path))


def no_device(table: EventTable, where: str) -> InputError:
    """The error for a trace of a host alone."""
    return InputError(
        f"{where}: no device operations (categories: {', '.join(table.categories[:12])}); what a host ran is asked on "
        "another machine by its shapes (torch.profiler, record_shapes=True): slipstick estimate TRACE --on MACHINE"
    )


def build_graph(table: EventTable, where: str) -> TraceGraph:
    """The graph of a trace's events; `where` is the file, for messages.

    Raises InputError where the trace has no device operations, or no call that launches them.
    """
    on_device = with_category(table, DEVICE)
    device = np.flatnonzero(on_device)
    correlation = table.arguments["correlation"]
    waits = with_name(table, "Synchronize")  # launches nothing, so that some profilers give it no number
    calls = np.flatnonzero(with_category(table, CALLS) & (np.isfinite(correlation) | waits))
    if not len(device):
        raise no_device(table, where)
    call = rows_by_number(correlation, calls, correlation[device])
    if not (call >= 0).any():
        raise InputError(
            f"{where}: no call of the host launches the device operations: record both "
            "(torch.profiler: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
        )
    moved = _ahead(table, device, call)
    table = replace(table, start=table.start + np.where(on_device, moved, 0.0))
    order = np.argsort(table.start[device], kind="stable")
    builder = Builder(table, device[order], call[order], where)
    markers, more = _markers(table, where), list[Cut]()
    if not markers:
        ends = [float(np.max((table.start + table.duration)[rows])) for rows in (calls, device)]
        markers = [("whole trace", float(np.min(table.start[calls])), max(ends))]
        if ends[1] > ends[0]:  # a host that waits for the device after its last call, where a trace shows no such wait
            last = int(np.argmax(builder.end))
            more = [(ends[0], AWAIT, int(calls[np.argmax(table.start[calls])])), (ends[1], RETURNED, last)]
    notes = table.notes.words()
    if moved:
        notes += (f"the device's clock runs {moved * 1e6:.0f} us before the host's: put right by the launches",)
    return replace(builder.graph(calls, markers, more), device=device_name(table), notes=notes)


def build_device_graph(table: EventTable, where: str) -> TraceGraph:
    """The graph of a trace whose host was not recorded: what a device does, with its gaps as they were measured.

    The host waits for the last of it; a kernel waits for the one before it on its stream.
    Raises InputError where the trace has no device operations.
    """
    device = np.flatnonzero(with_category(table, DEVICE))
    if not len(device):
        raise no_device(table, where)
    rows = device[np.argsort(table.start[device], kind="stable")]
    builder = Builder(table, rows, np.full(len(rows), -1, dtype=np.int64), where)
    begin, end = float(np.min(table.start[device])), float(np.max((table.start + table.duration)[device]))
    markers = [("whole trace", begin, end)]
    graph = builder.graph(np.array([], dtype=np.int64), markers, [(end, RETURNED, int(np.argmax(builder.end)))])
    notes = (*table.notes.words(), "the host was not recorded: gaps of the device stay as measured")
    return replace(graph, device=device_name(table), notes=notes)


def launches(table: EventTable) -> bool:
    """Whether calls of the host launch the device's work in a trace."""
    correlation = table.arguments["correlation"]
    known = np.isfinite(correlation)
    calls = correlation[with_category(table, CALLS) & known]
    return bool(np.isin(correlation[with_category(table, DEVICE) & known], calls).any())


def _ahead(table: EventTable, device: IntArray, calls: IntArray) -> float:
    """Seconds that the device's clock is before the host's at least: no kernel starts before its own launch does.

    Profilers translate the device's clock, and some (ROCm's) leave an offset.
    """
    delays = np.sort(table.start[device[calls >= 0]] - table.start[calls[calls >= 0]])
    return float(max(0.0, -delays[int(BACKWARDS * len(delays))]))


def device_name(table: EventTable) -> str:
    """The name of the first device, as Kineto notes it beside the events; "" where it does not."""
    match = re.search(r"""['"]name['"]: ['"]([^'"]{1,80})['"]""", str(table.notes.metadata.get("deviceProperties", "")))
    return match.group(1) if match else ""


def _markers(table: EventTable, where: str) -> list[tuple[str, float, float]]:
    """(name, start, end) of each step, in order; annotations of the device are left out.

    Raises InputError where a step begins twice.
    """
    markers = {}
    for i in np.flatnonzero([str(name).startswith("ProfilerStep") for name in table.names])[...]:
        for row in np.flatnonzero(table.name == i):
            if "gpu" not in table.categories[table.category[row]]:
                if table.names[i] in markers:
                    raise InputError(
                        f"{where}: {table.names[i]} begins twice on the host: two recordings in one file; "
                        "give each a file of its own"
                    )
                markers[table.names[i]] = (float(table.start[row]), float(table.start[row] + table.duration[row]))
    lasting = ((name, *span) for name, span in markers.items() if span[1] > span[0])
    return sorted(lasting, key=lambda step: step[1])
