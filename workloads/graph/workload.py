"""A workload: operations and what each waits for.

A workload as a notebook shows it: its kinds of operations, and not each operation.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import is_symbolic, sp
from slipstick.common.formatting import count_shown, share_shown, shown
from slipstick.common.html_tables import html_table
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, content_digest
from slipstick.workloads.graph.alike import Distinct, distinct
from slipstick.workloads.graph.cost import Amount, Cost, check_size, symbols_of
from slipstick.workloads.graph.given import Binding, CachedAmount, opened
from slipstick.workloads.graph.op import Attribute as Attribute
from slipstick.workloads.graph.op import Op as Op

if TYPE_CHECKING:
    import networkx as nx


def workload_html(workload: Workload) -> str:
    """Count, flop and bytes of each kind, most flop first, at the defaults of the workload's symbols.

    Where a symbol has no default only the counts are known, and the caption names it.
    """
    head = f"{workload.name}: {len(workload):,} operations"
    free = sorted(workload.symbols - set(workload.defaults))
    if free:
        counted = [(kind, f"{count:,}") for kind, count in Counter(workload.kinds).most_common()]
        return html_table(("kind", "count"), counted, f"{head}; free: {', '.join(free)}")
    sums: dict[str, list[float]] = {}
    for operation in workload.bound().operations:
        times = float(operation.times)
        amounts = (times, times * float(operation.cost.flop), times * float(operation.cost.bytes_moved))
        sums[operation.kind] = [a + b for a, b in zip(sums.get(operation.kind, (0.0, 0.0, 0.0)), amounts, strict=True)]
    whole = sum(flop for _, flop, _ in sums.values()) or 1.0
    rows = [
        (kind, count_shown(count), shown(flop, "flop"), share_shown(flop / whole), shown(moved, "byte"))
        for kind, (count, flop, moved) in sorted(sums.items(), key=lambda one: -one[1][1])
    ]
    at = ", ".join(f"{name} = {value:g}" for name, value in workload.defaults.items())
    return html_table(("kind", "count", "flop", "of them", "bytes moved"), rows, f"{head}; {at}" if at else head)


FIELDS = ("kind", "dims", "dtype", "cost", "times", "attributes")
"""What a node of `Workload.graph` says of an operation."""
_NO_SIZES: Mapping[str, float] = FrozenDict()
WHOLE = ("name", "defaults", "metadata", "uncounted")
"""What the graph itself says of the workload."""


@dataclass(frozen=True)
class Workload:
    """Operations, edges between them by name (before, after), and the symbols that are open.

    Raises
    ------
    InputError
        Where two operations share a name, an edge names an unknown operation, or the operations wait for each other.

    Examples
    --------
    >>> from slipstick.workloads.layers.single import dense
    >>> two = Workload("two", (dense("a", 8, 16, 32), dense("b", 8, 32, 4)), (("a", "b"),))
    >>> two.cost.flop
    10240
    """

    name: str
    operations: tuple[Op, ...]
    edges: tuple[tuple[str, str], ...] = ()
    defaults: FrozenDict[float] = FrozenDict()
    metadata: FrozenDict[Attribute] = FrozenDict()
    uncounted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        makers: dict[str, Any] = {"operations": tuple, "edges": tuple, "defaults": FrozenDict, "metadata": FrozenDict}
        for field, make in makers.items():
            if not isinstance(given := getattr(self, field), make):  # lists and dicts are no key of what is kept
                object.__setattr__(self, field, make(map(tuple, given) if field == "edges" else given))
        place = {op.name: index for index, op in enumerate(self.operations)}
        if len(place) < len(self.operations):
            counts = Counter(op.name for op in self.operations)
            twice = counts.most_common(1)[0][0]
            raise InputError(f"workload {self.name!r}: two operations are named {twice!r}")
        for edge in self.edges:
            for name in edge:
                if name not in place:
                    raise unknown_name(f"operation in an edge of workload {self.name!r}", name, sorted(place))
        if all(place[before] < place[after] for before, after in self.edges):
            return
        waits: dict[str, set[str]] = {}
        for before, after in self.edges:
            waits.setdefault(after, set()).add(before)
        try:
            TopologicalSorter(waits).prepare()
        except CycleError as error:
            cycle: list[str] = error.args[1][:-1]
            first = cycle.index(next(op.name for op in self.operations if op.name in cycle))
            listed = " -> ".join(cycle[first:] + cycle[:first])
            raise InputError(f"workload {self.name!r}: operations wait for each other: {listed}") from None

    def __repr__(self) -> str:
        sizes = [f"{name}={self.defaults[name]:g}" if name in self.defaults else name for name in sorted(self.symbols)]
        return f"{type(self).__name__}({self.name!r}, {', '.join([f'operations: {len(self.operations):,}', *sizes])})"

    def __iter__(self) -> Iterator[Op]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.names)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # the operations of a graph whose sizes were given are made when somebody reads them one by one
            if name != "operations" or not {"_given", "raw_times"} & self.__dict__.keys():
                raise AttributeError(f"Workload has no {name!r}")
            self.__dict__[name] = self._repeated()
            return self.operations

    @classmethod
    def kept(
        cls,
        name: str,
        edges: tuple[tuple[str, str], ...],
        defaults: FrozenDict[float],
        metadata: FrozenDict[Attribute],
        uncounted: tuple[str, ...],
        names: tuple[str, ...],
        raw_times: tuple[Amount | CachedAmount, ...],
        distinct: Distinct,
        symbols: frozenset[str],
    ) -> Self:
        """A workload that was checked when it was kept; its operations are made when somebody reads them one by one.

        Parameters
        ----------
        names, raw_times, distinct
            Of the operations, how often each is done, and which are alike.
        """
        whole = {"name": name, "edges": edges, "defaults": defaults, "metadata": metadata, "uncounted": uncounted}
        return cls._unchecked(**whole, names=names, raw_times=raw_times, distinct=distinct, symbols=symbols)

    @classmethod
    def _unchecked(cls, **parts: object) -> Self:
        """A workload of parts that were checked already."""
        made = object.__new__(cls)
        made.__dict__.update(parts)
        return made

    def _repeated(self) -> tuple[Op, ...]:
        """The operations, from those that differ."""
        firsts, each = self.distinct.operations, zip(self.names, self.times, self.distinct.place.tolist(), strict=True)
        return tuple(firsts[place].repeated(name, times) for name, times, place in each)

    @cached_property
    def _given(self) -> _Given | None:
        """Where this is another workload with sizes given: that, and the sizes."""
        return None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the operations, in their order."""
        return self._given.workload.names if self._given else tuple(op.name for op in self.operations)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Of the operations, in their order."""
        if self._given:
            return self._given.workload.kinds
        kinds = [op.kind for op in self.distinct.operations]
        return tuple(map(kinds.__getitem__, self.distinct.place.tolist()))

    @cached_property
    def times(self) -> tuple[Amount, ...]:
        """How often each operation is done, in their order."""
        return tuple(map(opened, self.raw_times))

    @cached_property
    def raw_times(self) -> tuple[Amount | CachedAmount, ...]:
        """The same, as steps where they are kept so."""
        return self._given.times() if self._given else tuple(op.times for op in self.operations)

    @cached_property
    def counted(self) -> bool:
        """Whether no size has a say in how often operations are done."""
        if self._given:
            return self._given.workload.counted
        return all(isinstance(count, (int, float)) for count in set(self.raw_times))

    @cached_property
    def merged(self) -> tuple[Op, ...]:
        """Each distinct operation once, done as often as all that are like it; shape (distinct,)."""
        pairs = zip(self.distinct.operations, self.merged_times, strict=True)
        return tuple(op.repeated(op.name, times) for op, times in pairs)

    @cached_property
    def merged_times(self) -> tuple[Amount, ...]:
        """How often each distinct operation is done, those that are like it too; shape (distinct,)."""
        if self._given and self.counted:
            return self._given.workload.merged_times
        times: list[list[Amount]] = [[] for _ in self.distinct.operations]
        for count, place in zip(self.times, self.distinct.place.tolist(), strict=True):
            times[place].append(count)
        return tuple(each[0] if len(each) == 1 else _added(each) for each in times)

    @cached_property
    def executions(self) -> FloatArray:
        """How often each operation is done, all sizes bound, shape (operations,); not to be changed."""
        if self._given and self.counted:
            return self._given.workload.executions
        counts = np.array([float(count) for count in self.times])
        counts.flags.writeable = False
        return counts

    @property
    def graph(self) -> nx.DiGraph[str]:
        """The operations as a networkx graph of your own, to look at and to edit: `slipstick.workload` takes it back.

        A node's attributes are the fields of its operation (kind, dims, dtype, cost, times, attributes) and the
        operation itself, `op`; the graph's are those of the workload.

        Examples
        --------
        >>> import slipstick as ss
        >>> graph = ss.workload("gemm").graph
        >>> graph.nodes["product"]["dtype"] = "bfloat16"
        >>> ss.workload(graph).operations[0].cost["read"], ss.workload("gemm").operations[0].cost["read"]
        (2*k*m + 2*k*n, 4*k*m + 4*k*n)
        """
        import networkx as nx

        facts = {name: getattr(self, name) for name in WHOLE[1:]}
        graph: nx.DiGraph[str] = nx.DiGraph(name=self.name, **{name: fact for name, fact in facts.items() if fact})
        for op in self.operations:
            graph.add_node(op.name, **{name: getattr(op, name) for name in FIELDS}, op=op)
        graph.add_edges_from(self.edges)
        return graph

    @cached_property
    def structure(self) -> nx.DiGraph[str]:
        """The names of the operations and what waits for what, shared and frozen."""
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph(name=self.name)
        graph.add_nodes_from(op.name for op in self.operations)
        graph.add_edges_from(self.edges)
        nx.freeze(graph)
        return graph

    @cached_property
    def symbols(self) -> frozenset[str]:
        """Names that are still open."""
        times = self._given.open_times() if self._given else {symbols_of(count) for count in set(self.times)}
        return frozenset().union(*(op.symbols for op in self.distinct.operations), *times)

    @cached_property
    def distinct(self) -> Distinct:
        """The operations that differ in more than their name and how often they are done."""
        return distinct(self.operations)

    @cached_property
    def identity(self) -> str:
        """Digest of the operations and edges, whatever the names."""
        index = {name: i for i, name in enumerate(self.names)}
        each = [op.identity for op in self.distinct.operations]
        operations = [[each[i], str(n)] for i, n in zip(self.distinct.place.tolist(), self.times, strict=True)]
        return content_digest([operations, sorted([index[a], index[b]] for a, b in self.edges)])

    @property
    def cost(self) -> Cost:
        """The sum over all operations, each as often as it is done."""
        total = Cost()
        for op in self.merged:
            total = total + op.cost * op.times
        return total

    def bind(self, **values: Amount) -> Self:
        """The workload with some of its symbols given values (a dict may be passed as ``**dict``).

        Raises
        ------
        InputError
            Where a name is no symbol of the workload, or a value is no size.
        """
        for name, value in values.items():
            if name not in self.symbols:
                raise unknown_name(f"symbol of workload {self.name!r}", name, sorted(self.symbols))
            check_size(name, value, self.defaults)
        return self.bind_known(values)

    def bind_known(self, values: Mapping[str, Amount]) -> Self:
        """As `bind`, but names that are no symbol here are passed over."""
        if not values:
            return self
        binding = Binding(values)
        given = _Given(self, binding)
        if self._given and self._given.binding.whole and binding.whole:
            given = _Given(self._given.workload, binding.after(self._given.binding))
        parts = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "operations"}
        left = FrozenDict({name: value for name, value in self.defaults.items() if name not in values})
        return self._unchecked(**parts | {"defaults": left}, distinct=self.distinct.bound_by(binding), _given=given)

    def called(self, name: str) -> Self:
        """The same workload under another name."""
        return self if name == self.name else self._with(name=name)

    def changed(self, operations: tuple[Op, ...], metadata: FrozenDict[Attribute]) -> Self:
        """The same with others in place of the distinct operations, shape (distinct,), which stay as different.

        How often each is done, and its kind, are not changed; other facts about the whole are.
        """
        given = {name: getattr(self, name) for name in ("name", "edges", "defaults", "uncounted", "names")}
        times = {"_given": self._given} if self._given else {"raw_times": self.raw_times}
        distinct = Distinct(operations, self.distinct.place)
        return self._unchecked(**given, **times, metadata=metadata, distinct=distinct)

    def _with(self, **parts: Any) -> Self:
        """A copy with other parts than operations and edges."""
        known = {name: part for name, part in self.__dict__.items() if name != "structure"}
        return self._unchecked(**known | parts)

    def bound(self, values: Mapping[str, float] = _NO_SIZES) -> Self:
        """The workload with values put in, and its defaults where none is given; names that are no symbol are passed
        over.

        Raises
        ------
        InputError
            Where a symbol has neither.
        """
        if not self.symbols:
            return self
        given = {**self.defaults, **values}
        if missing := sorted(self.symbols - set(given)):
            raise InputError(
                f"workload {self.name!r}: give a value for {', '.join(missing)} (--{missing[0]} N, or bind)"
            )
        return self.bind_known(given)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write node-link JSON, packed where the name ends in .gz; `load_workload` reads it back."""
        from slipstick.workloads.graph.workload_writer import write

        write(self, path)

    def _repr_html_(self) -> str:

        return workload_html(self)


@dataclass(frozen=True, eq=False)
class _Given:
    """A workload whose operations are those of another with sizes given."""

    workload: Workload
    binding: Binding

    def times(self) -> tuple[Amount, ...]:
        """How often each operation is done."""
        if self.workload.counted:
            return self.workload.times
        return tuple(map(self.binding.put, self.workload.raw_times))

    def open_times(self) -> set[frozenset[str]]:
        """The symbols that are left in how often operations are done."""
        if self.workload.counted:
            return set()
        return {self.binding.left_in(count) for count in set(self.workload.raw_times)}


def _added(amounts: list[Amount]) -> Amount:
    """The sum; open amounts at once, for sympy sorts the terms of a sum at every step."""
    return sp.Add(*amounts) if any(is_symbolic(one) for one in amounts) else sum(amounts)
