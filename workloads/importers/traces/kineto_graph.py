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
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.hwmodels.files.readers import InputError
from slipstick.workloads.importers.traces.activity import CALLS, DEVICE
from slipstick.workloads.importers.traces.chrome_trace import read_events
from slipstick.workloads.importers.traces.trace_graph import Kind, Node, TraceGraph
from slipstick.workloads.runs.event_table import EventTable

BLOCKING = ("Synchronize", "Memcpy", "Launch")
COLLECTIVES = ("nccl", "rccl", "AllReduce", "AllGather", "ReduceScatter")
RETURN = 60e-6
"""A blocked call returns within this many seconds after what it waited for."""
STAGED = 20e-6
"""A copy from or to pageable memory longer than this goes through a staging buffer, so that its call waits for it."""
OVERLAP = 64
"""So many operations of a stream are looked back over for the one to wait for."""
FOLLOW = 20e-6
"""A kernel that waited for another stream starts within this many seconds after it."""
EXPLAINED = 0.5
"""Or within this share of its delay: where one stream fills the device, another's kernel begins as that one's next
kernel drains, a while after the last that ended."""
BACKWARDS = 0.001
"""Share of kernels that may start before their own launch (wrong numbers) before the clocks count as different."""


def read_trace_graph(path: str | os.PathLike[str]) -> TraceGraph:
    """The graph of a Kineto (Chrome) trace; without ProfilerStep annotations the whole trace is one step.

    Raises
    ------
    InputError
        Where the trace has no device operations or no launches.
    """
    table = read_events(Path(path), arguments=("correlation", "stream"))
    return build_graph(table, str(path))


def build_graph(table: EventTable, where: str) -> TraceGraph:
    """The graph of a trace's events; `where` is the file, for messages.

    Raises
    ------
    InputError
        Where the trace has no device operations, or no call that launches them.
    """
    categories = np.array([name.lower() for name in table.categories])[table.category]
    names = np.array(table.names, dtype=object)[table.name]
    correlation = table.arguments["correlation"]
    device = np.flatnonzero(np.isin(categories, list(DEVICE)))
    calls = np.flatnonzero(np.isin(categories, CALLS) & np.isfinite(correlation))
    if not len(device):
        raise InputError(f"{where}: no device operations (categories: {', '.join(table.categories[:12])})")
    call_of = {int(correlation[i]): int(i) for i in calls}
    if not any(int(correlation[i]) in call_of for i in device if np.isfinite(correlation[i])):
        raise InputError(f"{where}: no call launches the device operations; was the host recorded?")
    moved = _ahead(table, device, call_of)
    table = replace(table, start=table.start + np.where(np.isin(categories, list(DEVICE)), moved, 0.0))
    builder = _Builder(table, names, categories, where)
    builder.device(device, call_of)
    markers = _markers(table, names)
    if markers:
        builder.host(calls, markers, [])
    else:
        ends = [float(np.max((table.start + table.duration)[rows])) for rows in (calls, device)]
        markers = [("whole trace", float(np.min(table.start[calls])), max(ends))]
        builder.host(calls, markers, builder.waited_at_the_end(int(calls[np.argmax(table.start[calls])]), *ends))
    notes = table.notes.words()
    if moved:
        notes += (f"the device's clock runs {moved * 1e6:.0f} us before the host's: put right by the launches",)
    return replace(builder.graph(markers), device=device_name(table), notes=notes)


def build_device_graph(table: EventTable, where: str) -> TraceGraph:
    """The graph of a trace whose host was not recorded: what a device does, with its gaps as they were measured.

    The host waits for the last of it; a kernel waits for the one before it on its stream.

    Raises
    ------
    InputError
        Where the trace has no device operations.
    """
    categories = np.array([name.lower() for name in table.categories])[table.category]
    names = np.array(table.names, dtype=object)[table.name]
    device = np.flatnonzero(np.isin(categories, list(DEVICE)))
    if not len(device):
        raise InputError(f"{where}: no device operations (categories: {', '.join(table.categories[:12])})")
    builder = _Builder(table, names, categories, where)
    builder.device(device, {})
    begin, end = float(np.min(table.start[device])), float(np.max((table.start + table.duration)[device]))
    markers = [("whole trace", begin, end)]
    last = max(range(len(builder.nodes)), key=lambda i: builder.nodes[i].start + builder.nodes[i].service)
    builder.host(np.array([], dtype=np.int64), markers, [(end, "return", last)])
    notes = (*table.notes.words(), "the host was not recorded: gaps of the device stay as measured")
    return replace(builder.graph(markers), device=device_name(table), notes=notes)


def launches(table: EventTable) -> bool:
    """Whether calls of the host launch the device's work in a trace."""
    categories = np.array([name.lower() for name in table.categories])[table.category]
    correlation = table.arguments["correlation"]
    known = np.isfinite(correlation)
    calls = correlation[np.isin(categories, CALLS) & known]
    return bool(np.isin(correlation[np.isin(categories, list(DEVICE)) & known], calls).any())


