"""What a user is answered beside what was measured: rows of a board as questions, and what they may know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.base.protocols import Estimator, Fitted
from slipstick.estimators.cpu.cpu_step import cpu_step
from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.fitting.fitted_model import LawFit
from slipstick.estimators.fitting.prediction_bands import Fold
from slipstick.estimators.fitting.scores import LEVEL
from slipstick.estimators.fitting.similarity_weights import fitted_similarity
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration, device_name
from slipstick.estimators.user_measured.measured_operations import MeasuredOperations
from slipstick.experiments.question.defaults import gpu_kernels
from slipstick.experiments.question.question import question
from slipstick.experiments.scoring.rules_of_thumb import program
from slipstick.experiments.scoring.score import progress
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_kind import WORK

Row = TypeVar("Row")
SHOWN = 60
"""Letters of what a fold leaves out that its line of progress shows."""


@dataclass(frozen=True)
class Fits:
    """What answers in place of the fits that ship.

    `kernels`: of GPUs. `library`: of a CPU's library. `layers`: of a CPU under MXNet, by kind of operation.
    """

    kernels: DeviceCalibration
    library: LawFit | None = None
    layers: FrozenDict[FormulaModel] = FrozenDict()

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Estimator:
        """The default answer of a GPU or a CPU from these."""
        if machine_kind(machine) == "cpu":
            return cpu_step(machine, workload, self.library, self.layers)[0]
        return MeasuredOperations(self.kernels).for_question(workload, machine, run, instead_of)


def unseen(wanted: Iterable[Machine], seen: Iterable[Machine]) -> DeviceCalibration:
    """Kernels that were timed alone, without machines that are asked and not seen, nor generations none of which is.

    Raises
    ------
    InputError
        Where such generations are of several vendors (`unseen_group`).
    """
    known, there = gpu_kernels(), {one.name: generation_of(one.family) for one in seen}
    gone = {one.name: generation_of(one.family) for one in wanted if one.name not in there}
    left = {*gone.values()} - {*there.values()}
    families = {one.family for one in known.machines.values()}
    strange = {family for family in families if generation_of(family) in left}

    def stays(name: str) -> bool:
        one = known.machines[name]
        return device_name(one) not in gone and generation_of(one.family) not in left

    similarity = fitted_similarity(unseen_group(strange, families - strange))
    kept = (replace(one, fits=tuple(fit for fit in one.fits if stays(fit.machine))) for one in known.classes)
    machines = FrozenDict({name: one for name, one in known.machines.items() if stays(name)})
    return replace(known, classes=tuple(kept), machines=machines, similarity=similarity)


def unseen_group(held_out: Iterable[str], known: Iterable[str]) -> str:
    """What a scoreboard must not have looked at: the generation held out, or the vendor where none of it is known.

    Parameters
    ----------
    held_out
        Families of the machines that are scored, of one vendor; "" is the group where there are none.
    known
        Families of the machines that predict them.

    Raises
    ------
    InputError
        Where they are of several vendors.
    """
    left = {generation_of(family) for family in held_out}
    vendors = {name.partition("-")[0] for name in left}
    if len(vendors) > 1:
        raise InputError(f"held out together: {', '.join(sorted(left))}: want machines of one vendor")
    unknown = vendors.isdisjoint(family.partition("-")[0] for family in known)
    return next(iter(sorted(vendors if unknown or len(left) > 1 else left)), "")


def kernel(op: Op, **sizes: float) -> Workload:
    """An operation that runs alone, without a program around it; `sizes`: of its symbols today."""
    return Workload("kernel", (op,), (), FrozenDict(sizes), FrozenDict({WORK: "kernel"}))


@dataclass(frozen=True)
class Answers:
    """Seconds of some rows, ends of their 80 % bands, what the rule of thumb says, each of shape (rows,).

    Not a number where the question was refused or not put.
    """

    seconds: FloatArray
    low: FloatArray
    high: FloatArray
    rule: FloatArray


def answers(questions: Sequence[tuple[Workload, Machine]], fitted: Fitted | None = None) -> Answers:
    """The default answer to each question; `fitted` answers in place of what ships."""
    return Answers(*np.array([_answer(*one, fitted) for one in questions], dtype=float).reshape(-1, 4).T)


def _answer(workload: Workload, machine: Machine, fitted: Fitted | None) -> tuple[float, ...]:
    try:
        made = question(workload, machine, calibration=fitted).answer()
    except InputError:
        return (float("nan"),) * 4
    low, high = made.interval(LEVEL) or (made.time, made.time)
    return made.time, low, high, program(workload, machine)


def answers_left_out(
    rows: Sequence[Row],
    turns: Sequence[Fold],
    ask: Callable[[Row], tuple[Workload, Machine]],
    fitted: Callable[[Sequence[Row], Sequence[Machine]], Fitted],
) -> Answers:
    """Answers to the rows that each fold scores, from fits to the rows that it knows.

    `fitted`: of known rows, and of the machines that are asked.
    """
    made = Answers(*np.full((4, len(rows)), np.nan))
    for fold in turns:
        progress(f"{fold.held_out[:SHOWN]}: {len(fold.scored):,} questions from fits to {len(fold.known):,} rows")
        questions = [ask(rows[at]) for at in fold.scored]
        machines = list({machine.name: machine for _, machine in questions}.values())
        here = answers(questions, fitted([rows[at] for at in fold.known], machines))
        for name, values in vars(here).items():
            getattr(made, name)[fold.scored] = values
    return made
