"""The law of local models fitted to measured runs, and how it meets runs that it did not see."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.engine_steps.llama_cpp_fit import fit_name
from slipstick.estimators.engine_steps.llama_cpp_step import LAWS, LEVELS, PROMPTING
from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import SOURCE, UNGROUPED, LawFit, LawRows
from slipstick.estimators.fitting.prediction_bands import calibrated, folds, left_out, mean_inner
from slipstick.experiments.scoreboards.local_llm.local_rows import FILES, LocalRow, known_rows, timed
from slipstick.experiments.scoring.score import Data

NAME = "llama-cpp"
HELD_OUT = {"accelerator unseen": "chip", "newest unseen": "generation", "release unseen": "release"}
"""What is left out, by level; of generations all newer ones with it."""
OF_PROMPTS = {"family unseen": "generation", "model unseen": "model", "publisher unseen": "published"}
"""The same of prompts alone, each group left out in turn."""
OPEN = ("chip", "generation", "release")
"""What a question may leave unseen: bands are stretched by the one of these that needs it most."""
BACKEND = "backend"
"""Whose groups have a factor on their bands: errors of an M-series' prompts are .06, those of two AMD GPUs .5."""
CPU, ENOUGH_CHIPS = "cpu", 3
"""Chips from which a backend is fitted alone: below, leaving one out would say nothing; it shares the law of all."""


def law_rows(rows: Sequence[LocalRow], phase: str, backend: str = "") -> LawRows:
    """A phase of rows, as rows of its law: those of one backend differ by none.

    Prompts of processors are all of one program: what it takes is of the law, and another's is unknown.
    """
    works = [row.work_of(phase).columns() for row in rows]
    one = dict.fromkeys(("backend", *(("program", "release") if phase == PROMPTING else ())), UNGROUPED)
    groups = [row.groups | (one if backend else {}) for row in rows]
    return LawRows(
        {name: np.concatenate([one[name] for one in works]) for name in works[0]},
        {name: [one[name] for one in groups] for name in (*(level.name for level in LEVELS), SOURCE)},
        [_configuration(row, phase) for row in rows],
        np.array([row.seconds(phase) for row in rows]),
        [row.program for row in rows],
    )


def _configuration(row: LocalRow, phase: str) -> str:
    """What makes runs repeats of one: of prompts also who published them and the backend."""
    name = f"{row.accelerator} {row.program} {row.model} {row.stored}"
    return f"{name} {row.backend} {row.source}" if phase == PROMPTING else name


def _open(rows: Sequence[LocalRow], phase: str, *first: str) -> tuple[str | list[str], ...]:
    """What bands are stretched by, these levels first: of prompts also by publishers, of whom a question names none."""
    levels = [*first, *(level for level in OPEN if level not in first)]
    return (*levels, [row.source for row in rows]) if phase == PROMPTING else tuple(levels)


def fitted_to(rows: Sequence[LocalRow]) -> dict[str, LawFit]:
    """The laws of both phases fitted to rows of all GPUs, and to those of each backend; bands by chips left out.

    The fit to all GPUs answers for backends of few or no chips: of the machines, effects of their own alone are kept.
    """
    made = {}
    for phase in LAWS:
        alone = alone_among(rows, phase)
        for backend in ("", *alone):
            mine = timed(rows, phase, backend)
            part = law_rows(mine, phase, backend)
            fitted = calibrated(LAWS[phase], part, *_open(mine, phase), factors_by=BACKEND)
            few = [row for row in mine if row.backend not in alone]
            kept = {name for row in few for name in (row.chip, generation_of(row.family))}
            made[fit_name(phase, backend) if backend else phase] = fitted if backend else _of_machines(fitted, kept)
    return made


def _of_machines(fitted: LawFit, names: Collection[str]) -> LawFit:
    """The same without effects of other generations and chips, whose widths stay."""
    kept = np.array([c.level not in ("generation", "chip") or c.group in names for c in fitted.coordinates])
    coordinates = tuple(c for c, keep in zip(fitted.coordinates, kept, strict=True) if keep)
    return replace(
        fitted, coordinates=coordinates, logs=fitted.logs[kept], covariance=fitted.covariance[np.ix_(kept, kept)]
    )


