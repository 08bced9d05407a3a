"""Kernels of PyTorch programs as a law to fit: each class's shares of peak and bandwidth, by generation and chip.

A row is a program on a device under a host. Its operations are columns of a table of their own
(`TimedOperations`), which the law holds: a row says which of the table's programs it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, Mask
from slipstick.common.expressions import symbol
from slipstick.estimators.fitting.fitted_model import Columns, Grouping
from slipstick.estimators.gpu.programs.program_classes import FEATURES, features, relative
from slipstick.estimators.gpu.programs.program_kernels import (
    LEVELS,
    NAME,
    OVERLAP,
    SHAPED,
    SIDES,
    SOURCE,
    ProgramParameters,
    ProgramRuntimes,
    form_of_sides,
    sides,
    slowness,
)
from slipstick.estimators.gpu.programs.program_priors import BEFORE
from slipstick.estimators.roofline.roofline import product_of_fields
from slipstick.estimators.schedules.host_constants import STEP_CLOCK
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.machine import HALF, Machine
from slipstick.workloads.graph.workload import Op

STEP = 1e-4
"""Of finite differences, in log seconds of a side."""
SHARPNESS = 8.0
"""Of the p-norm that stands for the longer of the device and its host, so that both have slopes."""


class Bounds(NamedTuple):
    """Seconds of operations before their classes' shares, each of shape (operations,): the `Sides` of one, and

    `main`: of all bytes through main memory: the plain roofline's.
    """

    arithmetic: FloatArray
    traffic: FloatArray
    cores: FloatArray
    main: FloatArray


@dataclass(frozen=True)
class BoundModel(ProgramRuntimes):
    """Seconds of one of the `Bounds`, as the only part of an operation's time."""

    bound: str = "main"

    def key(self, op: Op, machine: Machine) -> Hashable:
        """The bound, and see `form_of_sides`."""
        return self.bound, *form_of_sides(op, machine)

    def form(self, machine: Machine) -> Hashable:
        """As of kernels in programs."""
        return super().form(machine)  # said again: a class that replaces `formula` alone promises no form

    def formula(self, op: Op, machine: Machine) -> Formula:
        """See `sides`."""
        main = symbol("operation.bytes_moved") / product_of_fields(machine.bandwidth_factors(machine.main_memory))
        return Formula(getattr(sides(op, machine), self.bound, main), "s", SOURCE)


def bounds(operations: Sequence[Op], machine: Machine) -> Bounds:
    """What the arithmetic, the traffic and the cores of operations need at least, each of shape (operations,)."""
    return Bounds(*(BoundModel(bound=name).times(tuple(operations), machine) for name in Bounds._fields))


def joined(arithmetic: npt.ArrayLike, traffic: npt.ArrayLike, cores: npt.ArrayLike) -> FloatArray:
    """Seconds by what the three sides of an operation need: the longest, and a share of what is not hidden.

    Joined by a power mean (4), so that a fit sees the cores before they bind.
    """
    longer = np.maximum(arithmetic, traffic) + OVERLAP * np.minimum(arithmetic, traffic)
    return np.asarray(np.sqrt(np.sqrt(np.square(np.square(longer)) + np.square(np.square(cores)))))


@dataclass(frozen=True)
class OperationRun:
    """An operation with its class of kernels, how often it runs, and how many operations a host issues for it."""

    op: Op
    name: str
    times: float
    issued: float


