"""Nodes and edges of a trace's graph as columns, made for all events at once.

Device operations come first, in the order of their starts; then the stretches of the merged host lane between its cuts.
A device operation waits for at most three: the one before it on its stream, its launch, one of another stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, IntArray, Mask
from slipstick.workloads.importers.traces.activity import DEVICE
from slipstick.workloads.importers.traces.trace_graph import KINDS, Nodes, TraceGraph
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
LAUNCH, AWAIT, RETURNED, LOAD, LOADED, MARK = range(6)
_WHAT = ("launch", "await", "return", "load", "loaded", "mark")
_KIND = (0, 0, 1, 0, 2, 0)
"""Of the host's stretch that ends at a cut: host, host, wait, host, loader, host (places in `KINDS`)."""
Cut = tuple[float, int, int]
"""Time, what happens (LAUNCH, ...), and the event; of RETURNED the device operation that was waited for."""


def rows_by_number(numbers: FloatArray, rows: IntArray, wanted: FloatArray) -> IntArray:
    """The last of some rows that has each wanted number; -1 where none has. Numbers may be NaN, which nothing has."""
    if not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    known, place = np.unique(numbers[rows][::-1], return_index=True)
    near = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[near] == wanted, rows[::-1][place[near]], -1)


def with_category(table: EventTable, words: Collection[str]) -> Mask:
    """Which events have one of some categories, in lower case."""
    return _by_code(table.category, table.categories, lambda name: name.lower() in words)


def with_name(table: EventTable, word: str) -> Mask:
    """Which events have a word in their name."""
    return _by_code(table.name, table.names, lambda name: word in name)


def _by_code(codes: npt.NDArray[np.int32], names: tuple[str, ...], holds: Callable[[str], bool]) -> Mask:
    """For each event whether something holds of its name."""
    known = np.array([holds(name) for name in names] or [False], dtype=np.bool_)
    return np.asarray(known[codes])


