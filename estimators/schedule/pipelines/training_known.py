"""Few measured steps of a run calibrate three factors of its closed form: compute, network, stragglers.

The factors are lognormal about one before anything is measured; the measured steps narrow them, and what these leave
unknown becomes the band. A layout or size that was not measured widens it by what such moves missed on public runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.parameters import parameters
from slipstick.estimators.schedule.pipelines.training_parts import TrainingTerms
from slipstick.estimators.schedule.pipelines.training_step import TrainingStep, TrainingStepTime
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.training_layout import TrainingLayout

FACTORS = ("compute", "network", "stragglers")
PRIOR = np.array([0.25, 0.7, 0.7])
"""Log spread of each factor before anything is measured: what models unseen missed (`slipstick validate training`), and
that of a term about its start."""
REPEAT = 0.02
"""Log spread of a step about the calibrated form where it was measured (repeats of public runs: 0.2 to 2.9 %)."""
DOUBLING, OTHER_LAYOUT = 0.012, 0.06
"""More for each doubling of the devices beyond those measured, and where tensor, pipeline, context or expert ranks or
recomputation differ from every measured run: chosen on public runs (docs/notes/training.md), which are thus seen."""
SLOWER = ("passes", "overhead", "routing")
FASTER = ("bf16", "fp8", "fp4", "attention")
EXPOSED = ("tensor", "handed", "expert", "data")


@dataclass(frozen=True)
class KnownStep:
    """A measured step: its layout, sequences, tokens of one, precision of the products, and seconds."""

    layout: TrainingLayout
    batch: int
    sequence: int
    precision: str
    seconds: float

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise InputError(f"measured step = {self.seconds:g} s: want a finite time > 0")


@dataclass(frozen=True)
class StepCalibration:
    """Terms that measured steps calibrated, and how sure they are.

    Parameters
    ----------
    factors
        Compute, network and stragglers, over the terms that were calibrated.
    covariance
        Of their logarithms, shape (3, 3).
    residuals
        log(measured / calibrated) of each known step.
    """

    model: LanguageModel
    machine: Machine
    known: tuple[KnownStep, ...]
    before: TrainingTerms
    terms: TrainingTerms
    factors: tuple[float, float, float]
    covariance: tuple[tuple[float, ...], ...]
    residuals: tuple[float, ...]

    def offset(self, layout: TrainingLayout, batch: int, sequence: int) -> float:
        """Factor on the calibrated form that the nearest known step leaves."""
        distances = [_apart(layout, batch, sequence, step) for step in self.known]
        nearest = min(distances)
        close = [r for r, d in zip(self.residuals, distances, strict=True) if d <= nearest + 1e-9]
        return math.exp(float(np.median(close)))

    def step(self, layout: TrainingLayout, batch: int, sequence: int, precision: str) -> TrainingStepTime:
        """Seconds by part under the calibrated terms, times what the nearest known step leaves."""
        time = self._timer(self.terms, layout, sequence, precision).step(layout, batch)
        return time.scaled(self.offset(layout, batch, sequence))

    def spread(self, layout: TrainingLayout, batch: int, sequence: int, precision: str) -> float:
        """Log spread of a step: factors, repeats, and the way from what was measured."""
        logs = np.log(self.factors)

        def log_step(point: FloatArray) -> float:
            terms = moved(self.before, point)
            return math.log(self._timer(terms, layout, sequence, precision).step(layout, batch).seconds)

        small = 0.02
        slope = np.array(
            [(log_step(logs + small * one) - log_step(logs - small * one)) / (2 * small) for one in np.eye(3)]
        )
        nearest = min(self.known, key=lambda step: _apart(layout, batch, sequence, step))
        known = np.array([self._slope(step) for step in (nearest,)])[0]
        # the nearest step is met; what stays unknown is how the factors weigh elsewhere
        away = slope - known
        unknown = float(away @ np.array(self.covariance) @ away)
        doublings = abs(math.log2(layout.devices / nearest.layout.devices))
        other = OTHER_LAYOUT if _shape(layout) != _shape(nearest.layout) else 0.0
        return math.sqrt(unknown + REPEAT**2 + (DOUBLING * doublings) ** 2 + other**2)

    def _slope(self, known: KnownStep) -> FloatArray:
        logs, small = np.log(self.factors), 0.02

        def log_step(point: FloatArray) -> float:
            timer = self._timer(moved(self.before, point), known.layout, known.sequence, known.precision)
            return math.log(timer.step(known.layout, known.batch).seconds)

        return np.array(
            [(log_step(logs + small * one) - log_step(logs - small * one)) / (2 * small) for one in np.eye(3)]
        )

    def _timer(self, terms: TrainingTerms, layout: TrainingLayout, sequence: int, precision: str) -> TrainingStep:
        return TrainingStep(self.model, self.machine, sequence, precision, layout.devices, terms)


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
    model: LanguageModel, machine: Machine, known: Sequence[KnownStep], terms: TrainingTerms
) -> StepCalibration:
    """The three factors that measured steps make most likely.

    Raises
    ------
    InputError
        Where no step is given, one is shorter than its flop at the peak take, or a layout does not fit the model, its
        batch or the machine's links.
    """
    from scipy.optimize import least_squares

    if not known:
        raise InputError("no measured step: want at least one")
    for one in known:
        devices = one.layout.devices
        bound = TrainingStep(model, machine, one.sequence, one.precision, devices, terms).bound(devices, one.batch)
        if one.seconds < bound:
            raise InputError(
                f"measured step = {one.seconds:.4g} s on {devices} x {machine.name}, batch {one.batch}, "
                f"{one.sequence} tokens: want at least {bound:.4g} s, the model's flop at the {one.precision} peak"
            )
    measured = np.log([step.seconds for step in known])

    def errors(logs: FloatArray) -> FloatArray:
        at = moved(terms, logs)
        steps = [
            TrainingStep(model, machine, s.sequence, s.precision, s.layout.devices, at).step(s.layout, s.batch).seconds
            for s in known
        ]
        return np.asarray(np.log(steps) - measured)

    solution = least_squares(
        lambda logs: np.concatenate([errors(logs) / REPEAT, logs / PRIOR]), np.zeros(3), max_nfev=60
    )
    covariance = np.linalg.inv(solution.jac.T @ solution.jac)
    compute, network, stragglers = map(float, np.exp(solution.x))
    return StepCalibration(
        model, machine, tuple(known), terms, moved(terms, solution.x), (compute, network, stragglers),
        tuple(tuple(map(float, row)) for row in covariance), tuple(map(float, -errors(solution.x))),
    )  # fmt: skip


def _shape(layout: TrainingLayout) -> tuple[object, ...]:
    return layout.tensor, layout.pipeline, layout.context, layout.expert, layout.recompute, layout.shard


def _apart(layout: TrainingLayout, batch: int, sequence: int, step: KnownStep) -> float:
    """How far a question is from a known step: shape first, then devices, then lengths and batch."""
    other = float(_shape(layout) != _shape(step.layout))
    sizes = abs(math.log2(layout.devices / step.layout.devices))
    return 4 * other + sizes + 0.5 * abs(math.log2(sequence / step.sequence)) + 0.1 * abs(math.log2(batch / step.batch))
