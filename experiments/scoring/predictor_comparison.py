"""One table of predictors over one set of cases: somebody's functions and files, ours, and baselines.

Errors, bands and cost of predictors on the same cases.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.fitting.scores import LEVEL, coverage, interval_score, width
from slipstick.experiments.question.user_code import own_function
from slipstick.experiments.scoring.prediction_files import read_predictions
from slipstick.experiments.scoring.scored_cases import CaseSet, Measured, Predictor, StatedTime, prediction_of
from slipstick.experiments.studies.versions import installed_version

Predictions = Sequence[StatedTime | None]


@dataclass(frozen=True)
class PredictorRun:
    """What a predictor answered to each case, its CPU seconds, and why it gave no answer where it gave none."""

    predictions: tuple[StatedTime | None, ...]
    cpu_s: float | None = None
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True)
class PredictorScore:
    """One predictor on the cases of one kind.

    `kind`: of the cases; "" where the set has one.
    `cases`, `answered`: how many there are, and the share that got an answer; all that follows is over those.
    `median_error`, `p90_error`: of |predicted / measured - 1|.
    `common_median_error`: the same over the cases that every predictor of the table answered.
    `ratio`: geometric mean of predicted / measured: above 1 it is too slow.
    `coverage`, `width`, `interval_score`: share of measurements inside the 80 % band; median of its high end over its
        low end; mean width of log time plus 2 / (1 - level) times what lies outside (Gneiting and Raftery 2007,
        equation 43). None without bands.
    `cpu_ms`: CPU milliseconds a case; None where predictions were read from a file.
    """

    kind: str
    predictor: str
    cases: int
    answered: float
    median_error: float | None
    p90_error: float | None
    common_median_error: float | None
    ratio: float | None
    coverage: float | None
    width: float | None
    interval_score: float | None
    cpu_ms: float | None

    def to_dict(self) -> dict[str, Any]:
        """The score in its documented keys."""
        return asdict(self)


def run(predictor: Predictor, cases: CaseSet) -> PredictorRun:
    """Every case's prediction; a case at which the predictor raises an error counts as unanswered."""
    result: list[StatedTime | None] = []
    refusals: list[str] = []
    start = time.process_time()
    for one in cases.measured:
        try:
            result.append(prediction_of(predictor(one.case, cases.known(one.case))))
        except Exception as error:  # the predictor is somebody's code: whatever it raises is an unanswered case
            result.append(None)
            refusals.append(f"{one.case.name}: {type(error).__name__}: {error}")
    return PredictorRun(tuple(result), time.process_time() - start, tuple(refusals))


def reference(cases: CaseSet, name: str) -> PredictorRun:
    """Ours, or a baseline that the set knows."""
    start = time.process_time()
    result = tuple(cases.references[name]())
    return PredictorRun(result, time.process_time() - start)


def scores(cases: CaseSet, runs: Mapping[str, PredictorRun]) -> list[PredictorScore]:
    """A line a kind of cases and predictor that answers any of them, over the same cases."""
    lines = []
    for kind in dict.fromkeys(one.case.kind for one in cases.measured):
        places = [place for place, one in enumerate(cases.measured) if one.case.kind == kind]
        answers = {name: [each.predictions[place] for place in places] for name, each in runs.items()}
        # a baseline may be for one kind only (Amdahl's law for strong scaling)
        answers = {name: made for name, made in answers.items() if name not in cases.references or any(made)}
        common = [None not in row for row in zip(*answers.values(), strict=True)]
        measured = [cases.measured[place] for place in places]
        for name, predictions in answers.items():
            spent = runs[name].cpu_s
            cost = None if spent is None else 1e3 * spent / len(cases.measured)
            lines.append(_score(kind, name, measured, predictions, common, cost))
    return lines


def _score(
    kind: str, name: str, measured: Sequence[Measured], predictions: Predictions, common: Sequence[bool],
    cost: float | None,
) -> PredictorScore:  # fmt: skip
    pairs = [
        (prediction, one.time, shared)
        for prediction, one, shared in zip(predictions, measured, common, strict=True)
        if prediction is not None
    ]
    count = len(measured)
    if not pairs:
        return PredictorScore(kind, name, count, 0.0, None, None, None, None, None, None, None, cost)
    ratio = np.array([prediction.time / truth for prediction, truth, _ in pairs])
    error = np.abs(ratio - 1)
    shared = error[[shared for *_, shared in pairs]]
    return PredictorScore(
        kind,
        name,
        count,
        len(pairs) / count,
        float(np.median(error)),
        float(np.quantile(error, 0.9)),
        float(np.median(shared)) if len(shared) else None,
        float(np.exp(np.mean(np.log(ratio)))),
        *_bands([(prediction, truth) for prediction, truth, _ in pairs]),
        cost,
    )


def _bands(pairs: Sequence[tuple[StatedTime, float]]) -> tuple[float | None, float | None, float | None]:
    banded = [(one.low, one.high, truth) for one, truth in pairs if one.low is not None and one.high is not None]
    if not banded:
        return None, None, None
    low, high, truth = np.array(banded, dtype=float).T
    return coverage(low, high, truth), width(low, high), interval_score(low, high, truth, LEVEL)


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
        raise InputError("nothing to score: name --predictor, --predictions or --baselines")
    versions = [f"{module} {version}" for module in loaded if (version := _version(module))]
    ours = [f"slipstick {installed_version('slipstick')}", f"Python {platform.python_version()}"]
    notes.append(", ".join([*ours, *versions]))
    return Comparison(tuple(scores(cases, runs)), tuple(notes))


def _version(name: str) -> str | None:
    """What the predictor's module says of its version."""
    module = sys.modules.get(name.partition(":")[0])
    version = getattr(module, "__version__", None)
    return str(version) if version is not None else None
