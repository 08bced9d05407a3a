"""Steps of published training runs; held out: the runs of the same system."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from slipstick.common.errors import InputError
from slipstick.experiments.calibrate.public_data import scored_file, why_missing
from slipstick.experiments.scoreboards.training.training_fit import (
    LeftOutRuns,
    left_out,
    together,
)
from slipstick.experiments.scoreboards.training.training_rows import FILES, SOFTWARE, TrainingRun, training_runs
from slipstick.experiments.scoreboards.training.training_scores import baseline_errors
from slipstick.experiments.scoring.model_inputs import machine_inputs, model_inputs
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.scored_cases import Case, CaseSet, Input, Measured, StatedTime

LAYOUT = ("tensor", "pipeline", "data", "context", "expert", "chunks", "micro", "shard", "recompute")


def case_set(scored: Path | None) -> CaseSet:
    """Inputs: model and its sizes, system, devices, layout, batch, sequence, precision; times are of one step.

    Raises InputError where the public data are missing.
    """
    paths = {source: scored_file(file, scored) for source, file in FILES.items()}
    if not any(paths.values()):
        raise InputError(why_missing(FILES["mlperf"], scored))
    runs = {source: training_runs(source, path)[0] if path else [] for source, path in paths.items()}
    flat = [run for source in runs for run in runs[source]]
    measured = tuple(Measured(_case(run, number), run.seconds) for number, run in enumerate(flat))

    @cache
    def held_out() -> LeftOutRuns:
        """Each system's runs from a fit without them, in the order of the runs."""
        made = together([left_out(flat, source, "system") for source in FILES if runs[source]])
        place = {run: at for at, run in enumerate(made.runs)}
        order = np.array([place[run] for run in flat], dtype=np.intp)
        return LeftOutRuns(tuple(flat), tuple(run.system for run in flat), made.errors[order], made.half[order])

    def ours() -> list[StatedTime | None]:
        made = held_out()
        return [_banded(*one) for one in zip(flat, made.errors.tolist(), made.half.tolist(), strict=True)]

    @cache
    def baselines() -> dict[str, list[float]]:
        """Log errors of the baselines, by run; each system's from the others of its stack."""
        base: dict[str, list[float]] = {}
        for source, system in sorted({(run.source, run.system) for run in flat}):
            places = [place for place, run in enumerate(flat) if (run.source, run.system) == (source, system)]
            stack = [run for run in flat if SOFTWARE[run.source] == SOFTWARE[source]]
            others = [run for run in stack if run.system != system] or stack
            for name, values in baseline_errors([flat[place] for place in places], others).items():
                column = base.setdefault(name, [0.0] * len(flat))
                for place, value in zip(places, values, strict=True):
                    column[place] = value
        return base

    def baseline(name: str) -> Sequence[StatedTime | None]:
        return [StatedTime(run.seconds * float(np.exp(e))) for run, e in zip(flat, baselines()[name], strict=True)]

    names = ("roofline with one fitted share", "nearest known run, scaled", RULE)
    references = {"ours": ours} | {name: lambda name=name: baseline(name) for name in names}
    return CaseSet("training", "system", measured, references)


def _banded(run: TrainingRun, error: float, half: float) -> StatedTime:
    middle = run.seconds * float(np.exp(error))
    return StatedTime(middle, middle * float(np.exp(-half)), middle * float(np.exp(half)))


def _case(run: TrainingRun, number: int) -> Case:
    layout, model = run.layout, run.model
    inputs: dict[str, Input] = {
        **model_inputs(model), "source": run.source, "system": run.system, "devices": run.devices, "batch": run.batch,
        "sequence": run.sequence, "precision": run.precision, **machine_inputs(run.machine),
        **{name: getattr(layout, name) for name in LAYOUT},
    }  # fmt: skip
    return Case(f"{number}: {run.source}, {model.name} on {run.devices} {run.system}", run.system, inputs, run.source)
