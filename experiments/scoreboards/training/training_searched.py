"""Scoreboard: MLPerf training rows whose layout is not published, under the layout that the planner picks.

Each row is its model, accelerators and batch; the layout is the fastest that fits in memory by terms fitted without
what is scored. Rows whose layout is published are scored so too: what the search costs stands beside the figures with
the published one. GPT-3 is in no fit. Left out: LoRA, TPUs and Gaudi (other stacks), rows without a step, marked ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slipstick.estimators.training.time_breakdown import TrainingTerms
from slipstick.estimators.training.training_law import TrainingFit
from slipstick.estimators.training.training_step_answer import TrainedBatch
from slipstick.experiments.methods.training_plan.training_search import TrainingSearch
from slipstick.experiments.scoreboards.training.training_fit import (
    LeftOutRuns,
    fitted,
    judged,
    key_of,
    terms_of,
    together,
)
from slipstick.experiments.scoreboards.training.training_rows import TrainingRun, unplaced_runs
from slipstick.experiments.scoreboards.training.training_scores import (
    baseline_errors,
    figures,
)
from slipstick.experiments.scoring.score import Scored

CASES: Mapping[str, tuple[str, tuple[float, float]]] = {
    "accelerator unseen": ("system", (0.08, 0.20)),
    "model unseen": ("model", (0.13, 0.22)),
}
SEARCHED = "layout searched"


def searched(run: TrainingRun, terms: TrainingTerms) -> TrainingRun:
    """The run under the fastest layout that fits; `InputError` where none does."""
    trained = TrainedBatch(run.model, run.machine, run.batch, run.sequence, run.precision, "megatron", terms=terms)
    return replace(run, layout=TrainingSearch(trained, run.devices).run(1).best[0].layout)


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
    near = [run for run in runs if run.devices <= most]
    made = _judged(fitted(small, "model"), large, "scale")
    yield figures(
        f"above {most} accelerators, {SEARCHED}",
        "scale",
        made,
        baseline_errors(large, near),
        (0.08, 0.20),
        ", ".join(f"{run.model.name} on {run.devices} {run.system}" for run in large),
    )
    for case, (key, goals) in CASES.items():
        parts, base = [], dict[str, list[float]]()
        for one in sorted(set(key_of(runs, key))):
            mine, others = ([run for run in runs if (key_of([run], key) == [one]) is same] for same in (True, False))
            known = [run for run in stack if key_of([run], key) != [one]]
            parts.append(_judged(fitted(known, key), mine, one))
            for name, values in baseline_errors(mine, others).items():
                base.setdefault(name, []).extend(values)
        yield figures(
            f"{case}, {SEARCHED}", case, together(parts), base, goals,
            "; ".join(f"{p.held_out[0]}: {np.median(np.abs(np.expm1(p.errors))):.1%} median" for p in parts),
        )  # fmt: skip


def _judged(fit: TrainingFit, runs: Sequence[TrainingRun], held_out: str) -> LeftOutRuns:
    return judged(fit, [searched(run, terms_of(fit, run)) for run in runs], held_out)
