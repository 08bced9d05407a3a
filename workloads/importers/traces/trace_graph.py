"""A profiler's trace as a graph of what waited for what: host, device streams, synchronisation, data loading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

Kind = Literal["host", "wait", "loader", "kernel", "copy", "collective"]


@dataclass(frozen=True)
class TraceNode:
    """One stretch of work: `service` seconds on a lane, measured from `start` (seconds) on.

    `correlation` is the number that a profiler gives to a kernel and its launch; -1 where there is none.
    """

    name: str
    kind: Kind
    lane: str
    start: float
    service: float
    correlation: int = -1


KINDS: tuple[Kind, ...] = ("host", "wait", "loader", "kernel", "copy", "collective")
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Nodes(Sequence[TraceNode]):
    """Nodes as columns of equal length; one of them is made when it is looked at.

    `names`, `lanes`: what `name` and `lane` are codes into; `kind` is one into `KINDS`.
    `start`, `service`: seconds.
    """

    names: tuple[str, ...]
    name: Codes
    kind: npt.NDArray[np.int8]
    lanes: tuple[str, ...]
    lane: Codes
    start: npt.NDArray[np.float64]
    service: npt.NDArray[np.float64]
    correlation: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)

    @overload
    def __getitem__(self, index: int) -> TraceNode: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[TraceNode, ...]: ...
    def __getitem__(self, index: int | slice) -> TraceNode | tuple[TraceNode, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        kind, lane = KINDS[self.kind[index]], self.lanes[self.lane[index]]
        numbers = float(self.start[index]), float(self.service[index]), int(self.correlation[index])
        return TraceNode(self.names[self.name[index]], kind, lane, *numbers)

    def taken(self, order: npt.NDArray[np.int64], origin: float) -> Nodes:
        """The nodes in another order, starts counted from `origin` (seconds)."""
        columns = (self.name[order], self.kind[order], self.lanes, self.lane[order])
        return Nodes(self.names, *columns, self.start[order] - origin, self.service[order], self.correlation[order])

    @classmethod
    def of(cls, nodes: Sequence[TraceNode]) -> Nodes:
        """The columns of some nodes."""
        if isinstance(nodes, Nodes):
            return nodes
        names = {name: code for code, name in enumerate(dict.fromkeys(node.name for node in nodes))}
        lanes = {lane: code for code, lane in enumerate(dict.fromkeys(node.lane for node in nodes))}
        return cls(
            tuple(names),
            np.array([names[node.name] for node in nodes], dtype=np.int32),
            np.array([KINDS.index(node.kind) for node in nodes], dtype=np.int8),
            tuple(lanes),
            np.array([lanes[node.lane] for node in nodes], dtype=np.int32),
            np.array([node.start for node in nodes], dtype=np.float64),
            np.array([node.service for node in nodes], dtype=np.float64),
            np.array([node.correlation for node in nodes], dtype=np.int64),
        )


@dataclass(frozen=True, eq=False)
class TraceGraph:
    """Nodes in the order of their measured ends, and edges (before, after, lag in seconds) between them.

    A node starts when all before it have ended and their lags have passed. `steps` are pairs of nodes: a step lasts
    from the end of the first to the end of the second, named in `step_names`. `device` is the name of the (first)
    device as the trace has it; `notes` say what was made of a trace that is not whole.
    """

    nodes: Sequence[TraceNode]
    edges: npt.NDArray[np.int64]
    lags: npt.NDArray[np.float64]
    releases: npt.NDArray[np.float64]
    steps: tuple[tuple[int, int], ...]
    step_names: tuple[str, ...]
    source: str
    device: str = ""
    notes: tuple[str, ...] = ()

    @property
    def service(self) -> npt.NDArray[np.float64]:
        """Seconds of each node, shape (nodes,)."""
        return self.columns.service.copy()

    @cached_property
    def columns(self) -> Nodes:
        """The nodes as columns."""
        return Nodes.of(self.nodes)

    def of_kind(self, *kinds: Kind) -> npt.NDArray[np.bool_]:
        """Which nodes are of one of some kinds, shape (nodes,)."""
        return np.isin(self.columns.kind, [KINDS.index(kind) for kind in kinds])

    @property
    def measured_steps(self) -> npt.NDArray[np.float64]:
        """Seconds of each step as the trace has them, shape (steps,)."""
        ends = self.columns.start + self.columns.service
        return np.array([ends[last] - ends[first] for first, last in self.steps])
