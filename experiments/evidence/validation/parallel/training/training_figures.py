"""Figures of training runs: baselines, bands, and the rows of one case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.schedule.pipelines.training_step import PRECISIONS
from slipstick.experiments.evidence.score import Scored, labelled, of_errors
from slipstick.experiments.evidence.validation.parallel.training.training_rows import TrainingRun
from slipstick.workloads.language.training_layout import training_flop

METRICS = labelled(" of a step")


def baseline_errors(runs: Sequence[TrainingRun], known: Sequence[TrainingRun]) -> dict[str, list[float]]:
    """Log errors of one share of the peak, and of the nearest known run's flop/s a device.

    The nearest has the same accelerator where there is one, then the same model, then the nearest number of devices;
    across accelerators its share of the peak counts.
    """
    shares = {run: _share(run) for run in (*known, *runs)}
    fitted = float(np.median([np.log(shares[run]) for run in known]))
    roofline, nearest = [], []
    for run in runs:
        roofline.append(float(np.log(shares[run])) - fitted)

        def apart(other: TrainingRun, run: TrainingRun = run) -> tuple[bool, bool, bool, float]:
            size = abs(float(np.log(other.devices / run.devices)))
            return other.system != run.system, other.model != run.model, other.precision != run.precision, size

        nearest.append(float(np.log(shares[run] / shares[min(known, key=apart)])))
    return {"roofline with one fitted share": roofline, "nearest known run, scaled": nearest}


def _share(run: TrainingRun) -> float:
    """Of the peak in the run's precision."""
    flop = training_flop(run.model, run.sequence) * run.sequence * run.batch
    return flop / (run.seconds * run.devices * run.machine.peak("matrix", PRECISIONS[run.precision]))


def spread_of(errors: FloatArray) -> float:
    """Log spread whose 80 % band holds 80 % of the errors."""
    return float(np.quantile(np.abs(errors), DEFAULT_LEVEL)) / quantile(DEFAULT_LEVEL, None)


def figures(
    source: str,
    case: str,
    held_out: str,
    errors: FloatArray,
    spreads: FloatArray,
    baselines: Mapping[str, Sequence[float]],
    goals: tuple[float, float],
    reason: str = "",
    noise: tuple[float, float] | None = None,
) -> Scored:
    """Median and 90th percentile of one case, from log errors and announced log spreads, shape (runs,)."""
    return replace(
        of_errors(case, held_out, errors, baselines), dataset=f"training: {source}", metrics=METRICS, goals=goals,
        half=quantile(DEFAULT_LEVEL, None) * spreads, noise=noise, reason=reason,
    )  # fmt: skip