@dataclass(frozen=True, eq=False)
class TimedOperations:
    """Operations of many programs on their devices as columns, shape (operations,).

    `program`: whose operation it is, 0 to `programs` - 1.
    `kinds`: which of the law's classes serves it; -1 for a step of a recurrent layer.
    `shape`: features of a convolution (`FEATURES`), shape (operations, features).
    `half`: 1 for operations in 16 bits, else 0.
    `count`, `issued`: how often it runs, and how many operations a host issues for it.
    `sides`: seconds before any share: arithmetic, traffic, cores, and all bytes through main memory; shape (operations,
        4).
    `pace`: what the latency of a recurrent step is multiplied by.
    """

    program: npt.NDArray[np.intp]
    kinds: npt.NDArray[np.intp]
    shape: FloatArray
    half: FloatArray
    count: FloatArray
    issued: FloatArray
    sides: FloatArray
    pace: FloatArray
    programs: int

    @classmethod
    def of(
        cls,
        programs: Sequence[Sequence[OperationRun]],
        classes: Sequence[str],
        machine: Machine,
    ) -> TimedOperations:
        """Operations of some programs on a machine; a class that is not among those takes its relative's numbers."""
        place = {name: at for at, name in enumerate(classes)}
        runs = [run for program in programs for run in program]
        steps = np.array([run.op.kind == "recurrent" for run in runs], dtype=bool)
        kinds = [-1 if run.op.kind == "recurrent" else place[relative(run.name, place.__contains__)] for run in runs]
        return cls(
            np.repeat(np.arange(len(programs)), [len(program) for program in programs]),
            np.array(kinds, dtype=np.intp),
            np.array([features(run.op) for run in runs], dtype=float).reshape(-1, len(FEATURES)),
            np.array([run.op.dtype in HALF for run in runs], dtype=float),
            np.array([run.times for run in runs], dtype=float),
            np.array([run.issued for run in runs], dtype=float),
            np.stack(bounds([run.op for run in runs], machine), axis=1),
            np.where(steps, STEP_CLOCK / machine.clock, 1.0),
            len(programs),
        )

    @classmethod
    def joined(cls, parts: Sequence[TimedOperations]) -> TimedOperations:
        """The programs of several tables, one after the other."""
        starts = np.cumsum([0, *(part.programs for part in parts)])
        numbered = [part.program + start for part, start in zip(parts, starts, strict=False)]
        return cls(
            np.concatenate(numbered),
            np.concatenate([part.kinds for part in parts]),
            np.concatenate([part.shape for part in parts]),
            np.concatenate([part.half for part in parts]),
            np.concatenate([part.count for part in parts]),
            np.concatenate([part.issued for part in parts]),
            np.concatenate([part.sides for part in parts]),
            np.concatenate([part.pace for part in parts]),
            int(starts[-1]),
        )

    def roofline(self) -> FloatArray:
        """Seconds of the plain roofline by program, operation by operation, shape (programs,)."""
        each = np.maximum(self.sides[:, 0], self.sides[:, 3]) * self.count
        return np.maximum(np.bincount(self.program, each, self.programs), 1e-9)

    def take(self, programs: npt.NDArray[np.intp]) -> TimedOperations:
        """The operations of some programs, in that order; one may stand there several times."""
        order = np.argsort(self.program, kind="stable")
        count = np.bincount(self.program, minlength=self.programs)
        first, each = np.cumsum(count) - count, count[programs]
        start = np.repeat(first[programs] - (np.cumsum(each) - each), each)
        at = order[start + np.arange(int(each.sum()))]
        return TimedOperations(
            np.repeat(np.arange(len(programs)), each),
            self.kinds[at],
            self.shape[at],
            self.half[at],
            self.count[at],
            self.issued[at],
            self.sides[at],
            self.pace[at],
            len(programs),
        )


