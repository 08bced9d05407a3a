"""A profiler's trace as a graph of what waited for what: host, device streams, synchronisation, data loading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["host", "wait", "loader", "kernel", "copy", "collective"]


@dataclass(frozen=True)
class Node:
    """One stretch of work: `service` seconds on a lane, measured from `start` (seconds) on.

    `correlation` is the number that a profiler gives to a kernel and its launch; -1 where there is none.
    """

    name: str
    kind: Kind
    lane: str
    start: float
    service: float
    correlation: int = -1


@dataclass(frozen=True, eq=False)
class TraceGraph:
    """Nodes in the order of their measured ends, and edges (before, after, lag in seconds) between them.

    A node starts when all before it have ended and their lags have passed. `steps` are pairs of nodes: a step lasts
    from the end of the first to the end of the second, named in `step_names`. `device` is the name of the (first)
    device as the trace has it; `notes` say what was made of a trace that is not whole.
    """

    nodes: tuple[Node, ...]
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
        return np.array([node.service for node in self.nodes])

    @property
    def measured_steps(self) -> npt.NDArray[np.float64]:
        """Seconds of each step as the trace has them, shape (steps,)."""
        ends = np.array([node.start + node.service for node in self.nodes])
        return np.array([ends[last] - ends[first] for first, last in self.steps])