def alone_among(rows: Sequence[LocalRow], phase: str) -> list[str]:
    """Backends of which enough chips were timed to be fitted alone; prompts of all GPUs have one fit."""
    if phase == PROMPTING:
        return [CPU] if any(row.backend == CPU and math.isfinite(row.prompt) for row in rows) else []
    chips: dict[str, set[str]] = {}
    for row in rows:
        if math.isfinite(row.seconds(phase)):
            chips.setdefault(row.backend, set()).add(row.chip)
    return sorted(name for name, those in chips.items() if len(those) >= ENOUGH_CHIPS or name == CPU)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """How rows of a phase were met by fits that saw none of their groups, and in which bands.

    `promised` holds, by the backend that a fit was of ("" of all GPUs), its inner error and how many rows it met.
    """

    phase: str
    rows: Sequence[LocalRow]
    seconds: FloatArray
    half: FloatArray
    promised: Mapping[str, tuple[float | None, int]] = field(default_factory=dict)

    @property
    def measured(self) -> FloatArray:
        """Seconds that were measured."""
        return np.array([row.seconds(self.phase) for row in self.rows])

    def inner(self, backend: str) -> float | None:
        """The inner error of the fit that met the rows of a backend; of all rows where it is ""."""
        if not backend:
            return mean_inner([*self.promised.values()])
        return self.promised.get(backend, self.promised.get("", (None, 0)))[0]


def outer(rows: Sequence[LocalRow], held: str) -> list[LeftOut]:
    """Both phases of rows whose chip, or whose generation with all newer ones, is left out; bands by folds within.

    The inner error is that of folds which leave out the same.
    """
    result: dict[str, list[tuple[LocalRow, float, float]]] = {}
    promised: dict[str, dict[str, tuple[float | None, int]]] = {}
    for phase in (PROMPTING,) if held in OF_PROMPTS else LAWS:
        alone = alone_among(rows, phase)
        result[phase], promised[phase] = [], {}
        for backend in ("", *alone):
            mine = timed(rows, phase, backend)
            part = law_rows(mine, phase, backend)
            scored = {at for at, row in enumerate(mine) if backend or row.backend not in alone}
            if held == "newest unseen":
                era = ["newest" if row.newest else "older" for row in mine]
                outer_folds = folds(era, scored=scored & {at for at, name in enumerate(era) if name == "newest"})
            else:
                outer_folds = folds([held_group(row, held) for row in mine], at_most=12, scored=scored)
            level = HELD_OUT.get(held) or OF_PROMPTS[held]
            made = left_out(
                LAWS[phase], part, outer_folds, *_open(mine, phase, *({level} & {*OPEN})), factors_by=BACKEND
            )
            met = np.flatnonzero(np.isfinite(made.seconds)).tolist()
            promised[phase][backend] = made.inner, len(met)
            result[phase] += [(mine[at], float(made.seconds[at]), float(made.half[at])) for at in met]
    return [
        LeftOut(
            phase,
            [row for row, _, _ in one],
            np.array([seconds for _, seconds, _ in one]),
            np.array([half for _, _, half in one]),
            promised[phase],
        )
        for phase, one in result.items()
    ]


def held_group(row: LocalRow, held: str) -> str:
    """The group of a row that is left out together."""
    level = HELD_OUT.get(held) or OF_PROMPTS.get(held, "chip")
    return {"model": row.model, "published": row.source}.get(level) or row.groups[level]


def refit() -> FittedFile:
    """The laws of local models fitted to all public rows.

    Raises
    ------
    InputError
        Where the public rows are missing.
    """
    paths = {name: Data().known(name) for name in FILES}
    rows = known_rows(*paths.values())
    scores = []
    for held in (*HELD_OUT, *OF_PROMPTS):
        for met in outer(rows, held):
            for backend in ("", *sorted({row.backend for row in met.rows})):
                at = [i for i, row in enumerate(met.rows) if backend in ("", row.backend)]
                groups = len({met.rows[i].chip for i in at})
                kind = f"{met.phase} on {backend}" if backend else met.phase
                figures = met.seconds[at], met.measured[at], met.half[at], met.inner(backend)
                scores.append(OuterScore.of(held, kind, groups, *figures))
    note = (
        "Runs of d893a/localscore-insights (a4f8174), XiongjieDai/GPU-Benchmarks-on-LLM-Inference (aa72e0e), "
        "AlexsJones/llmfit (3f44fd3) and, of prompts, those of llama-bench that five publishers collected."
    )
    used = sum(math.isfinite(row.seconds(phase)) for row in rows for phase in LAWS)
    return FittedFile(
        NAME, {name: digest(path) for name, path in paths.items()}, used, fitted_to(rows), tuple(scores), note
    )