@dataclass(frozen=True, eq=False)
class ProgramLaw(ProgramParameters):
    """Seconds of programs: the longer of the device's kernels and of the host that issues them.

    Columns: `program`, which of the table's programs each row is.

    `classes`: of kernels, as the table numbers them.
    `table`: operations of the programs on their devices.
    """

    table: TimedOperations
    name: str = NAME
    levels: Sequence[Grouping] = LEVELS

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of each row."""
        return self._at(parameters, columns).total

    def slopes(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Derivatives of log time by each log parameter, shape (rows, parameters)."""
        return self._at(parameters, columns).slopes(len(self.classes))

    def _at(self, parameters: Mapping[str, FloatArray], columns: Columns) -> _Point:
        """The programs of the rows at these parameters."""
        ops = self.table.take(columns["program"].astype(np.intp))
        rows = {name: np.broadcast_to(value, (ops.programs,)) for name, value in parameters.items()}
        row, kind = ops.program, np.maximum(ops.kinds, 0)
        seconds = []

        def of_class(part: str) -> FloatArray:
            return np.stack([rows[f"{part}.{name}"] for name in self.classes])[kind, row]

        for at, side in enumerate(SIDES):
            slow = slowness(side, of_class, lambda name: rows[name][row], ops.shape, ops.half)
            seconds.append(ops.sides[:, at] * slow)
        return _Point(ops, seconds, rows["gap"], rows["step"], rows["issue"])


@dataclass(frozen=True, eq=False)
class _Point:
    """Programs at some parameters: seconds of each side of each operation, and the times of each row."""

    ops: TimedOperations
    seconds: Sequence[FloatArray]
    gap: FloatArray
    step: FloatArray
    issue: FloatArray

    def sum(self, values: FloatArray) -> FloatArray:
        """By row, of values by operation."""
        return np.asarray(np.bincount(self.ops.program, values, self.ops.programs), dtype=float)

    @cached_property
    def stepping(self) -> Mask:
        """Which operations are steps of recurrent layers."""
        return np.asarray(self.ops.kinds < 0)

    @cached_property
    def latency(self) -> FloatArray:
        """Of a step, by operation."""
        return np.asarray(self.step[self.ops.program] * self.ops.pace)

    @cached_property
    def device(self) -> FloatArray:
        """Seconds of the kernels of each row."""
        kernels = joined(*self.seconds) + self.gap[self.ops.program]
        each = np.where(self.stepping, np.maximum(self.latency, self.ops.sides[:, 0]), kernels)
        return self.sum(each * self.ops.count)

    @cached_property
    def over(self) -> FloatArray:
        """(host / device) to the power of the norm that joins them, by row."""
        return np.asarray((self.sum(self.ops.issued) * self.issue / self.device) ** SHARPNESS)

    @property
    def total(self) -> FloatArray:
        """Seconds of each row."""
        return np.asarray(self.device * (1 + self.over) ** (1 / SHARPNESS))

    def slopes(self, classes: int) -> FloatArray:
        """See `ProgramLaw.slopes`: of all classes of a side at once, in the order of `ProgramParameters`."""
        row, kind = self.ops.program, np.maximum(self.ops.kinds, 0)
        share = 1 / (1 + self.over) / self.device  # of a second of the device in the log of the whole
        weight = self.ops.count * share[row]
        here = joined(*self.seconds)
        made, shapes, sides, narrow = (list[FloatArray]() for _ in range(4))
        for at, side in enumerate(SIDES):
            more = [one * (1 + STEP * (place == at)) for place, one in enumerate(self.seconds)]
            moved = np.where(self.stepping, 0.0, (joined(*more) - here) / STEP) * weight
            for into, each in ((made, moved), (narrow, moved * self.ops.half)):
                flat = np.bincount(row * classes + kind, each, self.ops.programs * classes)
                into.append(np.asarray(flat, dtype=float).reshape(self.ops.programs, classes))
            sides.append(made[-1].sum(axis=1))
            narrow.insert(-1, narrow[-1].sum(axis=1))
            if side in SHAPED:
                shapes += [self.sum(moved * self.ops.shape[:, feature]) for feature in range(len(FEATURES))]
        gap = self.sum(np.where(self.stepping, 0.0, weight)) * self.gap
        bound = self.stepping & (self.latency >= self.ops.sides[:, 0])
        step = self.sum(np.where(bound, self.latency * weight, 0.0))
        times = {"gap": gap, "step": step, "issue": self.over / (1 + self.over)}
        return np.column_stack([*made, *shapes, *sides, *narrow, *(times[name] for name in BEFORE)])
