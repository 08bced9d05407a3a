"""Orders that edges allow, as networkx has them (`topological_sort`), without its import of a tenth of a second."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slipstick.common.errors import InputError


@dataclass(frozen=True)
class Neighbours:
    """What waits for what.

    `before`, `after`: by name: those that it waits for, and those that wait for it, each once in the order of the
        edges.
    """

    before: Mapping[str, Mapping[str, None]]
    after: Mapping[str, Mapping[str, None]]

    @classmethod
    def of(cls, names: Iterable[str], edges: Iterable[tuple[str, str]]) -> Neighbours:
        """Of all names, those without edges too."""
        before: dict[str, dict[str, None]] = {name: {} for name in names}
        after: dict[str, dict[str, None]] = {name: {} for name in before}
        for first, second in edges:
            after[first][second] = None
            before[second][first] = None
        return cls(before, after)

    def ordered(self, place: Mapping[str, int] | None = None) -> list[str]:
        """Each name behind all that it waits for.

        `place`: of those that may stand next, the one with the lowest place does; None: the one that could first.
        Raises InputError where names wait for each other.
        """
        waits = {name: len(names) for name, names in self.before.items()}
        ready = [(place[name] if place else index, name) for index, name in enumerate(waits) if not waits[name]]
        heapq.heapify(ready)
        met, order = len(waits), []
        while ready:
            _, name = heapq.heappop(ready)
            order.append(name)
            for follower in self.after[name]:
                waits[follower] -= 1
                if not waits[follower]:
                    heapq.heappush(ready, (place[follower] if place else met, follower))
                    met += 1
        if len(order) < len(waits):
            raise InputError(f"{len(waits) - len(order)} operations wait for each other: want edges without a circle")
        return order