def _ahead(table: EventTable, device: npt.NDArray[np.int64], call_of: Mapping[int, int]) -> float:
    """Seconds that the device's clock is before the host's at least: no kernel starts before its own launch does.

    Profilers translate the device's clock, and some (ROCm's) leave an offset.
    """
    numbers = table.arguments["correlation"][device]
    calls = np.array([call_of.get(int(n), -1) if np.isfinite(n) else -1 for n in numbers])
    delays = np.sort(table.start[device[calls >= 0]] - table.start[calls[calls >= 0]])
    return float(max(0.0, -delays[int(BACKWARDS * len(delays))]))


def device_name(table: EventTable) -> str:
    """The name of the first device, as Kineto notes it beside the events; "" where it does not."""
    match = re.search(r"""['"]name['"]: ['"]([^'"]{1,80})['"]""", str(table.notes.metadata.get("deviceProperties", "")))
    return match.group(1) if match else ""


def _markers(table: EventTable, names: npt.NDArray[np.object_]) -> list[tuple[str, float, float]]:
    """(name, start, end) of each step, in order; annotations of the device are left out."""
    markers = {}
    for i in np.flatnonzero([str(name).startswith("ProfilerStep") for name in table.names])[...]:
        for row in np.flatnonzero(table.name == i):
            if "gpu" not in table.categories[table.category[row]]:
                markers[str(names[row])] = (float(table.start[row]), float(table.start[row] + table.duration[row]))
    return sorted(((name, *span) for name, span in markers.items()), key=lambda step: step[1])


