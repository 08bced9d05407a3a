"""Figures of training runs: baselines, bands, and the rows of one case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from slipstick.estimators.training.layout_step_time import PRECISIONS
from slipstick.experiments.scoreboards.training.training_fit import LeftOutRuns
from slipstick.experiments.scoreboards.training.training_rows import TrainingRun
from slipstick.experiments.scoring.rules_of_thumb import RULE, training_step
from slipstick.experiments.scoring.score import Scored, labelled, of_errors
from slipstick.workloads.language.training_layout import training_flop

METRICS = labelled(" of a step")


def baseline_errors(runs: Sequence[TrainingRun], known: Sequence[TrainingRun]) -> dict[str, list[float]]:
    """Log errors of one share of the peak, of the nearest known run's flop/s a device, of the rule of thumb.

    The nearest has the same accelerator where there is one, then the same model, then the nearest number of devices;
    across accelerators its share of the peak counts.
    """
    shares = {run: peak_share(run) for run in (*known, *runs)}
    fitted = float(np.median([np.log(shares[run]) for run in known]))
    roofline, nearest = [], []
    for run in runs:
        roofline.append(float(np.log(shares[run])) - fitted)

        def apart(other: TrainingRun, run: TrainingRun = run) -> tuple[bool, bool, bool, float]:
            size = abs(float(np.log(other.devices / run.devices)))
            return other.system != run.system, other.model != run.model, other.precision != run.precision, size

        nearest.append(float(np.log(shares[run] / shares[min(known, key=apart)])))
    rule = np.log([float(training_step(shares[run])) for run in runs]).tolist()
    return {"roofline with one fitted share": roofline, "nearest known run, scaled": nearest, RULE: rule}


def peak_share(run: TrainingRun) -> float:
    """Share of the peak in the run's precision: what its flop would take there over what it took."""
    flop = training_flop(run.model, run.sequence) * run.sequence * run.batch
    return flop / (run.seconds * run.devices * run.machine.peak("matrix", PRECISIONS[run.precision]))


def figures(
    case: str,
    held_out: str,
    made: LeftOutRuns,
    baselines: Mapping[str, Sequence[float]],
    goals: Sequence[float],
    reason: str = "",
    noise: tuple[float, float] | None = None,
    dataset: str = "",
) -> Scored:
    """Median and 90th percentile of one case."""
    scored = of_errors(case, held_out, made.errors, baselines)
    return replace(
        scored, dataset=dataset or f"training: {made.runs[0].source}", metrics=METRICS, goals=goals, half=made.half,
        noise=noise, groups=made.held_out, reason=reason,
    )  # fmt: skip
