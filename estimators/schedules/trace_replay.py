"""A trace replayed: as it was, or with other kernels, another host, another runtime, other loading."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.schedules.dispatch import dispatched
from slipstick.estimators.schedules.max_plus import PrecedenceGraph
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.importers.traces.trace_graph import KINDS, Kind, TraceGraph, TraceNode

DEVICE_KINDS: tuple[Kind, ...] = ("kernel", "copy", "collective")
FETCH = 1.4e-3
"""Seconds the training loop needs to take a batch that a worker has ready: unpickling, shared memory."""
SHORTEST_STEP = 1e-12
"""Seconds: a thousandth of what the clocks of profilers count in."""


@dataclass(frozen=True)
class Replay:
    """What a replay gives.

    `steps`: seconds of each step.
    `busy`: share of the span of the steps in which the device works (any stream).
    `shares`: device seconds by kind of node, and host seconds of waiting and loading, over the span.
    """

    steps: tuple[float, ...]
    busy: float
    shares: Mapping[str, float]

    @property
    def step(self) -> float:
        """The median step in seconds."""
        return float(np.median(self.steps))


def replay(graph: TraceGraph, service: FloatArray | None = None, lags: FloatArray | None = None) -> Replay:
    """Times of the steps by the max-plus recurrence; with the graph's own service and lags, those of the trace.

    Parameters
    ----------
    service
        Seconds of each node, shape (nodes,); measured if None.
    lags
        Seconds on each edge, shape (edges,); measured if None.
    """
    seconds = graph.service if service is None else service
    edges = PrecedenceGraph.from_edges(len(graph.nodes), graph.edges, graph.lags if lags is None else lags)
    return replay_of(graph, seconds, edges.completion(seconds, graph.releases))


def completion_of(graph: TraceGraph, service: FloatArray) -> FloatArray:
    """Seconds at which each node ends with other service times, shape (nodes,)."""
    return PrecedenceGraph.from_edges(len(graph.nodes), graph.edges, graph.lags).completion(service, graph.releases)


def replay_of(graph: TraceGraph, seconds: FloatArray, done: FloatArray) -> Replay:
    """What a replay gives whose nodes take so many seconds and end so late, both of shape (nodes,).

    Raises InputError where a step takes no time: ratios to it are no numbers.
    """
    steps = tuple(step_seconds(graph, seconds, done).tolist())
    if not all(SHORTEST_STEP <= step < math.inf for step in steps):
        raise InputError(f"{graph.source}: a step of {min(steps):g} s: want steps of at least {SHORTEST_STEP:g} s")
    begin, end = done[graph.steps[0][0]], done[graph.steps[-1][1]]
    span = max(float(end - begin), 1e-12)
    kinds = np.array(KINDS)[graph.columns.kind]
    device = graph.of_kind(*DEVICE_KINDS)
    busy = _union(done[device] - seconds[device], done[device], float(begin), float(end)) / span
    inside = np.clip(np.minimum(done, end) - np.maximum(done - seconds, begin), 0, None)
    shares = {kind: float(inside[kinds == kind].sum() / span) for kind in sorted(set(kinds.tolist()))}
    return Replay(steps, busy, shares)


def step_seconds(graph: TraceGraph, service: FloatArray, done: FloatArray) -> FloatArray:
    """Seconds of each step: of its host, or longer by what a stream is given more than it gets done meanwhile.

    A host that waits for nothing runs ahead of its device, whose pace decides in the long run. How far it ran ahead
    behind it fell while the trace was recorded is no part of the measured step, nor of those that are answered.

    Parameters
    ----------
    service, done
        Seconds that each node takes and at which it ends, shape (nodes,) or (nodes, scenarios).

    Returns
    -------
    Shape (steps,) or (steps, scenarios).
    """
    firsts, lasts = np.array(graph.steps, dtype=np.int64).T
    host = done[lasts] - done[firsts]
    on_device = graph.of_kind(*DEVICE_KINDS)
    given = np.arange(len(on_device))  # a device's node with no launch is given where it stands
    launches = graph.edges[graph.of_kind("host")[graph.edges[:, 0]] & on_device[graph.edges[:, 1]]]
    given[launches[:, 1]] = launches[:, 0]
    order = np.argsort(firsts, kind="stable")
    step = order[np.maximum(np.searchsorted(firsts[order], given, side="left") - 1, 0)]
    inside = np.flatnonzero(on_device & (given > firsts[step]) & (given <= lasts[step]))
    lanes = len(graph.columns.lanes)

    def busiest(seconds: FloatArray) -> FloatArray:
        rest = seconds.shape[1:]
        sums = np.zeros((len(firsts) * lanes, *rest))
        np.add.at(sums, step[inside] * lanes + graph.columns.lane[inside], seconds[inside])
        return np.asarray(sums.reshape(len(firsts), lanes, *rest).max(axis=1))

    recorded = completion_of(graph, graph.service)
    behind = np.maximum(busiest(graph.service) - (recorded[lasts] - recorded[firsts]), 0.0)
    return np.asarray(np.maximum(host, busiest(service) - (behind[:, None] if service.ndim > 1 else behind)))


def critical_shares(
    graph: TraceGraph,
    label: Callable[[TraceNode], str],
    service: FloatArray | None = None,
    ended: FloatArray | None = None,
) -> dict[str, float]:
    """Share of the steps' span that each kind of node has on the critical path, largest first; they sum to 1.

    What an edge adds (a launch on its way, a delay that nothing explains) counts as "latency".

    `label`: the kind of a node, by its name and kind.
    `ended`: seconds at which each node ends, where they are known.
    """
    seconds = graph.service if service is None else service
    edges = PrecedenceGraph.from_edges(len(graph.nodes), graph.edges, graph.lags)
    done = edges.completion(seconds, graph.releases) if ended is None else ended
    columns, labels = graph.columns, dict[tuple[int, int], str]()
    begin, end = done[graph.steps[0][0]], done[graph.steps[-1][1]]
    shares: dict[str, float] = {}
    reached = float(begin)
    for node in edges.critical_path(seconds, graph.releases, done):
        stop = float(min(done[node], end))
        if stop <= reached:
            continue
        part = min(stop - reached, max(0.0, float(seconds[node]) - max(0.0, float(done[node]) - stop)))
        like = (int(columns.kind[node]), int(columns.name[node]))
        if like not in labels:
            labels[like] = label(columns[node])
        for name, time in ((labels[like], part), ("latency", stop - reached - part)):
            shares[name] = shares.get(name, 0.0) + time / max(float(end - begin), 1e-12)
        reached = stop
    return dict(sorted(shares.items(), key=lambda entry: -entry[1]))


def first_steps(graph: TraceGraph, nodes: int) -> TraceGraph:
    """The first steps of a trace that lie within so many nodes, at least one; the trace where all do.

    Nodes stand in the order of their ends, and wait for earlier ones alone: the first ones are a graph by themselves.
    """
    ends = [last + 1 for _, last in graph.steps]
    count = max(1, sum(end <= nodes for end in ends))
    if count == len(ends):
        return graph
    stop = max(ends[:count])
    inside = graph.edges[:, 1] < stop
    taken = graph.columns.taken(np.arange(stop), 0.0)
    return TraceGraph(
        taken,
        graph.edges[inside],
        graph.lags[inside],
        graph.releases[:stop],
        graph.steps[:count],
        graph.step_names[:count],
        graph.source,
    )


def median_steps(graph: TraceGraph, service: FloatArray) -> FloatArray:
    """The median step in seconds of many scenarios in one pass; service of shape (nodes, scenarios)."""
    edges = PrecedenceGraph.from_edges(len(graph.nodes), graph.edges, graph.lags)
    done = edges.completion(service, graph.releases[:, None])
    return np.asarray(np.median(step_seconds(graph, service, done), axis=0))


def graph_of(workload: Workload, times: FloatArray, machine: Machine) -> TraceGraph:
    """The graph that a trace of the workload would give under asynchronous dispatch; one step.

    Node 0 begins the step, then the host issues operation i in node 2i + 1 and the device runs it in node 2i + 2 (their
    place in the issue order is their `correlation`); the last node waits for all.
    """
    plan = dispatched(workload, machine)
    seconds = {op.name: float(t) * float(op.times) for op, t in zip(workload, times, strict=True)}
    nodes = [TraceNode("begin", "host", "host", 0.0, 0.0)]
    edges: list[tuple[int, int]] = []
    host, last_on = 0, dict[int, int]()
    for i, op in enumerate(plan.operations):
        stream = int(plan.streams[i])
        nodes.append(TraceNode("launch", "host", "host", 0.0, float(plan.issue[i])))
        kind: Kind = "collective" if op.kind == "collective" else "kernel"
        nodes.append(TraceNode(op.name, kind, f"stream {stream}", 0.0, seconds[op.name], i))
        edges += [(host, 2 * i + 1), (2 * i + 1, 2 * i + 2)]
        edges += [(last_on[stream], 2 * i + 2)] if stream in last_on else []
        host, last_on[stream] = 2 * i + 1, 2 * i + 2
        if plan.waits[i]:
            host = 2 * i + 2
    edges += [(2 * int(a) + 2, 2 * int(b) + 2) for a, b in plan.edges]
    end = len(nodes)
    nodes.append(TraceNode("end", "wait", "host", 0.0, 0.0))
    edges += [(place, end) for place in {host, *last_on.values()}]
    pairs = np.array(sorted(set(edges)), dtype=np.int64).reshape(-1, 2)
    empty = np.zeros(len(pairs)), np.zeros(len(nodes))
    done = PrecedenceGraph.from_edges(len(nodes), pairs, list(empty[0])).completion(
        np.array([node.service for node in nodes]), empty[1]
    )
    placed = tuple(replace(node, start=float(t) - node.service) for node, t in zip(nodes, done, strict=True))
    return TraceGraph(placed, pairs, *empty, ((0, end),), ("step",), workload.name)


def launches_of(graph: TraceGraph) -> dict[int, int]:
    """The host node that launches each device node."""
    kinds = [KINDS[kind] for kind in graph.columns.kind.tolist()]
    return {b: a for a, b in graph.edges.tolist() if kinds[b] in DEVICE_KINDS and kinds[a] == "host"}


def under_runtime(graph: TraceGraph, mode: str, joins: Callable[[int, int], bool]) -> FloatArray:
    """Seconds of every node when an eager run's kernels are compiled, or its step is launched as one graph.

    `mode`: "compiled": a kernel that `joins` the one before it on its stream becomes part of it, and is not launched;
        of elementwise kernels in one, the longest stands for all. "graph_replay": the host launches a step once.
    `joins`: of two device nodes that follow each other on a stream.
    Raises InputError where the mode is neither.
    """
    service = graph.service
    launch = launches_of(graph)
    if mode == "graph_replay":
        ends = graph.columns.start + graph.columns.service
        starts = ends[[first for first, _ in graph.steps]]
        seen: set[int] = set()
        for place in sorted(set(launch.values()), key=lambda i: ends[i]):
            step = int(np.searchsorted(starts, ends[place], side="right"))
            if step in seen:
                service[place] = 0.0
            seen.add(step)
        return service
    if mode != "compiled":
        raise unknown_name("runtime of a trace to go to", mode, ["compiled", "graph_replay"])
    last: dict[str, tuple[int, int]] = {}  # lane -> (first kernel of the fused one, the latest in it)
    columns = graph.columns
    device = np.flatnonzero(graph.of_kind(*DEVICE_KINDS))
    for i in device[np.argsort(columns.start[device], kind="stable")].tolist():
        lane = columns.lanes[columns.lane[i]]
        first, latest = last.get(lane, (-1, -1))
        if first >= 0 and joins(latest, i):
            service[first] = max(service[first], service[i])
            service[i] = 0.0
            if i in launch:
                service[launch[i]] = 0.0
            last[lane] = (first, i)
        else:
            last[lane] = (i, i)
    return service


def _union(starts: FloatArray, ends: FloatArray, begin: float, end: float) -> float:
    """Length of the union of intervals inside a window."""
    starts, ends = np.clip(starts, begin, end), np.clip(ends, begin, end)
    order = np.argsort(starts)
    reach = np.maximum.accumulate(ends[order])
    before = np.concatenate([[begin], reach[:-1]])
    return float(np.clip(reach - np.maximum(starts[order], before), 0, None).sum())


def with_workers(graph: TraceGraph, workers: int, fetch: float = FETCH, prefetch: int = 2) -> TraceGraph:
    """The same training loop fed by `workers` loading processes (0: loading in the loop itself).

    Each worker makes one batch at a time and as long as the loop took to load it; up to `prefetch` batches a worker
    are under way, requested when one is taken. The batches that the first steps take are ready: a run in its middle.
    Raises InputError where the trace did not load in the loop (its loading times are then unknown), or `workers` is
    negative.
    """
    if workers < 0:
        raise InputError(f"run.workers = {workers}: want 0 or more")
    loaders = [i for i, node in enumerate(graph.nodes) if node.kind == "loader"]
    if workers == 0:
        return graph
    if not loaders or not all("SingleProcess" in graph.nodes[i].name for i in loaders):
        raise InputError(f"{graph.source}: the trace must load in the loop (num_workers = 0) to say what a batch costs")
    nodes: list[tuple[float, TraceNode]] = [(float(i), node) for i, node in enumerate(graph.nodes)]
    edges: list[tuple[float, float, float]] = [
        (float(a), float(b), lag) for (a, b), lag in zip(graph.edges.tolist(), graph.lags.tolist(), strict=True)
    ]
    ahead = prefetch * workers
    for k, loader in enumerate(loaders):
        loaded = graph.nodes[loader]
        nodes[loader] = (float(loader), replace(loaded, service=fetch))
        if k < ahead:
            continue
        made = loader - 0.5
        nodes.append((made, TraceNode(f"batch {k}", "loader", f"worker {k % workers}", loaded.start, loaded.service)))
        edges.append((made, float(loader), 0.0))
        edges.append((float(loaders[k - ahead]), made, 0.0))
        if k - workers >= ahead:
            edges.append((loaders[k - workers] - 0.5, made, 0.0))
    order = sorted(range(len(nodes)), key=lambda i: nodes[i][0])
    number = {nodes[old][0]: new for new, old in enumerate(order)}
    releases = {float(i): release for i, release in enumerate(graph.releases.tolist())}
    return TraceGraph(
        tuple(nodes[old][1] for old in order),
        np.array([(number[a], number[b]) for a, b, _ in edges], dtype=np.int64),
        np.array([lag for _, _, lag in edges]),
        np.array([releases.get(nodes[old][0], 0.0) for old in order]),
        tuple((number[float(a)], number[float(b)]) for a, b in graph.steps),
        graph.step_names,
        graph.source,
    )
