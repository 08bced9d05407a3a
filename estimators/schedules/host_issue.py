"""One device that works while one host issues its operations: the longer of the two, by formula.

`schedules/dispatch.py` is the same operation by operation; here the sums of the two sides are compared, so that the
whole stays one formula that compiles. In eager mode the host issues every operation and stays ahead while the device
is the slower side. torch.compile fuses kernels but not the host's work on them: on public whole networks of KernelBench
v0.1 that are bound by the host, compiled runs take as long as eager ones for each operation of the *unfused* graph
(medians 15 and 17 us). A recorded graph is issued once. Kernels that are timed by themselves take the device's time;
the host's is named beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import sp, symbol
from slipstick.common.formatting import share_shown, shown
from slipstick.common.records import FrozenDict, Same
from slipstick.estimators.base.schedule_model import FormulaSchedule, Outcome
from slipstick.estimators.schedules.host_constants import ISSUE
from slipstick.estimators.symbolic.formula import Formula, Parameter, check_parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import symbols_of
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.channels_last import INSERTED

SOURCE = "the longer of the device's kernels and the host that issues them"
DEVICE = "the device's time of kernels that are timed by themselves"
CAST = "cast"
"""Conversions: networks whose compiled runs were counted had none."""
NOT_ISSUED = ("view", "optimizer", "recurrent")
"""Views cost nothing; an update of all parameters is a few launches (PyTorch's foreach); what starts a step of a
recurrent layer is the library's, in the step's own time."""


@dataclass(frozen=True)
class HostIssue(FormulaSchedule):
    """max(device, host), of kernels that are timed by themselves (`alone`) the device."""

    issue: Annotated[float, Parameter("s", "host time to issue an operation, beyond the runtime's", 0.0, 1e-2)] = ISSUE
    alone: bool = False

    def __post_init__(self) -> None:
        check_parameters(self)

    def lane(self, op: Op) -> str:
        """What the host issues one by one, apart from the rest."""
        return "quiet" if op.kind in NOT_ISSUED else "issued"

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """Symbols: time.issued, time.quiet, count.issued where it is not a number, parameter.issue, machine.runtime."""
        replayed, count = self.form(workload, machine)
        return _longer_of(replayed=replayed, count=count)

    def form(self, workload: Workload, machine: Machine) -> tuple[bool, float | None]:
        """Whether the host does not count in the time, and else how many operations are issued."""
        replayed = self.alone or machine.runtime.mode == "graph_replay"
        return replayed, None if replayed else _issued(Same(workload), machine.runtime.free_kinds)

    def pace(self, workload: Workload, machine: Machine) -> tuple[float, float] | None:
        """How many operations the host issues, and seconds for each: their product is the least time of the whole.

        None where the host does not count in the time, or open sizes decide how many there are.
        """
        count = self.form(workload, machine)[1]
        return None if count is None else (count, machine.runtime.issue_overhead + self.issue)

    def host_seconds(self, workload: Workload, machine: Machine) -> float:
        """Of a host that issues all operations, or a recorded graph once; 0 where open sizes decide how many."""
        replayed = machine.runtime.mode == "graph_replay"
        count = 1.0 if replayed else _issued(Same(workload), machine.runtime.free_kinds)
        return (count or 0.0) * (machine.runtime.issue_overhead + self.issue)

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine`; metrics: the share of the time that the device is busy; sides: device and host."""
        formula, values = self.at_times(workload, times, machine, run)
        time = float(formula.evaluate(values))
        device = float(np.sum(times * workload.executions))
        bound = time > device * (1 + 1e-9)
        metrics = {"device_busy": device / time if time else 0.0}
        notes: tuple[str, ...] = ()
        pace, host = self.pace(workload, machine), self.host_seconds(workload, machine)
        if bound and pace:
            fused = " of the graph before fusion" if any(issues(op) > 1 for op in workload.distinct.operations) else ""
            busy = f"the device is {share_shown(device / time)} busy"
            each = f"the host issues {pace[0]:,.0f} operations{fused} in {shown(pace[1], 's')} each: {busy}"
            notes = (each, f"hosts differ by 4 x: a step on yours / {pace[0]:,.0f} is estimator.schedule.issue")
        # kernels run one after the other: each adds its own time, and what the host takes beyond them is waiting
        rule = DEVICE if self.alone else formula.source
        sides = FrozenDict(device=device, host=host)
        return Outcome(time, f"formula: {rule}", metrics=FrozenDict(metrics), assumptions=notes, sides=sides)


@lru_cache(maxsize=64)
def _longer_of(*, replayed: bool, count: float | None) -> Formula:
    device = symbol("time.issued") + symbol("time.quiet")
    if replayed:
        return Formula(device, "s", SOURCE, FrozenDict(device=device))
    issued = symbol("count.issued") if count is None else sp.Float(count)
    host = issued * (symbol("machine.runtime.issue_overhead") + symbol("parameter.issue"))
    return Formula(sp.Max(device, host), "s", SOURCE, FrozenDict(device=device, host=host))


@lru_cache(maxsize=8)
def _issued(workload: Same[Workload], free_kinds: tuple[str, ...]) -> float | None:
    """How many operations the host issues; None where open sizes decide."""
    known = zip(workload.it.distinct.operations, workload.it.merged_times, strict=True)
    each = [times * issues(op) for op, times in known if op.kind not in (*free_kinds, *NOT_ISSUED)]
    return None if any(symbols_of(amount) for amount in each) else sum(map(float, each))


def issues(op: Op) -> int:
    """How many operations of the unfused graph an operation stands for; none, where a compiler put it in."""
    if op.attributes.get(INSERTED):
        return 0
    fused = op.attributes.get("fused", ())
    count = sum(name != CAST for name in fused) if isinstance(fused, tuple) else 0
    return max(1, count if op.kind == "elementwise" else 1 + count)
