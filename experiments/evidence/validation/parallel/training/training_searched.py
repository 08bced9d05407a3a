"""Scoreboard: MLPerf training rows whose layout is not published, under the layout that the planner picks.

Each row is its model, accelerators and batch; the layout is the fastest that fits in memory by terms fitted without
what is scored. Rows whose layout is published are scored so too: what the search costs stands beside the figures with
the published one. GPT-3 is in no fit. Left out: LoRA, TPUs and Gaudi (other stacks), rows without a step, marked ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.schedule.pipelines.training_step import TrainingTerms
from slipstick.experiments.evidence.score import Scored
from slipstick.experiments.evidence.validation.parallel.training.training_figures import (
    baseline_errors,
    figures,
    spread_of,
)
from slipstick.experiments.evidence.validation.parallel.training.training_fit import fitted_terms, log_errors
from slipstick.experiments.evidence.validation.parallel.training.training_rows import TrainingRun, unplaced_runs
from slipstick.experiments.subjects.training_plan.training_search import TrainingSearch

CASES: Mapping[str, tuple[Callable[[TrainingRun], Hashable], tuple[float, float]]] = {
    "accelerator unseen": (lambda run: run.system, (0.06, 0.18)),
    "model unseen": (lambda run: run.model.name, (0.13, 0.22)),
}
SEARCHED = "layout searched"


def searched(run: TrainingRun, terms: TrainingTerms) -> TrainingRun:
    """The run under the fastest layout that fits; `InputError` where none does."""
    search = TrainingSearch(
        run.model, run.machine, run.devices, run.batch, run.sequence, run.precision, terms=terms
    )  # fmt: skip
    return replace(run, layout=search.run(1).best[0].layout)


def searched_scores(path: Path, stack: Sequence[TrainingRun], most: int) -> Iterator[Scored]:
    """Scale, accelerator and model left out, each with terms fitted without them.

    Parameters
    ----------
    stack
        Runs with published layouts, which the terms are fitted to.
    most
        Devices of the largest run that the fit for larger ones sees.
    """
    runs = unplaced_runs(path)
    small, large = [run for run in stack if run.devices <= most], [run for run in runs if run.devices > most]
    terms = fitted_terms(small)
    near = [run for run in runs if run.devices <= most]
    spread = spread_of(_errors(near, terms))
    yield figures(
        "mlperf", f"above {most} accelerators, {SEARCHED}", "scale", _errors(large, terms),
        np.full(len(large), spread), baseline_errors(large, near), (0.08, 0.20), _who(large),
    )  # fmt: skip
    for case, (group, goals) in CASES.items():
        errors: dict[Hashable, FloatArray] = {}
        base: dict[str, list[float]] = {}
        members: list[TrainingRun] = []
        for one in sorted({group(run) for run in runs}, key=str):
            mine = [run for run in runs if group(run) == one]
            errors[one] = _errors(mine, fitted_terms([run for run in stack if group(run) != one]))
            for name, values in baseline_errors(mine, [run for run in runs if group(run) != one]).items():
                base.setdefault(name, []).extend(values)
            members += mine
        spreads = {one: spread_of(np.concatenate([errors[two] for two in errors if two != one])) for one in errors}
        widths = np.concatenate([np.full(len(errors[one]), spreads[one]) for one in errors])
        yield figures(
            "mlperf", f"{case}, {SEARCHED}", case, np.concatenate(list(errors.values())), widths, base, goals,
            "; ".join(f"{one}: {np.median(np.abs(np.expm1(error))):.1%} median" for one, error in errors.items()),
        )  # fmt: skip


def _errors(runs: Sequence[TrainingRun], terms: TrainingTerms) -> FloatArray:
    return log_errors([searched(run, terms) for run in runs], terms)


def _who(runs: Sequence[TrainingRun]) -> str:
    return ", ".join(f"{run.model.name} on {run.devices} {run.system}" for run in runs)
