"""The kernels of PyTorch programs: fitted to times of whole programs, and what boards may know of them.

`slipstick validate --refit programs` fits those that ship.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest, load_fitted
from slipstick.estimators.fitting.prediction_bands import folds, left_out
from slipstick.estimators.fitting.scores import normal_spread
from slipstick.estimators.gpu.programs.program_kernels import CLASS_SPREAD, HOST, NAME, PROGRAMS_FILE, SPREAD
from slipstick.estimators.gpu.transfer.kernel_class import technology
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
from slipstick.experiments.scoreboards.programs.timed_networks import catalogued, networks_of
from slipstick.experiments.scoring.score import Data
from slipstick.hwmodels.catalog import machine

if TYPE_CHECKING:
    import pandas as pd

FILES = ("programs/times.csv.gz", "programs/operations.csv.gz", vision_rows.FILE)
FOLDS = 5
IN_FLOAT32, BOTH = "programs in float32", "programs and image networks"
CONSUMER = "GeForce"
"""What names of consumer GPUs begin with."""
ROWS = 240
"""Image networks of each task and mode, evenly over the table: as many as make a fit of minutes one of seconds."""


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

    Outer folds leave out programs, generations of GPUs, families of image networks, and classes of GPUs of both: data
    centre or consumer, HBM or GDDR. The errors of generations are the spread of answers on a class that was timed,
    those of classes that on one that was not. All rows are of one maker, so that no fold leaves one out; consumer
    GPUs ran image networks alone, so that their fold leaves out 16 bits as well. What is not left out stays known.
    Raises InputError where the public rows are missing.
    """
    folder, paths = Data().folder, {name: Data().known(name) for name in FILES}
    known = programs(folder)
    runs = [run for run in runs_of(folder) if run.source in known]
    whole = ProgramTimes(runs, known, some_networks(vision_rows.read_rows(folder / vision_rows.FILE)))
    every_class, beside = whole.rows_beside()
    law, rows = law_rows(timed(runs, known, every_class, EAGER), every_class, beside)
    of_programs, every = np.array([one == COHORT for one in rows.source]), np.ones(len(rows), dtype=bool)
    hosts = {run.host: machine(run.machine) for run in runs}
    there = [hosts.get(host) or machine(catalogued(host)) for host in rows.groups[HOST]]
    scores, errors = [], dict[str, list[float]]()
    for held, kind, key, chosen, at_most, fact in (
        ("program unseen", IN_FLOAT32, rows.cluster, of_programs, FOLDS, ""),
        ("GPU's generation unseen", IN_FLOAT32, rows.groups["generation"], of_programs, 0, SPREAD),
        ("family unseen", "image networks in 16 bits", rows.cluster, ~of_programs, FOLDS, ""),
        ("data centre or consumer GPUs unseen", BOTH, [str(one.name.startswith(CONSUMER)) for one in there], every, 0,
         CLASS_SPREAD),
        ("HBM or GDDR unseen", BOTH, [technology(one) for one in there], every, 0, CLASS_SPREAD),
    ):  # fmt: skip
        places = np.flatnonzero(chosen)
        made = left_out(law, rows, folds(key, scored=places.tolist(), at_most=at_most), rows.cluster)
        taken = rows.seconds[places], made.seconds[places]
        count = len({key[place] for place in places.tolist()})
        scores.append(OuterScore.of(held, kind, count, taken[1], taken[0], made.half[places], made.inner))
        errors.setdefault(fact, []).extend(np.log(taken[1] / taken[0]).tolist())
    note = "ScalingIntelligence/KernelBench v0.1 (MIT); huggingface/pytorch-image-models' published benchmark."
    digests = {name: digest(path) for name, path in paths.items()}
    facts = {fact: float(f"{normal_spread(errors[fact]):.5g}") for fact in (SPREAD, CLASS_SPREAD)}
    return replace(whole.fit(), rows=digests, used=len(rows), outer=tuple(scores), note=note, facts=facts)


def some_networks(frame: pd.DataFrame) -> pd.DataFrame:
    """Image networks in 16 bits on GPUs whose operations are kept: `ROWS` of each task and mode."""
    every = frame.sort_values("device", kind="stable")
    half = every[every["dtype"] == "float16-amp"]
    half = half[[key in names() for key in zip(half["model"], half["image"], strict=True)]]
    some = [mine.iloc[:: max(1, -(-len(mine) // ROWS))].index for _, mine in half.groupby(["task", "mode"])]
    return half.loc[[place for places in some for place in places]]
