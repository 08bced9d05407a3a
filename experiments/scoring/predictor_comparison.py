"""One table of predictors over one set of cases: somebody's functions and files, ours, and baselines."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.experiments.question.user_code import own_function
from slipstick.experiments.scoring.prediction_files import read_predictions
from slipstick.experiments.scoring.predictor_scores import (
    PredictorRun,
    PredictorScore,
    reference,
    run,
    scores,
)
from slipstick.experiments.scoring.scored_cases import CaseSet, Predictor
from slipstick.experiments.studies.versions import installed_version

ALL = "all"


@dataclass(frozen=True)
class Comparison:
    """Scores, one a predictor, and what a reader should know of them."""

    scores: tuple[PredictorScore, ...]
    notes: tuple[str, ...]


def compare(
    cases: CaseSet, functions: Sequence[str], files: Sequence[Path], beside: Sequence[str] = (ALL,)
) -> Comparison:
    """Score predictors on a set of cases.

    `functions`: predictors as MODULE:FUNCTION, imported and run because the user named them.
    `files`: predictions as CSV.
    `beside`: names of the set's own references; "all" for every one, none for a quick score.
    Raises InputError where a function cannot be imported, a file is refused, or a reference is unknown.
    """
    names = list(cases.references) if ALL in beside else list(beside)
    for name in names:
        if name not in cases.references:
            raise unknown_name(f"reference of {cases.name}", name, [*cases.references, ALL])
    runs: dict[str, PredictorRun] = {}
    read = {str(path): PredictorRun(tuple(read_predictions(cases, path))) for path in files}
    loaded: dict[str, Predictor] = {name: own_function(name) for name in functions}
    notes = [f"{len(cases.measured):,} cases; held out: all of the same {cases.held_out}"]
    for name, predictor in loaded.items():
        runs[name] = run(predictor, cases)
        if runs[name].refusals:
            notes.append(f"{name}: no answer to {len(runs[name].refusals):,}; first: {runs[name].refusals[0]}")
    runs |= read
    for name in names:
        print(f"slipstick: {name}", file=sys.stderr)
        runs[name] = reference(cases, name)
    if not runs:
        raise InputError("nothing to score: name --predictor, --predictions or --beside")
    versions = [f"{module} {version}" for module in loaded if (version := _version(module))]
    ours = [f"slipstick {installed_version('slipstick')}", f"Python {platform.python_version()}"]
    notes.append(", ".join([*ours, *versions]))
    return Comparison(tuple(scores(cases, runs)), tuple(notes))


def _version(name: str) -> str | None:
    """What the predictor's module says of its version."""
    module = sys.modules.get(name.partition(":")[0])
    version = getattr(module, "__version__", None)
    return str(version) if version is not None else None
