"""Times of whole programs as rows of their kernels' law (`ProgramLaw`), and its fit to some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import UNGROUPED, LawFit, LawRows
from slipstick.estimators.gpu.programs.program_classes import kernel_class
from slipstick.estimators.gpu.programs.program_kernels import COMPILED, HOST, MODE, machine_groups
from slipstick.estimators.schedules.host_issue import NOT_ISSUED, issues
from slipstick.experiments.scoreboards.programs.program_data import INDUCTOR, Program, ProgramRun
from slipstick.experiments.scoreboards.programs.program_law import OperationRun, ProgramLaw, TimedOperations
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Op

COHORT = "KernelBench v0.1"
Beside: TypeAlias = tuple[TimedOperations, LawRows] | None
"""Other programs of the same classes, all of which are fitted as well, by their place in a table of their own."""


@dataclass(frozen=True, eq=False)
class Timed:
    """Measured programs on one host in one mode.

    `rows`: operations of all programs, measured there or not.
    `index`, `logs`: which of the programs were measured, and their log seconds.
    `mode`: `program_kernels.COMPILED`, or nothing where PyTorch issued operations one by one.
    """

    host: str
    device: str
    rows: TimedOperations
    index: npt.NDArray[np.intp]
    logs: FloatArray
    mode: str = UNGROUPED

    def every(self) -> FloatArray:
        """Log seconds by program, nan where it was not measured."""
        logs = np.full(self.rows.programs, np.nan)
        logs[self.index] = self.logs
        return logs

    def groups(self, count: int) -> dict[str, list[str]]:
        """The groups of so many rows, by level."""
        named = {**machine_groups(machine(self.device).family), MODE: self.mode, HOST: self.host}
        return {level: [group] * count for level, group in named.items()}


@dataclass(frozen=True, eq=False)
class FittedPrograms:
    """The law of some classes, fitted."""

    classes: tuple[str, ...]
    fit: LawFit

    def logs(self, one: Timed) -> FloatArray:
        """Log seconds of every program of a host, shape (programs,)."""
        numbers = {"program": np.arange(one.rows.programs, dtype=float)}
        return np.log(self.fit.seconds(ProgramLaw(self.classes, one.rows), numbers, one.groups(one.rows.programs)))


def classes(known: Mapping[str, Program]) -> list[str]:
    """All classes of kernels that the programs have."""
    return sorted(
        {kernel_class(op) for one in known.values() for op in one.operations if op.kind not in ("view", "recurrent")}
    )


def operations(
    sources: Sequence[str], known: Mapping[str, Program], names: Sequence[str], device: str
) -> TimedOperations:
    """The operations of some programs on one device."""
    programs = [[_run(op) for op in known[source].operations if op.kind != "view"] for source in sources]
    return TimedOperations.of(programs, names, machine(device))


def _run(op: Op) -> OperationRun:
    """As often as the operation says, in the class that serves it."""
    quiet = op.kind in (*NOT_ISSUED, "recurrent")
    times = float(op.times)
    return OperationRun(op, kernel_class(op), times, 0.0 if quiet else times * issues(op))


def law_rows(data: Sequence[Timed], names: Sequence[str], beside: Beside = None) -> tuple[ProgramLaw, LawRows]:
    """The law of some classes on the programs of some hosts, and their rows."""
    tables, made, start = [one.rows for one in data], [], 0
    for one in data:
        numbers = {"program": (start + one.index).astype(float)}
        clusters, count = [str(program) for program in one.index], len(one.index)
        made.append(LawRows(numbers, one.groups(count), clusters, np.exp(one.logs), [COHORT] * count))
        start += one.rows.programs
    if beside is not None:
        tables.append(beside[0])
        made.append(replace(beside[1], columns={"program": start + beside[1].columns["program"]}))
    return ProgramLaw(tuple(names), TimedOperations.joined(tables)), sum(made[1:], made[0])


def timed(runs: Sequence[ProgramRun], known: Mapping[str, Program], names: Sequence[str], mode: str) -> list[Timed]:
    """Rows in one mode, host by host."""
    sources = sorted({run.source for run in runs})
    lowered = {source: known[source].compiled if mode == INDUCTOR else known[source] for source in sources}
    made, group = [], COMPILED if mode == INDUCTOR else UNGROUPED
    for host, device in sorted({(run.host, run.machine) for run in runs if run.mode == mode}):
        mine = [run for run in runs if (run.host, run.mode) == (host, mode)]
        index = np.array([sources.index(run.source) for run in mine], dtype=np.intp)
        logs = np.log([run.seconds for run in mine])
        made.append(Timed(host, device, operations(sources, lowered, names, device), index, logs, group))
    return made


def fitted(data: Sequence[Timed], names: Sequence[str], beside: Beside = None) -> FittedPrograms:
    """The law fitted to the programs of some hosts."""
    return FittedPrograms(tuple(names), fit(*law_rows(data, names, beside)))


def fitted_change(
    eager: Sequence[Timed], compiled: Sequence[Timed], names: Sequence[str], beside: Beside = None
) -> FittedPrograms:
    """The law fitted to the programs of hosts in two modes, by what compiling changes.

    What a program's time is off by in both modes says nothing of the change: compiled programs are fitted to the change
    times what the law of eager ones alone says.
    """
    alone, hosts = fitted(eager, names, beside), {one.host: one for one in eager}
    shifted = [replace(one, logs=alone.logs(one)[one.index]) for one in eager]
    for one in compiled:
        if one.host in hosts:
            changed = one.every() - hosts[one.host].every() + alone.logs(hosts[one.host])
            place = np.flatnonzero(np.isfinite(changed))
            shifted.append(replace(one, index=place, logs=changed[place]))
    return fitted(shifted, names, beside)
