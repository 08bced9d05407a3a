"""Equal threads share the operations that may run side by side; the rest is serial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import sympy as sp

from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.parameters import Parameter, check_parameters
from slipstick.estimators.core.schedule_model import FormulaSchedule
from slipstick.hwmodels.files.expressions import symbol
from slipstick.hwmodels.files.readers import InputError, unknown_name
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload

THREADS = symbol("run.threads")


@dataclass(frozen=True)
class Contention:
    """Seconds that one contended operation waits when p threads compete for memory.

    The measured value where there is one at that count; else the line intercept + slope p.

    Parameters
    ----------
    measured
        (threads, seconds), as measured.
    """

    intercept: Annotated[float, Parameter("s", "contention of no thread: the line's origin", -1.0, 1.0)]
    slope: Annotated[float, Parameter("s", "contention that each thread adds", 0.0, 1.0)]
    measured: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        check_parameters(self)

    def formula(self, prefix: str) -> sp.Expr:
        """In run.threads; parameters are named below `prefix`."""
        line = symbol(f"{prefix}.intercept") + symbol(f"{prefix}.slope") * THREADS
        pairs = [(sp.Float(seconds), sp.Eq(THREADS, threads)) for threads, seconds in self.measured]
        return sp.Piecewise(*pairs, (line, True)) if pairs else line


@dataclass(frozen=True)
class ThreadSchedule(FormulaSchedule):
    """T = serial + (parallel + contended) CPI(p) / p + contention(p) n / p.

    Operations say their lane in the attribute `lane`: serial, parallel or contended (parallel, and waiting for memory
    once each time: n in all, with the attribute `contention` naming the entry of the table). CPI(p) is the machine's
    cycles per instruction with ceil(p / cores) threads on a core; shares of work are not rounded.

    Source: Viebke et al. 2019, Tables V and VI (there the CPI factor leaves out the preparation).
    """

    contention: Table[Contention] = Table()

    def run_defaults(self, machine: Machine) -> Mapping[str, float]:
        """All hardware threads."""
        return {"threads": machine.cores * machine.threads_per_core}

    def lane(self, op: Op) -> str:
        """serial, parallel or contended."""
        lane = str(op.attributes.get("lane", "serial"))
        if lane not in ("serial", "parallel", "contended"):
            raise unknown_name(f"lane of operation {op.name!r}", lane, ["serial", "parallel", "contended"])
        return lane

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """Symbols: time.serial, time.parallel, time.contended, count.contended, run.threads, machine.*, parameter.*."""
        work = symbol("time.parallel") + symbol("time.contended")
        total = symbol("time.serial") + work * cycles_per_instruction(machine) / THREADS
        kinds = {str(op.attributes["contention"]) for op in workload if self.lane(op) == "contended"}
        if len(kinds) > 1:
            raise InputError(f"workload {workload.name!r}: one kind of contention at a time, got {sorted(kinds)}")
        for kind in kinds:
            if kind not in self.contention:
                raise unknown_name("contention", kind, list(self.contention))
            wait = self.contention[kind].formula(f"parameter.contention.{kind}")
            total += symbol("count.contended") * wait / THREADS
        return Formula(total, "s", "Viebke et al. 2019, Tables V and VI")


def cycles_per_instruction(machine: Machine) -> sp.Expr:
    """Of one thread when run.threads are spread over machine.cores; beyond the last entry, the last holds."""
    on_a_core = sp.ceiling(THREADS / symbol("machine.cores"))
    last = len(machine.cycles_per_instruction) - 1
    pairs = [(symbol(f"machine.cycles_per_instruction.{n}"), on_a_core <= n + 1) for n in range(last)]
    return sp.Piecewise(*pairs, (symbol(f"machine.cycles_per_instruction.{last}"), True))
