"""One operation of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, content_digest
from slipstick.workloads.graph.cost import SIZE_BYTES, Amount, Cost, symbols_of
from slipstick.workloads.graph.given import Binding, Later, LaterCost

if TYPE_CHECKING:
    from slipstick.workloads.graph.workload import Workload

FIRST = "first"
"""Attribute of an operation that reads inputs of the graph alone; what it is fused into has it too."""
Attribute = str | int | float | bool | tuple[Any, ...] | None


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
    dims: FrozenDict[Amount] = FrozenDict()
    dtype: str = "float32"
    cost: Cost = Cost()
    times: Amount = 1
    attributes: FrozenDict[Attribute] = FrozenDict()
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
        return self.bound_by(Binding(values))

    def bound_by(self, binding: Binding) -> Op:
        """As `bind`, with values that serve other operations too."""
        left = self.symbols.difference(binding.values)
        if len(left) == len(self.symbols):
            return self
        bound = self._with(
            dims=binding.put_in(self.dims, Later, all_=not left),
            cost=self.cost.using(binding.put_in(self.cost.amounts, LaterCost, all_=not left)),
            times=binding.put(self.times),
            body=self.body.bind_known(binding.values) if self.body else None,
        )
        if binding.whole:
            bound.__dict__["symbols"] = left
        return bound

    def repeated(self, name: str, times: Amount) -> Op:
        """The same execution under another name, done another number of times."""
        if name == self.name and times is self.times:
            return self
        one = self._with(name=name, times=times)
        if times is self.times and "symbols" in self.__dict__:
            one.__dict__["symbols"] = self.symbols
        return one

    def _with(self, **parts: Any) -> Op:
        """A copy with other parts, whose data type was checked already."""
        made = object.__new__(Op)
        made.__dict__.update(zip(_FIELDS, _values_of(self.__dict__), strict=True), **parts)
        return made


_FIELDS = tuple(each.name for each in fields(Op))
_values_of = itemgetter(*_FIELDS)
