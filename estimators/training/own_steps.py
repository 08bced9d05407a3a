"""Few measured steps of a run move the law of a training step, as far as they predict each other better for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.base.ratio_band import disagreement
from slipstick.estimators.fitting.fitted_model import LawRows
from slipstick.estimators.fitting.updated_model import Known, with_known
from slipstick.estimators.symbolic.formula import parameters
from slipstick.estimators.training.layout_step_time import TrainingStep
from slipstick.estimators.training.time_breakdown import TrainingTerms
from slipstick.estimators.training.training_law import TRAINING_LAW, TrainingFit, columns_of
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.training_layout import TrainingLayout

SLOWER = ("passes", "overhead", "routing", "held")
FASTER = ("bf16", "fp8", "fp4", "attention")
EXPOSED = ("tensor", "handed", "expert", "data")
RECIPE = ("factor", "recipe")
"""What takes the error that all steps of one model in one precision on one chip share."""


@dataclass(frozen=True)
class UpdatedStep:
    """A measured step: its layout, sequences, tokens of one, precision of the products, and seconds.

    Batch and sequence of 0, a precision of "" and no machine are those of the question (`filled`).
    """

    layout: TrainingLayout
    batch: int
    sequence: int
    precision: str
    seconds: float
    machine: Machine | None = None

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise InputError(f"measured step = {self.seconds:g} s: want a finite time > 0")


def filled(step: UpdatedStep, batch: int, sequence: int, precision: str, machine: Machine) -> UpdatedStep:
    """The step with the question's batch, tokens of a sequence, precision and machine where it says none of its own."""
    return replace(
        step,
        batch=step.batch or batch,
        sequence=step.sequence or sequence,
        precision=step.precision or precision,
        machine=step.machine or machine,
    )


@dataclass(frozen=True, eq=False)
class StepCalibration:
    """The law with measured steps.

    Parameters
    ----------
    fit
        What holds with them.
    moved
        How far they moved it.
    factors, left
        By how much each step took longer than the law said, alone and moved.
    half
        Half of the moved law's 80 % band of log time at these steps.
    doubts
        That steps lie far outside the band of the law before it was moved, in words.
    """

    known: tuple[UpdatedStep, ...]
    fit: TrainingFit
    moved: Known
    factors: tuple[float, ...]
    left: tuple[float, ...]
    half: float
    doubts: tuple[str, ...] = ()

    def text(self) -> str:
        """What the steps changed, in a line."""
        return self.moved.text(self.factors, self.left, self.half)


def moved(terms: TrainingTerms, logs: FloatArray) -> TrainingTerms:
    """Terms with compute, network and stragglers so much slower (logarithms), within the terms' bounds."""
    compute, network, stragglers = map(float, np.exp(logs))
    notes = parameters(terms)

    def within(name: str, value: float) -> float:
        note = notes[name][1]
        return min(max(value, note.low), note.high)

    changes = {name: within(name, getattr(terms, name) * compute) for name in SLOWER}
    changes |= {name: within(name, getattr(terms, name) / compute) for name in FASTER}
    changes |= {name: within(name, getattr(terms, name) * network) for name in EXPOSED}
    changes["stragglers"] = within("stragglers", terms.stragglers * stragglers)
    return replace(terms, **changes)


def calibrated(
    model: LanguageModel,
    machine: Machine,
    known: Sequence[UpdatedStep],
    fit: TrainingFit,
    groups: Sequence[Mapping[str, str]],
) -> StepCalibration:
    """The law moved by measured steps.

    Parameters
    ----------
    groups
        Of each step (`training_groups`).

    Raises
    ------
    InputError
        Where no step is given, one is shorter than its flop at the peak take, or a layout does not fit the model, its
        batch or the machine's links.
    """
    if not known:
        raise InputError("no measured step: want at least one")
    amounts = []
    for one in known:
        devices = one.layout.devices
        step = TrainingStep(model, one.machine or machine, one.sequence, one.precision, devices)
        bound = step.bound(devices, one.batch)
        if one.seconds < bound:
            raise InputError(
                f"measured step = {one.seconds:.4g} s on {devices} x {machine.name}, batch {one.batch}, "
                f"{one.sequence} tokens: want at least {bound:.4g} s, the model's flop at the {one.precision} peak"
            )
        amounts.append(step.amounts(one.layout, one.batch))
    names = [f"{one.layout.devices} {one.precision} {one.sequence}" for one in known]
    seconds = np.array([one.seconds for one in known])
    rows = LawRows(columns_of(amounts), fit.levels(groups), names, seconds, ["measured"] * len(known))
    law = TRAINING_LAW
    moved = with_known(fit.fit, law, rows, RECIPE)
    factors, left = (rows.seconds / one.seconds(law, rows.columns, rows.groups) for one in (fit.fit, moved.fit))
    half, before = (float(np.median(one.half_width(law, rows.columns, rows.groups))) for one in (moved.fit, fit.fit))
    typical = float(np.exp(np.median(np.log(factors))))
    doubts = disagreement(f"{len(known)} of --measured", typical, before)
    return StepCalibration(
        tuple(known),
        TrainingFit(moved.fit, fit.stacks),
        moved,
        tuple(factors.tolist()),
        tuple(left.tolist()),
        half,
        doubts,
    )
