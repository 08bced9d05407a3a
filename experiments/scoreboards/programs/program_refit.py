"""The kernels of PyTorch programs: fitted to times of whole programs, and what boards may know of them.

`slipstick validate --refit programs` fits those that ship.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest, load_fitted
from slipstick.estimators.fitting.folds import folds
from slipstick.estimators.fitting.prediction_bands import left_out
from slipstick.estimators.fitting.scores import normal_spread
from slipstick.estimators.gpu.programs.program_law import NAME, PROGRAMS_FILE, SPREAD
from slipstick.experiments.calibrate.public_data import needed_folder, why_missing
from slipstick.experiments.scoreboards.programs import vision_law, vision_rows
from slipstick.experiments.scoreboards.programs.image_networks import names
from slipstick.experiments.scoreboards.programs.program_data import (
    EAGER,
    INDUCTOR,
    Program,
    ProgramRun,
    programs,
    runs_of,
)
from slipstick.experiments.scoreboards.programs.program_rows import (
    COHORT,
    Beside,
    classes,
    fitted_change,
    law_rows,
    timed,
)
from slipstick.experiments.scoreboards.programs.timed_networks import networks_of

if TYPE_CHECKING:
    import pandas as pd

FILES = ("programs/times.csv.gz", "programs/operations.csv.gz", vision_rows.FILE)
FOLDS = 5
IN_FLOAT32 = "programs in float32"
ROWS = 240
"""Image networks of each mode, spread evenly over the table: as many as make a fit of minutes one of seconds."""


@dataclass(frozen=True, eq=False)
class ProgramTimes:
    """What the law is fitted to.

    `runs`: of programs in float32, eager and compiled. `known`: what they run.
    `networks`: rows of image networks on GPUs in 16 bits (`vision_rows`).
    """

    runs: Sequence[ProgramRun]
    known: Mapping[str, Program]
    networks: pd.DataFrame

    def fit(self) -> FittedFile:
        """The file that ships, fitted to these alone; its scores and the spread of its answers stay."""
        every_class, beside = self.rows_beside()
        eager, compiled = (timed(self.runs, self.known, every_class, mode) for mode in (EAGER, INDUCTOR))
        made = fitted_change(eager, compiled, every_class, beside)
        return replace(load_fitted(PROGRAMS_FILE), used=len(self.runs), fits={NAME: made.fit.values_alone()})

    def rows_beside(self) -> tuple[list[str], Beside]:
        """All classes of kernels, and the image networks as rows of their law."""
        of_programs = classes({run.source: self.known[run.source] for run in self.runs})
        if self.networks.empty:
            return of_programs, None
        some = networks_of(self.networks)
        there = [network for network in some.networks if network is not None]
        every_class = sorted({*of_programs, *(name for one in there for name in one.names)})
        families = some.frame["family"].astype(str).tolist()
        return every_class, vision_law.law_rows(there, some.seconds, families, every_class)


def refit() -> FittedFile:
    """Programs in float32, eager and compiled, and image networks in 16 bits in one law over generations and chips.

    Outer folds leave out programs, generations of GPUs, whose errors are the spread of answers, and families of image
    networks; all rows of the other kind that are of no generation left out stay known.
    Raises InputError where the public rows are missing.
    """
    folder = needed_folder()
    for name in FILES:
        if not (folder / name).exists():
            raise InputError(why_missing(name))
    known = programs(folder)
    runs = [run for run in runs_of(folder) if run.source in known]
    whole = ProgramTimes(runs, known, some_networks(vision_rows.read_rows(folder / vision_rows.FILE)))
    every_class, beside = whole.rows_beside()
    law, rows = law_rows(timed(runs, known, every_class, EAGER), every_class, beside)
    of_programs, generations = [one == COHORT for one in rows.source], list(rows.groups["generation"])
    scores, spread = [], 0.0
    for held, key, chosen, at_most in (
        ("program unseen", rows.cluster, True, FOLDS),
        ("GPU's generation unseen", generations, True, 0),
        ("family unseen", rows.cluster, False, FOLDS),
    ):
        places = np.flatnonzero(np.array(of_programs) == chosen)
        made = left_out(law, rows, folds(key, scored=places.tolist(), at_most=at_most), rows.cluster)
        taken = rows.seconds[places], made.seconds[places]
        count = len({key[place] for place in places.tolist()})
        kind = IN_FLOAT32 if chosen else "image networks in 16 bits"
        scores.append(OuterScore.of(held, kind, count, taken[1], taken[0], made.half[places], made.inner))
        spread = normal_spread(np.log(taken[1] / taken[0])) if key is generations else spread
    note = "ScalingIntelligence/KernelBench v0.1 (MIT); huggingface/pytorch-image-models' published benchmark."
    digests = {name: digest(folder / name) for name in FILES}
    facts = {SPREAD: float(f"{spread:.5g}")}
    return replace(whole.fit(), rows=digests, used=len(rows), outer=tuple(scores), note=note, facts=facts)


def some_networks(frame: pd.DataFrame) -> pd.DataFrame:
    """Inference in 16 bits on GPUs, of networks whose operations are kept: `ROWS` of each mode."""
    every = frame.sort_values("device", kind="stable")
    half = every[(every["task"] == "inference") & (every["dtype"] == "float16-amp")]
    half = half[[key in names() for key in zip(half["model"], half["image"], strict=True)]]
    some = [mine.iloc[:: max(1, -(-len(mine) // ROWS))].index for _, mine in half.groupby("mode")]
    return half.loc[[place for places in some for place in places]]
