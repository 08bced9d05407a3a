"""Scoreboard rows: whole models composed from the project's own measured bricks, each model left out."""

from __future__ import annotations

import numpy as np

from slipstick.experiments.measure.bricks.bundled_bricks import OwnBricks, own_bricks
from slipstick.experiments.methods.bricks.brick_composition import ModelScore, leave_one_model_out, summary
from slipstick.experiments.scoring.score_rows import ValidationRow

GRANULARITIES = (1, 3, 5)
MEAN_GOAL, WORST_GOAL, REPEAT_GOAL, GEOMEAN_GOAL = 4.0, 15.0, 2.0, 3.0


def rows() -> list[ValidationRow]:
    """For each granularity the error of the first run, and how far the second run agrees; the best geometric mean."""
    bricks = own_bricks()
    scores = {size: [leave_one_model_out(run, bricks.at(size)) for run in bricks.runs] for size in GRANULARITIES}
    return [row for size in GRANULARITIES for row in _rows(size, scores[size])] + [_best(scores, bricks)]


def _rows(granularity: int, runs: list[list[ModelScore]]) -> list[ValidationRow]:
    first, second = (summary(scores) for scores in runs)
    errors = np.array([score.error for score in runs[0]])
    plain = np.array([score.plain / score.measured - 1 for score in runs[0]])
    ratios = np.array([[score.calibrated / score.measured for score in scores] for scores in runs])
    noise = 100 * float(np.mean(np.abs(np.log(ratios[0] / ratios[1])))) / np.sqrt(2)
    width = float(np.median([score.high / score.low for score in runs[0]]))
    mean, worst = 100 * first["mean_error"], 100 * first["worst_error"]
    repeat = 100 * abs(np.log(second["geomean_plain"] / first["geomean_plain"]))
    case = f"whole models live, G = {granularity}"
    return [
        ValidationRow(
            dataset="own bricks",
            case=case,
            held_out="model",
            n=len(errors),
            metric="mean |error|",
            unit="%",
            ours=mean,
            baselines={"sum of bricks": 100 * float(np.mean(np.abs(plain)))},
            goal=MEAN_GOAL,
            ok=mean <= MEAN_GOAL and worst <= WORST_GOAL,
            interval_level=0.8,
            interval_coverage=first["coverage"],
            interval_width=width,
            noise_floor=float(noise),
            reason=f"worst model {worst:.1f} % (goal {WORST_GOAL:g} %); "
            f"in the second run {100 * second['mean_error']:.1f} and {100 * second['worst_error']:.1f} %",
        ),
        ValidationRow(
            dataset="own bricks",
            case=f"{case}: second run",
            held_out="run",
            n=len(errors),
            metric="change of the geometric mean",
            unit="%",
            ours=float(repeat),
            baselines={},
            goal=REPEAT_GOAL,
            ok=bool(repeat <= REPEAT_GOAL),
            reason=f"plain sum over whole {first['geomean_plain']:.3f} and {second['geomean_plain']:.3f}",
        ),
    ]


def _best(scores: dict[int, list[list[ModelScore]]], bricks: OwnBricks) -> ValidationRow:
    off = {size: abs(100 * (summary(runs[0])["geomean_plain"] - 1)) for size, runs in scores.items()}
    best = min(off, key=off.__getitem__)
    return ValidationRow(
        dataset="own bricks",
        case="whole models live, best granularity",
        held_out="model",
        n=len(bricks.at(best)),
        metric="|geometric mean of the plain sum over whole - 1|",
        unit="%",
        ours=off[best],
        baselines={f"G = {size}": value for size, value in off.items()},
        goal=GEOMEAN_GOAL,
        ok=off[best] <= GEOMEAN_GOAL,
        reason=f"G = {best}",
    )
