"""LLM-Inference-Bench: whole batches that start together (`whole_batches`); devices, makers and models unseen.

Each row is a sum of steps under the law of a server's step, fitted to the rows of other devices, or of other models.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slipstick.estimators.engine_steps.step_law import STEP_LAW, least_seconds
from slipstick.estimators.fitting.prediction_bands import left_out
from slipstick.experiments.scoreboards.serving.serving_refit import MAKER
from slipstick.experiments.scoreboards.serving.whole_batches import FILE, Whole, law_rows, read_batches
from slipstick.experiments.scoring.score import PERCENT, Data, Rows, Scored

GOALS = {"device unseen": (25.0, 60.0), MAKER: (25.0, 60.0), "model unseen": (20.0, 50.0)}
NOISE, ENOUGH = 0.4, 20


def bench_scores(data: Data) -> Iterator[Scored]:
    """Devices, makers and models unseen."""
    public, (targets, refused) = read_batches(data.known(FILE))[0], read_batches(data.judged(FILE))
    note = "left out: " + "; ".join(f"{reason}: {count}" for reason, count in sorted(refused.items()))
    batches = data.rows(public, targets, lambda one: one.key)
    for held, level in (("device unseen", "chip"), (MAKER, "vendor"), ("model unseen", "model")):
        yield _scored(held, level, batches, note)


def _scored(held: str, level: str, batches: Rows[Whole], note: str) -> Scored:
    """Each group of a level from the other groups."""
    rows = law_rows(batches.rows)
    outer = batches.folds(rows.groups[level])
    made, least = left_out(STEP_LAW, rows, outer, rows.groups["model"]), least_seconds(rows.columns)
    roof = np.full(len(rows), np.nan)
    for fold in outer:
        share = np.median(np.log(rows.seconds[fold.known] / least[fold.known]))
        roof[fold.scored] = least[fold.scored] * np.exp(share)
    there = np.flatnonzero(np.isfinite(made.seconds))
    some = [batches.rows[at] for at in there.tolist()]
    return Scored(
        "time of a whole batch", held, rows.seconds[there], made.seconds[there], PERCENT, GOALS[held],
        {"one efficiency": roof[there]}, half=made.half[there], enough=ENOUGH, noise=NOISE, reason=note,
        groups=[made.groups[at] for at in there.tolist()],
        inputs=[{"machine": row.machine, "devices": row.devices, "engine": row.engine} for row in some],
    )  # fmt: skip
