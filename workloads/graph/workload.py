"""A workload: operations and what each waits for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import sympy as sp

from slipstick.hwmodels.files.readers import InputError, unknown_name
from slipstick.hwmodels.files.records import Table, content_digest
from slipstick.workloads.graph.alike import Distinct, distinct
from slipstick.workloads.graph.cost import SIZE_BYTES, Amount, Cost, bind_amount, symbols_of

if TYPE_CHECKING:
    import networkx as nx

Attribute = str | int | float | bool | tuple[Any, ...] | None
FIELDS = ("kind", "dims", "dtype", "cost", "times", "attributes")
"""What a node of `Workload.graph` says of an operation."""
WHOLE = ("name", "defaults", "metadata", "uncounted")
"""What the graph itself says of the workload."""


@dataclass(frozen=True)
class Op:
    """One operation, done `times` times.

    Parameters
    ----------
    name
        Unique in its workload.
    kind
        What it is ("gemm", "convolution", "elementwise", ...), a word of the taxonomy.
    dims
        Sizes by name (m, n, k, batch, ...).
    cost
        Resources of one execution.
    attributes
        Frozen facts that distinguish operations of equal dims: strides, groups, scalars, phase.
    body
        The operations inside a macro operation (a loop, a brick, the layers of a training step).
    payload
        Digest of data that decides the time (a sparse matrix).
    """

    name: str
    kind: str
    dims: Table[Amount] = Table()
    dtype: str = "float32"
    cost: Cost = Cost()
    times: Amount = 1
    attributes: Table[Attribute] = Table()
    body: Workload | None = None
    payload: str | None = None

    def __post_init__(self) -> None:
        if self.dtype not in SIZE_BYTES:
            raise InputError(
                f"operation {self.name[:60]!r}: {unknown_name('data type', self.dtype, sorted(SIZE_BYTES))}"
            )

    @cached_property
    def identity(self) -> str:
        """Digest of what decides the time of one execution: everything but the name and the number of times."""
        content = [self.kind, self.dims, self.dtype, dict(self.cost), self.attributes, self.payload]
        return content_digest([*content, self.body.identity if self.body else None])

    @cached_property
    def symbols(self) -> frozenset[str]:
        """Names that are still open."""
        amounts = [*self.dims.values(), *self.cost.values(), self.times]
        inside = self.body.symbols if self.body else frozenset()
        return inside.union(*(symbols_of(amount) for amount in amounts))

    def bind(self, values: Mapping[str, Amount]) -> Op:
        """The operation with some of its symbols given values."""
        return self._bind(values, {})

    def _bind(self, values: Mapping[str, Amount], known: dict[Amount, Amount]) -> Op:
        if self.symbols.isdisjoint(values):
            return self

        def put(amount: Amount) -> Amount:
            return _put(amount, values, known)

        return Op(
            self.name,
            self.kind,
            Table({name: put(amount) for name, amount in self.dims.items()}),
            self.dtype,
            Cost({name: put(amount) for name, amount in self.cost.items()}),
            put(self.times),
            self.attributes,
            self.body.bind_known(values) if self.body else None,
            self.payload,
        )

    def _repeated(self, name: str, times: Amount) -> Op:
        """The same execution under another name, done another number of times."""
        if name == self.name and times is self.times:
            return self
        one = object.__new__(Op)  # its data type was checked already
        one.__dict__.update(self.__dict__, name=name, times=times)
        if times is not self.times:
            one.__dict__.pop("symbols", None)
        return one


def _added(amounts: list[Amount]) -> Amount:
    """The sum; open amounts at once, for sympy sorts the terms of a sum at every step."""
    return sp.Add(*amounts) if any(isinstance(one, sp.Basic) for one in amounts) else sum(amounts)


def _put(amount: Amount, values: Mapping[str, Amount], known: dict[Amount, Amount]) -> Amount:
    """An amount with values in place of symbols; `known` holds what was bound already."""
    if not isinstance(amount, sp.Basic):
        return amount
    if amount not in known:
        known[amount] = bind_amount(amount, values)
    return known[amount]


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
    defaults: Table[float] = Table()
    metadata: Table[Attribute] = Table()
    uncounted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = {op.name for op in self.operations}
        if len(names) < len(self.operations):
            counts = Counter(op.name for op in self.operations)
            twice = counts.most_common(1)[0][0]
            raise InputError(f"workload {self.name!r}: two operations are named {twice!r}")
        for edge in self.edges:
            for name in edge:
                if name not in names:
                    raise unknown_name(f"operation in an edge of workload {self.name!r}", name, sorted(names))
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
        return len(self.operations)

    @cached_property
    def merged(self) -> tuple[Op, ...]:
        """Each distinct operation once, done as often as all that are like it; shape (distinct,)."""
        times: list[list[Amount]] = [[] for _ in self.distinct.operations]
        for op, place in zip(self.operations, self.distinct.place.tolist(), strict=True):
            times[place].append(op.times)
        pairs = zip(self.distinct.operations, times, strict=True)
        return tuple(op._repeated(op.name, op.times if len(each) == 1 else _added(each)) for op, each in pairs)

    @cached_property
    def executions(self) -> npt.NDArray[np.float64]:
        """How often each operation is done, all sizes bound, shape (operations,); not to be changed."""
        counts = np.array([float(op.times) for op in self.operations])
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
        times = {op.times for op in self.operations if isinstance(op.times, sp.Basic)}
        return frozenset().union(*(op.symbols for op in self.distinct.operations), *map(symbols_of, times))

    @cached_property
    def distinct(self) -> Distinct:
        """The operations that differ in more than their name and how often they are done."""
        return distinct(self.operations)

    @cached_property
    def identity(self) -> str:
        """Digest of the operations and edges, whatever the names."""
        index = {op.name: i for i, op in enumerate(self.operations)}
        operations = [[op.identity, str(op.times)] for op in self.operations]
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
            Where a name is no symbol of the workload.
        """
        for name in values:
            if name not in self.symbols:
                raise unknown_name(f"symbol of workload {self.name!r}", name, sorted(self.symbols))
        return self.bind_known(values)

    def bind_known(self, values: Mapping[str, Amount]) -> Self:
        """As `bind`, but names that are no symbol here are passed over."""
        known: dict[Amount, Amount] = {}  # a graph repeats a few expressions thousands of times
        firsts = tuple(op._bind(values, known) for op in self.distinct.operations)
        operations = zip(self.operations, self.distinct.place.tolist(), strict=True)
        return self._with(
            operations=tuple(
                firsts[place]._repeated(op.name, _put(op.times, values, known)) for op, place in operations
            ),
            defaults=Table({name: value for name, value in self.defaults.items() if name not in values}),
            distinct=Distinct(firsts, self.distinct.place),
        )

    def called(self, name: str) -> Self:
        """The same workload under another name."""
        return self if name == self.name else self._with(name=name)

    def _with(self, **parts: Any) -> Self:
        """A copy with other parts, whose names and edges are those that were checked already."""
        made = object.__new__(type(self))
        made.__dict__.update({each.name: getattr(self, each.name) for each in fields(self)} | parts)
        return made

    def bound(self) -> Self:
        """The workload with its defaults put in.

        Raises
        ------
        InputError
            Where a symbol has no default.
        """
        if not self.symbols:
            return self
        missing = sorted(self.symbols - set(self.defaults))
        if missing:
            raise InputError(
                f"workload {self.name!r}: give a value for {', '.join(missing)} (--{missing[0]} N, or bind)"
            )
        return self.bind_known(self.defaults)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write node-link JSON, packed where the name ends in .gz; `load_workload` reads it back."""
        from slipstick.workloads.graph.workload_writer import write

        write(self, path)

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><td>{escape(op.name)}</td><td>{escape(op.kind)}</td><td>{escape(str(op.times))}</td>"
            f"<td>{escape(str(op.cost.flop))}</td><td>{escape(str(op.cost.bytes_moved))}</td></tr>"
            for op in self.operations[:200]
        )
        head = "<tr><th>operation</th><th>kind</th><th>times</th><th>flop</th><th>bytes</th></tr>"
        return f"<table><caption>{escape(self.name)}: {len(self)} operations</caption>{head}{rows}</table>"
