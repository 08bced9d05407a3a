"""Max-plus recurrences: times of work that waits for other work.

An operation starts when the last of what it waits for is done, and lasts its service time: `done = max(done of
predecessors) + service`. In the max-plus algebra that is linear, so it needs no event queue: one pass in
topological order gives every time exactly. `PrecedenceGraph` holds any such graph (operations with data
dependencies, streams in issue order, barriers); `tandem` is the special graph of stages with several workers and
finite buffers between them.

Source: F. Baccelli, G. Cohen, G. J. Olsder, J.-P. Quadrat, Synchronization and Linearity, 1992, chapters 1-2
(rocq.inria.fr/metalau/cohen/SED/book-online.html).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.errors import InputError

BLOCK = 200_000
"""Nodes whose numbers are plain objects at one time."""


@dataclass(frozen=True, eq=False)
class PrecedenceGraph:
    """Which node waits for which, in compressed rows: node `i` waits for `predecessors[offsets[i]:offsets[i+1]]`.

    Nodes are numbered in a topological order: every predecessor has a smaller number than the node. `lags` [s] adds
    a delay on an edge (a transfer, a launch latency), none if omitted.
    """

    offsets: IntArray
    predecessors: IntArray
    lags: FloatArray | None = None

    def __post_init__(self) -> None:
        nodes = len(self.offsets) - 1
        owner = np.repeat(np.arange(nodes), np.diff(self.offsets))
        wrong = np.flatnonzero((self.predecessors >= owner) | (self.predecessors < 0))
        if len(wrong):
            edge = int(wrong[0])
            raise InputError(
                f"edge {int(self.predecessors[edge])} -> {int(owner[edge])} does not lead from a smaller to a "
                "larger node; number the nodes in a topological order first"
            )
        if self.lags is not None and len(self.lags) != len(self.predecessors):
            raise InputError(f"{len(self.lags)} lags for {len(self.predecessors)} edges; one lag [s] an edge is needed")

    @classmethod
    def from_edges(
        cls,
        nodes: int,
        edges: Iterable[tuple[int, int]] | IntArray,
        lags: Sequence[float] | FloatArray | None = None,
    ) -> PrecedenceGraph:
        """Build from `(before, after)` pairs; `lags` are seconds, one an edge.

        Raises InputError where their numbering is not topological, or a node does not exist.
        """
        pairs = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges), dtype=np.int64).reshape(-1, 2)
        if len(pairs) and int(pairs.max()) >= nodes:
            raise InputError(f"edge to node {int(pairs.max())} in a graph of {nodes} nodes (0 to {nodes - 1})")
        order = np.argsort(pairs[:, 1], kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 1], minlength=nodes))]).astype(np.int64)
        return cls(offsets, pairs[order, 0], None if lags is None else np.asarray(lags, dtype=np.float64)[order])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def completion(self, service: npt.ArrayLike, release: npt.ArrayLike = 0.0) -> FloatArray:
        """Completion time [s] of every node.

        `service` [s] has shape (nodes,), or (nodes, scenarios) for many what-ifs in one pass; `release` [s], the
        earliest start, broadcasts to it. Returns the same shape as `service`.
        Raises InputError where `service` does not have one entry a node.
        """
        times = np.asarray(service, dtype=np.float64)
        if times.shape[:1] != (len(self),):
            raise InputError(f"service times of shape {times.shape} for a graph of {len(self)} nodes")
        earliest = np.broadcast_to(np.asarray(release, dtype=np.float64), times.shape)
        return self._one(times, earliest) if times.ndim == 1 else self._many(times, earliest)

    def _one(self, service: FloatArray, release: FloatArray) -> FloatArray:
        # Plain lists: indexing a numpy array element by element costs ten times as much.
        done: list[float] = []
        for first in range(0, len(self), BLOCK):
            nodes = slice(first, first + BLOCK)
            offsets = self.offsets[first : first + BLOCK + 1]
            edges = slice(offsets[0], offsets[-1])
            before = self.predecessors[edges].tolist()
            lags = None if self.lags is None else self.lags[edges].tolist()
            begin, ends = 0, (offsets[1:] - offsets[0]).tolist()
            for end, time, start in zip(ends, service[nodes].tolist(), release[nodes].tolist(), strict=True):
                for edge in range(begin, end):
                    other = done[before[edge]] if lags is None else done[before[edge]] + lags[edge]
                    if other > start:
                        start = other
                done.append(start + time)
                begin = end
        return np.array(done)

    def _many(self, service: FloatArray, release: FloatArray) -> FloatArray:
        offsets, before = self.offsets.tolist(), self.predecessors.tolist()
        lags = [0.0] * len(before) if self.lags is None else self.lags.tolist()
        done = np.empty_like(service)
        rows = list(done)  # views: looking a row up costs as much as adding two
        add, maximum, other = np.add, np.maximum, np.empty(service.shape[1:])
        begin = 0
        for end, row, time, earliest in zip(offsets[1:], rows, service, release, strict=True):
            row[...] = earliest
            for edge in range(begin, end):
                lag = lags[edge]
                maximum(row, add(rows[before[edge]], lag, out=other) if lag else rows[before[edge]], out=row)
            add(row, time, out=row)
            begin = end
        return done

    def critical_path(
        self, service: npt.ArrayLike, release: npt.ArrayLike = 0.0, ended: FloatArray | None = None
    ) -> list[int]:
        """The nodes that set the end, in order: each starts when the one before it is done.

        `ended` [s] are their completion times, where they are known.
        """
        times = np.asarray(service, dtype=np.float64)
        done = self.completion(times, release) if ended is None else ended
        if not len(done):
            return []
        node = int(np.argmax(done))
        path = [node]
        # element by element, an item of a numpy array costs a third of a slice of it
        offset, before, at = self.offsets.item, self.predecessors.item, done.item
        lag = np.zeros(len(self.predecessors)).item if self.lags is None else self.lags.item
        while True:
            edges = range(offset(node), offset(node + 1))
            if not edges:
                break
            arrival, latest = max((at(before(edge)) + lag(edge), -edge) for edge in edges)
            if arrival + times.item(node) < at(node) * (1 - 1e-12):  # its release set the start
                break
            node = before(-latest)
            path.append(node)
        return path[::-1]


@dataclass(frozen=True, eq=False)
class TandemTimes:
    """Times [s] of stages in a row; one array a stage.

    `taken[j][i]` is when stage j takes its i-th input, `started[j][k]` when its k-th output has all its inputs,
    `finished[j][k]` when the service ends, `departed[j][k]` when the output has found room behind the stage and its
    worker is free.
    """

    taken: tuple[FloatArray, ...]
    started: tuple[FloatArray, ...]
    finished: tuple[FloatArray, ...]
    departed: tuple[FloatArray, ...]


def tandem(
    service: Sequence[npt.ArrayLike],
    workers: Sequence[int],
    buffers: Sequence[int],
    gather: Sequence[int] | None = None,
    start_up: Sequence[float] | None = None,
) -> TandemTimes:
    """Times of stages in a row with finite buffers between them (blocking after service, outputs in order).

    Stage j has `workers[j]` workers, makes one output of `gather[j]` inputs in `service[j][k]` [s], and puts it
    into a buffer of `buffers[j]` places (one fewer than stages; the last stage never waits for room). `start_up[j]`
    [s] is when its workers are ready. A worker takes inputs in order as they come, and keeps its output until all
    earlier ones have left and there is room. Raises InputError for lengths that do not match and for sizes below 1.
    Raises InputError where lengths do not match, or a size is below 1.
    """
    stages = len(service)
    gather = [1] * stages if gather is None else list(gather)
    start_up = [0.0] * stages if start_up is None else list(start_up)
    if not (len(workers) == len(gather) == len(start_up) == stages and len(buffers) == stages - 1):
        raise InputError(f"{stages} stages need {stages} workers, gathers and start-ups and {stages - 1} buffers")
    for what, sizes in (("workers", workers), ("buffers", buffers), ("gather", gather)):
        if any(size < 1 for size in sizes):
            raise InputError(f"{what} {list(sizes)}: every size must be at least 1")
    times = [np.asarray(each, dtype=np.float64).tolist() for each in service]
    inputs = len(times[0]) * gather[0]
    # Lists are padded in front, so that `depart[k]` is when the worker of output k became free (its departure
    # `workers` outputs ago), and `room[k]` when the place of output k behind the stage became free.
    depart = [[ready] * count for ready, count in zip(start_up, workers, strict=True)]
    take: list[list[float]] = [[-np.inf] * places for places in (0, *buffers)]
    finish: list[list[float]] = [[] for _ in range(stages)]
    start: list[list[float]] = [[] for _ in range(stages)]
    room = [*take[1:], [-np.inf] * len(times[-1])]
    columns = list(zip(times, gather, depart, finish, start, take, room, strict=True))
    for index in range(inputs):
        ready = 0.0
        for duration, inputs_each, left, done, begun, got, space in columns:
            if inputs_each > 1:
                output = index // inputs_each
                ready = max(ready, left[output], got[-1] if index else 0.0)
                got.append(ready)
                if (index + 1) % inputs_each:
                    break
                index = output
                begun.append(ready)
            else:
                free = left[index]
                if free > ready:
                    ready = free
                got.append(ready)
            ready += duration[index]
            done.append(ready)
            if left[-1] > ready:
                ready = left[-1]
            if space[index] > ready:
                ready = space[index]
            left.append(ready)
    taken = tuple(np.array(each[places:]) for each, places in zip(take, (0, *buffers), strict=True))
    started = tuple(np.array(begun) if each > 1 else got for begun, each, got in zip(start, gather, taken, strict=True))
    departed = tuple(np.array(each[count:]) for each, count in zip(depart, workers, strict=True))
    return TandemTimes(taken, started, tuple(np.array(each) for each in finish), departed)
