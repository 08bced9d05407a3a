"""Times of whole programs as rows of their kernels' law (`ProgramLaw`), and its fit to some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import LawFit
from slipstick.estimators.fitting.group_effects_model import UNGROUPED, LawRows
from slipstick.estimators.gpu.programs.program_classes import kernel_class
from slipstick.estimators.gpu.programs.program_law import (
    HOST,
    MODE,
    OperationRun,
    ProgramLaw,
    TimedOperations,
    machine_groups,
)
from slipstick.estimators.schedules.host_issue import NOT_ISSUED, issues
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.programs.program_data import Program, machine_of
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Op

if TYPE_CHECKING:
    import pandas as pd

COHORT = "KernelBench v0.1"
Beside: TypeAlias = tuple[TimedOperations, LawRows] | None
"""Other programs of the same classes, all of which are fitted as well, by their place in a table of their own."""


@dataclass(frozen=True, eq=False)
class Timed:
    """Measured programs on one host in one mode.

    `rows`: operations of all programs, measured there or not.
    `index`, `logs`: which of the programs were measured, and their log seconds.
    `mode`: `program_law.COMPILED`, or nothing where PyTorch issued operations one by one.
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
        return np.log(self._of(self.fit.seconds, one))

    def half_width(self, one: Timed) -> FloatArray:
        """Half of the 80 % band of log time of every program of a host, shape (programs,)."""
        return self._of(self.fit.half_width, one)

    def _of(self, what: Callable[..., FloatArray], one: Timed) -> FloatArray:
        """What the fit says of every program of a host, shape (programs,)."""
        numbers = {"program": np.arange(one.rows.programs, dtype=float)}
        return what(ProgramLaw(self.classes, one.rows), numbers, one.groups(one.rows.programs))


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


def law_rows(
    data: Sequence[Timed], keep: FloatArray, names: Sequence[str], beside: Beside = None
) -> tuple[ProgramLaw, LawRows]:
    """The law of some classes on the programs of some hosts, and the rows of the kept ones (booleans by program)."""
    tables, made, start = [one.rows for one in data], [], 0
    for one in data:
        chosen = known_places(one, keep)
        numbers = {"program": (start + chosen).astype(float)}
        clusters = [str(program) for program in chosen]
        seconds = np.exp(one.every()[chosen])
        made.append(LawRows(numbers, one.groups(len(chosen)), clusters, seconds, [COHORT] * len(chosen)))
        start += one.rows.programs
    if beside is not None:
        tables.append(beside[0])
        made.append(replace(beside[1], columns={"program": start + beside[1].columns["program"]}))
    return ProgramLaw(tuple(names), TimedOperations.joined(tables)), sum(made[1:], made[0])


def timed(part: pd.DataFrame, sources: Sequence[str], known: Mapping[str, Program], names: Sequence[str]) -> Timed:
    """Eager rows of one host of the table."""
    device = machine_of(str(part["device"].iloc[0]))
    index = np.array([sources.index(source) for source in part["source"]], dtype=np.intp)
    rows, logs = operations(sources, known, names, device), np.log(part["mean_s"].to_numpy())
    return Timed(str(part["machine"].iloc[0]), device, rows, index, logs)


def known_places(one: Timed, keep: FloatArray) -> npt.NDArray[np.intp]:
    """Numbers of the kept programs (booleans by program) that were measured on a host."""
    return np.asarray(one.index[keep[one.index]])


def fitted(data: Sequence[Timed], keep: FloatArray, names: Sequence[str], beside: Beside = None) -> FittedPrograms:
    """The law fitted to the kept programs of some hosts; `keep` are booleans, shape (programs,)."""
    return FittedPrograms(tuple(names), fit(*law_rows(data, keep, names, beside)))


def fitted_change(
    eager: Sequence[Timed],
    compiled: Sequence[Timed],
    keep: FloatArray,
    names: Sequence[str],
    beside: Beside = None,
) -> FittedPrograms:
    """The law fitted to the kept programs of hosts in two modes, by what compiling changes.

    What a program's time is off by in both modes says nothing of the change: compiled programs are fitted to the change
    times what the law of eager ones alone says.
    """
    alone = fitted(eager, keep, names, beside)
    shifted, hosts = [], {one.host: one for one in eager}
    for one in eager:
        place = known_places(one, keep)
        shifted.append(replace(one, index=place, logs=alone.logs(one)[place]))
    for one in compiled:
        changed = one.every() - hosts[one.host].every() + alone.logs(hosts[one.host])
        place = np.flatnonzero(np.isfinite(changed) & keep)
        shifted.append(replace(one, index=place, logs=changed[place]))
    return fitted(shifted, keep, names, beside)
