"""As much side by side as the edges allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.schedule_model import Outcome, Schedule
from slipstick.hwmodels.files.records import Table
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
        for name in nx.topological_sort(workload.graph):
            start = max((finish[before] for before in workload.graph.predecessors(name)), default=0.0)
            finish[name] = start + duration[name]
        longest = max(finish.values(), default=0.0)
        parallelism = sum(duration.values()) / longest if longest else 1.0
        return Outcome(longest, "longest path of parts", Table(parallelism=parallelism))
