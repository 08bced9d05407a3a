"""Collective operations over the links between devices: alpha-beta rings and trees, the cheapest of what a library has.

A group of `participants`, every `stride`-th device, crosses a machine's links from the nearest outwards. A ring moves
2 (p - 1) / p n bytes a device in an all-reduce at the rate of the slowest link that it crosses, in 2 (p - 1) steps; a
tree moves 2 n in steps that grow with the logarithm of the units; switches that add pass n once. Each runs by one of
several protocols: one for small messages waits less a step and reaches a share of the bandwidth, one for large ones the
other way round. A library takes the cheapest, so the model does. What is fitted to machines goes by the name and
generation of a link ("nvswitch4"), by the name alone, or by "default", the first of these that a table has.

Sources: Hockney, Parallel Computing 20(3), 1994 (alpha-beta); Patarasuk and Yuan, JPDC 69, 2009 (rings); NVIDIA NCCL,
src/graph/tuning.cc (github.com/NVIDIA/nccl: algorithms, protocols and the choice; numbers in `libraries`).

Operation models that join collectives with the rest: arithmetic by one, collectives by another.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel, JointModel, amount_of, machine_values
from slipstick.estimators.interconnect.collective_libraries import PLAIN, MessageProtocol, Terms
from slipstick.estimators.symbolic.formula import MinOverConfigs, Parameter, check_parameters, parameters
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
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
NEAR = ("nvlink", "nvswitch", "xgmi", "pcie", "host")
"""First letters of links within a node; beyond the nearest, any other is a network."""


@dataclass(frozen=True)
class Collectives(FormulaModel):
    """t = max(floor, least over algorithms and protocols of base + sum of steps x latency + traffic / bandwidth).

    `efficiency`: share of a link's nominal bandwidth that is reached at best, by the link's name; "default" serves the
        rest.
    `floor`: the least that a call takes where it was measured, whatever its size, by function; "default" serves the
        rest.
    `launch`: added to every call, by function; "default" serves the rest.
    `relayed`: share of a link's rate that is left where devices pass on or add what they receive (all but send_recv),
        by link.
    `latency`: base and steps over those of the protocols, by link.
    `bulk`: the same once more for the protocol of large messages: chunks that fill a pipeline.
    `tree_share`: share of a ring's bandwidth that a tree reaches.
    `copied`: time of the copy that ends a ring, of one device's part and over no link, over that of passing it on over
        the nearest link: in NCCL's rings (src/device/all_gather.h) a block that copies sends nothing meanwhile.
    `in_switch`: share of a ring's rate at which switches add what passes them (NVLink SHARP: each device sends and
        receives an all-reduce's data once), by link; 0 where they do not.
    `protocols`: by the name of the nearest link, or "default"; each a table of protocols by name.
    """

    efficiency: Annotated[FrozenDict[float], Parameter("1", "share of a link's bandwidth", 1e-4, 2.0)] = FrozenDict(
        default=1.0
    )
    floor: Annotated[FrozenDict[float], Parameter("s", "the least that a call takes", 0.0, 1.0)] = FrozenDict(
        default=0.0
    )
    launch: Annotated[FrozenDict[float], Parameter("s", "added to every call", 0.0, 1.0)] = FrozenDict(default=0.0)
    relayed: Annotated[FrozenDict[float], Parameter("1", "share of the rate left in rings", 1e-3, 1.0)] = FrozenDict(
        default=1.0
    )
    latency: Annotated[FrozenDict[float], Parameter("1", "latencies over the protocols'", 0.1, 10.0)] = FrozenDict(
        default=1.0
    )
    bulk: Annotated[float, Parameter("1", "latency of the protocol of large messages over its", 0.1, 10.0)] = 1.0
    tree_share: Annotated[float, Parameter("1", "bandwidth of a tree over a ring's", 1e-3, 1.0)] = 0.9
    copied: Annotated[float, Parameter("1", "time of a ring's last copy over a link's", 0.0, 10.0)] = 0.0
    in_switch: FrozenDict[float] = FrozenDict(default=0.0)
    protocols: FrozenDict[FrozenDict[MessageProtocol]] = FrozenDict(default=PLAIN)
    algorithms: tuple[Algorithm, ...] = ("ring",)

    def __post_init__(self) -> None:
        check_parameters(self)
        for name in ("efficiency", "floor", "launch", "relayed", "latency", "protocols"):
            if "default" not in getattr(self, name):
                raise InputError(f"{name} of collectives: no entry 'default'")
        if not all(0 <= share <= 1 for share in self.in_switch.values()):
            raise InputError(f"in_switch = {dict(self.in_switch)}: want shares between 0 and 1")
        if not all(self.protocols.values()) or not self.algorithms:
            raise InputError("collectives: want at least one protocol and one algorithm")

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Operations of one function and data type, with or without a stride."""
        return str(op.attributes.get("function", "all_reduce")), op.dtype, "stride" in op.dims, "sharing" in op.dims

    def form(self, machine: Machine) -> Hashable:
        """The model as a whole, for numbers of protocols and switches stand in the formulas, and the machine's form."""
        return self, machine.form

    def formula(self, op: Op, machine: Machine) -> MinOverConfigs:
        """Symbols: operation.elements, .participants, .stride, .sharing, machine.links.*, parameter.*.

        Raises InputError where the operation is no collective that is known, or the machine has no links between
        devices.
        """
        function = str(op.attributes.get("function", "all_reduce"))
        if op.kind != "collective" or function not in (*TRAFFIC, "broadcast", "send_recv"):
            known = [*TRAFFIC, "broadcast", "send_recv"]
            raise unknown_name("collective", f"{function} ({op.kind} {op.name!r})", known)
        levels = _levels(self, op, machine, function)
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
        base, share, tree, switched = (symbol(f"choice.{name}") for name in ("base", "share", "tree", "switched"))
        nearest = next(iter(machine.links))
        base *= symbol(f"parameter.latency.{_entry(self.latency, nearest, machine)}")
        steps = wait + tree * (depth - wait)
        volume = moved + tree * (2 * data / symbol("parameter.tree_share") - moved)
        if share_added := self._in_switch(function, machine):
            steps -= switched * wait
            volume += switched * (data / share_added - moved)
            # the switches of one link see no device beyond it
            beyond = Largest(0, peers / symbol(f"machine.links.{nearest}.width") - 1)
            base += switched * sp.ceiling(beyond)  # seconds: never the least
        kept = symbol("parameter.copied") * data / peers / levels[0].alone * (1 - tree) * (1 - switched)
        waiting = (base + steps) * (1 + symbol("choice.bulk") * (symbol("parameter.bulk") - 1))
        least = symbol(f"parameter.floor.{function if function in self.floor else 'default'}")
        launch = symbol(f"parameter.launch.{function if function in self.launch else 'default'}")
        # A group of one has nothing to say and takes no time.
        several = Smallest(1, peers - 1)
        passed = volume * slowest + (kept if function in TRAFFIC else 0)
        time = several * Largest(least, launch + waiting + passed / share)
        terms = FrozenDict({level.name: moved * each for level, each in zip(levels, spread, strict=True)})
        rows = [row for _, _, row in self._menu(function, machine)]
        menu = FrozenDict({f"choice.{name}": tuple(row[name] for row in rows) for name in rows[0]})
        return MinOverConfigs(time, "s", SOURCE, terms, menu)

    def _in_switch(self, function: str, machine: Machine) -> float:
        """The share at which the nearest link's switches add, where a call may use them."""
        entry = _entry(self.in_switch, next(iter(machine.links)), machine)
        return self.in_switch.get(entry, 0.0) if function == "all_reduce" else 0.0

    def chosen(self, op: Op, machine: Machine) -> tuple[str, str]:
        """Algorithm ("ring", "tree", "NVLS", "direct") and protocol of the least time, where all sizes are known.

        Raises InputError where the operation is no collective that is known, or the machine has no links between
        devices.
        """
        formula = self.formula(op, machine)
        sizes = {name: amount_of(op, name.removeprefix("operation.")) for name in formula.names if "operation." in name}
        fitted = {f"parameter.{name}": value for name, (value, _) in parameters(self).items()}
        row = formula.lowered.picked({**fitted, **machine_values(formula, machine), **sizes})
        algorithm, protocol, _ = self._menu(str(op.attributes.get("function", "all_reduce")), machine)[int(row)]
        return algorithm, protocol

    def _menu(self, function: str, machine: Machine) -> list[tuple[str, str, dict[str, float]]]:
        """Every algorithm by every protocol; only an all-reduce has a tree, or is added in switches."""
        nearest = next(iter(machine.links))
        rows = []
        for name, protocol in self.protocols.get(nearest, self.protocols["default"]).items():
            if protocol.only_on and not nearest.startswith(protocol.only_on):
                continue
            ways: dict[str, Terms] = {"ring": protocol} if "ring" in self.algorithms else {}
            if function == "all_reduce" and "tree" in self.algorithms:
                ways["tree"] = protocol.tree or protocol
            if protocol.switched is not None and self._in_switch(function, machine):
                ways["NVLS"] = protocol.switched
            if function != "all_reduce":
                ways.setdefault("ring", protocol)
            for way, terms in ways.items():
                far = terms.latency if terms.far is None else terms.far
                row = {"share": terms.share, "latency": terms.latency, "far": far, "base": terms.base}
                row |= {"tree": float(way == "tree"), "switched": float(way == "NVLS"), "bulk": float(protocol.bulk)}
                rows.append((way if function in TRAFFIC else "direct", name, row))
        return rows


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


