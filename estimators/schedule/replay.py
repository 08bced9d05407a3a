"""A trace replayed: as it was, or with other kernels, another host, another runtime, other loading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from estimators.schedule.recurrence import PrecedenceGraph
from hwmodels.files import InputError
from workloads.importers.trace_graph import Node, TraceGraph

Floats = npt.NDArray[np.float64]
DEVICE_KINDS = ("kernel", "copy", "collective")
FETCH = 1.4e-3
"""Seconds the training loop needs to take a batch that a worker has ready: unpickling, shared memory."""


@dataclass(frozen=True)
class Replay:
    """What a replay gives.

    Parameters
    ----------
    steps
        Seconds of each step.
    busy
        Share of the span of the steps in which the device works (any stream).
    shares
        Device seconds by kind of node, and host seconds of waiting and loading, over the span.
    """

    steps: tuple[float, ...]
    busy: float
    shares: Mapping[str, float]

    @property
    def step(self) -> float:
        """The median step in seconds."""
        return float(np.median(self.steps))


def replay(graph: TraceGraph, service: Floats | None = None, lags: Floats | None = None) -> Replay:
    """Times of the steps by the max-plus recurrence; with the graph's own service and lags, those of the trace.

    Parameters
    ----------
    service
        Seconds of each node, shape (nodes,); measured if None.
    lags
        Seconds on each edge, shape (edges,); measured if None.
    """
    seconds = graph.service if service is None else service
    edges = PrecedenceGraph.from_edges(len(graph.nodes), graph.edges, list(graph.lags if lags is None else lags))
    done = edges.completion(seconds, graph.releases)
    steps = tuple(float(done[last] - done[first]) for first, last in graph.steps)
    begin, end = done[graph.steps[0][0]], done[graph.steps[-1][1]]
    span = max(float(end - begin), 1e-12)
    kinds = np.array([node.kind for node in graph.nodes])
    device = np.isin(kinds, DEVICE_KINDS)
    busy = _union(done[device] - seconds[device], done[device], float(begin), float(end)) / span
    inside = np.clip(np.minimum(done, end) - np.maximum(done - seconds, begin), 0, None)
    shares = {kind: float(inside[kinds == kind].sum() / span) for kind in sorted(set(kinds.tolist()))}
    return Replay(steps, busy, shares)


def median_steps(graph: TraceGraph, service: Floats) -> Floats:
    """The median step in seconds of many scenarios in one pass; service of shape (nodes, scenarios)."""
    edges = PrecedenceGraph.from_edges(len(graph.nodes), graph.edges, list(graph.lags))
    done = edges.completion(service, graph.releases[:, None])
    return np.asarray(np.median([done[last] - done[first] for first, last in graph.steps], axis=0))


def _union(starts: Floats, ends: Floats, begin: float, end: float) -> float:
    """Length of the union of intervals inside a window."""
    starts, ends = np.clip(starts, begin, end), np.clip(ends, begin, end)
    order = np.argsort(starts)
    reach = np.maximum.accumulate(ends[order])
    before = np.concatenate([[begin], reach[:-1]])
    return float(np.clip(reach - np.maximum(starts[order], before), 0, None).sum())


def with_workers(graph: TraceGraph, workers: int, fetch: float = FETCH, prefetch: int = 2) -> TraceGraph:
    """The same training loop fed by `workers` loading processes (0: loading in the loop itself).

    Each worker makes one batch at a time and as long as the loop took to load it; up to `prefetch` batches a worker
    are under way, asked for when one is taken. The batches that the first steps take are ready: a run in its middle.

    Raises
    ------
    InputError
        Where the trace did not load in the loop (its loading times are then unknown), or `workers` is negative.
    """
    if workers < 0:
        raise InputError(f"run.workers = {workers}: want 0 or more")
    loaders = [i for i, node in enumerate(graph.nodes) if node.kind == "loader"]
    if workers == 0:
        return graph
    if not loaders or not all("SingleProcess" in graph.nodes[i].name for i in loaders):
        raise InputError(f"{graph.source}: the trace must load in the loop (num_workers = 0) to say what a batch costs")
    nodes: list[tuple[float, Node]] = [(float(i), node) for i, node in enumerate(graph.nodes)]
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
        nodes.append((made, Node(f"batch {k}", "loader", f"worker {k % workers}", loaded.start, loaded.service)))
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
