"""The kernels of PyTorch programs that ship, fitted anew (`slipstick validate --refit programs`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.folds import folds
from slipstick.estimators.fitting.group_effects_model import LawRows
from slipstick.estimators.fitting.prediction_bands import LeftOutRows, left_out
from slipstick.estimators.fitting.scores import normal_spread
from slipstick.estimators.gpu.programs.program_law import HALF_FIT, NAME, PROGRAMS_FILE, SPREAD, ProgramLaw
from slipstick.experiments.calibrate.public_data import data_folder, why_missing
from slipstick.experiments.scoreboards.programs.compile_scores import both
from slipstick.experiments.scoreboards.programs.program_data import programs, times
from slipstick.experiments.scoreboards.programs.program_rows import (
    classes,
    fitted_change,
    law_rows,
    timed,
)
from slipstick.experiments.scoreboards.vision import vision_law, vision_rows
from slipstick.experiments.scoreboards.vision.timed_networks import networks_of

FILES = ("programs/times.csv.gz", "programs/operations.csv.gz", vision_rows.FILE)
FOLDS = 5
ROWS = 240
"""Image networks of each mode, spread evenly over the table: as many as make a fit of minutes one of seconds."""


def refit() -> FittedFile:
    """Programs in float32, eager and compiled, and image networks in 16 bits, each by a law over generations and chips.

    Outer folds leave out programs, generations of GPUs, whose errors are the spread of answers, and families of image
    networks.
    Raises InputError where the public rows are missing.
    """
    folder = data_folder()
    if folder is None:
        raise InputError(why_missing(FILES[0]))
    for name in FILES:
        if not (folder / name).exists():
            raise InputError(why_missing(name))
    known, frame = programs(folder), times(folder)
    frame = frame[frame["source"].isin(list(known))]
    eager, names = frame[frame["mode"] == "eager"], classes(known)
    sources = sorted(set(eager["source"]))
    data = [timed(part, sources, known, names) for _, part in eager.groupby("machine")]
    every = np.ones(len(sources), dtype=bool)
    law, rows = law_rows(data, every, names)
    changed = both(frame[frame["source"].isin(sources)], known, sources, names)
    plain = fitted_change(data, [one.compiled for one in changed], every, names)
    half, networks = _networks(folder / vision_rows.FILE)
    generations = rows.groups["generation"]
    strange = left_out(law, rows, folds(generations), rows.cluster)
    scores = (
        _score("program unseen", "programs in float32", law, rows),
        _of("GPU's generation unseen", "programs in float32", generations, strange, rows),
        _score("family unseen", "image networks in 16 bits", half, networks),
    )
    note = "ScalingIntelligence/KernelBench v0.1 (MIT); huggingface/pytorch-image-models' published benchmark."
    fits = {NAME: plain.fit.values_alone(), HALF_FIT: fit(half, networks).values_alone()}
    digests = {name: digest(folder / name) for name in FILES}
    facts = {SPREAD: float(f"{normal_spread(np.log(strange.seconds / rows.seconds)):.5g}")}
    return FittedFile(PROGRAMS_FILE, digests, len(rows) + len(networks), fits, scores, note, facts)


def _networks(path: Path) -> tuple[ProgramLaw, LawRows]:
    """Inference in 16 bits on GPUs, of networks whose operations are kept; families are the clusters."""
    frame = vision_rows.read_rows(path)
    there = networks_of(frame[(frame["task"] == "inference") & (frame["dtype"] == "float16-amp")])
    chosen = np.zeros(len(there.frame), dtype=bool)
    for mode in ("eager", "compiled"):
        places = np.flatnonzero(there.traced & (there.frame["mode"] == mode).to_numpy())
        chosen[places[:: max(1, -(-len(places) // ROWS))]] = True
    some = there.only(chosen)
    networks = [network for network in some.networks if network is not None]
    return vision_law.law_rows(networks, some.seconds, some.frame["family"].astype(str).tolist())


def _score(held: str, kind: str, law: ProgramLaw, rows: LawRows) -> OuterScore:
    """Clusters left out."""
    return _of(held, kind, rows.cluster, left_out(law, rows, folds(rows.cluster, at_most=FOLDS), rows.cluster), rows)


def _of(held: str, kind: str, groups: Sequence[str], made: LeftOutRows, rows: LawRows) -> OuterScore:
    return OuterScore.of(held, kind, len(set(groups)), made.seconds, rows.seconds, made.half, made.inner)
