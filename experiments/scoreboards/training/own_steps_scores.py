"""Larger sizes of published runs from measured steps at smaller ones, as `plan training --measured` calibrates them."""

from __future__ import annotations

from collections.abc import Sequence

from slipstick.estimators.training.own_steps import UpdatedStep, calibrated
from slipstick.experiments.scoreboards.training.training_fit import (
    LeftOutRuns,
    fitted,
    groups_of,
    judged,
    together,
)
from slipstick.experiments.scoreboards.training.training_rows import TrainingRun
from slipstick.experiments.scoreboards.training.training_scores import baseline_errors, figures
from slipstick.experiments.scoring.score import Scored

GOALS = (0.03, 0.08)
MOST_KNOWN = {"mlperf": 512}
"""Devices up to which a source's steps are known; else the smaller half of each run's sizes."""


def grown(source: str, runs: Sequence[TrainingRun], stack: Sequence[TrainingRun]) -> Scored:
    """Each model on each system: steps at its smaller sizes calibrate, the larger are predicted.

    The terms that are calibrated are fitted without any step that is predicted.
    """
    groups: dict[tuple[object, ...], list[TrainingRun]] = {}
    for run in runs:
        groups.setdefault((run.system, run.model.name, run.precision), []).append(run)
    parts = [(mine, _border(source, mine)) for mine in groups.values()]
    pairs = [
        ([run for run in mine if run.devices <= border], [run for run in mine if run.devices > border])
        for mine, border in parts
    ]
    pairs = [(known, later) for known, later in pairs if known and later]
    scored = {run for _, later in pairs for run in later}
    rest = [run for run in stack if run not in scored]
    start = fitted(rest, "model")
    made_parts: list[LeftOutRuns] = []
    for known, later in pairs:
        first = known[0]
        levels = [groups_of(run) for run in known]
        made_of = calibrated(first.model, first.machine, [step_of(run) for run in known], start, levels)
        made_parts.append(judged(made_of.fit, later, f"{first.model.name} on {first.system}"))
    made, seen = together(made_parts), [run for known, _ in pairs for run in known]
    base = baseline_errors(made.runs, seen)
    return figures("larger sizes, calibrated on measured steps at smaller ones", "scale", made, base, GOALS)


def step_of(run: TrainingRun) -> UpdatedStep:
    """A published run as a measured step."""
    return UpdatedStep(run.layout, run.batch, run.sequence, run.precision, run.seconds)


def _border(source: str, runs: Sequence[TrainingRun]) -> int:
    sizes = sorted({run.devices for run in runs})
    return MOST_KNOWN.get(source, sizes[max(0, len(sizes) // 2 - 1)])
