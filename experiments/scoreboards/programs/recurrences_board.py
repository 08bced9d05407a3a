"""Steps of recurrent layers on GPUs whose generation, or whose cell, no fit has seen (DeepBench, KernelBench)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from slipstick.estimators.fitting.folds import folds, knowing
from slipstick.estimators.fitting.group_effects_model import FloatArray
from slipstick.estimators.fitting.prediction_bands import left_out
from slipstick.estimators.gpu.kernels.kernel_classes import KERNELS, KernelParameters
from slipstick.estimators.gpu.kernels.recurrent_law import RecurrentLaw
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.experiments.scoreboards.programs.recurrent_fit import (
    FILE,
    PROGRAMS,
    RecurrentStep,
    cells_of,
    deepbench_steps,
    pytorch_steps,
    rows_of,
    unknown_files,
)
from slipstick.experiments.scoring.score import Board, Data, Scored, logarithmic
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.scored_cases import Input

METRICS = (logarithmic(0.5, "median |log ratio|"), logarithmic(0.9, "90th percentile"))


def _scores(data: Data) -> Iterator[Scored | ValidationRow]:
    """Each generation and each cell left out; with `--data`, its layers of DeepBench from fits to the others' rows."""
    known = [*deepbench_steps(data.known(FILE)), *pytorch_steps(data.known(PROGRAMS).parent.parent)]
    judged = [] if data.scored is None else deepbench_steps(data.judged(FILE))
    for name in unknown_files(data.judged(FILE)) if judged else ():
        yield skipped("recurrent layers", f"{name}: no machine of the catalogue is named for it")
    keys = {one.key for one in judged}
    known = [one for one in known if one.key not in keys]
    steps = [*known, *judged]
    rows, scored = rows_of(steps), range(len(known) if judged else 0, len(steps))
    for held_out, key in (("generation", list(rows.groups["generation"])), ("cell", cells_of(steps))):
        outer = folds(key, scored=scored)
        outer = knowing(outer, len(known)) if judged else outer
        made = left_out(RecurrentLaw(), rows, outer, rows.groups["generation"])
        for stack, group in sorted({(steps[i].stack, key[i]) for i in scored if np.isfinite(made.seconds[i])}):
            at = np.array([i for i in scored if (steps[i].stack, key[i]) == (stack, group)])
            members = [steps[i] for i in at]
            baselines = {
                "roofline and launches": _times(Roofline(), members),
                "products of unfitted tiles": _times(
                    TiledRoofline(KERNELS.using(recurrent=KernelParameters())), members
                ),
            }
            yield Scored(
                f"a step under {stack}, {held_out} unseen", group, rows.seconds[at], made.seconds[at], METRICS, (),
                baselines, made.half[at], groups=group, inputs=[_inputs(step) for step in members],
            )  # fmt: skip


def _times(model: Roofline | TiledRoofline, steps: Sequence[RecurrentStep]) -> FloatArray:
    return np.array([float(model.times([step.op], step.machine)[0]) for step in steps])


def _inputs(step: RecurrentStep) -> dict[str, Input]:
    dims = {name: float(step.op.dims[name]) for name in ("batch", "hidden", "gates", "outputs")}
    return {"machine": step.machine.name, "dtype": step.op.dtype, **dims}


BOARD = Board(
    "How long does a step of a recurrent layer take on a GPU whose generation, or in a cell that, was never measured?",
    {"recurrent layers": _scores},
)
