"""The law of local models fitted to measured runs, and how it meets runs that it did not see."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.llama_cpp_fit import fit_name
from slipstick.estimators.engine_steps.llama_cpp_step import COLUMNS, LAWS, LEVELS
from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import LawFit
from slipstick.estimators.fitting.folds import folds
from slipstick.estimators.fitting.group_effects_model import SOURCE, UNGROUPED, LawRows
from slipstick.estimators.fitting.prediction_bands import calibrated, left_out, mean_inner
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.scoreboards.local_llm.local_rows import FILES, LocalRow, known_rows, timed

FloatArray = npt.NDArray[np.float64]
NAME = "llama-cpp"
HELD_OUT = {"accelerator unseen": "chip", "newest unseen": "generation", "release unseen": "release"}
"""What is left out, by level; of generations all newer ones with it."""
OPEN = ("chip", "generation", "release")
"""What a question may leave unseen: bands are stretched by the one of these that needs it most."""
ENOUGH_CHIPS = 3
"""Chips from which a backend is fitted alone: below, leaving one out would say nothing; it shares the law of all."""


def law_rows(rows: Sequence[LocalRow], phase: str, backend: str = "") -> LawRows:
    """A phase of rows, as rows of its law: those of one backend differ by none."""
    works = [row.work.columns() for row in rows]
    groups = [row.groups | ({"backend": UNGROUPED} if backend else {}) for row in rows]
    return LawRows(
        {name: np.array([float(one[name][0]) for one in works]) for name in COLUMNS},
        {name: [one[name] for one in groups] for name in (*(level.name for level in LEVELS), SOURCE)},
        [f"{row.accelerator} {row.program} {row.model} {row.stored}" for row in rows],
        np.array([row.seconds(phase) for row in rows]),
        [row.program for row in rows],
    )


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
            fitted = calibrated(LAWS[phase], part, *OPEN)
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
    """Backends of which enough chips were timed to be fitted alone."""
    chips: dict[str, set[str]] = {}
    for row in rows:
        if math.isfinite(row.seconds(phase)):
            chips.setdefault(row.backend, set()).add(row.chip)
    return sorted(name for name, those in chips.items() if len(those) >= ENOUGH_CHIPS or name == "cpu")


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
    keys = sorted(OPEN, key=lambda level: level != HELD_OUT[held])
    result: dict[str, list[tuple[LocalRow, float, float]]] = {phase: [] for phase in LAWS}
    promised: dict[str, dict[str, tuple[float | None, int]]] = {phase: {} for phase in LAWS}
    for phase in LAWS:
        alone = alone_among(rows, phase)
        for backend in ("", *alone):
            mine = timed(rows, phase, backend)
            part = law_rows(mine, phase, backend)
            scored = {at for at, row in enumerate(mine) if backend or row.backend not in alone}
            if held == "newest unseen":
                era = ["newest" if row.newest else "older" for row in mine]
                outer_folds = folds(era, scored=scored & {at for at, name in enumerate(era) if name == "newest"})
            else:
                outer_folds = folds(part.groups[HELD_OUT[held]], at_most=12, scored=scored)
            made = left_out(LAWS[phase], part, outer_folds, *keys)
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


def refit() -> FittedFile:
    """The laws of local models fitted to all public rows.

    Raises
    ------
    InputError
        Where the public rows are missing.
    """
    files = {name: training_file(name) for name in FILES}
    missing = [name for name, path in files.items() if path is None]
    if missing:
        raise InputError(why_missing(missing[0]))
    paths = {name: path for name, path in files.items() if path is not None}
    rows = known_rows(*(paths[name] for name in files))
    scores = []
    for held in HELD_OUT:
        for met in outer(rows, held):
            for backend in ("", *sorted({row.backend for row in met.rows})):
                at = [i for i, row in enumerate(met.rows) if backend in ("", row.backend)]
                groups = len({met.rows[i].chip for i in at})
                kind = f"{met.phase} on {backend}" if backend else met.phase
                figures = met.seconds[at], met.measured[at], met.half[at], met.inner(backend)
                scores.append(OuterScore.of(held, kind, groups, *figures))
    note = (
        "Runs of d893a/localscore-insights (a4f8174), XiongjieDai/GPU-Benchmarks-on-LLM-Inference (aa72e0e) and "
        "AlexsJones/llmfit (3f44fd3)."
    )
    used = sum(math.isfinite(row.seconds(phase)) for row in rows for phase in LAWS)
    return FittedFile(
        NAME, {name: digest(path) for name, path in paths.items()}, used, fitted_to(rows), tuple(scores), note
    )