@dataclass
class Builder:
    """Device operations and what they wait for.

    `rows`: events of device operations, in the order of their starts.
    `call`: the event that launches each; -1 where none is known.
    """

    table: EventTable
    rows: IntArray
    call: IntArray
    where: str

    def __post_init__(self) -> None:
        table, rows, call = self.table, self.rows, self.call
        start, service = table.start[rows], table.duration[rows]
        names = table.name[rows]
        pageable = _by_code(names, table.names, lambda name: "Pageable" in name)
        staged = (call >= 0) & pageable & (service > STAGED)
        self.main = np.arange(len(rows)) + np.cumsum(staged)
        self.begins = self.main[staged] - 1
        count = len(rows) + int(staged.sum())
        self.names = list(table.names)
        extra = {int(code): len(self.names) + place for place, code in enumerate(np.unique(names[staged]))}
        self.names += [f"{table.names[code]} begins" for code in extra]
        copies = _by_code(table.category[rows], table.categories, lambda name: DEVICE.get(name.lower()) == "copy")
        together = _by_code(names, table.names, lambda name: any(word in name for word in COLLECTIVES))
        kinds = np.where(together, KINDS.index("collective"), np.where(copies, KINDS.index("copy"), 3))
        lanes, self.lanes = self._lanes()
        correlation = table.arguments["correlation"][rows]
        number = np.where(np.isfinite(correlation) & ~staged, correlation, -1).astype(np.int64)
        self.start, self.service = np.empty(count), np.zeros(count)
        self.start[self.main], self.service[self.main] = start, service
        self.start[self.begins] = start[staged]
        self.name, self.kind = np.empty(count, dtype=np.int32), np.full(count, KINDS.index("copy"), dtype=np.int8)
        self.name[self.main], self.kind[self.main] = names, kinds
        self.name[self.begins] = [extra[code] for code in names[staged].tolist()]
        self.lane = np.empty(count, dtype=np.int32)
        self.lane[self.main], self.lane[self.begins] = lanes, lanes[staged]
        self.correlation = np.full(count, -1, dtype=np.int64)
        self.correlation[self.main] = number
        first = self.main - staged  # what waits for the stream, and is launched
        self.before = np.full(count, -1, dtype=np.int64)
        self.lag = np.zeros(count)
        ended = self._ended_before(lanes, start + service)
        self.before[first] = np.where(ended >= 0, self.main[ended], -1)
        self.lag[first] = np.where(ended >= 0, np.minimum(0.0, start - (start + service)[ended]), 0.0)
        self.before[self.main[staged]] = self.begins
        self.launched_by = np.full(count, -1, dtype=np.int64)  # device operation -> event of its launching call
        self.launched_by[first] = call
        self.staged = dict(zip(call[staged].tolist(), self.begins.tolist(), strict=True))

    def _lanes(self) -> tuple[npt.NDArray[np.int32], list[str]]:
        table, rows = self.table, self.rows
        several = len(np.unique(table.process[rows])) > 1
        width = max(1, len(table.threads))
        codes = table.thread[rows] + (table.process[rows].astype(np.int64) * width if several else 0)
        known, lanes = np.unique(codes, return_inverse=True)
        names = [f"stream {table.threads[code % width]}" for code in known.tolist()]
        if several:
            names = [f"device {table.processes[c // width]} {n}" for c, n in zip(known.tolist(), names, strict=True)]
        by_name = {name: place for place, name in enumerate(dict.fromkeys(names))}
        return np.array([by_name[name] for name in names], dtype=np.int32)[lanes], list(by_name)

    def _ended_before(self, lanes: npt.NDArray[np.int32], end: FloatArray) -> IntArray:
        """The last operation of the same stream that ends before each does: streams may overlap (branches, tails)."""
        ended = np.full(len(end), -1, dtype=np.int64)
        for lane in range(len(self.lanes)):
            inside = np.flatnonzero(lanes == lane)
            ended[inside[1:]] = inside[:-1]
            ends = end[inside]
            for place in (np.flatnonzero(ends[:-1] > ends[1:]) + 1).tolist():
                back = ends[max(0, place - OVERLAP) : place]
                fit = np.flatnonzero(back <= ends[place])
                ended[inside[place]] = inside[max(0, place - OVERLAP) + fit[-1]] if len(fit) else -1
        return ended

    @property
    def end(self) -> FloatArray:
        """Seconds at which each device operation ends."""
        return self.start + self.service

    def cuts(self, calls: IntArray, more: list[Cut]) -> tuple[FloatArray, npt.NDArray[np.int8], IntArray]:
        """When the host lane is cut, what happens there, and the event or device operation: in order of time."""
        table = self.table
        known = self.launched_by[self.launched_by >= 0]
        _, first = np.unique(known, return_index=True)
        launching = known[np.sort(first)]
        order = np.lexsort((np.arange(len(self.start)), self.end))
        ends = self.end[order]
        blocking = calls[_by_code(table.name[calls], table.names, lambda name: any(word in name for word in BLOCKING))]
        begin, finish = table.start[blocking], table.start[blocking] + table.duration[blocking]
        at = np.searchsorted(ends, finish, side="right") - 1
        waits = at >= 0
        waits[waits] = (ends[at[waits]] > begin[waits] + 10e-6) & (finish[waits] - ends[at[waits]] <= RETURN)
        after = np.array([self.staged.get(event, -1) for event in blocking.tolist()], dtype=np.int64)
        waits &= after < 0
        waited = np.where(after >= 0, after, order[np.maximum(at, 0)] if len(order) else 0)
        returns = waits | (after >= 0)
        place = np.arange(len(blocking)) * 2.0
        loads = np.flatnonzero(_by_code(table.name, table.names, _is_loader))
        loads = loads[np.argsort(table.name[loads], kind="stable")]
        size = 2 * len(blocking) + 1
        pieces = [
            (table.start[launching], LAUNCH, launching, np.zeros(len(launching))),
            (begin[waits], AWAIT, blocking[waits], 1 + place[waits]),
            (finish[returns], RETURNED, waited[returns], 2 + place[returns]),
            (table.start[loads], LOAD, loads, size + 2.0 * np.arange(len(loads))),
            (table.start[loads] + table.duration[loads], LOADED, loads, size + 1 + 2.0 * np.arange(len(loads))),
            *((np.array([t]), w, np.array([e]), np.array([np.inf])) for t, w, e in more),
        ]
        time = np.concatenate([piece[0] for piece in pieces])
        what = np.concatenate([np.full(len(piece[0]), piece[1], dtype=np.int8) for piece in pieces])
        event = np.concatenate([piece[2] for piece in pieces]).astype(np.int64)
        turn = np.concatenate([piece[3] for piece in pieces])
        order = np.lexsort((np.arange(len(time)), turn, what == LAUNCH, time))
        return time[order], what[order], event[order]

    def graph(self, calls: IntArray, markers: list[tuple[str, float, float]], more: list[Cut]) -> TraceGraph:
        """The graph: launches joined with their kernels, waits between streams inferred, numbered by measured ends."""
        marks: list[Cut] = [(time, MARK, -1) for _, begin, finish in markers for time in (begin, finish)]
        time, what, event = self.cuts(calls, more + marks)
        devices, end = len(self.start), self.end
        since = np.concatenate([time[:1], time[:-1]])
        returned = what == RETURNED
        service = np.where(returned, 0.0, time - since)
        start = time - service
        host = devices + np.arange(len(time))
        named = np.isin(what, (LAUNCH, AWAIT, LOADED))
        labels = len(self.names) + np.arange(len(_WHAT))
        name = np.where(named, self.table.name[np.where(named, event, 0)], labels[what])
        host_end = start + service
        cut_of = rows_by_number(
            event.astype(np.float64), np.flatnonzero(what == LAUNCH), self.launched_by.astype(np.float64)
        )
        launched = np.flatnonzero((self.launched_by >= 0) & (cut_of >= 0))
        idle = self.start[launched] - host_end[cut_of[launched]]
        latency = max(0.0, float(np.percentile(idle, 2))) if len(idle) else 0.0
        launch_lag = np.zeros(devices)
        launch_lag[launched] = np.minimum(latency, idle)
        by = np.full(devices, -1, dtype=np.int64)
        by[launched] = cut_of[launched]
        ready = np.where(self.before >= 0, end[self.before] + self.lag, -np.inf)
        ready = np.maximum(ready, np.where(by >= 0, host_end[by] + launch_lag, -np.inf))
        delay = np.where(np.isfinite(ready), self.start - ready, 0.0)
        other = self._other_stream(delay)
        added = np.where(other >= 0, 0.0, np.maximum(0.0, delay))
        crossed = np.flatnonzero(other >= 0)
        streamed, joined = np.flatnonzero(self.before >= 0), np.flatnonzero(by >= 0)
        first, last = np.arange(1, len(time)), np.flatnonzero(returned)
        edges = [
            (self.before[streamed], streamed, (self.lag + added)[streamed], 0),
            (devices + by[joined], joined, (launch_lag + added)[joined], 1),
            (other[crossed], crossed, self.start[crossed] - end[other[crossed]], 2),
            (host[first] - 1, host[first], np.zeros(len(first)), 0),
            (event[last], host[last], time[last] - end[event[last]], 1),
        ]
        nodes = Nodes(
            (*self.names, *_WHAT),
            np.concatenate([self.name, name]).astype(np.int32),
            np.concatenate([self.kind, np.array(_KIND, dtype=np.int8)[what]]),
            (*self.lanes, "host"),
            np.concatenate([self.lane, np.full(len(time), len(self.lanes))]).astype(np.int32),
            np.concatenate([self.start, start]),
            np.concatenate([self.service, service]),
            np.concatenate([self.correlation, np.full(len(time), -1)]),
        )
        at_mark = {float(time[i]): devices + i for i in np.flatnonzero(what == MARK).tolist()}
        steps = [(at_mark[begin], at_mark[finish]) for _, begin, finish in markers]
        return _numbered(nodes, edges, steps, tuple(name for name, _, _ in markers), self.where)

    def _other_stream(self, delay: FloatArray) -> IntArray:
        """The operation of another stream that each delayed one waited for; -1 where none explains the delay."""
        other = np.full(len(delay), -1, dtype=np.int64)
        late = np.flatnonzero(delay > FOLLOW)
        if len(self.lanes) < 2 or not len(late):
            return other
        end = self.end
        order = np.lexsort((np.arange(len(end)), end))
        times, sequence, lanes = end[order].tolist(), order.tolist(), self.lane
        for i in late.tolist():
            at = bisect_right(times, self.start[i])
            earlier = (j for j in reversed(sequence[max(0, at - OVERLAP) : at]))
            j = next((j for j in earlier if lanes[j] != lanes[i]), None)
            if j is not None and self.start[i] - end[j] <= max(FOLLOW, EXPLAINED * delay[i]):
                other[i] = j
        return other


