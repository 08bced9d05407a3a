"""Operations that are alike: networks repeat a few some dozen times, and what is read off one holds for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from slipstick.workloads.graph.workload import Op


@dataclass(frozen=True, eq=False)
class Distinct:
    """Operations of which each is another.

    Parameters
    ----------
    operations
        The first of each, shape (distinct,).
    place
        For each operation of the workload its place among them, shape (operations,); not to be changed.
    """

    operations: tuple[Op, ...]
    place: npt.NDArray[np.intp]

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
            firsts.append(op)
    place.flags.writeable = False
    return Distinct(tuple(firsts), place)
