"""Fits the few terms of a training step to published runs, near values that physics suggests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.parameters import parameters, with_parameters
from slipstick.estimators.schedule.pipelines.training_step import TrainingStep, TrainingTerms
from slipstick.experiments.evidence.validation.parallel.training.training_rows import TrainingRun

USUAL = 0.7
"""Log spread of each term about its start."""
SURER = {"bf16": 0.2, "fp8": 0.25, "fp4": 0.3, "attention": 0.35, "passes": 0.4}
"""Terms that physics knows better: shares of a peak, and how often activations cross memory."""
SOFT, NOISE = 0.1, 0.08
"""Log error beyond which a run's weight falls; and the log spread of a run about the model."""
START = TrainingTerms()


def predicted(runs: Sequence[TrainingRun], terms: TrainingTerms) -> FloatArray:
    """Seconds of each run's step."""
    steps = (
        TrainingStep(run.model, run.machine, run.sequence, run.precision, run.devices, terms).step(
            run.layout, run.batch
        )
        for run in runs
    )
    return np.array([step.seconds for step in steps])


def log_errors(runs: Sequence[TrainingRun], terms: TrainingTerms) -> FloatArray:
    """log(predicted / measured)."""
    return np.asarray(np.log(predicted(runs, terms)) - np.log([run.seconds for run in runs]))


def fitted_terms(runs: Sequence[TrainingRun]) -> TrainingTerms:
    """The terms that fit the runs, each kept near its start unless the runs say otherwise."""
    from scipy.optimize import least_squares

    notes = parameters(START)
    start = np.log([value for value, _ in notes.values()])
    usual = np.array([SURER.get(name, USUAL) for name in notes])
    low, high = (np.log([max(getattr(note, end), 1e-6) for _, note in notes.values()]) for end in ("low", "high"))
    # runs of one configuration count once
    weights = 1 / np.sqrt([sum(_like(run, other) for other in runs) for run in runs])

    def terms(point: FloatArray) -> TrainingTerms:
        changed: TrainingTerms = with_parameters(START, dict(zip(notes, map(float, np.exp(point)), strict=True)))
        return changed

    def residuals(point: FloatArray) -> FloatArray:
        errors = log_errors(runs, terms(point)) / NOISE * weights
        soft = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
        return np.concatenate([soft, (point - start) / usual])

    solution = least_squares(residuals, np.clip(start, low + 1e-6, high - 1e-6), bounds=(low, high), max_nfev=40)
    return terms(solution.x)


def _like(one: TrainingRun, other: TrainingRun) -> bool:
    """The same model on the same system at the same size."""
    return (one.model, one.system, one.devices, one.precision, one.sequence) == (
        other.model, other.system, other.devices, other.precision, other.sequence,
    )  # fmt: skip


def anchored(run: TrainingRun, known: Sequence[TrainingRun], terms: TrainingTerms) -> float | None:
    """Log factor that a known run of the same model, machine and precision puts on the model; None without one.

    Of several the nearest in devices counts; runs of one size count with their median.
    """
    same = [
        other
        for other in known
        if (other.source, other.model, other.system, other.precision)
        == (run.source, run.model, run.system, run.precision)
    ]
    if not same:
        return None
    nearest = min(abs(np.log(other.devices / run.devices)) for other in same)
    close = [other for other in same if abs(np.log(other.devices / run.devices)) <= nearest + 1e-9]
    return float(-np.median(log_errors(close, terms)))
