"""Scoreboard: whole-model latency composed from the DLBricks authors' layer sequences, on machines left out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.experiments.calibrate.public_data import why_missing
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.validation.bricks import dlbricks_own
from slipstick.experiments.evidence.validation.bricks.dlbricks_data import SEQUENCES, Timings, timings

if TYPE_CHECKING:
    import pandas as pd

AGREEMENT = 0.67
"""Share of a model's residual that is carried to another machine; 1 would trust two machines wholly."""
LEVEL = 0.80


def rows(scored: Path | None = None) -> list[ValidationRow]:
    """Each machine from the others, and our own measurement; with `scored`, each machine there from the shared ones."""
    shared = timings()
    if scored is None:
        return [*_each_from_the_others(shared), *dlbricks_own.rows()]
    if shared is None:
        return [skipped("dlbricks", why_missing(SEQUENCES))]
    other = timings(scored)
    if other is None:
        return [skipped("dlbricks", why_missing(SEQUENCES, scored))]
    names = sorted(set(other.composed.index.get_level_values(0)))
    known = sorted(set(shared.composed.index.get_level_values(0)))
    return [_row(shared, other, name, [bricks for bricks in known if bricks != name]) for name in names]


def _each_from_the_others(shared: Timings | None) -> list[ValidationRow]:
    if shared is None:
        return [skipped("dlbricks", why_missing(SEQUENCES))]
    names = sorted(set(shared.composed.index.get_level_values(0)))
    return [_row(shared, shared, name, [other for other in names if other != name]) for name in names]


def log_residuals(data: Timings, instance: str) -> dict[str, float]:
    """log(end to end / composed) by model; composed is the median over the granularities: no single sweep skews it."""
    composed = of_instance(data.composed.median(axis="columns"), instance)
    measured = of_instance(data.end_to_end, instance)
    return {model: float(np.log(measured[model] / composed[model])) for model in composed if model in measured}


def of_instance(series: pd.Series[float], instance: str) -> dict[str, float]:
    """Seconds of one instance by model."""
    return {str(key[1]): float(value) for key, value in series.items() if key[0] == instance and np.isfinite(value)}  # type: ignore[index]


def carried(residuals: list[dict[str, float]], model: str) -> float:
    """What all machines agree on of a model's residual: the smallest, where their signs are one; else 0."""
    values = [known[model] for known in residuals if model in known]
    if not values or min(values) < 0 < max(values):
        return 0.0
    return AGREEMENT * min(values, key=abs)


def _row(training: Timings, scored: Timings, instance: str, others: list[str]) -> ValidationRow:
    known = [log_residuals(training, other) for other in others]
    truth = log_residuals(scored, instance)
    single = of_instance(scored.composed[min(scored.composed.columns)], instance)
    measured = of_instance(scored.end_to_end, instance)
    errors = np.array([truth[model] - carried(known, model) for model in truth])
    plain = np.array([truth[model] for model in truth])
    layer_sum = np.array([np.log(measured[model] / single[model]) for model in truth if model in single])
    if not len(errors):
        return skipped("dlbricks", f"{instance}: no model with both composed and end-to-end latency")
    half = _half_width(training, others)
    mean = 100 * float(np.mean(np.abs(errors)))
    return ValidationRow(
        dataset="dlbricks",
        case=f"whole models on {instance}",
        held_out="machine",
        n=len(errors),
        metric="mean |log error|",
        unit="%",
        ours=mean,
        baselines={
            "sum of single layers": 100 * float(np.mean(np.abs(layer_sum))),
            "median over granularities": 100 * float(np.mean(np.abs(plain))),
        },
        goal=4.0,
        ok=mean <= 4.0 and float(np.max(np.abs(errors))) <= 0.12,
        interval_level=LEVEL,
        interval_coverage=float(np.mean(np.abs(errors) <= half)),
        interval_width=float(np.exp(2 * half)),
        noise_floor=None,
        reason=f"worst model {100 * float(np.max(np.abs(errors))):.1f} % (goal 12 %)",
    )


def _half_width(training: Timings, others: list[str]) -> float:
    """Half of the band in log time: what holds for a machine that is in none of the fits.

    Each known machine is predicted from the other known ones; the level's quantile of those errors (of each machine,
    then their mean) holds the models' scatter and how far machines of a family differ. Residuals of the machines fitted
    to alone covered 58-77 % of a new one's models.
    """
    known = {other: log_residuals(training, other) for other in others}
    halves = []
    for name, truth in known.items():
        rest = [residuals for other, residuals in known.items() if other != name]
        errors = [abs(value - carried(rest, model)) for model, value in truth.items()]
        if errors:
            halves.append(float(np.quantile(errors, LEVEL)))
    return float(np.mean(halves)) if halves else float("nan")
