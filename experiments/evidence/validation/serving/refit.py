"""The fitted numbers of serving that ship (`slipstick validate --refit serving`), and what they leave out in turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slipstick.estimators.learning.bands import LeftOutRows, left_out
from slipstick.estimators.learning.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.learning.folds import folds
from slipstick.estimators.learning.law import LawRows
from slipstick.estimators.learning.scores import log_errors, relative_quantile
from slipstick.estimators.operation.serving.engines import FirstTokenLaw
from slipstick.estimators.operation.serving.step_law import StepLaw
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.evidence.validation.serving.silicon import Case, read_cases
from slipstick.experiments.evidence.validation.serving.step_fit import banded, possible, step_rows
from slipstick.hwmodels.files.readers import InputError

NAME, FILE = "serving", "serving/silicon.csv.gz"
KINDS = ("dense", "experts")
HELD_OUT = {"model unseen": "model", "system unseen": "chip", "engine version unseen": "version"}
"""What is left out, and the level of grouping that does it."""
GENERATION = "Blackwell from Hopper"


def trained_on(cases: Sequence[Case]) -> list[Case]:
    """Rows to fit: without doubts, of known precision, not known to speculate, and possible."""
    return possible([c for c in cases if c.fit_for_training])


def outer(cases: Sequence[Case], rows: LawRows, held: str) -> LeftOutRows:
    """Further tokens of cases whose model, system, version or generation is left out; bands by folds within."""
    level = HELD_OUT.get(held, "generation")
    wanted = {at for at, c in enumerate(cases) if c.scored and (held != GENERATION or "blackwell" in c.machine.family)}
    return left_out(StepLaw(), rows, folds(rows.groups[level], scored=wanted), rows.groups["model"])


def score(made: LeftOutRows, rows: LawRows, cases: Sequence[Case], held: str, kind: str) -> OuterScore:
    """Figures of one kind of model."""
    there = np.array([c.kind == kind for c in cases]) & np.isfinite(made.seconds)
    seconds, measured, half = made.seconds[there], rows.seconds[there], made.half[there]
    names = {made.groups[at] for at in np.flatnonzero(there).tolist()}
    return OuterScore(
        held, kind, int(there.sum()), len(names), relative_quantile(0.5, seconds, measured),
        relative_quantile(0.9, seconds, measured), float((log_errors(seconds, measured) <= half).mean()),
        float(np.exp(2 * np.median(half))),
    )  # fmt: skip


def refit() -> FittedFile:
    """Steps and first tokens fitted to all public rows.

    Raises
    ------
    InputError
        Where the public rows are missing.
    """
    if (path := training_file(FILE)) is None:
        raise InputError(why_missing(FILE))
    cases = trained_on(read_cases(path)[0])
    rows = step_rows(cases)
    scores = []
    for held in (*HELD_OUT, GENERATION):
        made = outer(cases, rows, held)
        scores += [score(made, rows, cases, held, kind) for kind in KINDS]
    both = banded(cases)
    fits = {StepLaw().name: both.steps, FirstTokenLaw().name: both.first}
    note = "Aggregated rows of ai-dynamo/aiconfigurator (095f58a)."
    return FittedFile(NAME, {FILE: digest(path)}, len(cases), fits, tuple(scores), note)
