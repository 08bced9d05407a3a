"""Operations that are alike: networks repeat a few some dozen times, and what is read off one holds for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from slipstick.workloads.graph.given import Binding
    from slipstick.workloads.graph.workload import Op


@dataclass(frozen=True, eq=False)
class Distinct:
    """Operations of which each is another.

    `operations`: the first of each, done once, so that sizes which only say how often it is done leave it as it is;
        shape (distinct,).
    `place`: for each operation of the workload its place among them, shape (operations,); not to be changed.
    """

    operations: tuple[Op, ...]
    place: npt.NDArray[np.intp]

    @cached_property
    def _sizes(self) -> tuple[str, ...] | None:
        """Names of the symbols; None where operations hold others, whose defaults depend on more."""
        inside = any(op.body for op in self.operations)
        return None if inside else tuple(frozenset().union(*(op.symbols for op in self.operations)))

    def bound_by(self, binding: Binding) -> Distinct:
        """With values in place of symbols: the very same operations as last time where their sizes are the same."""
        if self._sizes is None or binding.columns or not binding.whole:
            return Distinct(tuple(op.bound_by(binding) for op in self.operations), self.place)
        key = [(type(one), one) for one in map(binding.values.get, self._sizes)]  # 2 and 2.0 do not give the same
        last: tuple[object, Distinct] | None = self.__dict__.get("_last")
        if last is None or last[0] != key:
            last = key, Distinct(tuple(op.bound_by(binding) for op in self.operations), self.place)
            self.__dict__["_last"] = last
        return last[1]

    def __reduce__(self) -> tuple[type[Distinct], tuple[object, ...]]:
        return Distinct, (self.operations, self.place)

    def places_of(self, kind: str) -> list[int]:
        """The places of all operations of a kind, in the workload's order."""
        of_kind = np.array([op.kind == kind for op in self.operations], dtype=bool)
        return self.place[of_kind[self.place]].tolist() if len(self.operations) else []


def distinct(operations: Sequence[Op]) -> Distinct:
    """The operations that differ in more than their name and how often they are done."""
    places: dict[tuple[Any, ...], int] = {}
    firsts: list[Op] = []
    place = np.empty(len(operations), dtype=np.intp)
    for index, op in enumerate(operations):
        content = (op.kind, op.dtype, op.payload, op.dims, op.cost, op.attributes, id(op.body))
        place[index] = places.setdefault(content, len(firsts))
        if place[index] == len(firsts):
            firsts.append(op.repeated(op.name, 1))
    place.flags.writeable = False
    return Distinct(tuple(firsts), place)
