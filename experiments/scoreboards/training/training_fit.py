"""Published runs as rows of the law of a training step, its fits to them, and the file that ships."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import SOURCE, UNGROUPED, LawRows
from slipstick.estimators.fitting.prediction_bands import Fold, calibrated, folds, mean_inner
from slipstick.estimators.training.layout_step_time import TrainingStep
from slipstick.estimators.training.time_breakdown import TrainingTerms
from slipstick.estimators.training.training_law import (
    TRAINING_LAW,
    UNNAMED,
    TrainingFit,
    columns_of,
    stacks_of,
    training_groups,
    vendor_of,
)
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.training.training_coverage import facts_of
from slipstick.experiments.scoreboards.training.training_rows import (
    FILES,
    ONE_GPU_FILE,
    UNPLACED,
    TrainingRun,
    machine_name,
    one_gpu_runs,
    software_of,
    training_runs,
)
from slipstick.experiments.scoring.score import Data

NAME = "training"
RELEASED = ("mlperf", "megatron-bridge")
"""Sources whose rows name a round or a release."""
NEWEST, FAMILY, TRAINER = "newest release", "family", "trainer unseen"


def release_of(run: TrainingRun) -> str:
    """Who released what a run used; empty where its source does not say."""
    version = re.match(r"[\w.]+", run.release)
    return f"{run.source} {version[0]}" if version and run.source in RELEASED else ""


def groups_of(run: TrainingRun) -> dict[str, str]:
    """The groups of a run."""
    chip = machine_name(run.system)
    return training_groups(run.machine, chip, software_of(run), release_of(run), run.model.name, run.precision)


def law_rows(runs: Sequence[TrainingRun]) -> LawRows:
    """Runs as rows of the law."""
    groups = [groups_of(run) for run in runs]
    steps = [
        TrainingStep(run.model, run.machine, run.sequence, run.precision, run.devices).amounts(run.layout, run.batch)
        for run in runs
    ]
    return LawRows(
        columns_of(steps),
        {name: [one[name] for one in groups] for name in groups[0]},
        [f"{run.model.name} {run.system} {run.devices} {run.precision} {run.sequence}" for run in runs],
        np.array([run.seconds for run in runs]),
        [one[SOURCE] for one in groups],
    )


def fitted(runs: Sequence[TrainingRun], key: str) -> TrainingFit:
    """The law fitted to runs, its bands stretched to hold 80 % of groups of `key`, and of families, left out in turn;
    where the software is unseen, 80 % of stacks left out.

    Most groups are one family's models in nine sizes on many clusters: predicted by each other, they say nothing of a
    model or a system unlike all others, so that no model is predicted by its family, and families decide beside `key`.
    """
    keys = dict.fromkeys([FAMILY if key in ("model", "release") else key, FAMILY])
    made = calibrated(TRAINING_LAW, law_rows(runs), *(_beside_others(runs, one) for one in keys), "software")
    vendors = {name: {vendor_of(run.machine) for run in each} for name, each in by_software(runs).items()}
    return TrainingFit(made, stacks_of(vendors))


def _beside_others(runs: Sequence[TrainingRun], key: str) -> list[str]:
    """The group of each run by a key; none where it holds all runs of a stack, which would be left out with it."""
    names, alone = key_of(runs, key), set[str]()
    for software, mine in by_software(runs).items():
        if len({*key_of(mine, key)}) == 1:
            alone.add(software)
    return [UNGROUPED if software_of(run) in alone else name for run, name in zip(runs, names, strict=True)]


def by_software(runs: Sequence[TrainingRun]) -> dict[str, list[TrainingRun]]:
    """Runs by what trained, in the order of its name."""
    made: dict[str, list[TrainingRun]] = {name: [] for name in sorted({*map(software_of, runs)})}
    for run in runs:
        made[software_of(run)].append(run)
    return made


def terms_of(fit: TrainingFit, run: TrainingRun) -> TrainingTerms:
    """The terms that hold for a run."""
    return fit.terms(groups_of(run))


@dataclass(frozen=True, eq=False)
class LeftOutRuns:
    """Runs beside what a fit without their groups says of them: log errors and half-widths, shape (runs,).

    `inner` is the mean |log error| of groups that were left out within the folds.
    """

    runs: tuple[TrainingRun, ...]
    held_out: tuple[str, ...]
    errors: FloatArray
    half: FloatArray
    inner: float | None = None

    @property
    def groups(self) -> int:
        """How many groups were left out in turn."""
        return len(set(self.held_out))


def judged(fit: TrainingFit, runs: Sequence[TrainingRun], held_out: str) -> LeftOutRuns:
    """Runs that a fit did not see."""
    rows, groups = law_rows(runs), [groups_of(run) for run in runs]
    errors = np.log(fit.seconds(rows.columns, groups) / rows.seconds)
    half = fit.half_width(rows.columns, groups)
    return LeftOutRuns(tuple(runs), (held_out,) * len(runs), errors, half, fit.fit.inner)


def judged_unnamed(fit: TrainingFit, runs: Sequence[TrainingRun], held_out: str) -> LeftOutRuns:
    """Runs that a fit did not see, as questions that name no trainer."""
    errors, half = [], []
    for run in runs:
        groups = training_groups(run.machine, machine_name(run.system), UNNAMED, "", run.model.name, run.precision)
        step = TrainingStep(run.model, run.machine, run.sequence, run.precision, run.devices, fit.terms(groups))
        errors.append(np.log(step.step(run.layout, run.batch).seconds / run.seconds))
        half.append(fit.unnamed(columns_of([step.amounts(run.layout, run.batch)]), groups)[0])
    return LeftOutRuns(tuple(runs), (held_out,) * len(runs), np.array(errors), np.array(half), fit.fit.inner)


def together(parts: Sequence[LeftOutRuns]) -> LeftOutRuns:
    """Several as one."""
    return LeftOutRuns(
        tuple(run for part in parts for run in part.runs),
        tuple(name for part in parts for name in part.held_out),
        np.concatenate([part.errors for part in parts]),
        np.concatenate([part.half for part in parts]),
        mean_inner([(part.inner, len(part.runs)) for part in parts]),
    )


def key_of(runs: Sequence[TrainingRun], key: str) -> list[str]:
    """The group of each run by what generalises: system, model, family of models, devices or release."""
    if key == "release":
        return [release_of(run) for run in runs]
    if key == FAMILY:
        return [run.model.name.split("-")[0] for run in runs]
    return [run.model.name if key == "model" else str(getattr(run, key)) for run in runs]


def outer_folds(runs: Sequence[TrainingRun], source: str, key: str) -> tuple[Fold, ...]:
    """Every group of a source's runs left out of all sources in turn; a release with all that came after it."""
    names = key_of(runs, key)
    mine = {at for at, run in enumerate(runs) if run.source == source}
    if key != "release":
        return folds(names, scored=mine)
    made = []
    for release in sorted({names[at] for at in mine})[1:]:
        known = [at for at in range(len(runs)) if at not in mine or names[at] < release]
        scored = [at for at in sorted(mine) if names[at] == release]
        made.append(Fold(release, np.array(known, dtype=np.intp), np.array(scored, dtype=np.intp)))
    return tuple(made)