def _numbered(
    nodes: Nodes,
    edges: list[tuple[IntArray, IntArray, FloatArray, int]],
    steps: list[tuple[int, int]],
    step_names: tuple[str, ...],
    where: str,
) -> TraceGraph:
    """Nodes in the order of their ends: a predecessor never ends later; of equal ends the earlier start goes first."""
    order = np.lexsort((np.arange(len(nodes)), nodes.start, nodes.start + nodes.service))
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    before = number[np.concatenate([edge[0] for edge in edges])]
    after = number[np.concatenate([edge[1] for edge in edges])]
    lags = np.concatenate([edge[2] for edge in edges])
    turn = np.concatenate([np.full(len(edge[0]), edge[3], dtype=np.int8) for edge in edges])
    forward = np.flatnonzero(before < after)
    forward = forward[np.lexsort((turn[forward], after[forward]))]
    origin = float(nodes.start.min())
    release = nodes.start[order] - origin
    release[after[forward]] = 0.0
    return TraceGraph(
        nodes.taken(order, origin),
        np.stack([before[forward], after[forward]], axis=1),
        lags[forward],
        release,
        tuple((int(number[begin]), int(number[finish])) for begin, finish in steps),
        step_names,
        where,
    )


def _is_loader(name: str) -> bool:
    return "DataLoader" in name and "__next__" in name
