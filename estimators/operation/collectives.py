"""Collective operations over the links between devices: alpha-beta rings and trees, the cheapest of what a library has.

A group of `participants`, every `stride`-th device, crosses a machine's links from the nearest outwards. A ring moves
2 (p - 1) / p n bytes a device in an all-reduce at the rate of the slowest link that it crosses, in 2 (p - 1) steps; a
tree moves 2 n in steps that grow with the logarithm of the units. Each runs by one of several protocols: one for small
messages waits less a step and reaches a share of the bandwidth, one for large ones the other way round. A library
takes the cheapest, so the model does.

Sources: Hockney, Parallel Computing 20(3), 1994 (alpha-beta); Patarasuk and Yuan, JPDC 69, 2009 (rings); NVIDIA NCCL,
src/graph/tuning.cc (github.com/NVIDIA/nccl: latencies a step, base latencies and shares of bandwidth of its protocols).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Literal

import sympy as sp

from slipstick.estimators.core.choice import Least
from slipstick.estimators.core.extrema import Largest, Smallest
from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.operation_model import FormulaModel
from slipstick.estimators.core.parameters import Parameter, check_parameters
from slipstick.hwmodels.files.expressions import symbol
from slipstick.hwmodels.files.readers import InputError, unknown_name
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import SIZE_BYTES
from slipstick.workloads.graph.workload import Op

SOURCE = "alpha-beta: Hockney 1994; rings: Patarasuk and Yuan 2009; protocols: NCCL, src/graph/tuning.cc"
TRAFFIC = {
    "all_reduce": 2,
    "all_gather": 1,
    "reduce_scatter": 1,
    "all_to_all": 1,
}
"""Times that a ring passes (p - 1) / p of the data."""
Algorithm = Literal["ring", "tree"]
SWITCHED_BASE = 55e-6
"""Seconds that adding in switches takes beyond its data: fitted to NCCL's all-reduces over eight H100 (2.27.3)."""


@dataclass(frozen=True)
class Protocol:
    """How a library moves a message; the defaults are plain alpha-beta.

    Parameters
    ----------
    share
        Of the bandwidth that it reaches.
    latency
        Of a step, over the link's.
    base
        Seconds before the first step.
    """

    share: float = 1.0
    latency: float = 1.0
    base: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.share <= 1 and self.latency >= 0 and self.base >= 0):
            raise InputError(f"{self}: want a share in (0, 1], a latency >= 0 and a base >= 0 s")


PLAIN = Table({"plain": Protocol()})
NCCL = Table(
    {
        "small": Protocol(0.25, 0.14, 3.6e-6),
        "medium": Protocol(0.92, 0.56, 10e-6),
        "large": Protocol(1.0, 1.0, 8.4e-6),
    }
)
"""LL, LL128 and Simple: shares and base latencies of NCCL's tuning model, latencies over those of Simple on NVLink."""


