"""Bricks: a workload cut into short sequences of layers that can be measured once and composed.

Source: Li et al., "DLBricks: Composable Benchmark Generation to Reduce Deep Learning Benchmarking Effort on CPUs", ICPE
2020, Algorithms 1 (FindModelSubgraphs) and 2 (SplitModel). As printed their indices are off by one; here every
layer stands in exactly one brick, of at most G layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.workload import Op, Workload

Buildable = Callable[[Sequence[Op]], bool]
VIEW_KINDS = ("view", "data")


@dataclass(frozen=True)
class Brick:
    """Consecutive layers of a workload, as a workload of their own; `begin` is the place of the first in the order."""

    begin: int
    workload: Workload

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers."""
        return tuple(op.name for op in self.workload)

    @property
    def identity(self) -> str:
        """Equal for the same layers, shapes, parameters and connections, whatever the values of the weights."""
        return brick_operation(self).identity


def topological_layers(workload: Workload) -> list[Op]:
    """The operations in topological order, ties in the order of the workload."""
    import networkx as nx

    place = {op.name: i for i, op in enumerate(workload)}
    order = nx.lexicographical_topological_sort(workload.structure, key=place.__getitem__)
    operations = {op.name: op for op in workload}
    return [operations[name] for name in order]


def find_bricks(workload: Workload, granularity: int, buildable: Buildable | None = None) -> list[Brick]:
    """Cut a workload into bricks of at most `granularity` layers (Algorithm 1).

    `buildable`: whether a sequence is a network that can be built and run; where it is not, its first layer stands
        alone and the window shifts by one (Algorithm 2). All are if None: with views kept by their neighbours, any
        sequence of operations on tensors runs on inputs of the right shapes.
    Raises InputError where `granularity` is below 1.
    """
    if granularity < 1:
        raise InputError(f"granularity = {granularity}: want at least 1 layer a brick")
    layers = topological_layers(workload)
    bricks, begin = [], 0
    while begin < len(layers):
        end = min(begin + granularity, len(layers))
        while end - begin > 1 and buildable is not None and not buildable(layers[begin:end]):
            bricks.append(_brick(workload, layers, begin, begin + 1))
            begin += 1
            end = min(end + 1, len(layers))
        end = max(end, begin + 1)
        bricks.append(_brick(workload, layers, begin, end))
        begin = end
    return bricks


def _brick(workload: Workload, layers: Sequence[Op], begin: int, end: int) -> Brick:
    inner = tuple(layers[begin:end])
    names = {op.name for op in inner}
    edges = tuple((a, b) for a in (op.name for op in inner) for b in workload.structure.successors(a) if b in names)
    return Brick(begin, Workload(f"brick-{begin}", inner, edges))


def brick_operation(brick: Brick) -> Op:
    """The brick as one macro operation; a brick of one layer is that layer, so that G = 1 is no special case."""
    if len(brick.workload) == 1:
        return brick.workload.operations[0]
    cost = brick.workload.cost
    return Op(f"brick-{brick.begin}", "brick", cost=Cost(dict(cost)), body=brick.workload)


def quotient(workload: Workload, bricks: Sequence[Brick]) -> Workload:
    """The workload with every brick as one operation; edges between bricks are those between their layers.

    Raises InputError where the bricks do not hold every layer exactly once.
    """
    operations = [brick_operation(brick) for brick in bricks]
    home = {name: op.name for brick, op in zip(bricks, operations, strict=True) for name in brick.layers}
    counted = sum(len(brick.layers) for brick in bricks)
    if len(home) != counted or set(home) != {op.name for op in workload}:
        raise InputError(
            f"bricks hold {counted} layers ({len(home)} distinct); workload {workload.name!r} has {len(workload)}"
        )
    edges = dict.fromkeys((home[a], home[b]) for a, b in workload.edges if home[a] != home[b])
    return Workload(workload.name, tuple(operations), tuple(edges), workload.defaults, workload.metadata)


def unique_bricks(bricks: Sequence[Brick]) -> FrozenDict[Brick]:
    """The first brick of each identity."""
    first: dict[str, Brick] = {}
    for brick in bricks:
        first.setdefault(brick.identity, brick)
    return FrozenDict(first)


def jaccard_similarity(workloads: Sequence[Workload]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """|A n B| / |A u B| of the sets of layer identities of every pair, shape (workloads, workloads) (Figure 7)."""
    sets = [{op.identity for op in workload if op.kind not in VIEW_KINDS} for workload in workloads]
    return np.array([[len(a & b) / max(1, len(a | b)) for b in sets] for a in sets])
