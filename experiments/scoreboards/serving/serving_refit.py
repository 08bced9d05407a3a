"""The fitted numbers of serving that ship (`slipstick validate --refit serving`), and what they leave out in turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slipstick.estimators.engine_steps.engines import ALONE
from slipstick.estimators.engine_steps.first_token import FIRST_TOKEN_LAW
from slipstick.estimators.engine_steps.step_law import STEP_LAW
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import LawRows
from slipstick.estimators.fitting.prediction_bands import LeftOutRows, folds, left_out
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.serving.inferencex import FILE as MORE
from slipstick.experiments.scoreboards.serving.inferencex import read_inferencex
from slipstick.experiments.scoreboards.serving.serving_rows import SiliconCase, read_cases
from slipstick.experiments.scoreboards.serving.step_fit import banded, possible, step_rows
from slipstick.experiments.scoring.score import Data

NAME, FILE = "serving", "serving/silicon.csv.gz"
KINDS, MORE_ROWS = ("dense", "experts"), "InferenceX"
LABELS = (*KINDS, MORE_ROWS)
"""Kinds of models of the one table, and the other table."""
HELD_OUT = {"model unseen": "model", "system unseen": "chip", "engine version unseen": "version"}
"""What is left out, and the level of grouping that does it."""
GENERATION, MAKER = "Blackwell from Hopper", "maker unseen"
MOST_FOLDS = 12
"""Versions are left out several at a time: there are many of them."""


def trained_on(cases: Sequence[SiliconCase]) -> list[SiliconCase]:
    """Rows to fit: without doubts, of known precision, not speculating, and possible."""
    return possible([c for c in cases if c.scored])


def more_cases() -> list[SiliconCase]:
    """Rows of InferenceX: fitted beside those that are scored; none where they are not here."""
    path = training_file(MORE)
    return read_inferencex(path)[0] if path is not None else []


def public_cases() -> list[SiliconCase]:
    """All public rows to fit.

    Raises InputError where a file of them is missing.
    """
    return trained_on([*read_cases(Data().known(FILE))[0], *read_inferencex(Data().known(MORE))[0]])


def outer(cases: Sequence[SiliconCase], rows: LawRows, held: str) -> LeftOutRows:
    """Further tokens of cases whose model, system, version, generation or maker is left out; bands by folds within."""
    level = level_of(held)
    scored = {at for at, c in enumerate(cases) if _judged(c, held)}
    parts = folds(rows.groups[level], scored=scored, at_most=MOST_FOLDS if level == "version" else 0)
    return left_out(STEP_LAW, rows, parts, rows.groups["model"])


def level_of(held: str) -> str:
    """The level of grouping by which something is left out."""
    return {GENERATION: "generation", MAKER: "vendor"}.get(held) or HELD_OUT[held]


def label(case: SiliconCase) -> str:
    """Under which of `LABELS` a row is scored."""
    return MORE_ROWS if case.source == MORE_ROWS else case.kind


def _judged(case: SiliconCase, held: str) -> bool:
    """Blackwell alone is left out as a generation; as a maker the one that is no fit's only one."""
    if held == GENERATION:
        return "blackwell" in case.machine.family
    return held != MAKER or not case.machine.family.startswith("nvidia")


def score(made: LeftOutRows, rows: LawRows, cases: Sequence[SiliconCase], held: str, kind: str) -> OuterScore:
    """Figures of one kind of model."""
    there = np.array([label(c) == kind for c in cases]) & np.isfinite(made.seconds)
    seconds, measured, half = made.seconds[there], rows.seconds[there], made.half[there]
    names = {made.groups[at] for at in np.flatnonzero(there).tolist()}
    return OuterScore.of(held, kind, len(names), seconds, measured, half, made.inner)


def refit() -> FittedFile:
    """Steps and first tokens fitted to all public rows.

    Raises InputError where the public rows are missing.
    """
    cases = public_cases()
    rows = step_rows(cases)
    scores = []
    for held in (*HELD_OUT, GENERATION, MAKER):
        made = outer(cases, rows, held)
        scores += [score(made, rows, cases, held, kind) for kind in LABELS if held != MAKER or kind == MORE_ROWS]
    both = banded(cases)
    fits = {STEP_LAW.name: both.steps, FIRST_TOKEN_LAW.name: both.first}
    note = "Rows of one pool of ai-dynamo/aiconfigurator (095f58a) and vngcloud/InferenceX-app (7fe6d62)."
    digests = {name: digest(Data().known(name)) for name in (FILE, MORE)}
    return FittedFile(NAME, digests, len(cases), fits, tuple(scores), note, {ALONE: of_one_model(rows)})


def of_one_model(rows: LawRows) -> dict[str, dict[str, str]]:
    """Makers, generations and chips of which one model was measured, with its name: it cannot speak for others."""
    made: dict[str, dict[str, str]] = {}
    for level in ("vendor", "stack", "generation", "chip"):
        models: dict[str, set[str]] = {}
        for group, model in zip(rows.groups[level], rows.groups["model"], strict=True):
            models.setdefault(group, set()).add(model)
        made[level] = {group: min(names) for group, names in sorted(models.items()) if len(names) == 1}
    return made