class _Builder:
    """Collects nodes and edges by their events, then numbers them by their measured ends."""

    def __init__(
        self, table: EventTable, names: npt.NDArray[np.object_], categories: npt.NDArray[np.str_], where: str
    ) -> None:
        self.table, self.names, self.categories, self.where = table, names, categories, where
        self.nodes: list[Node] = []
        self.before: list[list[tuple[int, float]]] = []
        self.launched: dict[int, int] = {}  # device node -> event of its launching call
        self.staged: dict[int, int] = {}  # event of a copy's call -> node where the stream has reached it
        self.cut_of: dict[int, int] = {}  # event of a call -> host node that ends where the call starts
        self.marks: dict[float, int] = {}

    def add(self, node: Node, before: list[tuple[int, float]]) -> int:
        self.nodes.append(node)
        self.before.append(before)
        return len(self.nodes) - 1

    def device(self, rows: npt.NDArray[np.int64], call_of: dict[int, int]) -> None:
        """Device operations in the order of their starts; edges along each stream."""
        table = self.table
        devices = np.unique(table.process[rows])
        streams: dict[str, list[int]] = {}
        for row in rows[np.argsort(table.start[rows], kind="stable")]:
            name = str(self.names[row])
            kind: Kind = "copy" if DEVICE[self.categories[row]] == "copy" else "kernel"
            if any(word in name for word in COLLECTIVES):
                kind = "collective"
            lane = f"stream {table.threads[table.thread[row]]}"
            if len(devices) > 1:
                lane = f"device {table.processes[table.process[row]]} {lane}"
            start, duration = float(table.start[row]), float(table.duration[row])
            # operations of one stream may overlap (graph branches, tails): wait for the last that ends before this one
            stream = streams.setdefault(lane, [])
            ended = next((i for i in reversed(stream[-OVERLAP:]) if self._end(i) <= start + duration), None)
            before = [] if ended is None else [(ended, min(0.0, start - self._end(ended)))]
            correlation = table.arguments["correlation"][row]
            call = call_of.get(int(correlation)) if np.isfinite(correlation) else None
            if call is not None and "Pageable" in name and duration > STAGED:
                begins = self.add(Node(f"{name} begins", "copy", lane, start, 0.0), before)
                self.staged[call] = begins
                self.launched[begins] = call
                stream.append(self.add(Node(name, kind, lane, start, duration), [(begins, 0.0)]))
                continue
            number = int(correlation) if np.isfinite(correlation) else -1
            stream.append(self.add(Node(name, kind, lane, start, duration, number), before))
            if call is not None:
                self.launched[stream[-1]] = call

    def waited_at_the_end(self, event: int, host_end: float, device_end: float) -> list[tuple[float, str, int]]:
        """Cuts of a host that waits for the device after its last call, where a trace shows no such wait."""
        if device_end <= host_end:
            return []
        last = max(range(len(self.nodes)), key=self._end)
        return [(host_end, "await", event), (device_end, "return", last)]

    def host(
        self,
        calls: npt.NDArray[np.int64],
        markers: list[tuple[str, float, float]],
        more: list[tuple[float, str, int]],
    ) -> None:
        """The merged host lane, cut where something is launched, awaited or loaded, and where steps begin and end."""
        table = self.table
        launching = {event: node for node, event in self.launched.items()}
        ends = sorted((node.start + node.service, i) for i, node in enumerate(self.nodes))
        end_times = [end for end, _ in ends]
        cuts: list[tuple[float, str, int]] = [(float(table.start[e]), "launch", e) for e in launching]
        for event in calls:
            if any(word in str(self.names[event]) for word in BLOCKING):
                begin = float(table.start[event])
                finish = begin + float(table.duration[event])
                if int(event) in self.staged:  # returns a while after the stream has reached the copy
                    cuts.append((finish, "return", self.staged[int(event)]))
                    continue
                at = bisect_right(end_times, finish) - 1
                if at >= 0 and end_times[at] > begin + 10e-6 and finish - end_times[at] <= RETURN:
                    cuts += [(begin, "await", int(event)), (finish, "return", ends[at][1])]
        for row in np.flatnonzero([_is_loader(name) for name in table.names]):
            for event in np.flatnonzero(table.name == row):
                begin = float(table.start[event])
                cuts += [(begin, "load", int(event)), (begin + float(table.duration[event]), "loaded", int(event))]
        cuts += more
        for _, begin, finish in markers:
            cuts += [(begin, "mark", -1), (finish, "mark", -1)]
        cuts.sort(key=lambda cut: (cut[0], cut[1] == "launch"))
        self._cut(cuts)

    def _cut(self, cuts: Sequence[tuple[float, str, int]]) -> None:
        previous, at = -1, cuts[0][0]
        kinds: dict[str, Kind] = {"loaded": "loader", "return": "wait"}
        for time, what, event in cuts:
            before = [(previous, 0.0)] if previous >= 0 else []
            kind: Kind = kinds.get(what, "host")
            service = time - at
            if what == "return":  # the call ends when the device does, and a little later
                waited = self.nodes[event]
                before.append((event, time - (waited.start + waited.service)))
                service = 0.0
            name = str(self.names[event]) if what in ("launch", "await", "loaded") else what
            previous = self.add(Node(name, kind, "host", time - service, service), before)
            if what == "launch":
                self.cut_of[event] = previous
            elif what == "mark":
                self.marks[time] = previous
            at = time

    def graph(self, markers: list[tuple[str, float, float]]) -> TraceGraph:
        """Join launches with their kernels, infer waits between streams, and number by measured ends."""
        idle = [
            self.nodes[i].start - (self.nodes[h].start + self.nodes[h].service)
            for i, event in self.launched.items()
            if (h := self.cut_of.get(event)) is not None
        ]
        latency = max(0.0, float(np.percentile(idle, 2))) if idle else 0.0
        device_ends = sorted(
            (node.start + node.service, i)
            for i, node in enumerate(self.nodes)
            if node.kind not in ("host", "wait", "loader")
        )
        times = [end for end, _ in device_ends]
        releases: dict[int, float] = {}
        for i, event in self.launched.items():
            node, launch = self.nodes[i], self.cut_of.get(event)
            if launch is not None:
                launched = self.nodes[launch].start + self.nodes[launch].service
                self.before[i].append((launch, min(latency, node.start - launched)))
        for i, node in enumerate(self.nodes):
            if node.kind in ("host", "wait", "loader"):
                continue
            ready = max((self._end(j) + lag for j, lag in self.before[i]), default=None)
            if ready is None:
                releases[i] = node.start
                continue
            delay = node.start - ready
            if delay > FOLLOW:
                at = bisect_right(times, node.start)
                earlier = (j for _, j in reversed(device_ends[max(0, at - OVERLAP) : at]))
                other = next((j for j in earlier if self.nodes[j].lane != node.lane), None)
                if other is not None and node.start - self._end(other) <= max(FOLLOW, EXPLAINED * delay):
                    self.before[i].append((other, node.start - self._end(other)))
                    continue
            self.before[i] = [(j, lag + max(0.0, delay)) for j, lag in self.before[i]]
        return self._numbered(markers, releases)

    def _end(self, index: int) -> float:
        return self.nodes[index].start + self.nodes[index].service

    def _numbered(self, markers: list[tuple[str, float, float]], releases: dict[int, float]) -> TraceGraph:
        # a predecessor never ends later than its successor; where ends are equal, the one started earlier goes first
        order = sorted(range(len(self.nodes)), key=lambda i: (self._end(i), self.nodes[i].start, i))
        number = {old: new for new, old in enumerate(order)}
        edges, lags = [], []
        for old in order:
            for before, lag in self.before[old]:
                if number[before] < number[old]:
                    edges.append((number[before], number[old]))
                    lags.append(lag)
        release = np.zeros(len(order))
        origin = min(node.start for node in self.nodes)
        for new, old in enumerate(order):
            if not any(number[b] < new for b, _ in self.before[old]):
                release[new] = self.nodes[old].start - origin
        nodes = tuple(replace(n, start=n.start - origin) for n in (self.nodes[old] for old in order))
        steps = tuple((number[self.marks[begin]], number[self.marks[end]]) for _, begin, end in markers)
        return TraceGraph(
            nodes,
            np.array(edges, dtype=np.int64).reshape(-1, 2),
            np.array(lags),
            release,
            steps,
            tuple(name for name, _, _ in markers),
            self.where,
        )


def _is_loader(name: str) -> bool:
    return "DataLoader" in name and "__next__" in name
