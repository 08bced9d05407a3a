"""As much side by side as the edges allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipstick.common.array_types import FloatArray
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.schedule_model import Outcome, Schedule
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload


@dataclass(frozen=True)
class CriticalPath(Schedule):
    """The longest path through the graph: operations wait only for those before them (unlimited resources)."""

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine` (seconds); metrics: `parallelism`, the sum over the critical path."""
        import networkx as nx

        duration = {op.name: float(time) * float(op.times) for op, time in zip(workload, times, strict=True)}
        finish: dict[str, float] = {}
        after: dict[str, str | None] = {}
        for name in nx.topological_sort(workload.structure):
            after[name] = max(workload.structure.predecessors(name), key=finish.__getitem__, default=None)
            finish[name] = finish.get(after[name] or "", 0.0) + duration[name]
        longest = max(finish.values(), default=0.0)
        parallelism = sum(duration.values()) / longest if longest else 1.0
        place, path = max(finish, key=finish.__getitem__, default=None), set[str]()
        while place is not None:
            path.add(place)
            place = after[place]
        elapsed = tuple(duration[op.name] if op.name in path else 0.0 for op in workload)
        return Outcome(longest, "longest path of parts", FrozenDict(parallelism=parallelism), elapsed=elapsed)