def _levels(model: Collectives, op: Op, machine: Machine, function: str) -> list[_Level]:
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
        reached = symbol(f"parameter.efficiency.{_entry(model.efficiency, name, machine)}")
        if function != "send_recv":
            reached *= symbol(f"parameter.relayed.{_entry(model.relayed, name, machine)}")
        together = Largest(1 / sharing, members / symbol(f"{path}.shared_by"))
        full = symbol(f"{path}.bandwidth") * reached
        alone = full / Smallest(Largest(members, sharing), symbol(f"{path}.shared_by"))
        near = not place or name.startswith(NEAR)
        chain = near or not last  # NCCL's trees are chains within a node
        depth = sp.ceiling(within / members) - 1 if chain else sp.log(Largest(units / outside, 1), 2)
        step = symbol("choice.latency" if near else "choice.far")
        step *= symbol(f"{path}.latency") * symbol(f"parameter.latency.{_entry(model.latency, name, machine)}")
        levels.append(_Level(name, step, hops, depth, Smallest(1, hops), full * together, alone, members))
        members = within
    return levels


def _entry(table: FrozenDict[float], link: str, machine: Machine) -> str:
    """The entry of a table that serves a link: of its name and generation, of its name, or "default"."""
    of_generation = f"{link}{machine.links[link].generation}"
    return next((name for name in (of_generation, link) if name in table), "default")


@dataclass(frozen=True)
class DeviceAndCollectives(JointModel):
    """What a device does by itself, and what it does over its links.

    `device`: evaluated for every kind but "collective".
    `links`: evaluated for collectives.
    """

    device: FormulaModel
    links: Collectives = Collectives()

    @property
    def parts(self) -> Mapping[str, FormulaModel]:
        """The device, which says caches and clock, and its links."""
        return {"device": self.device, "links": self.links}

    def answering(self, op: Op) -> tuple[str, ...]:
        """The links of a collective, else the device."""
        return ("links" if op.kind == "collective" else "device",)


OTHER = "other"


@dataclass(frozen=True)
class ComputeAndCollectives(JointModel):
    """A model for each kind of operation.

    `kinds`: by kind ("gemm"); "other" serves those that are not named, and says caches and clock.
    """

    kinds: FrozenDict[FormulaModel]

    @property
    def parts(self) -> Mapping[str, FormulaModel]:
        """See `kinds`, the rest first."""
        return {f"kinds.{kind}": self.kinds[kind] for kind in (OTHER, *self.kinds)}

    def answering(self, op: Op) -> tuple[str, ...]:
        """The model of its kind."""
        return (f"kinds.{op.kind if op.kind in self.kinds else OTHER}",)
