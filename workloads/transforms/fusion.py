"""Fusion: operations that a compiler makes one kernel of, as a rewrite of the graph.

What the compilers of the frameworks do (Ansel et al., PyTorch 2, ASPLOS 2024, section 4.4; Dao et al., FlashAttention,
NeurIPS 2022): chains of elementwise operations become one; elementwise operations join the product, norm, softmax or
reduction beside them; scores, softmax and weighted values become one attention. Arithmetic stays, what lay between the
parts is neither written nor read, and one launch remains. Views in between are looked through.

Two operations become one only where that can close no cycle: the first feeds nobody else, or the second waits for
nobody else. Forward, backward and optimizer are compiled apart.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from slipstick.common.expressions import is_symbolic, sp
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import SIZE_BYTES, Amount, Cost
from slipstick.workloads.graph.kinds import PRODUCT, family_of, product
from slipstick.workloads.graph.op import FIRST
from slipstick.workloads.graph.order import Neighbours
from slipstick.workloads.graph.work import AXES
from slipstick.workloads.graph.workload import Attribute, Op, Workload
from slipstick.workloads.transforms.attention import attention_of

POINTWISE = "elementwise"
ROWWISE = ("norm", "softmax")
FREE = ("view",)
CAST = "cast"
"""The function of a conversion to another data type: it joins what reads it, since products write their own type."""


@lru_cache(maxsize=16)
def fused(workload: Workload, free_kinds: tuple[str, ...] = FREE) -> Workload:
    """The workload as a compiler hands it to the machine.

    `free_kinds`: kinds that cost nothing and are compiled away: what they join is joined directly.
    """
    plain, outputs = _without(_converted_once(workload), free_kinds)
    joined = _Groups(plain, outputs)
    for members, whole in _attentions(plain, outputs):
        joined.replace(members, whole)
    joined.join()
    return joined.workload() if len(joined.members) < len(workload) else workload


def _converted_once(workload: Workload) -> Workload:
    """One conversion of a result for all that read it, where eager code has one for each."""
    sources = Neighbours.of(workload.names, workload.edges).before
    first: dict[object, str] = {}
    instead: dict[str, str] = {}
    for op in workload:
        if op.attributes.get("function") == CAST and (made := sources[op.name]):
            instead[op.name] = first.setdefault((frozenset(made), op.cost, op.times), op.name)
    twice = {name for name, kept in instead.items() if name != kept}
    if not twice:
        return workload
    edges = {(a, b): None for a, b in workload.edges if b not in twice}
    edges = dict.fromkeys((instead.get(a, a), b) for a, b in edges)
    return replace(workload, operations=tuple(op for op in workload if op.name not in twice), edges=tuple(edges))


def _without(workload: Workload, free_kinds: tuple[str, ...]) -> tuple[Workload, frozenset[str]]:
    """The workload without views, and the operations whose results a view hands to the outside."""
    free = {op.name for op in workload if op.kind in free_kinds}
    if not free or len(free) == len(workload):
        return workload, frozenset()
    makers: dict[str, set[str]] = {}
    edges: dict[tuple[str, str], None] = {}
    outputs: set[str] = set()
    graph = Neighbours.of(workload.names, workload.edges)
    for name in graph.ordered():
        sources: set[str] = set()
        for source in graph.before[name]:
            sources |= makers.get(source, set()) if source in free else {source}
        if name in free:
            makers[name] = sources
            if not graph.after[name]:
                outputs |= sources
        else:
            edges |= {(source, name): None for source in sorted(sources)}
    operations = tuple(op for op in workload if op.name not in free)
    return replace(workload, operations=operations, edges=tuple(edges)), frozenset(outputs)


def _output(op: Op) -> Amount:
    """Elements of what an operation makes."""
    d = op.dims
    match op.kind:
        case "elementwise":
            return d["elements"]
        case "gemm":
            return d["batch"] * d["m"] * d["n"]
        case "convolution":
            if op.attributes.get("pass", "forward") != "forward":
                return 0
            return d["batch"] * d["channels_out"] * product(d[f"out_{axis}"] for axis in AXES)
        case "attention":
            return d["batch"] * d["heads"] * d["queries"] * d["value_dim"]
        case "norm":
            return d["elements"]
        case "softmax":
            return d["rows"] * d["columns"]
        case "reduction":
            return d["outputs"]
    return 0


def _domain(op: Op) -> Amount:
    """Elements that an operation goes over when it takes an elementwise one before it."""
    return op.dims["elements"] if op.kind == "reduction" else _output(op)


def fusible(first: Op, second: Op) -> bool:
    """Whether a compiler makes one kernel of two operations of which the first feeds the second."""
    if first.times != second.times or first.body or second.body or first.payload or second.payload:
        return False
    if first.attributes.get("phase") != second.attributes.get("phase"):
        return False
    multiplies = family_of(first.kind) is PRODUCT
    if second.attributes.get("function") == CAST and multiplies:
        return False
    if second.kind == POINTWISE:
        return (multiplies or first.kind in (POINTWISE, *ROWWISE)) and _same(_output(first), second.dims["elements"])
    if first.kind == POINTWISE:
        return second.kind in (*ROWWISE, "reduction") and _same(first.dims["elements"], _domain(second))
    return False


def _same(one: Amount, other: Amount) -> bool:
    if one is other:
        return bool(one != 0)
    difference = one - other
    return bool((sp.expand(difference) if is_symbolic(difference) else difference) == 0) and bool(one != 0)


class _Groups:
    """Operations by the kernel they are in; a kernel has at most one member that is not elementwise."""

    def __init__(self, workload: Workload, outputs: frozenset[str]) -> None:
        graph = Neighbours.of(workload.names, workload.edges)
        self.whole = workload
        self.known = {op.name: op for op in workload}
        self.order = graph.ordered()
        self.outside = outputs
        self.own_before = {name: set(graph.before[name]) for name in self.known}
        self.own_after = {name: set(graph.after[name]) for name in self.known}
        self.of = {name: name for name in self.known}
        self.members = {name: [name] for name in self.known}
        self.anchors = {op.name: None if op.kind == POINTWISE else op for op in workload}
        self.before = {name: set(nodes) for name, nodes in self.own_before.items()}
        self.after = {name: set(nodes) for name, nodes in self.own_after.items()}

    def join(self) -> None:
        """Merge neighbours until none are left that may be."""
        merged = True
        while merged:
            merged = False
            for name in self.order:
                group = self.of[name]
                for source in sorted(self.before[group]):
                    if self._may_merge(source, group):
                        self._merge(source, group)
                        merged = True
                        break

    def replace(self, members: list[str], whole: Op) -> None:
        """Make one given operation of several that stand in a row."""
        for name in members[1:]:
            self._merge(members[0], name)
        self.anchors[members[0]] = whole

    def _may_merge(self, first: str, second: str) -> bool:
        """`first` feeds `second`: one kernel, without a cycle and with one anchor?"""
        one, other = self.anchors[first], self.anchors[second]
        if one is not None and other is not None:
            return False
        if self.after[first] != {second} and self.before[second] != {first}:
            return False
        return fusible(one or self.known[self.members[first][-1]], other or self.known[self.members[second][0]])

    def _merge(self, first: str, second: str) -> None:
        """`second` becomes part of `first`."""
        self.anchors[first] = self.anchors[first] or self.anchors.pop(second)
        for name in self.members.pop(second):
            self.of[name] = first
            self.members[first].append(name)
        for name in self.before.pop(second) - {first}:
            self.after[name].discard(second)
            self.after[name].add(first)
            self.before[first].add(name)
        for name in self.after.pop(second):
            self.before[name].discard(second)
            self.before[name].add(first)
            self.after[first].add(name)
        self.after[first].discard(second)

    def workload(self) -> Workload:
        """One operation a group, in an order that the edges allow."""
        made = {group: self._one(group) for group in self.members}
        edges = dict.fromkeys((self.of[a], self.of[b]) for a, b in self.whole.edges if self.of[a] != self.of[b])
        order = Neighbours.of(made, edges).ordered({name: i for i, name in enumerate(self.order)})
        return replace(self.whole, operations=tuple(made[name] for name in order), edges=tuple(edges))

    def _one(self, group: str) -> Op:
        """The operation that does the work of a group; what stays inside is not moved."""
        members = self.members[group]
        if len(members) == 1:
            return self.known[group]
        inside, anchor = set(members), self.anchors[group]
        cost = Cost()
        for name in members:
            cost = cost + self.known[name].cost
        read, written = cost["read"], cost["written"]
        for source in dict.fromkeys(before for name in members for before in sorted(self.own_before[name])):
            size = SIZE_BYTES[self.known[source].dtype] * _output(self.known[source])
            uses = len(self.own_after[source] & inside)
            read = less(read, size * (uses if source in inside else uses - 1))
            if source in inside and self.own_after[source] <= inside and source not in self.outside:
                written = less(written, size)
        launches = anchor.cost["launches"] if anchor is not None else 1
        moved = {"read": read, "written": written, "launches": launches}
        face = anchor or self.known[members[0]]
        others = [op for op in map(self.known.__getitem__, members) if anchor is None or op.kind == POINTWISE]
        functions = tuple(str(op.attributes.get("function", op.kind)) for op in others)
        attributes: dict[str, Attribute] = {**face.attributes, "fused": functions}
        if any(FIRST in self.known[name].attributes for name in members):
            attributes[FIRST] = True
        dims = face.dims
        if anchor is None:
            size = SIZE_BYTES[face.dtype]
            dims = FrozenDict({"elements": dims["elements"], "reads": read / size, "writes": written / size})
            attributes["function"] = "fused"
        whole = Cost({**cost, **moved})
        return replace(face, name=group, dims=dims, cost=whole, attributes=FrozenDict(attributes))


def _attentions(workload: Workload, outputs: frozenset[str]) -> list[tuple[list[str], Op]]:
    """Scores, elementwise in between (scale, mask, dropout), softmax and weighted values that nobody else reads."""
    graph = Neighbours.of(workload.names, workload.edges)
    known = {op.name: op for op in workload}
    taken: set[str] = set()
    matches = []

    def only(name: str) -> str | None:
        after = list(graph.after[name])
        return after[0] if len(after) == 1 and name not in outputs else None

    for scores in workload:
        if scores.kind != "gemm" or scores.name in taken:
            continue
        row, name, softmax = [scores.name], only(scores.name), None
        while name is not None:
            op = known[name]
            row.append(name)
            if op.kind == "softmax" and softmax is None and op.attributes.get("pass", "forward") == "forward":
                softmax = op
            elif op.kind != POINTWISE or not _same(op.dims["elements"], _output(scores)):
                break
            name = only(name)
        if name is None or softmax is None or not _weighs(scores, softmax, known[name]):
            continue
        if any(known[part].times != scores.times or _phase(known[part]) != _phase(scores) for part in row):
            continue
        taken |= set(row)
        kept = {word: value for word, value in scores.attributes.items() if word in ("phase", FIRST)}
        matches.append((row, attention_of(scores.name, scores, known[name], kept)))
    return matches


def _weighs(scores: Op, softmax: Op, values: Op) -> bool:
    """Whether a product takes the softmax of all scores as its weights."""
    one, other = scores.dims, values.dims
    return (
        values.kind == "gemm"
        and _same(_output(softmax), _output(scores))
        and _same(one["batch"], other["batch"])
        and _same(one["m"], other["k"])
        and _same(one["n"], other["n"])
    )


def _phase(op: Op) -> Attribute:
    return op.attributes.get("phase")


def less(amount: Amount, saved: Amount) -> Amount:
    """`amount - saved` where that is an amount: an edge may say no more than an order in time."""
    if saved == 0:
        return amount
    left = amount - saved
    return left if _at_sizes(left) >= 0 else amount


def _at_sizes(amount: Amount) -> float:
    if not is_symbolic(amount):
        return float(amount)
    return min(float(amount.xreplace(dict.fromkeys(amount.free_symbols, sp.Integer(n)))) for n in (7, 64))