def left_out(runs: Sequence[TrainingRun], source: str, key: str) -> LeftOutRuns:
    """A source's runs, each from a fit without its group; bands by groups left out of what that fit saw."""
    parts = []
    for fold in outer_folds(runs, source, key):
        made = fitted([runs[at] for at in fold.known], key)
        parts.append(judged(made, [runs[at] for at in fold.scored], fold.held_out))
    return together(parts)


def trainers_left_out(runs: Sequence[TrainingRun]) -> LeftOutRuns:
    """Every run as a question that names no trainer, from a fit without all runs of what trained it.

    `runs`: of sources that are fitted and of others.
    """
    parts = []
    for name, mine in by_software(runs).items():
        known = [run for run in runs if software_of(run) != name and run.source in FILES]
        parts.append(judged_unnamed(fitted(known, "system"), mine, name))
    return together(parts)


def known_runs() -> dict[str, list[TrainingRun]]:
    """All public runs by source.

    Raises
    ------
    InputError
        Where a file is missing.
    """
    return {source: training_runs(source, Data().known(file))[0] for source, file in FILES.items()}


def unplaced() -> list[TrainingRun]:
    """Runs that are scored and not fitted; none where their file is missing."""
    path, one = training_file(FILES["internevo"]), training_file(ONE_GPU_FILE)
    return [
        *(training_runs(UNPLACED, path)[0] if path is not None else ()),
        *(one_gpu_runs(one) if one is not None else ()),
    ]


OUTER = (
    ("mlperf", "system", "accelerator unseen"),
    ("megatron-bridge", "system", "accelerator unseen"),
    ("megatron-bridge", "model", "model unseen"),
    ("megatron-bridge", "release", NEWEST),
    ("llm-foundry", "system", "system left out"),
    ("llm-foundry", "devices", "cluster size left out"),
)
"""Source, what is left out, and its name on the board."""


def refit() -> FittedFile:
    """The law fitted to all public runs.

    Raises
    ------
    InputError
        Where the public rows are missing.
    """
    known = known_runs()
    runs = [run for each in known.values() for run in each]
    scores = []
    for source, key, case in OUTER:
        made = left_out(runs, source, key)
        measured = np.array([run.seconds for run in made.runs])
        seconds = np.exp(made.errors) * measured
        scores.append(OuterScore.of(case, source, made.groups, seconds, measured, made.half, made.inner))
    made = trainers_left_out([*runs, *unplaced()])
    measured = np.array([run.seconds for run in made.runs])
    seconds = np.exp(made.errors) * measured
    scores.append(OuterScore.of(TRAINER, "all", made.groups, seconds, measured, made.half, made.inner))
    fit = fitted(runs, "system")
    facts = {name: facts_of(each) for name, each in by_software(runs).items()}
    note = (
        "MLPerf training v5.0 and v5.1, NVIDIA-NeMo/Megatron-Bridge (067f987), mosaicml/llm-foundry (8c8dd48), "
        "InternLM/InternEvo (c628a8c), bigscience-workshop/bigscience (9e64ede), NVIDIA-NeMo/Automodel (36044ad)."
    )
    files = {file: digest(path) for file in FILES.values() if (path := training_file(file))}
    return FittedFile(NAME, files, len(runs), {TRAINING_LAW.name: fit.fit}, tuple(scores), note, facts)
