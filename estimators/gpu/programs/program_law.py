"""Kernels of PyTorch programs as a law: each class's shares of peak and bandwidth, by generation and chip of the GPU.

A row is a program on a device under a host. Its operations are columns of a table of their own
(`TimedOperations`), which the law holds: a row says which of the table's programs it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.fitting.fitted_model import Columns, Grouping, ParameterPrior
from slipstick.estimators.gpu.programs.program_classes import (
    FEATURES,
    features,
    relative,
)
from slipstick.estimators.gpu.programs.program_priors import BEFORE, CYCLES_SPREAD, EFFICIENCY, FEATURE, SECONDS, TYPE
from slipstick.estimators.gpu.programs.program_sides import bounds, joined
from slipstick.estimators.schedules.host_constants import STEP_CLOCK
from slipstick.hwmodels.machine import HALF, Machine
from slipstick.workloads.graph.workload import Op

NAME = "program-kernels"
"""The law, fitted to programs in float32 and to image networks in 16 bits at once."""
PROGRAMS_FILE = "programs"
SPREAD = "spread"
"""The fact of that file that says how far programs scatter on GPUs whose generation was left out."""
CLASS_SPREAD = "spread on a class unseen"
"""That of GPUs whose class was left out: data centre or consumer, HBM or GDDR."""
SIDES = ("compute", "memory", "cycles")
SHAPED = ("compute", "memory")
"""Sides on which the shape of a convolution has a factor."""
STEP = 1e-4
"""Of finite differences, in log seconds of a side."""
MACHINE = ("vendor", "generation", "chip")
HOST = "host"
MODE = "mode"
COMPILED = "compiled"
"""The group of a row of torch.compile at the level of modes; an eager one has none."""
LEVELS = (
    Grouping(MODE, 0.3),
    Grouping("vendor", 0.2),
    Grouping("generation", 0.15),
    Grouping("chip", 0.1),
    Grouping(HOST, 0.5),
)
LEAST, MOST = 0.05, 200.0
"""Bounds of what a side takes over what the machine allows: what caches and masks save was counted."""
HELD = 0.1
"""Width of the time between kernels, which launches alone show better than programs: else it stands for hosts'."""
NARROW = "half"
"""Of parameters: what 16 bits change of a side, in all classes alike ("half.memory") or one ("half.memory.gemm")."""
SHARPNESS = 8.0
"""Of the p-norm that stands for the longer of the device and its host, so that both have slopes."""


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


def priors(classes: Sequence[str]) -> tuple[ParameterPrior, ...]:
    """Parameters of the law of some classes of kernels."""
    of_class = (MODE, "generation")
    made = []
    for side in SIDES:
        for name in classes:
            expected = 1.0 if side == "cycles" else 1 / EFFICIENCY[side][0]
            width = CYCLES_SPREAD if side == "cycles" else EFFICIENCY[side][1]
            low = 1.0 if side == "compute" else LEAST
            meaning = f"{side} of {name}, over what the machine allows"
            made.append(ParameterPrior(f"{side}.{name}", "1", meaning, expected, width, low, MOST, side, of_class))
    for side in SHAPED:
        for feature in FEATURES:
            meaning = f"factor on the {side} of a convolution for an octave of {feature}"
            made.append(ParameterPrior(f"{side}_shape.{feature}", "1", meaning, 1.0, FEATURE, 0.1, 10.0, "shape"))
    made += [
        ParameterPrior(f"machine.{side}", "1", f"{side} of a machine", 1.0, 0.0, 0.1, 10.0, "", MACHINE)
        for side in SIDES
    ]
    for side in SIDES:
        for name in (f"{NARROW}.{side}", *(f"{NARROW}.{side}.{one}" for one in classes)):
            meaning = f"what 16 bits change of the {side} of {name.partition(side)[2][1:] or 'all classes'}"
            kind = NARROW if name.endswith(side) else f"{NARROW}.{side}"
            made.append(ParameterPrior(name, "1", meaning, 1.0, TYPE, 0.1, 10.0, kind))
    widths = {"gap": HELD, "step": SECONDS, "issue": SECONDS}
    levels: dict[str, tuple[str, ...]] = {"issue": (HOST,)}
    for name, seconds in BEFORE.items():
        low, high = seconds / 30, seconds * 30
        made.append(
            ParameterPrior(name, "s", f"time of {name}", seconds, widths[name], low, high, name, levels.get(name, ()))
        )
    return tuple(made)


def slowness(
    side: str,
    of_class: Callable[[str], npt.ArrayLike],
    of_all: Callable[[str], npt.ArrayLike],
    shape: FloatArray,
    half: npt.ArrayLike,
) -> FloatArray:
    """Seconds of a side of operations over what the machine allows, shape (operations,).

    `of_class`: a parameter of each operation's class ("memory" for "memory.gemm"), shape (operations,).
    `of_all`: one that all classes have in common, by its name, shape (operations,).
    `shape`: see `features`, shape (operations, features); `half`: 1 in 16 bits, else 0.
    """
    narrow = np.multiply(of_all(f"{NARROW}.{side}"), of_class(f"{NARROW}.{side}"))
    slow = np.multiply(of_class(side), of_all(f"machine.{side}")) * narrow ** np.asarray(half)
    if side in SHAPED:
        logs = np.log(np.stack([of_all(f"{side}_shape.{feature}") for feature in FEATURES], axis=-1))
        slow = slow * np.exp((shape * logs).sum(axis=-1))
    return np.asarray(np.maximum(slow, 1.0 if side == "compute" else 0.0))  # a rate above the peak cannot be


@dataclass(frozen=True, eq=False)
class ProgramLaw:
    """Seconds of programs: the longer of the device's kernels and of the host that issues them.

    Columns: `program`, which of the table's programs each row is.

    `classes`: of kernels, as the table numbers them.
    `table`: operations of the programs on their devices; None where only its parameters matter.
    """

    classes: tuple[str, ...]
    table: TimedOperations | None = None
    name: str = NAME
    levels: Sequence[Grouping] = LEVELS

    @cached_property
    def parameters(self) -> Sequence[ParameterPrior]:
        """See `priors`."""
        return priors(self.classes)

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of each row."""
        return self._at(parameters, columns).total

    def slopes(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Derivatives of log time by each log parameter, shape (rows, parameters)."""
        return self._at(parameters, columns).slopes(len(self.classes))

    def _at(self, parameters: Mapping[str, FloatArray], columns: Columns) -> _Point:
        """The programs of the rows at these parameters.

        Raises
        ------
        ValueError
            Where the law has no table of operations.
        """
        if self.table is None:
            raise ValueError(f"law {self.name}: no table of operations to predict")
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
        """See `ProgramLaw.slopes`: of all classes of a side at once, in the order of `priors`."""
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


def machine_groups(family: str) -> dict[str, str]:
    """Vendor, generation and chip of a machine, by the words of its family."""
    words = family.split("-")
    return {level: "-".join(words[: at + 1]) for at, level in enumerate(MACHINE)}
