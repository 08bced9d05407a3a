"""Steps of published training runs; held out: the runs of the same system."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.experiments.calibrate.public_data import scored_file, why_missing
from slipstick.experiments.evidence.boards.training import stack_of
from slipstick.experiments.evidence.cases import Case, CaseSet, Input, Measured, Prediction
from slipstick.experiments.evidence.model_inputs import machine_inputs, model_inputs
from slipstick.experiments.evidence.validation.parallel.training.training_figures import baseline_errors
from slipstick.experiments.evidence.validation.parallel.training.training_fit import fitted_terms, log_errors
from slipstick.experiments.evidence.validation.parallel.training.training_rows import FILES, TrainingRun, training_runs
from slipstick.hwmodels.files.readers import InputError

LAYOUT = ("tensor", "pipeline", "data", "context", "expert", "chunks", "micro", "shard", "recompute")


def case_set(scored: Path | None) -> CaseSet:
    """Inputs: model and its sizes, system, devices, layout, batch, sequence, precision; times are of one step.

    Raises
    ------
    InputError
        Where the public data are missing.
    """
    paths = {source: scored_file(file, scored) for source, file in FILES.items()}
    if not any(paths.values()):
        raise InputError(why_missing(FILES["mlperf"], scored))
    runs = {source: training_runs(source, path)[0] if path else [] for source, path in paths.items()}
    flat = [run for source in runs for run in runs[source]]
    measured = tuple(Measured(_case(run, number), run.seconds) for number, run in enumerate(flat))

    @cache
    def held_out() -> tuple[list[FloatArray], dict[str, list[float]]]:
        """Log errors of ours, and of the baselines, by run; each system's from the others of its stack."""
        errors = np.zeros(len(flat))
        base: dict[str, list[float]] = {}
        for source, system in sorted({(run.source, run.system) for run in flat}):
            places = [place for place, run in enumerate(flat) if (run.source, run.system) == (source, system)]
            mine = [flat[place] for place in places]
            others = [run for run in stack_of(source, runs) if run.system != system] or stack_of(source, runs)
            errors[places] = log_errors(mine, fitted_terms(others))
            for name, values in baseline_errors(mine, others).items():
                column = base.setdefault(name, [0.0] * len(flat))
                for place, value in zip(places, values, strict=True):
                    column[place] = value
        return [errors], base

    def ours() -> list[Prediction | None]:
        (errors,), _ = held_out()
        half = {
            system: quantile(DEFAULT_LEVEL, None) * _spread(errors[[run.system != system for run in flat]])
            for system in {run.system for run in flat}
        }
        return [_banded(run, error, half[run.system]) for run, error in zip(flat, errors, strict=True)]

    def baseline(name: str) -> Sequence[Prediction | None]:
        return [Prediction(run.seconds * float(np.exp(e))) for run, e in zip(flat, held_out()[1][name], strict=True)]

    names = ("roofline with one fitted share", "nearest known run, scaled")
    references = {"ours": ours} | {name: lambda name=name: baseline(name) for name in names}
    return CaseSet("training", "system", measured, references)


def _spread(errors: FloatArray) -> float:
    return float(np.quantile(np.abs(errors), DEFAULT_LEVEL)) / quantile(DEFAULT_LEVEL, None)


def _banded(run: TrainingRun, error: float, half: float) -> Prediction:
    middle = run.seconds * float(np.exp(error))
    return Prediction(middle, middle * float(np.exp(-half)), middle * float(np.exp(half)))


def _case(run: TrainingRun, number: int) -> Case:
    layout, model = run.layout, run.model
    inputs: dict[str, Input] = {
        **model_inputs(model), "source": run.source, "system": run.system, "devices": run.devices, "batch": run.batch,
        "sequence": run.sequence, "precision": run.precision, **machine_inputs(run.machine),
        **{name: getattr(layout, name) for name in LAYOUT},
    }  # fmt: skip
    return Case(f"{number}: {run.source}, {model.name} on {run.devices} {run.system}", run.system, inputs, run.source)