@dataclass(frozen=True)
class Collectives(FormulaModel):
    """t = max(floor, least over algorithms and protocols of base + sum of steps x latency + traffic / bandwidth).

    Parameters
    ----------
    efficiency
        Share of a link's nominal bandwidth that is reached at best, by the link's name; "default" serves the rest.
    floor
        The least that a call takes where it was measured, whatever its size, by function; "default" serves the rest.
    launch
        Added to every call, by function; "default" serves the rest.
    reducing
        Share of a link's rate that is left where devices add what they receive (all_reduce, reduce_scatter), by link.
    tree_share
        Share of a ring's bandwidth that a tree reaches.
    in_switch
        Share of a ring's rate at which switches add what passes them (NVLink SHARP: each device sends and receives an
        all-reduce's data once), by link; 0 where they do not.
    """

    efficiency: Annotated[Table[float], Parameter("1", "share of a link's bandwidth", 1e-4, 2.0)] = Table(default=1.0)
    floor: Annotated[Table[float], Parameter("s", "the least that a call takes", 0.0, 1.0)] = Table(default=0.0)
    launch: Annotated[Table[float], Parameter("s", "added to every call", 0.0, 1.0)] = Table(default=0.0)
    reducing: Annotated[Table[float], Parameter("1", "share of the rate left where devices add", 1e-3, 1.0)] = Table(
        default=1.0
    )
    tree_share: Annotated[float, Parameter("1", "bandwidth of a tree over a ring's", 1e-3, 1.0)] = 0.9
    in_switch: Table[float] = Table(default=0.0)
    protocols: Table[Protocol] = PLAIN
    algorithms: tuple[Algorithm, ...] = ("ring",)

    def __post_init__(self) -> None:
        check_parameters(self)
        for name in ("efficiency", "floor", "launch", "reducing"):
            if "default" not in getattr(self, name):
                raise InputError(f"{name} of collectives: no entry 'default'")
        if not all(0 <= share <= 1 for share in self.in_switch.values()):
            raise InputError(f"in_switch = {dict(self.in_switch)}: want shares between 0 and 1")
        if not self.protocols or not self.algorithms:
            raise InputError("collectives: want at least one protocol and one algorithm")

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Operations of one function and data type, with or without a stride."""
        return str(op.attributes.get("function", "all_reduce")), op.dtype, "stride" in op.dims, "sharing" in op.dims

    def form(self, machine: Machine) -> Hashable:
        """The model as a whole, for numbers of protocols and switches stand in the formulas, and the machine's form."""
        return self, machine.form

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.elements, .participants, .stride, .sharing, machine.links.*, parameter.*.

        Raises
        ------
        InputError
            Where the operation is no collective that is known, or the machine has no links between devices.
        """
        function = str(op.attributes.get("function", "all_reduce"))
        if op.kind != "collective" or function not in (*TRAFFIC, "broadcast", "send_recv"):
            known = [*TRAFFIC, "broadcast", "send_recv"]
            raise unknown_name("collective", f"{function} ({op.kind} {op.name!r})", known)
        reducing = self.reducing if function in ("all_reduce", "reduce_scatter") else None
        levels = _levels(op, machine, self.efficiency, reducing)
        peers = symbol("operation.participants")
        data = symbol("operation.elements") * SIZE_BYTES[op.dtype]
        passes = TRAFFIC.get(function, 1)
        moved = data * passes * (peers - 1) / peers if function in TRAFFIC else data
        if function == "all_to_all":  # what a device sends beyond its neighbours goes over its own part of a link
            moved, spread = data, [(peers - level.inside) / peers / level.alone for level in levels]
        else:
            spread = [level.crossed / level.rate for level in levels]
        slowest = Largest(*spread)
        wait = passes * sum((level.hops * level.latency for level in levels), start=sp.Integer(0))
        depth = 2 * sum((level.depth * level.latency for level in levels), start=sp.Integer(0))
        base, share, latency, tree = (symbol(f"choice.{name}") for name in ("base", "share", "latency", "tree"))
        steps = wait + tree * (depth - wait)
        volume = moved + tree * (2 * data / symbol("parameter.tree_share") - moved)
        if share_added := self._in_switch(function, machine):
            switched = symbol("choice.switched")
            steps += switched * (2 * levels[0].latency - wait)
            volume += switched * (data / share_added - moved)
            # the switches of one link see no device beyond it
            beyond = Largest(0, peers / symbol(f"machine.links.{levels[0].name}.width") - 1)
            base += switched * (SWITCHED_BASE + sp.ceiling(beyond))  # beyond, seconds: never the least
        least = symbol(f"parameter.floor.{function if function in self.floor else 'default'}")
        launch = symbol(f"parameter.launch.{function if function in self.launch else 'default'}")
        # A group of one has nothing to say and takes no time.
        several = Smallest(1, peers - 1)
        time = several * Largest(least, launch + base + latency * steps + volume * slowest / share)
        terms = Table({level.name: moved * each for level, each in zip(levels, spread, strict=True)})
        return Least(time, "s", SOURCE, terms, self._ways(function, machine))

    def _in_switch(self, function: str, machine: Machine) -> float:
        """The share at which the nearest link's switches add, where a call may use them."""
        nearest = next(iter(machine.links))
        share = self.in_switch.get(nearest, self.in_switch.get("default", 0.0))
        return share if function == "all_reduce" else 0.0

    def _ways(self, function: str, machine: Machine) -> Table[tuple[float, ...]]:
        """The menu: every algorithm by every protocol; only an all-reduce has a tree, or is added in switches."""
        trees = [float(name == "tree") for name in self.algorithms] if function == "all_reduce" else [0.0]
        ways = [(tree, 0.0) for tree in trees]
        if self._in_switch(function, machine):
            ways.append((0.0, 1.0))
        rows = [
            (tree, terms.share, terms.latency, terms.base, one)
            for terms in self.protocols.values()
            for tree, one in ways
        ]
        names = ("choice.tree", "choice.share", "choice.latency", "choice.base", "choice.switched")
        return Table(dict(zip(names, zip(*rows, strict=True), strict=True)))


@dataclass(frozen=True)
class _Level:
    """A link as a group of devices meets it: steps of a ring and a tree over it, whether it is crossed, its rate for
    all devices on one side (they pass a ring's data in parts), for one of them, and how many those are (`inside`).
    """

    name: str
    latency: sp.Expr
    hops: sp.Expr
    depth: sp.Expr
    crossed: sp.Expr
    rate: sp.Expr
    alone: sp.Expr
    inside: sp.Expr


def _levels(op: Op, machine: Machine, efficiency: Table[float], reducing: Table[float] | None) -> list[_Level]:
    names = list(machine.links)
    if not names:
        raise InputError(f"machine {machine.name!r} has no links between devices; {op.name!r} needs them (links: ...)")
    peers = symbol("operation.participants")
    stride = symbol("operation.stride") if "stride" in op.dims else sp.Integer(1)
    sharing = symbol("operation.sharing") if "sharing" in op.dims else sp.Integer(1)
    levels, members = [], sp.Integer(1)
    for place, name in enumerate(names):
        path = f"machine.links.{name}"
        last = place == len(names) - 1
        reach = symbol(f"{path}.width") / stride
        within = peers if last else Smallest(peers, Largest(1, sp.floor(reach)))
        units, outside = sp.ceiling(peers / members), sp.ceiling(peers / within)
        hops = units - outside
        reached = symbol(f"parameter.efficiency.{name if name in efficiency else 'default'}")
        if reducing is not None:
            reached *= symbol(f"parameter.reducing.{name if name in reducing else 'default'}")
        together = Largest(1 / sharing, members / symbol(f"{path}.shared_by"))
        full = symbol(f"{path}.bandwidth") * reached
        alone = full / Smallest(Largest(members, sharing), symbol(f"{path}.shared_by"))
        depth = sp.log(Largest(units / outside, 1), 2) if last else sp.ceiling(within / members) - 1
        levels.append(
            _Level(name, symbol(f"{path}.latency"), hops, depth, Smallest(1, hops), full * together, alone, members)
        )
        members = within
    return levels
