"""Scoreboard: whole-model latency composed from the DLBricks authors' layer sequences, on machines left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.learning.scores import log_errors
from slipstick.experiments.calibrate.public_data import why_missing
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.score import Board, Data, Metric, MissingError, Scored, of_errors
from slipstick.experiments.evidence.validation.bricks import dlbricks_own
from slipstick.experiments.evidence.validation.bricks.dlbricks_data import SEQUENCES, Timings, timings

if TYPE_CHECKING:
    import pandas as pd

AGREEMENT = 0.67
"""Share of a model's residual that is carried to another machine; 1 would trust two machines wholly."""
LEVEL = 0.80
WORST = 0.12
METRICS = (Metric("mean |log error|", lambda ours, measured: float(np.mean(log_errors(ours, measured))), "%"),)


def _machines(data: Data) -> Iterator[Scored | ValidationRow]:
    """Each machine from the others; with `--data`, each machine there from the shared ones."""
    shared, judged = timings(), timings(data.scored)
    if shared is None or judged is None:
        raise MissingError(why_missing(SEQUENCES, data.scored if shared is not None else None))
    known = sorted(set(shared.composed.index.get_level_values(0)))
    for name in sorted(set(judged.composed.index.get_level_values(0))):
        yield _scored(shared, judged, name, [other for other in known if other != name])


def _own(data: Data) -> list[ValidationRow]:
    """The project's own measurement, which is scored as it is."""
    return dlbricks_own.rows() if data.scored is None else []


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


def _scored(training: Timings, judged: Timings, instance: str, others: list[str]) -> Scored | ValidationRow:
    known = [log_residuals(training, other) for other in others]
    truth = log_residuals(judged, instance)
    single = of_instance(judged.composed[min(judged.composed.columns)], instance)
    measured = of_instance(judged.end_to_end, instance)
    errors = np.array([truth[model] - carried(known, model) for model in truth])
    if not len(errors):
        return skipped("dlbricks", f"{instance}: no model with both composed and end-to-end latency")
    baselines = {
        "sum of single layers": [np.log(measured[model] / single.get(model, np.nan)) for model in truth],
        "median over granularities": list(truth.values()),
    }
    worst = float(np.max(np.abs(errors)))
    return replace(
        of_errors(f"whole models on {instance}", "machine", errors, baselines),
        metrics=METRICS,
        goals=(4.0,),
        holds=worst <= WORST,
        half=_half_width(training, others),
        level=LEVEL,
        reason=f"worst model {100 * worst:.1f} % (goal 12 %)",
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


BOARD = Board(
    "How long does a network take on a machine where only its layers were measured elsewhere?",
    {"dlbricks": _machines, "own bricks": _own},
)
